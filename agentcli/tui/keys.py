"""Table of all key bindings of the screen. The editor's are in `prompt/keys.py`. Keymaps rebind keys by their ids."""

from __future__ import annotations

from collections.abc import Mapping

from textual.binding import Binding

from agentcli.core.frozen import frozen
from agentcli.tui.prompt.keys import PROMPT_KEYS


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
        "interrupt", "escape", "Interrupt; twice on an empty prompt: undo, or edit the last prompt", priority=False
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
    return [*(_binding(key) for key in SCREEN_KEYS if key.everywhere), in_dialogs]


def screen_bindings() -> list[Binding]:
    # While work is running, Esc bypasses the editor, which takes milliseconds during a fast stream. The screen's
    # `check_action` enables this binding.
    interrupt = next(key for key in SCREEN_KEYS if key.action == "interrupt")
    at_once = Binding(interrupt.keys, "interrupt_work", interrupt.help, show=False, priority=True, id=interrupt.id)
    return [*(_binding(key) for key in SCREEN_KEYS if not key.everywhere), at_once]


def interrupting_keys(keymap: Mapping[str, str]) -> frozenset[str]:
    interrupt = next(key for key in SCREEN_KEYS if key.action == "interrupt")
    return frozenset(name.strip() for name in keymap.get(interrupt.id, interrupt.keys).split(","))


def _binding(key: ScreenKey) -> Binding:
    return Binding(key.keys, key.action, key.help, show=False, priority=key.priority, id=key.id)


def help_rows(keymap: Mapping[str, str]) -> list[tuple[str, str, str]]:
    rows = [("Screen", shown_keys(keymap.get(key.id, key.keys)), key.help) for key in SCREEN_KEYS]
    rows += [("Search", keys, text) for keys, text in FINDING_KEYS]
    rows += [("/diff", keys, text) for keys, text in DIFF_KEYS]
    rows += [("Prompt", shown_keys(keymap.get(key.id, key.keys)), key.help) for key in PROMPT_KEYS if not key.select]
    rows += [
        ("Prompt", "@", "Attach a file"),
        ("Prompt", "/", "Run a slash command"),
        ("Prompt", "!", "Run a command in your own shell"),
        ("Prompt", "? on an empty prompt", "Show this help"),
    ]
    return rows


def shown_keys(keys: str) -> str:
    """Format key names as on the keyboard: `Ctrl+_, PgUp`."""
    names = [name.strip() for name in keys.split(",") if name.strip()]
    words = ("+".join(_KEY_NAMES.get(part, part.capitalize()) for part in name.split("+")) for name in names)
    return ", ".join(words) or "(none)"
