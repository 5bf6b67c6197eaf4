"""What happened in a session, step by step: prompts with their requests and calls, and the branches they are on.

Read from the session file in one pass, for everything that looks back: rewinding, the tree, traces, bisecting, blaming.
Pure data about the past; nothing here restores anything. Texts are untrusted.

Steps are in the order of the file, whatever the wall clock did: inside a prompt, timestamps after a clock that was set
back are shifted, so that they never decrease.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from agentcli.core import events as ev
from agentcli.core.event_base import has_valid_fields
from agentcli.core.frozen import frozen, replace, slotted
from agentcli.core.messages import (
    Block,
    Json,
    Message,
    Origin,
    TextBlock,
    ToolUseBlock,
    block_from_dict,
    message_from_dict,
)
from agentcli.core.usage import Usage
from agentcli.session.base import restore_call_end, restore_event
from agentcli.session.load import read_records

WHAT_IF = "what-if"
"""Name of the agent that runs a prompt again; see `history.what_if`."""
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

    @property
    def path(self) -> str:
        """The file that its input names; "" if none."""
        return str(self.input.get("file_path") or self.input.get("notebook_path") or "")

    @property
    def outcome(self) -> str:
        return self.end.outcome if self.end is not None else "cut off"

    @property
    def diff(self) -> str:
        """The unified diff of an edit; "" for other calls."""
        if self.end is None or self.end.display.get("kind") != "diff":
            return ""
        return f"--- {self.path}\n+++ {self.path}\n{self.end.display.get('diff', '')}"


@slotted
class RequestStep:
    """One reply of the model, or one that broke off. A request that failed before its reply began is only in the
    prompt's events, as `RetryScheduled` or an error."""

    message_id: str
    """Of its reply; "" for side calls and those of sub-agents."""
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
    max_tokens: int = 0
    calls: list[CallStep] = field(default_factory=list)
    stop_reason: str = ""
    outcome: Literal["", "void", "cut off"] = ""
    """"": complete, or as far as it came before the user stopped it; void: it was discarded and requested again; cut
    off: the process ended while it was received."""
    is_reported: bool = True
    """Whether the server reported its usage. If not, tokens, cost and times are unknown."""
    api_id: str = ""
    """Id of the reply, given by the server; "" if unknown."""
    position: int = 0
    """Number of the line at which its usage or end stands, from 1."""


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
    """Other events with their times: retries, notices, compactions. Queued prompts, compact boundaries and errors are
    `MessageAppended`."""
    answer: str = ""
    """The end of the last text of the model."""
    ended_at: str = ""
    result: ev.Result | None = None
    """None: it was cut off, or still runs."""
    last_at: str = ""
    """Time of the last record that belongs to it."""

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
    name: str = ""
    """Name given by the user; "" if none. Untrusted text."""


@slotted
class Timeline:
    session_id: str
    path: Path
    cwd: str = ""
    title: str = ""
    began: str = ""
    forked_from: str = ""
    """Id of the session of which this one is a copy; "" if none."""
    prompts: dict[str, PromptStep] = field(default_factory=dict)
    """All prompts of all branches by id, in the order in which they were sent."""
    agents: dict[str, ev.AgentStarted] = field(default_factory=dict)
    """The starts of all sub-agents by id."""
    leaves: list[Leaf] = field(default_factory=list)
    """The ends of all branches, the current one last. A branch without a name of its own that only repeats
    the beginning of another one is left out."""

    rewinds: list[str] = field(default_factory=list)
    """Ids of the rewinds that were not taken back; as `Rewind.branch` each is the conversation that it left."""

    @property
    def current(self) -> list[PromptStep]:
        """The prompts of the current branch, in order."""
        return [self.prompts[id] for id in self.leaves[-1].prompts] if self.leaves else []

    def requests(self) -> Iterator[RequestStep]:
        """All requests of all branches, in the order in which they ended."""
        for prompt in self.prompts.values():
            yield from prompt.requests

    def find_leaf(self, prompt_id: str) -> Leaf | None:
        """A branch that has this prompt: the current one if it does, else the one that was left last."""
        return next((leaf for leaf in reversed(self.leaves) if prompt_id in leaf.prompts), None)


def read_timeline(path: Path) -> Timeline:
    """Blocking. Raises `OSError`."""
    reader = TimelineReader(Timeline(path.stem, path))
    for record in read_records(path):
        reader.take(record)
    return reader.finish()


