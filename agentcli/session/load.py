"""Read a session file: a pure function of its bytes, in one pass, which never fails because of the content.

The messages equal those of the log that was written. If a process died or lines were lost, the log is repaired in a
fixed way, so that every later load of the longer file gives the same messages:

- complete blocks of an unfinished reply are kept, without thinking at its end; a reply without visible content is
  dropped;
- a tool call without a result gets an error result; a result without its call is dropped.

Writes nothing. The store cuts an incomplete last line when it appends for the first time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from errno import EIO
from os import SEEK_END
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.core.files.access import open_regular
from agentcli.core.frozen import frozen, slotted
from agentcli.core.messages import (
    Block,
    Json,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_from_dict,
    is_thinking,
    message_from_dict,
    wrap_error,
)
from agentcli.core.text.format import counted, plural
from agentcli.core.usage import usage_row
from agentcli.session.base import FORMAT, HistoryReader, NoHistory, Rewind, decode_line, is_open, restore_event
from agentcli.session.branches import Branches
from agentcli.session.journal import FileEnd

if TYPE_CHECKING:
    from agentcli.session.recent_messages import EarlierPart

LINE_LIMIT = 64 * 1024 * 1024
"""Bytes. A longer line is junk, because no request may be that large; a file of zeros must not fill the memory."""

UNFINISHED = wrap_error("The session ended before this call was done; its result is not known.")
UNANSWERED = wrap_error("The session ended while this call waited for the user's answer; it never ran.")
NOT_BEGUN = wrap_error("The session ended before this call began; it never ran.")


class UnknownPlace(AgentError):
    """A session has no place of this name to go back to."""


@frozen
class Redaction:
    """A repair of requests: they leave something out of all messages up to `through`."""

    repair: str
    through: str


@slotted
class LoadedSession:
    path: Path
    session_id: str
    messages: list[Message] = field(default_factory=list)
    history: list[ev.Event] = field(default_factory=list)
    """Events of the transcript, in order."""
    redactions: list[Redaction] = field(default_factory=list)
    edits: list[tuple[str, Json]] = field(default_factory=list)
    """Edits of old content, in the form of `context/edits.py`, each with the id of the last message before it."""
    seen: list[tuple[str, Json]] = field(default_factory=list)
    """File states that the model has seen, in the form of `agent/file_changes.py`, each with the id of
    the last message before it."""
    pinned: tuple[str, ...] = ()
    """Names of pinned context items (`pin_name` in `context/compact.py`)."""
    directory: str = ""
    """Last directory of the model's shell commands; "" for the session's start directory."""
    background: dict[str, Json] = field(default_factory=dict)
    """Background commands by id: the last recorded `command`, `status` and `summary`."""
    cwd: str = ""
    title: str = ""
    is_title_generated: bool = False
    """Whether the title is not a name that the user gave."""
    system_context: str | None = None
    folders: tuple[str, ...] = ()
    """The lines about folders in the system context."""
    style: Json | None = None
    """The output style in the system prompt; None for the default one."""
    user_contexts: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    """User contexts and their sources by the boundary from which they apply, "" for the beginning."""
    front: Json | None = None
    """Prefix of the last request, in the form of `agent/costs/cache_watch.py`; None before the first request."""
    front_version: str = ""
    """Version of the program that sent it."""
    choice: Json | None = None
    """Model and parameters that the user chose after the last request, in the form of `front`; None: none."""
    server_tools: tuple[Json, ...] = ()
    """Tools of MCP servers that are part of every request."""
    forked_from: str = ""
    last_reply_at: str = ""
    """Timestamp of the last reply with a usage; "" if unknown."""
    spent: list[Json] = field(default_factory=list)
    """Usage per model of each process that worked on it: from its last `submission-end` and from later requests."""
    leaf: str | None = None
    """Id of the line that becomes the parent of the next one."""
    format: int = FORMAT
    skipped: int = 0
    """Number of lines that are not records, or not of the form of their type."""
    lost: int = 0
    """Number of records that were never written, according to `gap` lines."""
    torn: bool = False
    ending: FileEnd = field(default_factory=FileEnd)
    earlier: EarlierPart | None = None
    """The beginning of a long session, of which only the state was read; None if everything was read."""

    @property
    def message_count(self) -> int:
        """Number of messages, including those that were not read."""
        return len(self.messages) + (self.earlier.unread if self.earlier is not None else 0)

    @property
    def too_new(self) -> bool:
        return self.format > FORMAT

    def notices(self) -> list[str]:
        """Notices for the user about the state of the file."""
        found = []
        if self.torn:
            found.append("The last record of this session is incomplete and was skipped.")
        if self.skipped:
            found.append(unreadable_lines(self.skipped))
        if self.lost:
            lost, are = counted(self.lost, "record"), plural(self.lost, "is", "are")
            found.append(f"{lost} of this session could not be saved and {are} missing.")
        return found


def unreadable_lines(count: int) -> str:
    """Notice for the user about unreadable lines of a session file."""
    lines, were = counted(count, "unreadable line"), plural(count, "was", "were")
    return f"{lines} of this session {were} skipped; they stay in the file."


def load_session(path: Path, *, with_history: bool = True, rewind: Rewind | None = None) -> LoadedSession:
    """Read the whole file. Raises only `OSError`, if it cannot be read, and `UnknownPlace`. `with_history`: also the
    events. `rewind`: the session as it is after going there."""
    reader = RecordReader(LoadedSession(path, path.stem), HistoryReader() if with_history else NoHistory())
    with no_garbage_collection():
        reader.read(scan(path, reader.session))
        if rewind is not None:
            reader.take({"type": "rewind", "uuid": "", **rewind.to_dict()})
            if reader.branches.unknown:
                raise UnknownPlace("This session has no such prompt or branch. /tree shows what it has.")
    return reader.session


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Turn off garbage collection: all objects made here stay and have no cycles, and it would take a fifth of the
    time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def load_end_of_history(path: Path, window: int = 256 * 1024) -> list[ev.Event]:
    """The last events, from the last `window` bytes of the file, to show while the whole file is being read, which
    takes a while for a long conversation. Begins with a prompt if there is one. Raises `OSError`."""
    with open_regular(path) as file:
        start = max(0, file.seek(0, SEEK_END) - window)
        file.seek(start)
        lines = file.read(window).split(b"\n")
    reader = RecordReader(LoadedSession(path, path.stem), HistoryReader(), is_partial=start > 0)
    # The window may begin inside a line.
    history = reader.read(record for line in lines[bool(start) :] if (record := decode_line(line)) is not None).history
    prompts = (
        number
        for number, event in enumerate(history)
        if isinstance(event, ev.MessageAppended) and event.message.origin is Origin.PROMPT
    )
    return history[next(prompts, 0) :] if start else history


def read_records(path: Path) -> Iterator[Json]:
    """Every record of the file, also of unknown types, without junk. Raises `OSError`."""
    return scan(path, LoadedSession(path, path.stem))


def scan(path: Path, session: LoadedSession, begin: int = 0, end: int | None = None) -> Iterator[Json]:
    """The records from byte `begin` to byte `end`, both at the beginning of a line. Counts junk in `session`. Raises
    `OSError`."""
    return (record for _position, record in scan_places(path, session, begin, end))


def scan_places(
    path: Path,
    session: LoadedSession,
    begin: int,
    end: int | None,
    is_wanted: Callable[[bytes], bool] = lambda _line: True,
) -> Iterator[tuple[int, Json]]:
    """As `scan`, each record with the offset of its line. `is_wanted`: whether a line is parsed at all."""
    position = whole = begin
    too_long = False
    with open_regular(path, buffering=1 << 20) as file:
        file.seek(begin)
        while (end is None or position < end) and (line := file.readline(LINE_LIMIT)):
            start, position = position, position + len(line)
            complete = line.endswith(b"\n")
            if too_long or (not complete and len(line) == LINE_LIMIT):
                # An oversized line comes in several pieces, which count once.
                session.skipped += not too_long
                too_long = not complete
                whole = position
                continue
            if complete and not is_wanted(line):
                whole = position
                continue
            record = decode_line(line)
            if record is not None:
                whole = position
                yield start, record
            elif complete:
                whole = position
                session.skipped += bool(line.strip())
            else:
                session.torn = True
    if end is not None and position < end:
        raise OSError(EIO, "The file is shorter than before", str(path))
    session.ending = FileEnd(position, whole)


@slotted
class _OpenReply:
    api_id: str
    model: str
    parts: dict[str, Block] = field(default_factory=dict)


class RecordReader:
    """Assembles messages from records. `take` never raises; an invalid record is counted and ignored."""

    def __init__(self, session: LoadedSession, history: HistoryReader, *, is_partial: bool = False) -> None:
        """`is_partial`: the records begin in the middle of the file."""
        self.session = session
        self._is_partial = is_partial
        self.branches = Branches(session)
        self.use_history(history)
        self._replies: dict[str, _OpenReply] = {}
        self._results: dict[str, Block] = {}
        self._asked: set[str] = set()
        """Calls of the open turn about which the user was asked."""
        self._begun: set[str] = set()
        """Calls of the open turn that have begun."""
        self._spent_before = 0
        self._last: Message | None = None
        """The last message that is sent to the model, whose calls the results must answer."""
        self._takers: Mapping[str, Callable[[Json], None]] = {
            "session": self._take_header,
            "user": self._take_user,
            "assistant": self._take_assistant,
            "boundary": self._take_local,
            "error": self._take_local,
            "reply-end": self._take_reply_end,
            "results-end": self._take_results_end,
            "call": self._take_call,
            "tombstone": self._take_tombstone,
            "event": self._take_event,
            "seen": self._take_seen,
            "shown": self._take_shown,
            "submission-end": self._take_event,
            "resume": self._take_resume,
            "rewind": self._take_rewind,
            "gap": self._take_gap,
            "system-context": self._take_system_context,
            "user-context": self._take_user_context,
            "request-front": self._take_front,
            "model-choice": self._take_choice,
            "mcp-tools": self._take_server_tools,
            "custom-title": self._take_title,
        }

    def read(self, records: Iterable[Json]) -> LoadedSession:
        """Take all records and close messages that they leave open."""
        for record in records:
            self.take(record)
        self.settle()
        return self.session

    def use_history(self, history: HistoryReader) -> None:
        """Collect the events of the following records with this history."""
        self._history = history
        self.session.history = history.events

    def take(self, record: Json) -> None:
        kind = record.get("type")
        taker = self._takers.get(kind) if isinstance(kind, str) else None
        if taker is None or record.get("isSidechain") is True:
            return
        try:
            taker(record)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self.session.skipped += 1

    # -------------------------------------------------------------------------------------------- about the file

    def _take_header(self, record: Json) -> None:
        self.session.format = max(self.session.format, int(record.get("format", FORMAT)))
        self.session.cwd = self.session.cwd or str(record.get("cwd", ""))
        if isinstance(record.get("systemContext"), str):
            self._take_system_context(record)
        self.session.forked_from = self.session.forked_from or str(record.get("forkedFrom") or "")

    def _take_resume(self, record: Json) -> None:
        self.session.format = max(self.session.format, int(record.get("format", FORMAT)))
        self._spent_before = len(self.session.spent)
        self.settle()
        self._history.add(ev.SessionResumed(cut_off=is_open(self._history.events)))

    def _take_rewind(self, record: Json) -> None:
        self.settle()
        self.branches.go(record, self._is_partial)
        self._last = next((message for message in reversed(self.session.messages) if not message.origin.local), None)

    def _take_gap(self, record: Json) -> None:
        self.session.lost += int(record["lost"])
        self.settle()

    def _take_system_context(self, record: Json) -> None:
        self.session.system_context = str(record["systemContext"])
        self.session.folders = tuple(map(str, record["folders"]))
        style = record.get("outputStyle")
        self.session.style = style if isinstance(style, dict) else None

    def _take_user_context(self, record: Json) -> None:
        sources = {str(path): str(digest) for path, digest in record["sources"].items()}
        self.session.user_contexts[str(record["boundary"])] = (str(record["userContext"]), sources)

    def _take_front(self, record: Json) -> None:
        self.session.front = dict(record["front"])
        self.session.front_version = str(record.get("version") or "")
        self.session.choice = None

    def _take_choice(self, record: Json) -> None:
        self.session.choice = dict(record["front"])

    def _take_server_tools(self, record: Json) -> None:
        self.session.server_tools = tuple(tool for tool in record["tools"] if isinstance(tool, dict))

    def _take_title(self, record: Json) -> None:
        self.session.title = str(record["customTitle"])
        self.session.is_title_generated = record.get("generated") is True

    def _take_event(self, record: Json) -> None:
        """Take an event that changes the state of the conversation."""
        event, session = restore_event(record["event"], {}), self.session
        if event is None:  # of a newer version
            return
        match event:
            case ev.Result():
                # It contains the totals since the start of its process, with all requests recorded so far.
                session.spent[self._spent_before :] = [event.model_usage]
            case ev.UsageReported():
                session.spent.append({event.model: usage_row(event.usage, event.cost_usd)})
            case ev.RequestRepaired():
                session.redactions.append(Redaction(event.repair, event.through))
            case ev.ContextEdited():
                session.edits += [(self._last_id, dict(edit)) for edit in event.edits]
            case ev.ContextPinned():
                session.pinned = tuple(map(str, event.items))
            case ev.DirectoryChanged():
                session.directory = str(event.cwd)
            case ev.BackgroundChanged():
                task = {"command": str(event.command), "status": str(event.status), "summary": str(event.summary)}
                session.background[str(event.task_id)] = task
        if event.policy.line or isinstance(event, ev.Result):
            self._history.add(event)

    @property
    def _last_id(self) -> str:
        return self.session.messages[-1].id if self.session.messages else ""

    def _take_seen(self, record: Json) -> None:
        self.session.seen.append((self._last_id, dict(record["files"])))

    def _take_shown(self, record: Json) -> None:
        self._history.add_shown(record)
        if (shown := record["event"]).get("event") == "ToolStarted":
            self._begun.add(str(shown.get("tool_use_id")))

    # -------------------------------------------------------------------------------------------------- messages

    def _take_user(self, record: Json) -> None:
        if record["origin"] == Origin.TOOL_RESULTS:
            block = self._results[str(record["uuid"])] = _block(record)
            self._history.add_result(record, block)
        else:
            self._take_whole(record)

    def _take_whole(self, record: Json) -> None:
        message = message_from_dict(record["message"])
        self.settle()
        if message.origin is Origin.PROMPT:
            self.branches.note_prompt(message.id)
        self._append(message, message.id)
        self._history.add_message(message)

    def _take_local(self, record: Json) -> None:
        # Without `settle`: an error may be recorded while tools still run.
        message = message_from_dict(record["message"])
        self.session.messages.append(message)
        self._history.add_message(message)

    def _take_assistant(self, record: Json) -> None:
        if record.get("origin", Origin.REPLY) != Origin.REPLY:
            self._take_whole(record)
            return
        body, message_id, block = record["message"], str(record["messageId"]), _block(record)
        if message_id not in self._replies:
            api_id, model = str(body.get("id") or ""), str(body.get("model") or "")
            # A message without an id of the API has ours.
            self._replies[message_id] = _OpenReply("" if api_id == message_id else api_id, model)
            self._history.add_reply(message_id, api_id, model)
        reply = self._replies[message_id]
        self._history.add_block(record, message_id, len(reply.parts), block)
        reply.parts[str(record["uuid"])] = block

    def _take_reply_end(self, record: Json) -> None:
        message = message_from_dict(record["message"])
        reply = self._replies.pop(message.id, None)
        found = _pick(record["parts"], reply.parts if reply else {})
        message = replace(message, content=tuple(found.values()))
        if message.usage is not None:
            self.session.last_reply_at = str(record.get("timestamp") or "")
        lost = len(record["parts"]) - len(found)
        self._history.end_reply(message.id, message.is_copy)
        self._answer_calls()
        self.session.skipped += lost
        if not lost or found:
            self._append(message, next(reversed(found), None))

    def _take_call(self, record: Json) -> None:
        states = {"asked": self._asked, "begun": self._begun}
        if (calls := states.get(record["state"])) is not None:
            calls.add(str(record["toolUseId"]))

    def _take_results_end(self, record: Json) -> None:
        found = _pick(record["parts"], self._results)
        calls = self._last.tool_uses if self._last is not None else ()
        content = answer_calls(calls, tuple(found.values()))
        message = replace(message_from_dict(record["message"]), content=content)
        self._results.clear()
        self._asked.clear()
        self._begun.clear()
        self._history.end_results(message.is_copy)
        if content or not record["parts"]:
            self._append(message, next(reversed(found), None))

    def _take_tombstone(self, record: Json) -> None:
        reply = self._replies.pop(str(record["messageId"]), None)
        if reply is None:
            return
        self._history.tombstone(str(record["messageId"]))
        void = {block.id for block in reply.parts.values() if isinstance(block, ToolUseBlock)}
        self._results = {
            uuid: block
            for uuid, block in self._results.items()
            if not (isinstance(block, ToolResultBlock) and block.tool_use_id in void)
        }

    def _append(self, message: Message, leaf: str | None) -> None:
        self.session.messages.append(message)
        self._last = message
        if leaf is not None:
            self.session.leaf = leaf

    # ----------------------------------------------------------------------------------------- unfinished messages

    def settle(self) -> None:
        """Close all unfinished messages."""
        for message_id, reply in self._replies.items():
            self._answer_calls()
            parts = list(reply.parts.items())
            while parts and is_thinking(parts[-1][1]):
                parts.pop()
            content = tuple(block for _uuid, block in parts)
            if any(not _is_blank(block) for block in content):
                message = Message("assistant", content, message_id, Origin.REPLY, reply.api_id, reply.model)
                self._append(message, parts[-1][0])
        self._replies.clear()
        self._answer_calls()
        self._results.clear()

    def _answer_calls(self) -> None:
        """Append the results of the last message's calls, with error results for the missing ones."""
        if self._last is None or not self._last.tool_uses:
            return
        wanted = {call.id for call in self._last.tool_uses}
        found = {
            uuid: block
            for uuid, block in self._results.items()
            if isinstance(block, ToolResultBlock) and block.tool_use_id in wanted
        }
        for uuid in found:
            del self._results[uuid]
        content = answer_calls(self._last.tool_uses, tuple(found.values()), self._describe_missing, in_call_order=True)
        self._asked.clear()
        self._begun.clear()
        message = Message("user", content, derive_id(self._last.id), Origin.TOOL_RESULTS)
        self._append(message, next(reversed(found), None))

    def _describe_missing(self, call_id: str) -> str:
        """The result of an unfinished call. Its begin is recorded if it may change something, and after a question."""
        if not self._asked or call_id in self._begun:
            return UNFINISHED
        return UNANSWERED if call_id in self._asked else NOT_BEGUN


