"""Quiet calls: those that the user need not see one by one, and their summary in one line.

Quiet is a successful call that only looked at something, or a command with little output that changed no file.
Failures, edits, questions, task lists and the user's own commands never are.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentcli.core.text.format import duration
from agentcli.core.text.plural import counted
from agentcli.core.text.unified_diff import is_diff
from agentcli.tui.model import Item, ThinkingItem, ToolItem

MAX_LINES = 8
"""Lines of output of a quiet command; more of them are likely to be of interest."""
_WORDS = {
    "Read": ("read", "file"),
    "NotebookRead": ("read", "file"),
    "Grep": ("searched for", "pattern"),
    "Glob": ("searched for", "pattern"),
    "Bash": ("ran", "command"),
    "WebFetch": ("fetched", "page"),
    "WebSearch": ("ran", "web search"),
}
_SUBJECTS = {"Read": "file_path", "NotebookRead": "notebook_path"}
"""Inputs of tools that count once for each different value."""


def is_quiet(item: Item) -> bool:
    if not isinstance(item, ToolItem) or item.name not in _WORDS or item.status != "done":
        return False
    if item.background or item.has_changes or item.learned:
        return False
    return item.name != "Bash" or _is_short(item)


def _is_short(item: ToolItem) -> bool:
    display = item.display  # read once: it may be packed
    text = display.get("text")
    output = text if isinstance(text, str) else item.output
    return output.count("\n", 0, 100_000) < MAX_LINES and not is_diff(output)


def is_thought(item: Item) -> bool:
    """Whether an item between two quiet calls is hidden with them."""
    return isinstance(item, ThinkingItem) and item.seconds is not None


def summary(items: Iterable[Item]) -> str:
    """`Read 3 files, ran 2 commands`, in the order in which they began."""
    found: dict[tuple[str, str], set[str]] = {}
    seconds = 0.0
    for item in items:
        if isinstance(item, ToolItem):
            subject = item.input.get(_SUBJECTS.get(item.name, ""))
            found.setdefault(_WORDS[item.name], set()).add(subject if isinstance(subject, str) else item.id)
        elif isinstance(item, ThinkingItem):
            seconds += item.seconds or 0.0
    parts = [f"{verb} {counted(len(subjects), noun)}" for (verb, noun), subjects in found.items()]
    parts += [f"thought for {duration(seconds)}"] if seconds >= 1 else []
    text = ", ".join(parts)
    return text[:1].upper() + text[1:]
