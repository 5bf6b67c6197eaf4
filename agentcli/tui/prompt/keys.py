"""Table of all prompt keys, used by the help and rebindable by id in a keymap.

The editor looks up its keys synchronously. Textual bindings would be too late: a key first bubbles up to the app, so
text typed right after an Enter could already be in the box and be sent with it.

Keys of the screen are in `tui/keys.py`: Ctrl+C, Ctrl+D, Ctrl+Z, Ctrl+L, Ctrl+O, Ctrl+B, Ctrl+P, Ctrl+F, Ctrl+T,
Shift+Tab, PgUp, PgDn, Ctrl+Home, Ctrl+End.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentcli.core.frozen import frozen


@frozen
class PromptKey:
    action: str
    keys: str
    """Textual key names, separated by commas."""
    help: str
    select: bool = False
    """Whether the movement extends the selection."""

    @property
    def id(self) -> str:
        return f"prompt.{'select.' if self.select else ''}{self.action}"


PROMPT_KEYS: tuple[PromptKey, ...] = (
    PromptKey("send", "enter", "Send, or queue while the agent works"),
    PromptKey("send_now", "ctrl+enter", "Interrupt the agent and send now"),
    PromptKey("newline", "shift+enter,ctrl+j,alt+enter", "New line (also a backslash, then Enter)"),
    PromptKey("previous", "up", "Line above, older prompt, or edit the queued prompt"),
    PromptKey("next", "down", "Line below, or newer prompt"),
    PromptKey("search_history", "ctrl+r", "Search the history"),
    PromptKey("complete", "tab", "Complete a file (@) or command (/)"),
    PromptKey("external_editor", "ctrl+g", "Edit the prompt in your editor"),
    PromptKey("paste_clipboard", "ctrl+v,super+v", "Paste a picture or text from the clipboard"),
    PromptKey("close", "escape", "Close the menu or the search"),
    PromptKey("cursor_left", "left", "Character left"),
    PromptKey("cursor_right", "right", "Character right"),
    PromptKey("cursor_word_left", "ctrl+left,alt+left,alt+b", "Word left"),
    PromptKey("cursor_word_right", "ctrl+right,alt+right,alt+f", "Word right"),
    PromptKey("cursor_line_start", "home,ctrl+a", "Start of the line"),
    PromptKey("cursor_line_end", "end,ctrl+e", "End of the line"),
    PromptKey("cursor_left", "shift+left", "Select left", select=True),
    PromptKey("cursor_right", "shift+right", "Select right", select=True),
    PromptKey("cursor_up", "shift+up", "Select up", select=True),
    PromptKey("cursor_down", "shift+down", "Select down", select=True),
    PromptKey("cursor_word_left", "ctrl+shift+left,alt+shift+left", "Select a word left", select=True),
    PromptKey("cursor_word_right", "ctrl+shift+right,alt+shift+right", "Select a word right", select=True),
    PromptKey("cursor_line_start", "shift+home", "Select to the start of the line", select=True),
    PromptKey("cursor_line_end", "shift+end", "Select to the end of the line", select=True),
    PromptKey("select_all", "f7", "Select all"),
    PromptKey("delete_left", "backspace,shift+backspace,ctrl+h", "Delete left"),
    PromptKey("delete_right", "delete", "Delete right"),
    PromptKey("kill_word_left", "ctrl+w,ctrl+backspace,alt+backspace", "Cut the word left"),
    PromptKey("kill_word_right", "alt+d,ctrl+delete,alt+delete", "Cut the word right"),
    PromptKey("kill_line_start", "ctrl+u,super+backspace", "Cut to the start of the line"),
    PromptKey("kill_line_end", "ctrl+k", "Cut to the end of the line"),
    PromptKey("yank", "ctrl+y", "Paste the cut text"),
    PromptKey("cut", "ctrl+x,super+x", "Cut the selection to the clipboard"),
    PromptKey("copy", "super+c,ctrl+shift+c", "Copy the selection"),
    PromptKey("undo", "ctrl+underscore,ctrl+slash,super+z", "Undo"),
    PromptKey("redo", "alt+underscore,super+shift+z,ctrl+shift+z", "Redo"),
)

_SAME_KEYS = {"shift+enter": "shift+\r", "alt+enter": "alt+\r", "ctrl+enter": "ctrl+\r"}
"""Names that Textual's parser uses in terminals with modifyOtherKeys."""


def key_table(keymap: Mapping[str, str] | None = None) -> dict[str, PromptKey]:
    """Action by key name. `keymap` replaces the keys of some ids; an empty string leaves an action without a key."""
    table: dict[str, PromptKey] = {}
    for key in PROMPT_KEYS:
        for name in (keymap or {}).get(key.id, key.keys).split(","):
            if name := name.strip():
                table[name] = key
                if name in _SAME_KEYS:
                    table[_SAME_KEYS[name]] = key
    return table
