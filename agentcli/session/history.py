"""Record the events of a transcript that belong to no message, and restore all events of a session.

A resumed session is shown by passing these events to the same code that shows live ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

from agentcli.core import events as ev
from agentcli.core.event_base import event_from_dict, event_to_dict
from agentcli.core.messages import Block, Json, Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock
from agentcli.core.usage import Usage

TEXT_LIMIT = 64 * 1024
"""Most bytes recorded of a text that is only shown, such as the output of `/diff`."""
NOT_KEPT = "[The rest of this output is not kept in the session file.]"


def event_record(event: ev.Event) -> Json:
    """The event as in `event_to_dict`, without default values, and with a very long text cut."""
    if isinstance(event, ev.NoticeRaised | ev.AgentFinished):
        event = replace(event, text=_beginning(event.text))
    elif isinstance(event, ev.HookFinished):
        event = replace(event, output="", errors="")
    data = event_to_dict(event)
    for spec in fields(event):
        default = spec.default_factory() if spec.default_factory is not MISSING else spec.default
        if data[spec.name] == default:
            del data[spec.name]
    return data


def _beginning(text: str) -> str:
    # A character has at least one byte.
    start = text[: TEXT_LIMIT + 1].encode("utf-8", "surrogatepass")
    if len(start) <= TEXT_LIMIT:
        return text
    return f"{start[:TEXT_LIMIT].decode('utf-8', 'ignore')}\n\n{NOT_KEPT}"


def recorded_event(data: Mapping[str, Any], calls: Mapping[str, ToolUseBlock]) -> ev.Event | None:
    """The reverse of `event_record`; None for an event of a newer version. A call that ran with the model's unchanged
    input is recorded without it, so it is taken from `calls`, the open calls."""
    if data.get("event") == "ToolStarted" and "input" not in data:
        call = calls.get(str(data.get("tool_use_id")))
        data = {**data, "input": call.input if call is not None else {}}
    try:
        return event_from_dict(dict(data))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def result_fields(event: ev.ToolFinished) -> Json:
    """Fields for the end of a call, in the line of its result."""
    found: Json = {"toolName": event.name, "durationMs": event.duration_ms}
    if event.outcome:
        found["outcome"] = event.outcome
    if event.denied_by:
        found["deniedBy"] = event.denied_by
    if event.accepted_hunks:
        found["acceptedHunks"] = event.accepted_hunks
    if event.summary:
        found["summary"] = event.summary
    return found


def finished_call(record: Json, block: Block, calls: Mapping[str, ToolUseBlock]) -> ev.ToolFinished | None:
    """Restore the end of a call from the line of its result."""
    if not isinstance(block, ToolResultBlock):
        return None
    summary, display, duration = record.get("summary"), record.get("display"), record.get("durationMs")
    call = calls.get(block.tool_use_id)
    hunks = record.get("acceptedHunks")
    return ev.ToolFinished(
        tool_use_id=block.tool_use_id,
        name=str(record.get("toolName") or (call.name if call else "")),
        result=block,
        summary=summary if isinstance(summary, str) else "",
        display=display if isinstance(display, dict) else {},
        structured=record.get("toolUseResult"),
        duration_ms=duration if isinstance(duration, int) else 0,
        # Without an outcome it is the error result of a call that never ended.
        outcome=str(record.get("outcome") or ("interrupted" if block.is_error else "done")),
        denied_by=str(record.get("deniedBy") or ""),
        accepted_hunks=[one for one in hunks if isinstance(one, int)] if isinstance(hunks, list) else [],
    )


def end_fields(event: ev.Result) -> Json:
    """Fields of a `submission-end` line."""
    return {
        "terminal": event.terminal,
        "subtype": event.subtype,
        "isError": event.is_error,
        "errors": event.errors,
        "turns": event.turns,
        "durationMs": event.duration_ms,
        "waitedMs": event.waited_ms,
        "costUsd": event.total_cost_usd,
    }


def submission_end(record: Json) -> ev.Result:
    """Restore the parts of a submission's `Result` that are shown."""
    duration, turns, cost = record.get("durationMs"), record.get("turns"), record.get("costUsd")
    waited = record.get("waitedMs")
    written = record.get("errors")
    return ev.Result(
        subtype=str(record.get("subtype") or ""),
        is_error=record.get("isError") is True,
        terminal=str(record.get("terminal") or ""),
        text="",
        errors=list(map(str, written)) if isinstance(written, list) else [],
        turns=turns if isinstance(turns, int) else 0,
        duration_ms=duration if isinstance(duration, int) else 0,
        waited_ms=waited if isinstance(waited, int) else 0,
        api_duration_ms=0,
        usage=Usage(),
        total_cost_usd=float(cost) if isinstance(cost, int | float) else 0.0,
        fully_priced=record.get("fullyPriced") is not False,
        model_usage={},
        permission_denials=[],
        session_id=str(record.get("sessionId") or ""),
        uuid=str(record.get("uuid") or ""),
    )