def answer_calls(
    calls: tuple[ToolUseBlock, ...],
    content: tuple[Block, ...],
    missing: Callable[[str], str] = lambda _call_id: UNFINISHED,
    *,
    in_call_order: bool = False,
) -> tuple[Block, ...]:
    """Repair the content of a message of tool results, so that it answers each call once. `missing`: returns the result
    of a call that has none."""
    open_calls = {call.id for call in calls}
    kept: list[Block] = []
    for block in content:
        if isinstance(block, ToolResultBlock):
            if block.tool_use_id not in open_calls:
                continue
            open_calls.discard(block.tool_use_id)
        kept.append(block)
    if not open_calls and not in_call_order:
        return tuple(kept)
    results = {block.tool_use_id: block for block in kept if isinstance(block, ToolResultBlock)}
    made_whole: list[Block] = [
        results.get(call.id) or ToolResultBlock(call.id, (TextBlock(missing(call.id)),), is_error=True)
        for call in calls
    ]
    return (*made_whole, *(block for block in kept if not isinstance(block, ToolResultBlock)))


def derive_id(message_id: str) -> str:
    """Id of a message of tool results that was never written: derived from the reply, so the same at every load."""
    from hashlib import sha256

    text = sha256(f"results of {message_id}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-8{text[17:20]}-{text[20:32]}"


def _block(record: Json) -> Block:
    """The only block of a line."""
    [block] = record["message"]["content"]
    return block_from_dict(block)


def _pick(names: list[Any], parts: Mapping[str, Block]) -> dict[str, Block]:
    return {name: parts[name] for name in names if name in parts}


def _is_blank(block: Block) -> bool:
    return is_thinking(block) or (isinstance(block, TextBlock) and not block.text.strip())
