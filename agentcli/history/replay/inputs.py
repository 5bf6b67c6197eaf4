"""What stands in for tools, hooks, attachments and the clock: each answers with what was recorded at the cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, cast

from agentcli.agent.attachments.state_notes import TASK_LIST, PlanModeNotice, TaskListReminder
from agentcli.agent.context.compaction_restore import Restored
from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments, Collapser, EmitEvent, Hooks, HookVerdict
from agentcli.agent.toolcalls.calls import CallResult, UserWords
from agentcli.agent.toolcalls.toolcall import ToolRunner
from agentcli.context.compact import RESTORED
from agentcli.context.edits import edit_from_dict
from agentcli.context.steps import ContextState, StepPlan
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.aio import AbortSignal
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import (
    ATTACHMENT,
    RESULT_DATA,
    SAID,
    Json,
    Message,
    Origin,
    ToolResultBlock,
    ToolUseBlock,
    message_from_dict,
)
from agentcli.history.replay.tape import Tape, block_of, event_of, input_of, is_abort, is_copy, origin_of
from agentcli.session.base import restore_call_end, restore_event
from agentcli.session.journal import SessionJournal
from agentcli.tools.base import Output, ToolContext


class TapeClock:
    """The time of the line at which the tape is."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def monotonic(self) -> float:
        return self._tape.now

    def timestamp(self) -> str:
        records = self._tape.records
        return str(records[min(self._tape.cursor, len(records) - 1)].get("timestamp", ""))


class TapeJournal(SessionJournal):
    """A session file that is only compared."""

    def __init__(self, tape: Tape, path: Path) -> None:
        super().__init__(path, TapeClock(tape))
        self._tape = tape

    def start(self) -> None: ...

    def append(self, line: bytes) -> None:
        self._tape.take(line)

    def sync(self) -> None: ...

    def close(self, replacement: Callable[[int], bytes]) -> None: ...


# -------------------------------------------------------------------------------------------------------------- calls


@frozen(kw_only=True)
class RecordedCalls(ToolRunner):
    """Ends each call with its recorded result. No tool runs."""

    tape: Tape
    running: dict[str, asyncio.Queue[tuple[int, Json]]] = field(default_factory=dict)
    """The lines to play of each call, by its id, with their indices."""
    stops: dict[str, Json] = field(default_factory=dict)
    """The line of each call after which a hook or the user stopped the work."""

    def is_safe(self, call: ToolUseBlock) -> bool:
        """A call that may change something has a line for its beginning."""
        for record in self.tape.records[self.tape.cursor : self.tape.end]:
            if record.get("type") in ("results-end", "tombstone", "submission-end"):
                break
            if record.get("type") == "call" and (record["toolUseId"], record["state"]) == (call.id, "begun"):
                return False
        return True

    def give(self, call_id: str, index: int, record: Json) -> bool:
        """Give a call its next line; false if it does not run."""
        if (lines := self.running.get(call_id)) is None:
            return False
        lines.put_nowait((index, record))
        return True

    async def run(
        self,
        call: ToolUseBlock,
        context: ToolContext,
        signal: AbortSignal,
        emit: EmitEvent,
        on_start: Callable[[], None],
    ) -> CallResult:
        lines = self.running[call.id] = asyncio.Queue()
        self.tape.changed.set()
        try:
            while True:
                index, record = await lines.get()
                if record["type"] != "shown":
                    return await self._end(call, index, record, emit)
                event = restore_event(record["event"], {call.id: call})
                assert event is not None
                on_start()
                await emit(event)
        finally:
            if self.running.get(call.id) is lines:
                del self.running[call.id]

    async def _end(self, call: ToolUseBlock, index: int, record: Json, emit: EmitEvent) -> CallResult:
        block = cast(ToolResultBlock, block_of(record))
        event = restore_call_end(record, block, {call.id: call})
        assert event is not None
        result = self._result(call, index, event)
        await emit(event)
        return result

    def _result(self, call: ToolUseBlock, index: int, event: ev.ToolFinished) -> CallResult:
        """The result, with what the lines after the batch say of it. What belongs to the batch goes with its last
        call."""
        block, stop = event.result, self.stops.pop(call.id, {})
        said: tuple[UserWords, ...] = ()
        texts: tuple[str, ...] = ()
        data: Json = {}
        folder: Path | None = None
        is_last, is_over = False, False
        for _index, record in self.tape.ahead(index + 1):
            if record["type"] == "results-end" and not is_copy(record):
                data = record["message"].get("meta", {}).get(RESULT_DATA, {}).get(call.id, {})
                is_over, is_last = True, record["parts"][-1:] == [self.tape.records[index]["uuid"]]
            elif is_over and origin_of(record) == Origin.QUEUED and SAID in record["message"].get("meta", {}):
                said += (_words(message_from_dict(record["message"])),) if is_last else ()
            elif is_over and origin_of(record) == Origin.HOOK:
                texts += (message_from_dict(record["message"]).text,) if is_last else ()
            elif event_of(record, "DirectoryChanged"):
                folder = Path(event_of(record)["cwd"]) if is_last else None
                break
            elif is_over or record["type"] in ("tombstone", "submission-end"):
                break
        final = event.structured if call.name == "StructuredOutput" and event.outcome == "done" else None
        output = Output(
            "",
            block.is_error,
            summary=event.summary,
            structured=event.structured,
            data=data,
            new_cwd=folder,
            final=final,
        )
        return CallResult(
            call,
            block,
            output,
            hook_stop=stop.get("stop"),
            hook_context=texts,
            stopped_by=stop.get("by", "hook"),
            outcome=cast(Any, event.outcome),
            denied_by=event.denied_by,
            said=said,
        )


