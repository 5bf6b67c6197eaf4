"""The lines of session files, and the events that a transcript is shown again from. Knows nothing of files.

A line is one JSON object, compact, UTF-8. A resumed session is shown by passing its events to the same code that shows
live ones.

Fields that other readers of such files expect keep their names (type, uuid, parentUuid, sessionId, timestamp, cwd,
version, isSidechain, message). A message of several blocks is several lines. Types of lines:

    session          first line: format, cwd, system context with its folders and style, id of the forked session;
                     for a sub-agent the session that started it (`parentSession`)
    user             a whole message such as a prompt or an attachment; `uuid` is its id, `origin` its kind;
                     with origin tool_results: one block of a message that ends with `results-end`
    assistant        one block of a reply that ends with `reply-end` (`messageId` is ours, `message.id` the API's)
    reply-end        the reply is complete: `parts` lists its lines in order, `message` has all but its content
    results-end      the same for a message of tool results
    call             a call asks the user (`state`: asked), or begins to run and may change something (`begun`)
    boundary, error  messages of the log that are never sent
    tombstone        the blocks of `messageId` so far are void
    seen             new file states that the model has seen (`files`)
    event            an event that changes the state of the conversation (`event`): a repair or an edit of what requests
                     show, pins, the shell's directory, background commands, the usage of a request
    shown            an event that belongs to no message, shown again when the session is resumed (`event`)
    submission-end   the Result of a submission (`event`), and the number of messages in the log
    resume           another process continues from here; what is open above stays unfinished
    system-context   a new system context
    user-context     the user context, before all messages, from a boundary on (`boundary`, "" for the beginning)
    request-front    digests of the request prefix from here on, for the prompt cache (`front`)
    model-choice     model and parameters chosen since the last request (`front`, as above, without digests)
    mcp-tools        tools of MCP servers that are part of every request from here on (`tools`)
    gap              records were lost here (full disk)
    custom-title     the session's name

Lines of other types come from other programs: they stay in the file and are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

from agentcli.core import events as ev
from agentcli.core.event_base import event_from_dict, event_to_dict
from agentcli.core.files.bounded_read import parse_json
from agentcli.core.messages import (
    Block,
    Json,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)

FORMAT = 1

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_encode_ascii = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str).encode


def encode_line(record: Mapping[str, Any]) -> bytes:
    try:
        return _encode(record).encode() + b"\n"
    except UnicodeEncodeError:
        # Lone surrogates have no UTF-8 form; escaped they survive the round trip.
        return _encode_ascii(record).encode() + b"\n"


def decode_line(line: bytes) -> Json | None:
    """Parse a line; None for junk: invalid UTF-8, NULs, no JSON object, nested too deeply."""
    try:
        record = parse_json(line.decode())
    except ValueError:
        # After a power failure some file systems leave a run of NULs before the next record.
        bare = line.strip(b"\0\r\n\t ")
        if not bare or len(bare) == len(line.rstrip(b"\r\n")):
            return None
        try:
            record = parse_json(bare.decode())
        except ValueError:
            return None
    return record if isinstance(record, dict) else None


# ------------------------------------------------------------------------------------------------------------- events

TEXT_LIMIT = 64 * 1024
"""Most bytes recorded of a text that is only shown, such as the output of `/diff`."""
NOT_KEPT = "[The rest of this output is not kept in the session file.]"


def event_record(event: ev.Event) -> Json:
    """The event as in `event_to_dict`, without default values, and with a very long text cut."""
    if isinstance(event, ev.NoticeRaised | ev.AgentFinished):
        event = replace(event, text=_beginning(event.text))
    elif isinstance(event, ev.HookFinished):
        event = replace(event, output="", errors="")
    elif isinstance(event, ev.Result):
        event = replace(event, text="", structured_output=None, session_id="")
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


def call_record(event: ev.ToolFinished) -> Json:
    """The end of a call, for the line of its result, which has the rest."""
    data = event_record(event)
    return {name: value for name, value in data.items() if name not in ("tool_use_id", "result")}


def finished_call(record: Json, block: Block, calls: Mapping[str, ToolUseBlock]) -> ev.ToolFinished | None:
    """Restore the end of a call from the line of its result."""
    if not isinstance(block, ToolResultBlock):
        return None
    call, known = calls.get(block.tool_use_id), record.get("event")
    # Without an event it is the error result of a call that never ended.
    event = ev.ToolFinished(
        tool_use_id=block.tool_use_id,
        name=call.name if call else "",
        result=block,
        outcome="interrupted" if block.is_error else "done",
    )
    names = {spec.name for spec in fields(event)}
    return replace(event, **{name: value for name, value in (known or {}).items() if name in names})


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

    def add(self, event: ev.Event) -> None:
        self.events.append(event)
        if isinstance(event, ev.Result | ev.SessionResumed):
            self._interrupted_at = None


class NoHistory(HistoryReader):
    """Collects no events, for callers that do not show the session: events cost time and memory."""

    def add_shown(self, record: Json) -> None: ...

    def _ignore(self, *_values: object, **_rest: object) -> None: ...

    add = add_message = add_reply = add_block = add_result = tombstone = _ignore


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