class TimelineReader:
    """Takes records in the order of the file. `finish` may be called again after more of them."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._line: tuple[str, ...] = ()
        """Ids of the prompts on the current branch."""
        self._name = ""
        """Name of the current branch."""
        self._left: dict[str, Leaf] = {}
        self._calls: dict[str, CallStep] = {}
        """By id, the last call that has it."""
        self._unclaimed: list[CallStep] = []
        """Calls of the open reply."""
        self._reply = ""
        """Id of the reply whose usage is not reported yet."""
        self._reply_model = ""
        self._requests: dict[str, RequestStep] = {}
        """By the id of the reply."""
        self._what_ifs: set[str] = set()
        """Agents that run a prompt again, with their sub-agents: they are not part of what the prompt cost."""
        self._position = 0
        self._clock = _SteadyClock()

    @property
    def _prompt(self) -> PromptStep | None:
        return self._timeline.prompts.get(self._line[-1]) if self._line else None

    def take(self, record: Json) -> None:
        self._position += 1
        take = getattr(self, f"_take_{str(record.get('type')).replace('-', '_')}", None)
        if take is None or record.get("isSidechain") is True:
            return
        begins = record.get("type") == "user" and record.get("origin") == Origin.PROMPT
        at = self._clock.read(str(record.get("timestamp") or ""), begins)
        try:
            take(record, at)
        except (KeyError, TypeError, ValueError, AttributeError):
            # The loader counts lines of an invalid form.
            return
        if self._prompt is not None and record["type"] not in (
            "resume",
            "rewind",
            "branch-name",
            "custom-title",
            "session",
        ):
            self._prompt.last_at = at

    def finish(self) -> Timeline:
        """The timeline so far. A reply that is still open stays open."""
        leaves = [*self._left.values(), Leaf("", self._line, self._name)]
        self._timeline.leaves = [
            leaf for place, leaf in enumerate(leaves) if not leaf.branch or not _is_part(leaf, place, leaves)
        ]
        return self._timeline

    def _take_session(self, record: Json, at: str) -> None:
        self._timeline.cwd = self._timeline.cwd or str(record.get("cwd") or "")
        self._timeline.began = self._timeline.began or at
        self._timeline.forked_from = self._timeline.forked_from or str(record.get("forkedFrom") or "")

    def _take_custom_title(self, record: Json, _at: str) -> None:
        self._timeline.title = str(record["customTitle"])

    def _take_branch_name(self, record: Json, _at: str) -> None:
        name, branch = str(record["name"]), str(record.get("branch", ""))
        if not branch:
            self._name = name
        elif branch in self._left:
            self._left[branch] = replace(self._left[branch], name=name)

    def _take_rewind(self, record: Json, at: str) -> None:
        uuid, before = str(record["uuid"]), str(record.get("before", ""))
        branch = str(record.get("branch", ""))
        here = self._left[uuid] = Leaf(uuid, self._line, self._name)
        rewinds = self._timeline.rewinds
        if branch and not before and branch in rewinds[-1:]:
            rewinds.pop()
        elif before or branch:  # Else it only begins another branch here.
            rewinds.append(uuid)
        self._cut_off(at)
        there = self._left.get(branch, here)
        is_cut = before in there.prompts
        self._line = there.prompts[: there.prompts.index(before)] if is_cut else there.prompts
        self._name = "" if is_cut else there.name

    def _take_resume(self, _record: Json, at: str) -> None:
        self._cut_off(at)

    def _cut_off(self, at: str) -> None:
        """End a reply that an earlier process left open."""
        if self._reply and (prompt := self._prompt) is not None:
            self._add_unreported(prompt, prompt.last_at or at).outcome = "cut off"
        self._reply, self._unclaimed = "", []

    def _take_user(self, record: Json, at: str) -> None:
        if record["origin"] == Origin.TOOL_RESULTS:
            self._end_call(record, at)
            return
        message = message_from_dict(record["message"])
        if message.is_copy:
            return
        if message.origin is Origin.PROMPT:
            self._cut_off(at)
            parent = self._line[-1] if self._line else ""
            self._timeline.prompts[message.id] = PromptStep(message.id, message.typed, at, parent)
            self._line = (*self._line, message.id)
        elif message.origin is Origin.QUEUED:
            self._note_message(message, at)

    def _take_boundary(self, record: Json, at: str) -> None:
        self._note_message(message_from_dict(record["message"]), at)

    _take_error = _take_boundary

    def _note_message(self, message: Message, at: str) -> None:
        if self._prompt is not None:
            self._prompt.events.append((at, ev.MessageAppended(message=message)))

    def _take_assistant(self, record: Json, at: str) -> None:
        prompt = self._prompt
        if prompt is None or record.get("origin", Origin.REPLY) != Origin.REPLY:
            return
        if (reply := str(record["messageId"])) != self._reply:
            if reply in self._requests:
                return  # A block that was added when the reply ended.
            self._cut_off(at)
            self._reply, self._reply_model = reply, str(record["message"].get("model") or "")
        for block in _blocks(record):
            if isinstance(block, TextBlock) and block.text.strip():
                prompt.answer = block.text[-MAX_ANSWER:]
            elif isinstance(block, ToolUseBlock):
                call = self._calls[block.id] = CallStep(block.id, block.name, block.input, at)
                prompt.calls.append(call)
                self._unclaimed.append(call)

    def _take_reply_end(self, record: Json, at: str) -> None:
        message = record["message"]
        if (prompt := self._prompt) is None or record.get("origin", Origin.REPLY) != Origin.REPLY:
            return
        if str(message["id"]) == self._reply and message_from_dict(message).is_copy:
            # A compaction keeps the last replies as copies.
            for call in self._unclaimed:
                prompt.calls.remove(call)
                del self._calls[call.id]
            self._reply, self._unclaimed = "", []
        elif str(message["id"]) == self._reply:
            self._add_unreported(prompt, at)
        if (request := self._requests.get(str(message["id"]))) is not None:
            request.stop_reason = str(message.get("stop_reason") or "")
            request.api_id = str(message.get("api_id") or "")

    def _take_tombstone(self, record: Json, at: str) -> None:
        prompt, reply = self._prompt, str(record["messageId"])
        if prompt is None:
            return
        if reply == self._reply:
            self._add_unreported(prompt, at)
        elif prompt.requests and (last := prompt.requests[-1]).message_id == "" and not last.agent:
            # It broke off before its first block was complete.
            self._requests.setdefault(reply, last)
        if (request := self._requests.get(reply)) is not None:
            request.outcome = "void"
            void = {id(call) for call in request.calls}
            prompt.calls = [call for call in prompt.calls if id(call) not in void]

    def _add_unreported(self, prompt: PromptStep, at: str) -> RequestStep:
        """Add the open reply, whose usage the server did not report."""
        nothing = ev.UsageReported(model=self._reply_model, usage=Usage(), cost_usd=None)
        step = self._note_request(prompt, nothing, at)
        step.is_reported = False
        return step

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
            end = restore_call_end(record, block, known)
            call.ended_at, call.end = at, end if end is not None and has_valid_fields(end) else None
            if call.end is not None and call.end.display.get("kind") == "diff":
                call.files, (call.added, call.removed) = 1, _count_lines(str(call.end.display.get("diff", "")))

    def _take_event(self, record: Json, at: str) -> None:
        event, prompt = restore_event(record["event"], {}), self._prompt
        if event is None or prompt is None or not has_valid_fields(event):
            return
        match event:
            case ev.UsageReported():
                if event.agent not in self._what_ifs:
                    self._note_request(prompt, event, at)
            case ev.Result():
                # A command or a background task may lead to a later submission without a prompt.
                prompt.ended_at = at
                if prompt.result is None or event.turns:
                    prompt.result = event
            case ev.ToolStarted(agent="") if (call := self._calls.get(event.tool_use_id)) is not None:
                call.started_at, call.title = at, event.title
            case ev.CommandChangedFiles() if (call := self._calls.get(event.tool_use_id)) is not None:
                call.files, call.added, call.removed = event.files, event.added, event.removed
            case ev.AgentStarted() if event.name == WHAT_IF or event.parent in self._what_ifs:
                self._what_ifs.add(event.agent)
            case ev.AgentStarted() if (call := self._calls.get(event.tool_use_id)) is not None:
                call.agents.append(event.agent)
                self._timeline.agents[event.agent] = event
            case _ if not event.agent or isinstance(event, ev.AgentFinished):
                prompt.events.append((at, event))

    _take_shown = _take_submission_end = _take_event

    def _note_request(self, prompt: PromptStep, event: ev.UsageReported, at: str) -> RequestStep:
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
            max_tokens=event.max_tokens,
            position=self._position,
        )
        if is_turn:
            if self._reply:
                self._requests[self._reply] = step
            step.calls, self._unclaimed, self._reply = self._unclaimed, [], ""
        prompt.requests.append(step)
        return step


def _is_part(leaf: Leaf, place: int, leaves: Sequence[Leaf]) -> bool:
    """Whether another branch repeats all of this one, which has no name of its own. Of equal ones the last counts."""
    return any(
        leaf.name in ("", other.name)
        and other.prompts[: len(leaf.prompts)] == leaf.prompts
        and (len(other.prompts) > len(leaf.prompts) or number > place)
        for number, other in enumerate(leaves)
        if other is not leaf
    )


def _blocks(record: Mapping[str, Json]) -> Iterator[Block]:
    for block in record["message"]["content"]:
        yield block_from_dict(block)


def _count_lines(diff: str) -> tuple[int, int]:
    """Added and removed lines of a unified diff."""
    lines = [line for line in diff.split("\n") if not line.startswith(("+++", "---"))]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


class _SteadyClock:
    """Makes timestamps that never decrease, by adding what a clock was set back to all later ones of a prompt."""

    def __init__(self) -> None:
        self._last: datetime | None = None
        self._shift = timedelta()

    def read(self, at: str, begins: bool) -> str:
        """The time of a record; "" if it has none that can be read. `begins`: it is a prompt, whose own time counts."""
        try:
            time = datetime.fromisoformat(at)
            last, self._last = self._last, time
            if begins:
                self._shift = timedelta()
            elif last is not None and time < last:
                self._shift += last - time
            return (time + self._shift).isoformat(timespec="milliseconds").replace("+00:00", "Z") if self._shift else at
        except (ValueError, TypeError, OverflowError):
            return ""