def _words(message: Message) -> UserWords:
    verb, _space, rest = message.text.removeprefix("[The user ").partition(" ")
    about = rest.partition(" and said:]\n")[0]
    return UserWords(about, str(message.meta[SAID]), approved=verb == "approved")


# ------------------------------------------------------------------------------------------------------- what is added


def take_run(tape: Tape, new_id: Callable[[], str]) -> list[Message]:
    """The attachments that are recorded next, without those that depend on the conversation alone."""
    messages = []
    for _index, record in tape.ahead():
        if origin_of(record) not in (Origin.ATTACHMENT, Origin.HOOK, Origin.QUEUED):
            break
        message = message_from_dict(tape.translate(record)["message"])
        if ATTACHMENT in message.meta or (message.origin is Origin.QUEUED and SAID not in message.meta):
            break
        if not _is_reminder(message):
            messages.append(replace(message, id=new_id()))
    return messages


def _is_reminder(message: Message) -> bool:
    return "permission_mode" in message.meta or (TASK_LIST in message.meta and RESTORED not in message.meta)


class RecordedAttachments(Attachments):
    """The recorded attachments, and the reminders that the conversation itself makes necessary."""

    def __init__(self, tape: Tape, new_id: Callable[[], str], *reminders: PlanModeNotice | TaskListReminder) -> None:
        self._tape = tape
        self._new_id = new_id
        self._reminders = reminders

    async def collect(self, state: LoopState) -> Sequence[Message]:
        made = [message for one in self._reminders for message in await one.collect(state)]
        return [*take_run(self._tape, self._new_id), *made]


class RecordedMentions:
    """Attaches what was attached to a prompt. No file is read."""

    def __init__(self, tape: Tape, new_id: Callable[[], str]) -> None:
        self._tape = tape
        self._new_id = new_id

    async def attach(
        self, text: str, context: ToolContext, emit: EmitEvent, signal: AbortSignal, *, may_ask: bool = True
    ) -> Sequence[Message]:
        messages = take_run(self._tape, self._new_id)
        for message in messages:
            await emit(ev.MessageAppended(message=message))
        return messages


def find_restored(tape: Tape) -> Restored:
    """What the next compaction restores."""
    for _index, record in tape.ahead():
        if record["type"] in ("reply-end", "submission-end") and not is_copy(record):
            break
        if origin_of(record) == Origin.ATTACHMENT and RESTORED in record["message"].get("meta", {}):
            message = message_from_dict(record["message"])
            return Restored(message.content, dict(message.meta), ())
    return Restored((), {}, ())


class RecordedHooks(Hooks):
    """Answers what hooks answered. No hook runs."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    @property
    def checks_prompts(self) -> bool:
        return False

    async def before_prompt(self, text: str) -> HookVerdict:
        if is_abort(self._tape.peek()):
            # The user stopped it before the prompt was in the log.
            self._tape.changed.set()
            await asyncio.Event().wait()
        record = input_of(self._tape.peek(), "prompt-hook")
        return HookVerdict(stop=record.get("stop"))

    async def before_stop(self, state: LoopState) -> HookVerdict:
        record = input_of(self._tape.peek(), "stop-hook")
        fields = {name: record[name] for name in HookVerdict.__dataclass_fields__ if name in record}
        return HookVerdict(**{**fields, **{name: tuple(fields.get(name, ())) for name in ("context", "errors")}})

    async def before_session(self, source: str) -> tuple[str, ...]:
        record = self._tape.peek()
        is_next = source == "compact" and origin_of(record) == Origin.HOOK
        return (message_from_dict(record["message"]).text,) if is_next else ()


class RecordedCollapser(Collapser):
    """Commits the summaries of old spans where they were committed; also a step of the pipeline. Nothing makes them."""

    name = "collapse"

    def __init__(self, tape: Tape, view: ContextView) -> None:
        self._tape = tape
        self._view = view

    def _next(self) -> Json:
        found = event_of(self._tape.peek(), "ContextEdited")
        return event_of(self._tape.translate(self._tape.peek())) if found.get("step") == self.name else {}

    def staged(self) -> int:
        return int(bool(self._next()))

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        found = self._next()
        return StepPlan([*map(edit_from_dict, found["edits"])], str(found["text"]), must=True) if found else None

    def drain(self, log: Sequence[Message], pinned: frozenset[str]) -> ev.ContextEdited | None:
        event = restore_event(found, {}) if (found := self._next()) else None
        if not isinstance(event, ev.ContextEdited):
            return None
        self._view.edit(map(edit_from_dict, event.edits), after=log[-1].id)
        return event
