"""What runs, as the app shows it: the activity, the answer so far, ended calls and sub-agents, made of events. Pure; no
Textual here.

Each agent has its own `Presenter`, so its transcript is built like that of the session; its items are stored in its
`AgentProgress`, not in the session's transcript, and bounded: the session file has all of them. A block reads the
progress each time it is painted, so most events need no operation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from agentcli.core import events as ev
from agentcli.core.frozen import frozen
from agentcli.core.messages import AnswerTracker, Json, Message, Origin
from agentcli.core.text.plaintext import continue_output, plain_line, plain_text
from agentcli.interactive import wording
from agentcli.tui.model import Activity, Add, CountLines, Grow, Item, Operation, Remove, Replace, ThinkingItem, ToolItem

if TYPE_CHECKING:
    from agentcli.tui.presenter import Presenter


class ActivityState:
    """The current activity. Its times leave out how long the user took for answers."""

    def __init__(self) -> None:
        self.activity = Activity()
        self._characters = 0
        self._tokens = 0
        self._asked: float | None = None
        """Time since which the user is asked."""

    def begin(self, text: str, now: float, agents: int) -> None:
        self._characters = self._tokens = 0
        self._asked = None
        self.activity = Activity(phase="starting", text=text, began=now, agents=agents)

    def end(self, agents: int) -> None:
        self._asked = None
        self.activity = Activity(agents=agents)

    def enter(self, phase: str, text: str, now: float, until: float = 0.0, step_began: float = 0.0) -> None:
        before = self.activity
        if before.phase == "interrupting":
            return
        began = before.began
        if phase == "waiting" and self._asked is None:
            self._asked = now
        elif phase != "waiting" and self._asked is not None:
            began, self._asked = began + now - self._asked, None
        changes = {"phase": phase, "text": text, "until": until, "step_began": step_began, "began": began}
        self.activity = replace(before, **changes)  # type: ignore[arg-type]

    def count(self, text: str) -> None:
        """Estimate output tokens at four characters each; the exact number is known only at the end of a response."""
        self._characters += len(text)
        self.activity = replace(self.activity, tokens_out=self._tokens + self._characters // 4)

    def count_reported(self, tokens: int) -> None:
        self._characters = 0
        self._tokens += tokens
        self.activity = replace(self.activity, tokens_out=self._tokens)

    def set_agents(self, running: int) -> None:
        if self.activity.agents != running:
            self.activity = replace(self.activity, agents=running)


def step_text(title: str, input: Json) -> str:
    """What a running call is called: the description of a command, else its title."""
    description = input.get("description") if isinstance(input.get("command"), str) else None
    return plain_line(description if isinstance(description, str) and description.strip() else title, 80)


def active_todo(todos: Sequence[Json]) -> str:
    """The entry of a task list that is in progress; "" if there is none."""
    for todo in todos:
        if todo.get("status") == "in_progress":
            words = todo.get("activeForm") or todo.get("content")
            return plain_line(words, 300) if isinstance(words, str) else ""
    return ""


class AnswerPieces:
    """Call `take` with every message of the conversation, and `joint` for every text block of a reply."""

    def __init__(self) -> None:
        self._tracker = AnswerTracker()
        self._tail = ""
        self._first: tuple[str, int] | None = None
        """Message id and index of the first text block of the current reply."""

    def take(self, message: Message) -> None:
        self._tracker.take(message)
        if message.origin is Origin.REPLY and not message.is_copy:
            text = message.text
            self._tail = text[len(text.rstrip("\n")) :]

    def joint(self, message_id: str, index: int, text: str) -> str | None:
        """Line breaks between this block and the answer it continues; None if it starts a new answer."""
        if not self._tracker.unfinished or not text.strip():
            return None
        if self._first is None or self._first[0] != message_id:
            self._first = (message_id, index)
        if self._first[1] != index:
            return None
        return self._tail + text[: len(text) - len(text.lstrip("\n"))]


RESULT_SHOWN = 64_000
"""Maximum number of characters of a result kept for the screen; the session file has all of it."""


def describe_ended_call(event: ev.ToolFinished, display: Json) -> dict[str, Any]:
    """Fields of the item of a call that has ended."""
    status = wording.tool_outcome(event)
    return {
        "status": status,
        "summary": " · ".join(filter(None, (plain_line(event.summary), wording.count_accepted_hunks(event)))),
        "denied_by": plain_line(event.denied_by),
        "display": display,
        # No log is kept for a sub-agent.
        "result": None if event.agent else event.result,
        # If the display has the text, the model's version of it is never shown.
        "output": "" if status == "done" and display.get("text") else plain_text(event.result.text[:RESULT_SHOWN]),
        "duration_ms": event.duration_ms,
        "background": bool(event.display.get("background")),
        "has_changes": event.display.get("changed_files") is True,
    }


def with_changes(item: ToolItem, event: ev.CommandChangedFiles) -> ToolItem:
    return replace(item, changed=wording.describe_changed_files(event), changes=plain_text(event.diff))


KEPT_ITEMS = 100
"""Maximum number of items kept for one agent."""
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

    @property
    def is_running(self) -> bool:
        return self.status in ("running", "waiting")

    @property
    def title(self) -> str:
        """Id and task, as in `explore-1: Find the callers`."""
        return f"{self.id or self.name}: {self.description}" if self.description else self.id or self.name

    def items(self) -> list[Item]:
        """The kept part of its transcript."""
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
                    self._items[item.id] = _shorten(item)
                case Replace(item) if item.id in self._items:
                    old = self._items[item.id]
                    if isinstance(item, ThinkingItem) and isinstance(old, ThinkingItem) and not item.text:
                        item = replace(item, text=old.text)
                    elif isinstance(item, ToolItem) and isinstance(old, ToolItem) and item.status != "done":
                        item = replace(item, output=item.output or old.output)
                    self._items[item.id] = _shorten(item)
                case Grow(id, text) if id in self._items:
                    self._items[id] = _with_text(self._items[id], text)
                case CountLines(id, line_breaks) if isinstance(call := self._items.get(id), ToolItem):
                    self._items[id] = replace(call, line_breaks=line_breaks)
                case Remove(id):
                    self._items.pop(id, None)
        while len(self._items) > KEPT_ITEMS:
            del self._items[next(iter(self._items))]
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
        self._items.clear()
        self.version += 1


@frozen(kw_only=True)
class AgentItem(Item):
    """A sub-agent, shown in place of the call that started it."""

    progress: AgentProgress


def _shorten(item: Item) -> Item:
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


def _with_text(item: Item, text: str) -> Item:
    """Add text to the end; of a text that has become too long, the end stays."""
    name = "output" if isinstance(item, ToolItem) else "text"
    grown = continue_output(getattr(item, name, ""), text)
    return replace(item, **{name: grown if len(grown) <= 2 * MAX_TEXT else f"…{grown[-MAX_TEXT:]}"})


ENDED_KEPT = 10
"""Number of ended agents that keep their transcript in memory. Older ones keep only the report."""
_BRIEF_ACTIVITIES = ("", "Working", "Waiting for the model")
"""Activity texts that do not replace the text of the last tool, which is more informative."""


def _update_doing(progress: AgentProgress, event: ev.Event, activity: str) -> None:
    if isinstance(event, ev.PermissionRequested):
        progress.doing, progress.is_doing_brief = plain_line(event.title, 200), False
    elif activity not in ("", progress.doing) and (activity not in _BRIEF_ACTIVITIES or progress.is_doing_brief):
        # A call whose input is still streaming may be refused before it starts, so its text is brief.
        progress.doing, progress.is_doing_brief = activity, isinstance(event, ev.BlockStarted)


@dataclass(slots=True)
class _Run:
    """An agent that is still running."""

    progress: AgentProgress
    presenter: Presenter
    """Presents the agent's own events."""
    item_id: str
    parent: str
    background: bool
    """Continues after the submission ends: this agent, or one of its ancestors, was started in the background."""


