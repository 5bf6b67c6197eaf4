"""What a sub-agent does and has done, as the transcript and `/tasks` show it. No Textual here.

Its own transcript is kept within limits: the last items, each with a limited text. All of it is in its session file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

from agentcli.core import events as ev
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.plaintext import continued_output, plain_line, plain_text
from agentcli.tui.model import Add, CountLines, Grow, Item, Operation, Remove, Replace, ThinkingItem, ToolItem

KEPT_ITEMS = 100
"""Items of one agent that are kept."""
KEPT_CHARACTERS = 100_000
"""Characters of all of them together."""
LONGEST_TEXT = 16_000
"""Characters of one text; while it grows, up to twice as many."""

AgentStatus = Literal["running", "waiting", "done", "failed", "stopped"]
AGENT_SIGNS: dict[AgentStatus, str] = {"running": "●", "waiting": "?", "done": "✓", "failed": "✗", "stopped": "■"}
"""waiting: for the user's answer."""
_STATUS: dict[str, AgentStatus] = {"completed": "done", "failed": "failed", "stopped": "stopped"}


class AgentProgress:
    """One agent. Changes while it runs, and then no more; `version` counts the changes."""

    def __init__(self, started: ev.AgentStarted, now: float) -> None:
        self.id = plain_line(started.agent)
        self.name = plain_line(started.name)
        self.description = plain_line(started.description, 300)
        self.model = plain_line(started.model)
        self.background = started.background
        self.session_id = plain_line(started.session_id)
        self.worktree = plain_line(started.worktree, 500)
        self.status: AgentStatus = "running"
        self.doing = "Starting"
        """Its last tool or what it does besides, while it runs."""
        self.is_doing_brief = True
        """Whether `doing` is over as soon as it does anything else, also where that is not worth showing."""
        self.turns = 0
        self.tokens = 0
        """Of all its requests so far."""
        self.cost_usd: float | None = 0.0
        """None: the price of a model is unknown."""
        self.began = now
        self.seconds = 0.0
        """How long it took, once it has ended."""
        self.report = ""
        """Its result; if it failed, why."""
        self.version = 0
        self.dropped = 0
        """Items that are no longer kept."""
        self._items: dict[str, Item] = {}
        self._grown: dict[str, list[str]] = {}
        """Text that was added to an item since it was last read, in pieces."""
        self._sizes: dict[str, int] = {}
        self._size = 0

    @property
    def is_running(self) -> bool:
        return self.status in ("running", "waiting")

    @property
    def title(self) -> str:
        """Its id and its task: `explore-1: Find the callers`."""
        return f"{self.id or self.name}: {self.description}" if self.description else self.id or self.name

    def items(self) -> list[Item]:
        """Its transcript, as far as it is kept, as it is now."""
        for id, pieces in self._grown.items():
            self._items[id] = _with_text(self._items[id], "".join(pieces))
        self._grown.clear()
        return list(self._items.values())

    def with_agents_inside(self) -> Iterator[AgentProgress]:
        """This agent, and those that it has started."""
        yield self
        for item in self._items.values():
            if isinstance(item, AgentItem):
                yield from item.progress.with_agents_inside()

    def apply(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            match operation:
                case Add(item):
                    self._put(item)
                case Replace(item) if item.id in self._items:
                    if isinstance(item, ThinkingItem) and not item.text:
                        self.items()
                        item = replace(item, text=getattr(self._items[item.id], "text", ""))
                    self._put(item)
                case Grow(id, text) if id in self._items:
                    self._grown.setdefault(id, []).append(text)
                    self._resize(id, self._sizes[id] + len(text))
                    if self._sizes[id] > 2 * LONGEST_TEXT:
                        self._items[id] = _cut_start(_with_text(self._items[id], "".join(self._grown.pop(id))))
                        self._resize(id, LONGEST_TEXT)
                case CountLines(id, line_breaks) if isinstance(call := self._items.get(id), ToolItem):
                    self._items[id] = replace(call, line_breaks=line_breaks)
                case Remove(id) if id in self._items:
                    self._remove(id)
        while len(self._items) > KEPT_ITEMS or (self._size > KEPT_CHARACTERS and len(self._items) > 1):
            self._remove(next(iter(self._items)))
            self.dropped += 1
        self.version += 1

    def finish(self, event: ev.AgentFinished) -> None:
        self.status = _STATUS.get(event.status, "failed")
        self.turns, self.tokens, self.cost_usd = event.turns, event.tokens, event.cost_usd
        self.seconds = event.duration_ms / 1_000
        self.report = _cut(plain_text(event.text).strip("\n"))
        self.worktree = plain_line(event.worktree, 500)
        self.version += 1

    def stop(self, now: float) -> None:
        """It was interrupted; its own end, if it comes, says the rest."""
        if self.is_running:
            self.status = "stopped"
            self.seconds = max(0.0, now - self.began)
            self.version += 1

    def drop_items(self) -> None:
        """Free the memory of its transcript; the report stays."""
        self.dropped += len(self._items)
        for kept in (self._items, self._grown, self._sizes):
            kept.clear()
        self._size = 0
        self.version += 1

    def _put(self, item: Item) -> None:
        item = _shortened(item)
        self._items[item.id] = item
        self._grown.pop(item.id, None)
        self._resize(item.id, _size_of(item))

    def _remove(self, id: str) -> None:
        del self._items[id]
        self._grown.pop(id, None)
        self._size -= self._sizes.pop(id)

    def _resize(self, id: str, size: int) -> None:
        self._size += size - self._sizes.get(id, 0)
        self._sizes[id] = size


@frozen(kw_only=True)
class AgentItem(Item):
    """A sub-agent, in place of the call that started it."""

    progress: AgentProgress


def _shortened(item: Item) -> Item:
    """The item within the limits of one text."""
    if isinstance(item, ToolItem):
        # Of the input, the block shows no more than the command.
        input: Json = {key: _cut(value) for key in ("command",) if isinstance(value := item.input.get(key), str)}
        display = item.display if sum(len(str(value)) for value in item.display.values()) <= LONGEST_TEXT else {}
        return replace(item, input=input, display=display, output=_cut(item.output))
    text = getattr(item, "text", "")
    return replace(item, text=_cut(text)) if len(text) > LONGEST_TEXT else item  # type: ignore[call-arg]


def _cut(text: str) -> str:
    more = len(text) - LONGEST_TEXT
    return text if more <= 0 else f"{text[:LONGEST_TEXT]}\n… {more:,} more characters"


def _cut_start(item: Item) -> Item:
    name = "output" if isinstance(item, ToolItem) else "text"
    return replace(item, **{name: f"…{getattr(item, name, '')[-LONGEST_TEXT:]}"})


def _with_text(item: Item, text: str) -> Item:
    name = "output" if isinstance(item, ToolItem) else "text"
    return replace(item, **{name: continued_output(getattr(item, name, ""), text)})


def _size_of(item: Item) -> int:
    if isinstance(item, ToolItem):
        return len(item.output) + len(item.title) + sum(len(str(value)) for value in item.display.values())
    return len(str(getattr(item, "text", "")))
