"""A resumed conversation as items: what the transcript showed when it was there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeGuard

from agentcli.core import events as ev
from agentcli.core.messages import Origin
from agentcli.tui.model import Add, Grow, Item, Operation, Remove, Replace, ToolItem
from agentcli.tui.presenter import Presenter, Titles


def replayed(history: Iterable[ev.Event], title_of: Titles, prefix: str = "past-") -> list[Item]:
    """The items that these events made. Pure, so that a thread can do it. `prefix`: of the ids that are not the
    session file's own."""
    presenter = Presenter(title_of, prefix)
    items: dict[str, Item] = {}
    beside = _ShellLinesBeside()
    for event in history:
        show = presenter.show_beside if beside.has(event) else presenter.show
        _apply(items, show(event, 0.0))
    _apply(items, presenter.settled(0.0))
    # A shell line that ran when the program was closed has no end.
    return [replace(item, status="interrupted") if _runs(item) else item for item in items.values()]


class _ShellLinesBeside:
    """Tells the user's shell lines that ran beside a submission from those that were one themselves."""

    def __init__(self) -> None:
        self._model_works = False
        self._calls: set[str] = set()

    def has(self, event: ev.Event) -> bool:
        """Whether the event belongs to such a line. Needs all events in order."""
        match event:
            case ev.MessageAppended(message=message) if message.origin is Origin.PROMPT:
                self._model_works = True
            case ev.CompactionStarted():
                self._model_works = True
            case ev.Result() | ev.SessionResumed():
                self._model_works = False
            case ev.ToolStarted(agent=ev.USER_AGENT) if self._model_works:
                self._calls.add(event.tool_use_id)
                return True
            case ev.ToolFinished(agent=ev.USER_AGENT):
                return event.tool_use_id in self._calls
        return False


def _runs(item: Item) -> TypeGuard[ToolItem]:
    return isinstance(item, ToolItem) and item.status == "running"


def _apply(items: dict[str, Item], operations: Iterable[Operation]) -> None:
    for operation in operations:
        match operation:
            case Add(item):
                items[item.id] = item
            case Replace(item):
                if item.id in items:
                    items[item.id] = item
            case Remove(id):
                items.pop(id, None)
            case Grow():
                pass  # streamed text is in no session file; the whole of it is
