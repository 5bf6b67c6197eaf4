"""A resumed conversation as items: what the transcript showed when it was there."""

from __future__ import annotations

from collections.abc import Iterable

from agentcli.core.events import Event
from agentcli.tui.model import Add, Grow, Item, Operation, Remove, Replace
from agentcli.tui.presenter import Presenter, Titles


def replayed(history: Iterable[Event], title_of: Titles, prefix: str = "past-") -> list[Item]:
    """The items that these events made. Pure, so that a thread can do it. `prefix`: of the ids that are not the
    session file's own."""
    presenter = Presenter(title_of, prefix)
    items: dict[str, Item] = {}
    for event in history:
        _apply(items, presenter.show(event, 0.0))
    _apply(items, presenter.settled(0.0))
    return list(items.values())


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
