"""State of a sub-agent as the transcript and `/tasks` show it. No Textual here.

Its transcript is bounded: the last items only, each with a limited text. The session file has all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

from agentcli.core import events as ev
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import continued_output, plain_line, plain_text
from agentcli.tui.model import Add, CountLines, Grow, Item, Operation, Remove, Replace, ThinkingItem, ToolItem

KEPT_ITEMS = 100
"""Maximum number of items kept for one agent."""
KEPT_CHARACTERS = 100_000
"""Maximum number of characters in all items of an agent."""
MAX_TEXT = 16_000
"""Maximum number of characters in one text. A text that is still growing may have twice as many."""

AgentStatus = Literal["running", "waiting", "done", "failed", "stopped"]
AGENT_SIGNS: dict[AgentStatus, str] = {"running": "●", "waiting": "?", "done": "✓", "failed": "✗", "stopped": "■"}
"""waiting: needs an answer from the user."""
_STATUS: dict[str, AgentStatus] = {"completed": "done", "failed": "failed", "stopped": "stopped"}


class AgentProgress:
    """State of one agent, final once the agent has ended. `version` counts the changes."""

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
        """Its last tool call or other activity while it runs."""
        self.is_doing_brief = True
        """Whether any later activity replaces `doing`, even one that is usually not worth showing."""
        self.turns = 0
        self.tokens = 0
        """Input and output tokens of all its requests so far."""
        self.cost_usd: float | None = 0.0
        """None if the price of a model is unknown."""
        self.began = now
        """When it started, moved on by the time that the user took for answers."""
        self._asked = now
        self.seconds = 0.0
        """Duration, set when it ends."""
        self.report = ""
        """Its result, or the reason for its failure."""
        self.version = 0
        self.dropped = 0
        """Number of items removed to stay within the limits."""
        self._items: dict[str, Item] = {}
        self._grown: dict[str, list[str]] = {}
        """Text pieces added to each item since `items()` was last called."""
        self._sizes: dict[str, int] = {}
        self._size = 0

    @property
    def is_running(self) -> bool:
        return self.status in ("running", "waiting")

    @property
    def title(self) -> str:
        """Id and task, as in `explore-1: Find the callers`."""
        return f"{self.id or self.name}: {self.description}" if self.description else self.id or self.name

    def items(self) -> list[Item]:
        """The kept part of its transcript, including text that has just streamed in."""
        for id, pieces in self._grown.items():
            self._items[id] = _with_text(self._items[id], "".join(pieces))
        self._grown.clear()
        return list(self._items.values())

    def with_agents_inside(self) -> Iterator[AgentProgress]:
        """This agent and the agents that it started, recursively."""
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
                    self.items()
                    old = self._items[item.id]
                    if isinstance(item, ThinkingItem) and isinstance(old, ThinkingItem) and not item.text:
                        item = replace(item, text=old.text)
                    elif isinstance(item, ToolItem) and isinstance(old, ToolItem) and item.status != "done":
                        item = replace(item, output=item.output or old.output)
                    self._put(item)
                case Grow(id, text) if id in self._items:
                    self._grown.setdefault(id, []).append(text)
                    self._resize(id, self._sizes[id] + len(text))
                    if self._sizes[id] > 2 * MAX_TEXT:
                        self._items[id] = _cut_start(_with_text(self._items[id], "".join(self._grown.pop(id))))
                        self._resize(id, MAX_TEXT)
                case CountLines(id, line_breaks) if isinstance(call := self._items.get(id), ToolItem):
                    self._items[id] = replace(call, line_breaks=line_breaks)
                case Remove(id) if id in self._items:
                    self._remove(id)
        while len(self._items) > KEPT_ITEMS or (self._size > KEPT_CHARACTERS and len(self._items) > 1):
            self._remove(next(iter(self._items)))
            self.dropped += 1
        self.version += 1

    def set_waiting(self, waiting: bool, now: float) -> None:
        """Set whether it waits for the user."""
        if waiting and self.status != "waiting":
            self._asked = now
        elif not waiting and self.status == "waiting":
            self.began += now - self._asked
        self.status = "waiting" if waiting else "running"

    def elapsed(self, now: float) -> float:
        """Seconds of its own work so far, or until its end."""
        if not self.is_running:
            return self.seconds
        return max(0.0, (self._asked if self.status == "waiting" else now) - self.began)

    def finish(self, event: ev.AgentFinished) -> None:
        self.status = _STATUS.get(event.status, "failed")
        self.turns, self.tokens, self.cost_usd = event.turns, event.tokens, event.cost_usd
        self.seconds = event.duration_ms / 1_000
        self.report = _cut(plain_text(event.text).strip("\n"))
        self.worktree = plain_line(event.worktree, 500)
        self.version += 1

    def stop(self, now: float) -> None:
        """Mark a running agent as stopped. A later `finish` adds the details."""
        if self.is_running:
            self.seconds = self.elapsed(now)
            self.status = "stopped"
            self.version += 1

    def drop_items(self) -> None:
        """Free the memory of the transcript; keep the report."""
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
    """A sub-agent, shown in place of the call that started it."""

    progress: AgentProgress


def _shortened(item: Item) -> Item:
    """Return the item with its texts cut to the limit."""
    if isinstance(item, ToolItem):
        # The block shows only these of the input.
        shown = ("command", "description")
        input: Json = {key: _cut(value) for key in shown if isinstance(value := item.input.get(key), str)}
        display = item.display if sum(len(str(value)) for value in item.display.values()) <= MAX_TEXT else {}
        return replace(item, input=input, display=display, output=_cut(item.output))
    text = getattr(item, "text", "")
    return replace(item, text=_cut(text)) if len(text) > MAX_TEXT else item  # type: ignore[call-arg]


def _cut(text: str) -> str:
    more = len(text) - MAX_TEXT
    return text if more <= 0 else f"{text[:MAX_TEXT]}\n… {more:,} more characters"


def _cut_start(item: Item) -> Item:
    name = "output" if isinstance(item, ToolItem) else "text"
    return replace(item, **{name: f"…{getattr(item, name, '')[-MAX_TEXT:]}"})


def _with_text(item: Item, text: str) -> Item:
    name = "output" if isinstance(item, ToolItem) else "text"
    return replace(item, **{name: continued_output(getattr(item, name, ""), text)})


def _size_of(item: Item) -> int:
    if isinstance(item, ToolItem):
        return len(item.output) + len(item.title) + sum(len(str(value)) for value in item.display.values())
    return len(str(getattr(item, "text", "")))
