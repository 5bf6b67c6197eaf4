"""Turn events into operations on the transcript and into the text of the activity line. Pure: time is an argument.

No Textual here, and no decision about the engine. Untrusted text is cleaned once, on input, so that everything in an
item is safe to paint. Only state of the current submission is kept; finished items belong to the transcript.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from sys import intern

from agentcli.core import events as ev
from agentcli.core.messages import (
    ImageBlock,
    Json,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    is_thinking,
)
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import ControlStripper, plain_line, plain_text
from agentcli.core.text.terminal_colours import check_spans
from agentcli.interactive import wording
from agentcli.interactive.submission import is_of_server
from agentcli.tui.model import (
    Activity,
    Add,
    AnswerItem,
    BoundaryItem,
    CountLines,
    EndItem,
    Grow,
    Item,
    NoticeItem,
    Operation,
    OutputItem,
    PromptItem,
    Remove,
    Replace,
    ThinkingItem,
    ToolItem,
)
from agentcli.tui.progress import (
    ActivityState,
    AgentItem,
    AgentPresenters,
    AgentProgress,
    AnswerPieces,
    describe_ended_call,
    step_text,
    with_changes,
)

Titles = Callable[[str, Json], str]
"""One-line title of a call, by tool name and input; "" if unknown."""


@dataclass(slots=True)
class _Stream:
    item: AnswerItem | ThinkingItem
    began: float
    stripper: ControlStripper = field(default_factory=ControlStripper)
    shown: bool = False


class Presenter:
    def __init__(self, title_of: Titles = lambda _name, _input: "", prefix: str = "") -> None:
        """`prefix` of item ids, for transcripts that contain items of several presenters."""
        self._title_of = title_of
        self._prefix = prefix
        self._state = ActivityState()
        self._now = 0.0
        """Time of the event that is being shown."""
        self._numbers = itertools.count(1)
        self._streams: dict[tuple[str, int], _Stream] = {}
        self._tools: dict[str, ToolItem] = {}
        self._spelling: dict[tuple[str, int], ToolItem] = {}
        self._of_reply: dict[str, dict[str, None]] = {}
        self._retry: NoticeItem | None = None
        self._mode = ""
        self._reported: set[str] = set()
        self._echoed = 0
        self._entered: list[str] = []
        """Commands already shown as sent; the prompt that such a command sends is not shown again."""
        self._halted = False
        """The interruption has been shown; output that still arrives before the `Result` is not."""
        self._pieces = AnswerPieces()
        self._asked: dict[str, float] = {}
        """Time at which the open question about each call was asked."""
        self._agent_calls: set[str] = set()
        """Calls that started an agent, whose block replaces them."""
        self._ended_tasks: dict[str, str] = {}
        """Item ids of ended Task calls, by call id: a background agent may start after its call has ended."""
        self._changing: dict[str, ToolItem] = {}
        """Ended commands whose changes of files are still being compared."""
        self.agents = AgentPresenters(self, lambda agent: Presenter(title_of, f"{prefix}{agent}:"))

    @property
    def activity(self) -> Activity:
        return self._state.activity

    # -------------------------------------------------------------------------------------------- from the user

    def sent(self, text: str, now: float, images: int = 0, command: bool = False) -> PromptItem:
        """The item of a sent line, to be shown at once. The engine's event of the same prompt is then not shown; a
        command has no such event."""
        self._echoed += not command
        if command:
            self._entered.append(plain_text(text))
        self.begin(now)
        return PromptItem(id=self._new("prompt"), text=plain_text(text), images=images)

    def forget_sent(self, count: int) -> None:
        self._echoed -= count

    def add_prompt(self, text: str) -> list[Operation]:
        return [Add(PromptItem(id=self._new("prompt"), text=plain_text(text)))]

    def begin(self, now: float, text: str = "Starting") -> None:
        self._ended_tasks.clear()
        self._state.begin(text, now, self.agents.running)

    def interrupted(self, now: float, steering: bool = False) -> list[Operation]:
        """Show an interruption at once; later events about it change nothing. `steering`: caused by a new prompt."""
        self._now, calls = now, dict(self._tools)
        operations = [*self._close(now, "interrupted"), *self.agents.stop(now, forget=False)]
        # Keep the calls: their remaining output until they end is still to come.
        self._tools = {call: replace(item, status="interrupted") for call, item in calls.items()}
        if not self._halted and not steering:
            operations.append(self._interruption())
        self._halted = True
        self._phase("interrupting", "Interrupting")
        self._count_agents()
        return operations

    def _interruption(self, result: ev.Result | None = None) -> Operation:
        text = wording.interruption(result)
        return Add(EndItem(id=self._new("end"), text=text, level="warning"))

    def note(self, text: str, level: str = "info", code: str = "") -> list[Operation]:
        return [Add(self._notice(text, level, code))]

    def note_event(self, event: ev.Event) -> list[Operation]:
        """Add a notice with the wording for an event."""
        text, level = wording.event_line(event)
        return self.note(f"{wording.whose(event)}{text}", level, type(event).__name__)

    # --------------------------------------------------------------------------------------------------- events

    def show(self, event: ev.Event, now: float) -> list[Operation]:
        return self._show_agent(event, now) if ev.is_of_subagent(event) else self.show_own(event, now)

    def show_own(self, event: ev.Event, now: float) -> list[Operation]:
        """Show an event of this presenter's own agent."""
        self._now = now
        return [] if self._halted and not event.policy.after_interrupt else self._show(event, now)

    def _show_agent(self, event: ev.Event, now: float) -> list[Operation]:
        self._now = now
        operations = self.agents.show(event, now, halted=self._halted)
        if operations:
            self._count_agents()
            self._show_running()
        return operations

    def start_agent(self, call: str, progress: AgentProgress) -> tuple[AgentItem, list[Operation]]:
        """Return the agent's item, which replaces that of the call that started it."""
        running = self._tools.pop(call, None)
        known = running.id if running is not None else self._ended_tasks.pop(call, "")
        self._agent_calls.add(call)
        item = AgentItem(id=known or self._new("agent"), progress=progress)
        return item, [Replace(item) if known else Add(item)]

    def _show(self, event: ev.Event, now: float) -> list[Operation]:
        match event:
            case ev.TextStreamed():
                return self._grow(event, AnswerItem, now)
            case ev.ThinkingStreamed():
                return self._grow(event, ThinkingItem, now)
            case ev.ToolInputStreamed():
                self._state.count(event.text)
            case ev.UsageReported(purpose="turn"):
                self._state.count_reported(event.usage.output_tokens)
            case ev.RequestStarted(purpose="turn"):
                self._phase("sending", "Waiting for the model")
            case ev.StreamWentQuiet():
                activity, text = self.activity, wording.event_line(event)[0]
                self._phase(activity.phase or "sending", text, step_began=activity.step_began)
            case ev.CompactionStarted():
                self._phase("compacting", wording.event_line(event)[0], step_began=now)
            case ev.HookStarted():
                self._phase(self.activity.phase or "tools", wording.event_line(event)[0])
            case ev.CompactionProposed():
                self._phase("waiting", "Waiting for your answer")
            case _:
                return self._show_reply(event, now)
        return []

    def _show_reply(self, event: ev.Event, now: float) -> list[Operation]:
        match event:
            case ev.MessageAppended():
                return self._message(event.message)
            case ev.ReplyStarted():
                return self._reply_started()
            case ev.BlockStarted(kind="tool_use"):
                return self._call_begun(event)
            case ev.BlockFinished():
                return self._block_finished(event, now)
            case ev.ReplyTombstoned():
                return self._withdraw(event.message_id)
            case ev.Result():
                return self._end(event, now)
            case ev.SubmissionInterrupted():
                return self.interrupted(now, event.steering)
            case ev.SessionResumed():
                cut_off = [Add(EndItem(id=self._new("end"), text=wording.CLOSED, level="warning"))]
                return [*self.closed(now), *(cut_off if event.cut_off else [])]
            case ev.RetryScheduled():
                return self._show_retry(event, now)
        return self._show_call(event, now)

    def _show_call(self, event: ev.Event, now: float) -> list[Operation]:
        match event:
            case ev.ToolStarted():
                return self._call_started(event, now)
            case ev.ToolProgressed():
                return self._progress(event)
            case ev.ToolFinished():
                return self._call_finished(event)
            case ev.PermissionRequested():
                return self._permission_requested(event, now)
            case ev.PermissionResolved():
                return self._permission_resolved(event, now)
            case ev.CommandChangedFiles() if (item := self._changing.pop(event.tool_use_id, None)) is not None:
                return [Replace(with_changes(item, event))]
            case ev.CommandChangedFiles():
                return []
            case ev.RulesLearned() if event.tool_use_id in self._tools:
                # Show it below the call that asked: other calls may follow already.
                return self._tool(event.tool_use_id, learned=plain_line(wording.event_line(event)[0], 500))
        return self._show_notice(event)

    def _show_notice(self, event: ev.Event) -> list[Operation]:
        match event:
            case ev.CommandEntered():
                return self.add_prompt(event.text)
            case ev.NoticeRaised(code="command"):
                failed = event.level == "error"
                return [Add(OutputItem(id=self._new("output"), text=plain_text(event.text), failed=failed))]
            case ev.NoticeRaised():
                self._reported.add(event.text)
                return self.note(event.text, event.level, event.code)
            case ev.ModeChanged():
                before, self._mode = self._mode, event.mode
                if event.mode == before or event.reason == ev.MODE_CHOSEN:
                    return []
            case ev.CompactionFailed():
                self._reported.add(event.text)
        return self.note_event(event) if wording.has_line(event) else []

    def _message(self, message: Message) -> list[Operation]:
        self._pieces.take(message)
        if message.origin is Origin.TOOL_RESULTS:
            self._of_reply.clear()  # A reply whose calls have results is never retracted.
        if message.is_copy:
            return []
        if message.origin is Origin.PROMPT and (typed := plain_text(message.typed)) in self._entered:
            self._entered.remove(typed)
            return self._expansion(message)
        if wording.is_entered(message):
            return self._expansion(message)
        if message.origin is Origin.PROMPT and self._echoed:
            self._echoed -= 1
            return []
        item = self.message_item(message)
        return [Add(item), *self._expansion(message)] if item is not None else []

    def _expansion(self, message: Message) -> list[Operation]:
        """The prompt produced by a command file, folded under the command."""
        if not (title := wording.expansion_line(message)):
            return []
        return [Add(OutputItem(id=self._new("output"), text=plain_text(message.text), title=title))]

    def message_item(self, message: Message) -> Item | None:
        match message.origin:
            case Origin.PROMPT | Origin.QUEUED:
                pictures = sum(isinstance(block, ImageBlock) for block in message.content)
                return PromptItem(id=message.id, text=plain_text(message.typed), images=pictures)
            case Origin.ATTACHMENT | Origin.HOOK | Origin.RECOVERY:
                text = wording.message_line(message)
                return self._notice(text, "info", message.origin.value) if text else None
            case Origin.BOUNDARY:
                return BoundaryItem(id=message.id, text=wording.boundary(message, can_undo=not self._prefix))
            case Origin.SUMMARY:
                text = wording.summary(message)
                return OutputItem(id=message.id, text=text, kind="markdown", title=wording.SUMMARY_TITLE)
        return None

    # ----------------------------------------------------------------------------------------------- the reply

    def _reply_started(self) -> list[Operation]:
        self._phase("thinking", "Working")
        retry, self._retry = self._retry, None
        # The retry succeeded: show it as information, no longer as a warning.
        return [Replace(replace(retry, level="info"))] if retry is not None else []

    def _call_begun(self, event: ev.BlockStarted) -> list[Operation]:
        title = plain_line(event.name)
        item = ToolItem(id=self._of(event.message_id, event.index), name=title, title=title, status="writing")
        self._spelling[event.message_id, event.index] = item
        self._belongs(event.message_id, item.id)
        self._phase("writing", f"Writing the input of {title}")
        return [Add(item)]

    def _grow(
        self, event: ev.TextStreamed | ev.ThinkingStreamed, kind: type[AnswerItem | ThinkingItem], now: float
    ) -> list[Operation]:
        phase, words = ("thinking", "Thinking") if kind is ThinkingItem else ("writing", "Writing")
        if self.activity.phase != phase or self.activity.text != words:
            self._phase(phase, words)
        self._state.count(event.text)
        stream = self._stream(event.message_id, event.index, kind, now)
        text = stream.stripper.feed(event.text)
        if stream.shown:
            return [Grow(stream.item.id, text)] if text else []
        text = stream.item.text + text
        if not text.strip():
            stream.item = replace(stream.item, text=text)
            return []
        stream.shown = True
        stream.item = replace(stream.item, text=text.lstrip("\n"))
        if isinstance(stream.item, AnswerItem):
            joint = self._pieces.joint(event.message_id, event.index, text)
            stream.item = replace(stream.item, joint=joint)
        self._belongs(event.message_id, stream.item.id)
        return [Add(stream.item)]

    def _block_finished(self, event: ev.BlockFinished, now: float) -> list[Operation]:
        block = event.block
        if isinstance(block, ToolUseBlock):
            return self._call(event, block)
        place = (event.message_id, event.index)
        stream = self._streams.pop(place, None)
        if isinstance(block, TextBlock):
            text = plain_text(block.text).strip("\n")
            joint = self._pieces.joint(*place, plain_text(block.text))
            item: Item = AnswerItem(id=self._of(*place), text=text, done=True, joint=joint)
            seen = bool(text.strip())
        elif is_thinking(block):
            text = plain_text(block.thinking) if isinstance(block, ThinkingBlock) else ""
            began = stream.began if stream else self.activity.began
            seconds = max(0.0, now - began) if event.duration_ms is None else event.duration_ms / 1_000
            item = ThinkingItem(id=self._of(*place), text=text.strip("\n"), seconds=seconds)
            seen = True
        else:
            return []
        if stream is not None and stream.shown:
            return [Replace(item)]
        if not seen:
            return []
        self._belongs(event.message_id, item.id)
        return [Add(item)]

    def _call(self, event: ev.BlockFinished, block: ToolUseBlock) -> list[Operation]:
        known = self._spelling.pop((event.message_id, event.index), None)
        title = plain_line(self._title_of(block.name, block.input) or block.name, 2_000)
        item = ToolItem(
            id=known.id if known else self._of(event.message_id, event.index),
            name=plain_line(block.name),
            title=title,
            status="queued",
            input=block.input,
        )
        self._tools[block.id] = item
        if known:
            return [Replace(item)]
        self._belongs(event.message_id, item.id)
        return [Add(item)]

    def _withdraw(self, reply: str) -> list[Operation]:
        ids = self._of_reply.pop(reply, {})
        self._streams = {place: stream for place, stream in self._streams.items() if place[0] != reply}
        self._spelling = {place: item for place, item in self._spelling.items() if place[0] != reply}
        self._tools = {call: item for call, item in self._tools.items() if item.id not in ids}
        return [Remove(id) for id in ids]

    # --------------------------------------------------------------------------------------------------- waiting

    def _show_retry(self, event: ev.RetryScheduled, now: float) -> list[Operation]:
        until = now + event.wait_seconds
        self._phase("retrying", wording.retry(event), until)
        text = f"{wording.retry(event)}."
        if self._retry is not None:
            self._retry = replace(self._retry, text=text)
            return [Replace(self._retry)]
        self._retry = self._notice(text, "warning", "retry")
        return [Add(self._retry)]

    # ----------------------------------------------------------------------------------------------------- tools

    def _permission_requested(self, event: ev.PermissionRequested, now: float) -> list[Operation]:
        if self.activity.phase or not is_of_server(event):
            self._phase("waiting", "Waiting for your answer")
        self._asked[event.tool_use_id] = now
        return self._tool(event.tool_use_id, status="waiting", title=plain_line(event.title, 2_000))

    def _permission_resolved(self, event: ev.PermissionResolved, now: float) -> list[Operation]:
        # An MCP server may ask while nothing runs.
        if self.activity.phase:
            self._phase("tools", "Working")
        asked, item = self._asked.pop(event.tool_use_id, now), self._tools.get(event.tool_use_id)
        if item is None or event.behavior != "allow":
            return []
        if not item.began:  # a snapshot or an earlier call comes first
            return self._tool(event.tool_use_id, status="queued")
        began = item.began + now - asked  # it runs again with network access: without the wait for the answer
        if self.activity.phase:
            self._phase("tools", step_text(item.title, item.input), step_began=began)
        return self._tool(event.tool_use_id, status="running", began=began)

    def _call_started(self, event: ev.ToolStarted, now: float) -> list[Operation]:
        title = plain_line(event.title, 2_000)
        self._phase("tools", step_text(event.title, event.input), step_began=now)
        if (item := self._tools.get(event.tool_use_id)) is None:
            # A command that the user typed: no call of the model came before it.
            item = ToolItem(id=self._new("call"), name=plain_line(event.name), title=title, status="running", began=now)
            self._tools[event.tool_use_id] = item
            return [Add(item)]
        given = item.input if item.input == event.input else event.input  # keep the object that the log shares
        return self._tool(event.tool_use_id, status="running", title=title, input=given, began=now)

    def _progress(self, event: ev.ToolProgressed) -> list[Operation]:
        if line := wording.progress_line(event):
            return self._tool(event.tool_use_id, summary=line)
        item = self._tools.get(event.tool_use_id)
        if item is None or not event.text:
            return []
        text, colours = event.text.removeprefix("\r"), tuple(check_spans(event.data.get("colours")))
        grow = Grow(item.id, ("" if text == event.text else "\r") + plain_text(text), colours)
        return [grow, CountLines(item.id, lines)] if isinstance(lines := event.data.get("lines"), int) else [grow]

    def _call_finished(self, event: ev.ToolFinished) -> list[Operation]:
        self._agent_calls.discard(event.tool_use_id)
        display = event.display or self._show_plan(event.tool_use_id)
        operations = self._tool(event.tool_use_id, **describe_ended_call(event, display))
        ended = self._tools.pop(event.tool_use_id, None)
        if ended is not None and event.name == "Task":
            self._ended_tasks[event.tool_use_id] = ended.id
        if ended is not None and ended.has_changes:
            self._changing[event.tool_use_id] = ended
        self._phase("tools", "Working")
        self._show_running()
        return operations

    def _show_running(self) -> None:
        """Set the activity to what the submission waits for: a call or agents."""
        if self.activity.phase not in ("tools", "agents", "waiting"):
            return
        running = [item for item in self._tools.values() if item.status == "running"]
        agents = self.agents.running_in_foreground
        if self.agents.waiting or any(item.status == "waiting" for item in self._tools.values()):
            self._phase("waiting", "Waiting for your answer")
        elif running:
            last = running[-1]
            self._phase("tools", step_text(last.title, last.input), step_began=last.began)
        elif agents:
            self._phase("agents", f"{counted(agents, 'agent')} running")
        else:
            self._phase("tools", "Working")

    def _count_agents(self) -> None:
        self._state.set_agents(self.agents.running)

    def _show_plan(self, call: str) -> Json:
        """Display of a plan that was not approved: the user still needs to read it to request changes."""
        item = self._tools.get(call)
        plan = item.input.get("plan") if item is not None and item.name == "ExitPlanMode" else None
        return {"kind": "plan", "plan": plain_text(plan)} if isinstance(plan, str) else {}

    def _tool(self, call: str, **changes: object) -> list[Operation]:
        if (item := self._tools.get(call)) is None:
            return []
        changed = self._tools[call] = replace(item, **changes)  # type: ignore[arg-type]
        return [Replace(changed)]

    # ------------------------------------------------------------------------------------------------------- end

    def _end(self, event: ev.Result, now: float) -> list[Operation]:
        aborted = event.terminal in wording.ABORTED
        if event.terminal == wording.PROMPT_BLOCKED and self._echoed:
            self._echoed -= 1
        operations = self._close(now, "interrupted" if aborted or self._halted else "failed")
        if aborted and not self._halted:
            operations.append(self._interruption(event))
        elif not aborted and (last := wording.result_line(event, self._reported)) is not None:
            text, level, errors = last
            operations.append(Add(EndItem(id=self._new("end"), text=text, level=level, errors=errors)))
        return operations + self.settled(now)

    def settled(self, now: float) -> list[Operation]:
        """End the submission, with or without a Result."""
        operations = [*self._close(now, "interrupted"), *self.agents.stop(now)]
        self._of_reply.clear()
        self._retry, self._halted = None, False
        self._reported.clear()
        self._agent_calls.clear()
        self._changing.clear()
        self._state.end(self.agents.running)
        return operations

    def closed(self, now: float) -> list[Operation]:
        """End the session in this process: stop everything, including background agents."""
        return [*self.settled(now), *self.agents.stop(now, all=True)]

    def _close(self, now: float, status: str) -> list[Operation]:
        """Close everything open: fold thinking, mark unfinished calls with `status`, remove half-written calls."""
        operations: list[Operation] = []
        for (message_id, index), stream in self._streams.items():
            if stream.shown and isinstance(stream.item, ThinkingItem):
                # The transcript has the text by now; an empty one keeps it and folds the item.
                operations.append(Replace(replace(stream.item, text="", seconds=max(0.0, now - stream.began))))
                self._belongs(message_id, self._of(message_id, index))
        operations += [Remove(item.id) for item in self._spelling.values()]
        open_calls = [
            replace(item, display=item.display or self._show_plan(call)) for call, item in self._tools.items()
        ]
        operations += [Replace(replace(item, status=status)) for item in open_calls]  # type: ignore[arg-type]
        self._streams.clear()
        self._spelling.clear()
        self._tools.clear()
        return operations

    # -------------------------------------------------------------------------------------------------- plumbing

    def _stream(self, message_id: str, index: int, kind: type[AnswerItem | ThinkingItem], now: float) -> _Stream:
        place = (message_id, index)
        if place not in self._streams:
            self._streams[place] = _Stream(kind(id=self._of(message_id, index)), now)
        return self._streams[place]

    def _notice(self, text: str, level: str, code: str) -> NoticeItem:
        known = "error" if level == "error" else "warning" if level == "warning" else "info"
        return NoticeItem(id=self._new("notice"), text=plain_text(text), level=known, code=code)  # type: ignore[arg-type]

    def _phase(self, phase: str, text: str, until: float = 0.0, step_began: float = 0.0) -> None:
        self._state.enter(phase, text, self._now, until, step_began)

    def _belongs(self, message_id: str, item_id: str) -> None:
        self._of_reply.setdefault(message_id, {})[item_id] = None

    @staticmethod
    def _of(message_id: str, index: int) -> str:
        return intern(f"{message_id}:{index}")

    def _new(self, kind: str) -> str:
        return f"{self._prefix}{kind}-{next(self._numbers)}"
