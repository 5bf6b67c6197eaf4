"""All slash commands, in the order of the menu, and how one is found by what was typed."""

from __future__ import annotations

from agentcli.commands.base import Command

COMMANDS: tuple[Command, ...] = (
    Command("help", "What commands there are", "[command]", beside=True),
    Command("status", "Session, model, mode and folders in force", beside=True),
    Command("doctor", "Check this installation and suggest fixes", "[online]", beside=True),
    Command("undo", "Put back what the last prompt changed in files", "[keep|replace]"),
    Command("redo", "Take the last undo back", "[keep|replace]"),
    Command("diff", "Show what agentcli changed in files, or all changes since HEAD", "[all|last]"),
    Command("compact", "Summarise the conversation to make room, or undo that", "[focus|undo]", submits=True),
    Command("model", "Show or choose the model; now: without asking", "[name [now]]", beside=True),
    Command("effort", "Show or choose how much effort the model makes", "[level [now]]", beside=True),
    Command(
        "thinking", "Show or choose whether the model thinks first", "[adaptive|enabled|disabled [now]]", beside=True
    ),
    Command("mode", "Show or choose the permission mode", "[name]", beside=True),
    Command("plan", "Plan first: nothing is changed until you approve", beside=True),
    Command("permissions", "List, add, edit, remove or test permission rules", "[add|edit|remove|test …]", beside=True),
    Command("quarantine", "List, restore or delete files that the sandbox moved away", "[restore|rm ID]"),
    Command(
        "context",
        "What is in the context; pin, drop or restore parts of it",
        "[items|pin|drop|restore ID]",
        beside=True,
    ),
    Command("memory", "Show or edit the notes and instruction files of this project", "[edit] [name]"),
    Command("cost", "What this conversation has used so far", aliases=("usage",), beside=True),
    Command("budget", "Show, set or lift what this session may cost", "[dollars|off]", beside=True),
    Command("todos", "The task list", beside=True),
    Command("tasks", "Commands in the background", beside=True),
    Command("rename", "Give the session a name", "<name>"),
    Command("copy", "Copy the last answer, the N-th last, or one of its code blocks", "[N|code [N]]", on_screen=True),
    Command("find", "Search in the transcript", "[text]", on_screen=True),
    Command("theme", "Choose the colours", "[name]", on_screen=True),
    Command("config", "The settings in force, and where each is from", on_screen=True),
    Command("login", "Connect a model: with a key, or a server on this machine", on_screen=True),
    Command("logout", "Forget the key that was kept", on_screen=True),
    Command("resume", "Go on with an earlier session", "[search]", aliases=("sessions",), on_screen=True),
    Command("clear", "Start a new session with an empty context", aliases=("new",), on_screen=True),
    Command("exit", "Leave", aliases=("quit",), on_screen=True),
)


def names() -> tuple[str, ...]:
    return tuple(command.name for command in COMMANDS)


def find(name: str) -> Command | None:
    """The command of exactly this name or alias."""
    wanted = name.lower()
    return next((one for one in COMMANDS if wanted == one.name or wanted in one.aliases), None)


def near(name: str) -> list[str]:
    """Names that may have been meant, the likeliest first."""
    from difflib import get_close_matches

    wanted = name.lower()
    spelled = [one for command in COMMANDS for one in (command.name, *command.aliases)]
    begun = [one for one in spelled if one.startswith(wanted)]
    return list(dict.fromkeys((*begun, *get_close_matches(wanted, spelled, n=3))))[:3]


def matching(typed: str) -> list[Command]:
    """The menu for what was typed after the slash: best first, letters in order are enough."""
    ranked = []
    for place, command in enumerate(COMMANDS):
        scores = [_score(typed.lower(), name) for name in (command.name, *command.aliases)]
        best = min((score for score in scores if score is not None), default=None)
        if best is not None:
            ranked.append((best, place, command))
    return [command for _score_, _place, command in sorted(ranked, key=lambda row: row[:2])]


def _score(typed: str, name: str) -> int | None:
    if name.startswith(typed):
        return 0 if name == typed else 1
    if typed in name:
        return 2
    letters = iter(name)
    return 3 if all(letter in letters for letter in typed) else None