class AgentPresenters:
    def __init__(self, session: Presenter, new_presenter: Callable[[str], Presenter]) -> None:
        """`session`: presenter of the main conversation. `new_presenter(id)` creates the presenter of one agent."""
        self._session = session
        self._new_presenter = new_presenter
        self._runs: dict[str, _Run] = {}
        self._ended: deque[AgentProgress] = deque()

    @property
    def running(self) -> int:
        return sum(run.progress.is_running for run in self._runs.values())

    @property
    def running_in_foreground(self) -> int:
        """Number of running agents that the submission waits for."""
        return sum(run.progress.is_running for run in self._runs.values() if not run.background and not run.parent)

    @property
    def waiting(self) -> bool:
        """Whether an agent that the submission waits for needs an answer from the user."""
        return any(run.progress.status == "waiting" for run in self._runs.values() if not run.background)

    def show(self, event: ev.Event, now: float, *, halted: bool = False) -> list[Operation]:
        """Return the operations for an event. `halted`: the submission was interrupted, so of the agents that it waits
        for only `AgentFinished` still counts."""
        if isinstance(event, ev.AgentStarted):
            return self._start(event, now)
        if isinstance(event, ev.AgentMoved):
            return self._move(event)
        run = self._runs.get(event.agent)
        if isinstance(event, ev.AgentFinished):
            return self._finish(event, run, now)
        if run is None or (halted and not run.background):
            return []
        self._count(event, run)
        progress = run.progress
        progress.apply(run.presenter.show_own(event, now))
        _update_doing(progress, event, run.presenter.activity.text)
        before = progress.status
        progress.set_waiting(run.presenter.activity.phase == "waiting", now)
        self._touch(run)
        operations = self._replace(run) if progress.status != before else []
        if event.policy.scope == "session":
            operations += self._session.note_event(event)
        return operations

    def stop(self, now: float, *, all: bool = False, forget: bool = True) -> list[Operation]:
        """Stop the agents that the submission waits for, or with `all` also those in the background. `forget`: nothing
        more comes from them, because the submission or the process has ended."""
        operations: list[Operation] = []
        for id, run in list(self._runs.items()):
            if (all or not run.background) and (forget or run.progress.is_running):
                run.progress.apply(run.presenter.settled(now))
                run.progress.stop(now)
                operations += self._replace(run)
                if forget:
                    self._forget(id, run)
        return operations

    def _start(self, event: ev.AgentStarted, now: float) -> list[Operation]:
        parent = self._runs.get(event.parent) if event.parent else None
        progress = AgentProgress(event, now)
        owner = parent.presenter if parent is not None else self._session
        item, operations = owner.start_agent(event.tool_use_id, progress)
        background = event.background or (parent is not None and parent.background)
        self._runs[event.agent] = _Run(
            progress, self._new_presenter(event.agent), item.id, event.parent if parent is not None else "", background
        )
        if parent is None:
            return operations
        parent.progress.apply(operations)
        self._touch(parent)
        return []

    def _move(self, event: ev.AgentMoved) -> list[Operation]:
        moved = [self._runs[id] for id in event.agents if id in self._runs]
        for run in moved:
            run.background = True
        for run in moved[:1]:
            run.progress.background = True
            run.progress.version += 1
        return [operation for run in moved[:1] for operation in self._replace(run)]

    def _finish(self, event: ev.AgentFinished, run: _Run | None, now: float) -> list[Operation]:
        operations: list[Operation] = []
        if run is not None:
            run.progress.apply(run.presenter.settled(now))
            run.progress.finish(event)
            operations = self._replace(run)
            self._touch(run)
            self._forget(event.agent, run)
        if event.background:
            # Its block may have scrolled far up.
            operations += self._session.note_event(event)
        return operations

    def _forget(self, id: str, run: _Run) -> None:
        self._runs.pop(id, None)
        self._ended.append(run.progress)
        while len(self._ended) > ENDED_KEPT:
            self._ended.popleft().drop_items()

    def _count(self, event: ev.Event, run: _Run) -> None:
        if isinstance(event, ev.MessageAppended) and event.message.origin is Origin.REPLY:
            run.progress.turns += not event.message.is_copy
        if not isinstance(event, ev.UsageReported):
            return
        counted: _Run | None = run
        while counted is not None:
            progress = counted.progress
            progress.tokens += event.usage.prompt_tokens + event.usage.output_tokens
            known = progress.cost_usd is not None and event.cost_usd is not None
            progress.cost_usd = (progress.cost_usd or 0.0) + (event.cost_usd or 0.0) if known else None
            counted = self._runs.get(counted.parent)

    def _touch(self, run: _Run) -> None:
        """Mark the parent agents as changed: their blocks show this agent too."""
        above = self._runs.get(run.parent)
        while above is not None:
            above.progress.version += 1
            above = self._runs.get(above.parent)

    def _replace(self, run: _Run) -> list[Operation]:
        """Repaint the agent's block now; a nested one is repainted with its parent's block."""
        return [] if run.parent else [Replace(AgentItem(id=run.item_id, progress=run.progress))]
