"""What a transcript would show, without one: applies operations to a list of items, strictly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from agentcli.core import events as ev
from agentcli.core.text.plaintext import continue_output
from agentcli.interactive.drafts import Draft
from agentcli.interactive.view import Question
from agentcli.tui.model import (
    Above,
    Activity,
    Add,
    AnswerItem,
    Clear,
    EndItem,
    Facts,
    Grow,
    Item,
    Operation,
    Remove,
    Replace,
    ThinkingItem,
    ToolItem,
)
from agentcli.tui.progress import AgentItem

Kind = TypeVar("Kind", bound=Item)


class Shown:
    """Stands in for the chat screen, and fails where a transcript would be shown nonsense."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.activities: list[str] = []
        self.facts = Facts()
        self.queued: list[str] = []
        self.asked: list[Question] = []
        self.withdrawn: list[str] = []
        self.given_back: list[Draft] = []
        self.results: list[ev.Result] = []
        self.frames = 0

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [item for item in self.items if isinstance(item, kind)]

    def texts(self) -> list[str]:
        """Every item as its kind and its text, as a user would describe them."""
        return [f"{type(item).__name__.removesuffix('Item').lower()}: {_words(item)}" for item in self.items]

    # ------------------------------------------------------------------------------------------------------ View

    def apply(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self._apply(operation)

    def paint(self, operations: Iterable[Operation], activity: Activity) -> None:
        self.apply(operations)
        self.show_activity(activity)
        self.frames += 1

    def _apply(self, operation: Operation) -> None:
        ids = [item.id for item in self.items]
        assert len(ids) == len(set(ids)), "an id is there twice"
        match operation:
            case Add(item):
                assert item.id not in ids, f"{item.id} is there already"
                self.items.append(item)
            case Grow(id, text):
                place = ids.index(id)
                grown = self.items[place]
                if isinstance(grown, ToolItem):
                    self.items[place] = replace(grown, output=continue_output(grown.output, text))
                else:
                    assert isinstance(grown, AnswerItem | ThinkingItem)
                    self.items[place] = replace(grown, text=grown.text + text)
            case Replace(item):
                place = ids.index(item.id)
                before = self.items[place]
                assert type(before) is type(item) or (isinstance(before, ToolItem) and isinstance(item, AgentItem))
                if isinstance(item, ThinkingItem) and isinstance(before, ThinkingItem) and not item.text:
                    item = replace(item, text=before.text)
                self.items[place] = item
            case Above(items):
                assert not {item.id for item in items} & set(ids), "something of it is there already"
                self.items[:0] = items
            case Remove(id):
                del self.items[ids.index(id)]
            case Clear():
                self.items.clear()

    def show_activity(self, activity: Activity) -> None:
        if not self.activities or self.activities[-1] != activity.phase:
            self.activities.append(activity.phase)

    def show_facts(self, facts: Facts) -> None:
        self.facts = facts

    def show_queued(self, texts: list[str]) -> None:
        self.queued = texts

    def ask(self, event: Question, waiting: int) -> None:
        self.asked.append(event)

    def show_waiting(self, count: int) -> None:
        self.waiting = count

    def withdraw(self, request_id: str) -> None:
        self.withdrawn.append(request_id)

    def give_back(self, drafts: list[Draft]) -> None:
        self.given_back += drafts

    def finished(self, result: ev.Result) -> None:
        self.results.append(result)


def _words(item: Item) -> str:
    match item:
        case ToolItem():
            return f"{item.title} [{item.status}]"
        case AgentItem():
            return f"{item.progress.title} [{item.progress.status}]"
        case EndItem():
            return item.text.split(".")[0]
    return str(getattr(item, "text", ""))
