"""Tables of all keys, of the prompt and of the screen, used by the help and rebindable by id in a keymap.

The editor looks up its keys synchronously. Textual bindings would be too late: a key first bubbles up to the app, so
text typed right after an Enter could already be in the box and be sent with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from textual.binding import Binding

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
    PromptKey("close", "escape", "Close the menu"),
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


@frozen
class ScreenKey:
    action: str
    keys: str
    help: str
    priority: bool = True
    """Handled before the editor sees the key. If False: only if the editor does not use the key."""
    everywhere: bool = False

    @property
    def id(self) -> str:
        return f"screen.{self.action}"


SCREEN_KEYS: tuple[ScreenKey, ...] = (
    ScreenKey(
        "interrupt", "escape", "Interrupt; twice on an empty prompt: rewind, or edit an earlier prompt", priority=False
    ),
    ScreenKey(
        "leave_or_copy",
        "ctrl+c",
        "Copy the selection, close a dialog, interrupt or clear; twice: quit",
        everywhere=True,
    ),
    ScreenKey("leave", "ctrl+d", "Twice: quit", priority=False),
    ScreenKey("cycle_mode", "shift+tab", "Next permission mode"),
    ScreenKey("details", "ctrl+o", "Expand or collapse thinking and full output"),
    ScreenKey("background", "ctrl+b", "Send the running command or agent to the background"),
    ScreenKey("palette", "ctrl+p", "Open the command palette"),
    ScreenKey("find", "ctrl+f", "Search the transcript"),
    ScreenKey("todos", "ctrl+t", "Show the todos"),
    ScreenKey("page_up", "pageup", "Page up"),
    ScreenKey("page_down", "pagedown", "Page down"),
    ScreenKey("scroll_start", "ctrl+home", "Go to the start"),
    ScreenKey("scroll_end", "ctrl+end", "Go to the end and follow new output"),
    ScreenKey("redraw", "ctrl+l", "Redraw the screen", everywhere=True),
    ScreenKey("suspend", "ctrl+z", "Suspend; fg returns", everywhere=True),
)

_KEY_NAMES = {"pageup": "PgUp", "pagedown": "PgDn", "escape": "Esc", "underscore": "_", "slash": "/"}

FINDING_KEYS = (
    ("Enter, Down", "Next match; Enter keeps it expanded"),
    ("Shift+Enter, Up", "Previous match"),
    ("Esc", "Close the search and collapse what it expanded"),
)

DIFF_KEYS = (
    ("f, Right, Tab", "Next file"),
    ("F, Left, Shift+Tab", "Previous file"),
    ("h", "Next hunk"),
    ("H", "Previous hunk"),
    ("o", "List files and go to one"),
    ("v", "Side by side or unified"),
    ("a", "All changes since HEAD, or this session's"),
    ("l", "Changes of the last prompt, or this session's"),
    ("/", "Search; n and N go to the next and previous match"),
    ("c", "Copy the diff of the file"),
    ("C", "Copy the whole diff"),
)


def app_bindings() -> list[Binding]:
    leave = next(key for key in SCREEN_KEYS if key.action == "leave")
    # Handled before the dialog sees the key, when the app's `check_action` allows it.
    in_dialogs = Binding(leave.keys, "leave_dialog", leave.help, show=False, priority=True, id=leave.id)
    return [*(_make_binding(key) for key in SCREEN_KEYS if key.everywhere), in_dialogs]


def screen_bindings() -> list[Binding]:
    # While work is running, Esc bypasses the editor, which takes milliseconds during a fast stream. The screen's
    # `check_action` enables this binding.
    interrupt = next(key for key in SCREEN_KEYS if key.action == "interrupt")
    at_once = Binding(interrupt.keys, "interrupt_work", interrupt.help, show=False, priority=True, id=interrupt.id)
    return [*(_make_binding(key) for key in SCREEN_KEYS if not key.everywhere), at_once]


def list_interrupting_keys(keymap: Mapping[str, str]) -> frozenset[str]:
    interrupt = next(key for key in SCREEN_KEYS if key.action == "interrupt")
    return frozenset(name.strip() for name in keymap.get(interrupt.id, interrupt.keys).split(","))


def _make_binding(key: ScreenKey) -> Binding:
    return Binding(key.keys, key.action, key.help, show=False, priority=key.priority, id=key.id)


def help_rows(keymap: Mapping[str, str]) -> list[tuple[str, str, str]]:
    rows = [("Screen", format_keys(keymap.get(key.id, key.keys)), key.help) for key in SCREEN_KEYS]
    rows += [("Search", keys, text) for keys, text in FINDING_KEYS]
    rows += [("/diff", keys, text) for keys, text in DIFF_KEYS]
    rows += [("Prompt", format_keys(keymap.get(key.id, key.keys)), key.help) for key in PROMPT_KEYS if not key.select]
    rows += [
        ("Prompt", "@", "Attach a file"),
        ("Prompt", "/", "Run a slash command"),
        ("Prompt", "!", "Run a command in your own shell"),
        ("Prompt", "? on an empty prompt", "Show this help"),
    ]
    return rows


def format_keys(keys: str) -> str:
    """Format key names as on the keyboard: `Ctrl+_, PgUp`."""
    names = [name.strip() for name in keys.split(",") if name.strip()]
    words = ("+".join(_KEY_NAMES.get(part, part.capitalize()) for part in name.split("+")) for name in names)
    return ", ".join(words) or "(none)"
