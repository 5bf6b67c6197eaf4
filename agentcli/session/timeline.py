"""What happened in a session, step by step: prompts with their requests and calls, and the branches they are on.

Read from the session file in one pass, for everything that looks back: rewinding, the tree, traces, bisecting, blaming.
Pure data about the past; nothing here restores anything. Texts are untrusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from agentcli.core import events as ev
from agentcli.core.frozen import frozen, slotted
from agentcli.core.messages import Block, Json, Origin, TextBlock, ToolUseBlock, block_from_dict, message_from_dict
from agentcli.core.usage import Usage
from agentcli.session.base import restore_call_end, restore_event
from agentcli.session.load import read_records

MAX_ANSWER = 2_000
"""Characters kept of the last answer to a prompt."""


@slotted
class CallStep:
    """One tool call. Times are timestamps of the file; "" if unknown."""

    id: str
    name: str
    input: Json
    made_at: str
    """When its block was complete."""
    title: str = ""
    asked_at: str = ""
    answered_at: str = ""
    answer: str = ""
    """allow, deny or withdrawn, if the user was asked."""
    started_at: str = ""
    ended_at: str = ""
    end: ev.ToolFinished | None = None
    files: int = 0
    """Files that it changed, of a command as far as that was compared."""
    added: int = 0
    removed: int = 0
    agents: list[str] = field(default_factory=list)
    """Ids of the sub-agents that it started."""


@slotted
class RequestStep:
    """One reply of the model, or a request that failed."""

    message_id: str
    """"" for side calls and failed requests."""
    model: str
    ended_at: str
    usage: Usage
    cost_usd: float | None
    duration_ms: int
    first_ms: int
    purpose: str
    transition: str
    request: str
    agent: str = ""
    calls: list[CallStep] = field(default_factory=list)


@slotted
class PromptStep:
    """One prompt and all that followed until the next one."""

    id: str
    text: str
    at: str
    parent: str
    """Id of the prompt before it; "" for the first one."""
    requests: list[RequestStep] = field(default_factory=list)
    calls: list[CallStep] = field(default_factory=list)
    events: list[tuple[str, ev.Event]] = field(default_factory=list)
    """Other events with their times: retries, notices, compactions, queued prompts."""
    answer: str = ""
    """The end of the last text of the model."""
    ended_at: str = ""
    result: ev.Result | None = None
    """None: it was cut off, or still runs."""

    @property
    def cost_usd(self) -> float:
        """What it cost as far as the prices are known."""
        return sum(one.cost_usd or 0.0 for one in self.requests)

    @property
    def usage(self) -> Usage:
        total = Usage()
        for one in self.requests:
            total = total + one.usage
        return total

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.model for one in self.requests if one.purpose == "turn" and not one.agent))


@frozen
class Leaf:
    """The end of a branch."""

    branch: str
    """As in `Rewind.branch`; "" for the current one."""
    prompts: tuple[str, ...]
    """Ids of all prompts on it, from the first one."""
    left_at: str = ""


@slotted
class Timeline:
    session_id: str
    path: Path
    cwd: str = ""
    title: str = ""
    began: str = ""
    prompts: dict[str, PromptStep] = field(default_factory=dict)
    """All prompts of all branches by id, in the order in which they were sent."""
    leaves: list[Leaf] = field(default_factory=list)
    """The ends of all branches, the current one last. A branch that only repeats the beginning of another one is left
    out."""

    @property
    def current(self) -> list[PromptStep]:
        """The prompts of the current branch, in order."""
        return [self.prompts[id] for id in self.leaves[-1].prompts] if self.leaves else []

    def find_leaf(self, prompt_id: str) -> Leaf | None:
        """A branch that has this prompt: the current one if it does, else the one that was left last."""
        return next((leaf for leaf in reversed(self.leaves) if prompt_id in leaf.prompts), None)


def read_timeline(path: Path) -> Timeline:
    """Blocking. Raises `OSError`."""
    reader = _TimelineReader(Timeline(path.stem, path))
    for record in read_records(path):
        reader.take(record)
    return reader.finish()


class _TimelineReader:
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._line: tuple[str, ...] = ()
        """Ids of the prompts on the current branch."""
        self._left: dict[str, Leaf] = {}
        self._calls: dict[str, CallStep] = {}
        """By id, the calls of the current prompt."""
        self._unclaimed: list[CallStep] = []
        """Calls of the reply whose usage is not reported yet."""
        self._reply = ""

    @property
    def _prompt(self) -> PromptStep | None:
        return self._timeline.prompts.get(self._line[-1]) if self._line else None

    def take(self, record: Json) -> None:
        take = getattr(self, f"_take_{str(record.get('type')).replace('-', '_')}", None)
        if take is None or record.get("isSidechain") is True:
            return
        try:
            take(record, str(record.get("timestamp") or ""))
        except (KeyError, TypeError, ValueError, AttributeError):
            # The loader counts lines of an invalid form.
            return

    def finish(self) -> Timeline:
        leaves = [*self._left.values(), Leaf("", self._line)]
        ends = {leaf.prompts: leaf for leaf in leaves}  # of equal ones the last
        self._timeline.leaves = [
            leaf
            for leaf in ends.values()
            if not leaf.branch or not any(_begins(leaf.prompts, other) for other in ends if other != leaf.prompts)
        ]
        return self._timeline

    def _take_session(self, record: Json, at: str) -> None:
        self._timeline.cwd = self._timeline.cwd or str(record.get("cwd") or "")
        self._timeline.began = self._timeline.began or at

    def _take_custom_title(self, record: Json, _at: str) -> None:
        self._timeline.title = str(record["customTitle"])

    def _take_rewind(self, record: Json, at: str) -> None:
        uuid, before = str(record["uuid"]), str(record.get("before", ""))
        branch = str(record.get("branch", ""))
        there = self._left[branch].prompts if branch in self._left else self._line
        self._left[uuid] = Leaf(uuid, self._line, at)
        self._line = there[: there.index(before)] if before in there else there
        self._calls = {}

    def _take_user(self, record: Json, at: str) -> None:
        if record["origin"] == Origin.TOOL_RESULTS:
            self._end_call(record, at)
            return
        message = message_from_dict(record["message"])
        if message.origin is Origin.PROMPT:
            parent = self._line[-1] if self._line else ""
            self._timeline.prompts[message.id] = PromptStep(message.id, message.typed, at, parent)
            self._line = (*self._line, message.id)
            self._calls = {}
        elif self._prompt is not None and message.origin is Origin.QUEUED:
            self._prompt.events.append((at, ev.MessageAppended(message=message)))

    def _take_assistant(self, record: Json, at: str) -> None:
        prompt = self._prompt
        if prompt is None or record.get("origin", Origin.REPLY) != Origin.REPLY:
            return
        self._reply = str(record["messageId"])
        for block in _blocks(record):
            if isinstance(block, TextBlock) and block.text.strip():
                prompt.answer = block.text[-MAX_ANSWER:]
            elif isinstance(block, ToolUseBlock):
                call = self._calls[block.id] = CallStep(block.id, block.name, block.input, at)
                prompt.calls.append(call)
                self._unclaimed.append(call)

    def _take_tombstone(self, record: Json, _at: str) -> None:
        if self._prompt is not None and str(record["messageId"]) == self._reply:
            void = {id(call) for call in self._unclaimed}
            self._prompt.calls = [call for call in self._prompt.calls if id(call) not in void]
            self._unclaimed, self._reply = [], ""

    def _take_call(self, record: Json, at: str) -> None:
        call = self._calls.get(str(record["toolUseId"]))
        if call is None:
            return
        match record["state"]:
            case "asked":
                call.asked_at = at
            case "answered":
                call.answered_at, call.answer = at, str(record.get("behavior", ""))
            case "begun":
                call.started_at = call.started_at or at

    def _end_call(self, record: Json, at: str) -> None:
        for block in _blocks(record):
            call = self._calls.get(getattr(block, "tool_use_id", ""))
            if call is None:
                continue
            known = {call.id: ToolUseBlock(call.id, call.name, call.input)}
            call.ended_at, call.end = at, restore_call_end(record, block, known)
            if call.end is not None and call.end.display.get("kind") == "diff":
                call.files, (call.added, call.removed) = 1, _count_lines(str(call.end.display.get("diff", "")))

    def _take_event(self, record: Json, at: str) -> None:
        event = restore_event(record["event"], {})
        prompt = self._prompt
        if event is None or prompt is None:
            return
        match event:
            case ev.UsageReported():
                self._note_request(prompt, event, at)
            case ev.Result():
                prompt.result, prompt.ended_at = event, at
            case _:
                prompt.events.append((at, event))

    _take_submission_end = _take_event

    def _note_request(self, prompt: PromptStep, event: ev.UsageReported, at: str) -> None:
        is_turn = event.purpose == "turn" and not event.agent
        step = RequestStep(
            message_id=self._reply if is_turn else "",
            model=event.model,
            ended_at=at,
            usage=event.usage,
            cost_usd=event.cost_usd,
            duration_ms=event.duration_ms,
            first_ms=event.first_ms,
            purpose=event.purpose,
            transition=event.transition,
            request=event.request,
            agent=event.agent,
        )
        if is_turn:
            step.calls, self._unclaimed, self._reply = self._unclaimed, [], ""
        prompt.requests.append(step)

    def _take_shown(self, record: Json, at: str) -> None:
        event, prompt = restore_event(record["event"], {}), self._prompt
        if event is None or prompt is None:
            return
        match event:
            case ev.ToolStarted(agent="") if (call := self._calls.get(event.tool_use_id)) is not None:
                call.started_at, call.title = at, event.title
            case ev.CommandChangedFiles() if (call := self._calls.get(event.tool_use_id)) is not None:
                call.files, call.added, call.removed = event.files, event.added, event.removed
            case ev.AgentStarted() if (call := self._calls.get(event.tool_use_id)) is not None:
                call.agents.append(event.agent)
            case _ if not event.agent or isinstance(event, ev.AgentFinished):
                prompt.events.append((at, event))


def list_calls(prompts: Sequence[PromptStep]) -> Iterator[tuple[PromptStep, CallStep]]:
    """All calls of these prompts, in the order in which the model made them."""
    for prompt in prompts:
        for call in prompt.calls:
            yield prompt, call


def _begins(shorter: tuple[str, ...], longer: tuple[str, ...]) -> bool:
    return longer[: len(shorter)] == shorter


def _blocks(record: Mapping[str, Json]) -> Iterator[Block]:
    for block in record["message"]["content"]:
        yield block_from_dict(block)


def _count_lines(diff: str) -> tuple[int, int]:
    """Added and removed lines of a unified diff."""
    lines = [line for line in diff.split("\n") if not line.startswith(("+++", "---"))]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)