class HistoryReader:
    """Collects the events of a session while its records are read in order."""

    def __init__(self) -> None:
        self.events: list[ev.Event] = []
        self._calls: dict[str, ToolUseBlock] = {}
        self._interrupted_at: int | None = None
        """Index of the interruption event of the current submission."""

    def add_shown(self, record: Json) -> None:
        event = recorded_event(record["event"], self._calls)
        if isinstance(event, ev.SubmissionInterrupted):
            self._interrupted_at = len(self.events)
        if event is not None:
            self.events.append(event)

    def add_message(self, message: Message) -> None:
        if not message.is_copy:
            self.events.append(ev.MessageAppended(message=message))

    def add_reply(self, message_id: str, api_id: str, model: str) -> None:
        self.events.append(ev.ReplyStarted(message_id=message_id, api_id=api_id, model=model))

    def add_block(self, record: Json, message_id: str, index: int, block: Block) -> None:
        if isinstance(block, ToolUseBlock):
            self._calls[block.id] = block
        duration = record.get("durationMs")
        body = record["message"]
        event = ev.BlockFinished(
            message_id=message_id,
            api_id=str(body.get("id") or ""),
            model=str(body.get("model") or ""),
            index=index,
            block=block,
            duration_ms=duration if isinstance(duration, int) else None,
        )
        if self._interrupted_at is not None and isinstance(block, TextBlock):
            # A partial answer is recorded after the interruption, but was shown before it.
            self.events.insert(self._interrupted_at, event)
            self._interrupted_at += 1
        else:
            self.events.append(event)

    def add_result(self, record: Json, block: Block) -> None:
        event = finished_call(record, block, self._calls)
        if event is not None:
            self.events.append(event)

    def end_reply(self, message_id: str, is_copy: bool) -> None:
        while is_copy and self.events and getattr(self.events[-1], "message_id", "") == message_id:
            self.events.pop()

    def end_results(self, is_copy: bool) -> None:
        while is_copy and self.events and isinstance(self.events[-1], ev.ToolFinished) and not self.events[-1].agent:
            self.events.pop()
        self._calls.clear()

    def tombstone(self, message_id: str) -> None:
        self.events.append(ev.ReplyTombstoned(message_id=message_id, reason="interrupted"))

    def end_submission(self, record: Json) -> None:
        self.events.append(submission_end(record))
        self._interrupted_at = None

    def resume(self) -> None:
        self.events.append(ev.SessionResumed())
        self._interrupted_at = None

    def repair(self, record: Json) -> None:
        repair, through, text = (str(record.get(name) or "") for name in ("repair", "through", "text"))
        self.events.append(ev.RequestRepaired(repair=repair, through=through, text=text))

    def background(self, task_id: str, task: Mapping[str, str]) -> None:
        self.events.append(ev.BackgroundChanged(task_id=task_id, **task))

    def edit(self, record: Json) -> None:
        step, text, freed = str(record["step"]), str(record["text"]), int(record["freedTokens"])
        self.events.append(ev.ContextEdited(edits=record["edits"], step=step, freed_tokens=freed, text=text))


class NoHistory(HistoryReader):
    """Collects no events, for callers that do not show the session: events cost time and memory."""

    def add_shown(self, record: Json) -> None: ...

    def _ignore(self, *_values: object, **_rest: object) -> None: ...

    add_message = add_reply = add_block = add_result = tombstone = _ignore
    end_submission = resume = repair = background = edit = _ignore


def history_of(messages: Iterable[Message]) -> list[ev.Event]:
    """Reconstruct events from messages, as far as possible, for a log without a session file."""
    history = HistoryReader()
    for message in messages:
        match message.origin:
            case Origin.REPLY if not message.is_copy:
                body = {"id": message.api_id, "model": message.model}
                history.add_reply(message.id, message.api_id, message.model)
                for index, block in enumerate(message.content):
                    history.add_block({"message": body}, message.id, index, block)
            case Origin.TOOL_RESULTS if not message.is_copy:
                for block in message.content:
                    history.add_result({}, block)
                history.end_results(is_copy=False)
            case Origin.REPLY | Origin.TOOL_RESULTS:
                pass
            case Origin.INTERRUPTION:
                history.events += [ev.SubmissionInterrupted(), ev.SessionResumed()]
            case Origin.ERROR:
                history.events.append(ev.NoticeRaised(text=message.text, level="error"))
            case _:
                history.add_message(message)
    return history.events
