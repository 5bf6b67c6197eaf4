"""What a session file is: the interface of the store, the paths, the lines and the events in them.

<state>/sessions/<project key>/<session id>.jsonl        the log
<state>/sessions/<project key>/<session id>.lock         exists while a process has the log open, and after a crash
<state>/sessions/<project key>/<session id>/tool-results/  output too large for the conversation

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
    call             a call asks the user (`state`: asked), was answered (`answered`, with the `behavior`), or begins to
                     run and may change something (`begun`)
    boundary, error  messages of the log that are never sent
    tombstone        the blocks of `messageId` so far are void
    seen             new file states that the model has seen (`files`)
    event            an event that changes the state of the conversation (`event`): a repair or an edit of what requests
                     show, pins, the shell's directory, background commands, the usage of a request
    shown            an event that belongs to no message, shown again when the session is resumed (`event`)
    submission-end   the Result of a submission (`event`), and the number of messages in the log; `cutOff` if a signal
                     ended the program; the name again, as in `custom-title`, for readers of the file's end
    resume           another process continues from here; what is open above stays unfinished
    rewind           the conversation continues elsewhere: before a prompt (`before`, its id), where an earlier rewind
                     left it (`branch`, the uuid of that line), or both. What is above stays in the file as a branch.
                     `added`: begin or end of a branch that was recorded as a whole, not by the loop
    system-context   a new system context
    user-context     the user context, before all messages, from a boundary on (`boundary`, "" for the beginning)
    request-front    digests of the request prefix from here on, for the prompt cache (`front`)
    model-choice     model and parameters chosen since the last request (`front`, as above, without digests)
    mcp-tools        tools of MCP servers that are part of every request from here on (`tools`)
    input            what the loop got from outside and no other line has, for replays (`kind`; see `Store.note_input`)
    gap              records were lost here (full disk)
    custom-title     the session's name (`customTitle`); `generated` if the user did not give it
    branch-name      the name (`name`) of the current branch, or of one that a rewind has left (`branch`, as above)

Lines of other types come from other programs: they stay in the file and are ignored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentcli.core import events as ev
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.event_base import event_from_dict, event_to_dict
from agentcli.core.files.access import parse_json, real_path
from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock, Ids
from agentcli.core.messages import (
    Block,
    Json,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)

if TYPE_CHECKING:
    from agentcli.session.load import LoadedSession

CallState = Literal["asked", "answered", "begun"]


class SessionBusy(AgentError):
    """Another process has this session open. The caller refuses it, or forks it."""


class SessionTooNew(AgentError):
    """A newer version wrote this session: it can be read and forked, but not continued."""


@frozen
class Rewind:
    """Where a session continues: one of its branches, before one of its prompts, or before a prompt of a branch."""

    before: str = ""
    """Id of the prompt; "": at the end."""
    branch: str = ""
    """Id of the `rewind` line that left the branch; "": the current one."""

    def to_dict(self) -> Json:
        return {name: value for name, value in (("before", self.before), ("branch", self.branch)) if value}


class SessionExists(UsageError):
    """The id requested for a new session is taken."""


@frozen
class SessionContext:
    """The folder of sessions, and the values for the fields that every line has."""

    state_dir: Path
    cwd: Path
    clock: Clock
    ids: Ids
    version: str


class Store:
    """Stores a conversation. This base class stores nothing: for `--no-session-persistence`, or without a folder.

    No method raises for an I/O error, so that a failure never stops the work: `problem` reports it."""

    def __init__(self, session_id: str, problem: str | None = None) -> None:
        """`problem`: why nothing can be stored, reported once; None if the user chose so."""
        self._session_id = session_id
        self._problem = problem
        self._notice = problem

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def path(self) -> Path | None:
        """The session file; None if nothing is stored. It may not exist before the first record."""
        return None

    @property
    def problem(self) -> str | None:
        """Why the conversation cannot be saved at present; None if it can."""
        return self._problem

    def record(self, event: ev.Event) -> None:
        """Store an event if it belongs to the session. Call it before the event is shown.

        A reply whose blocks were recorded ends with `MessageAppended` or `ReplyTombstoned`. It is void if neither
        comes before another reply begins, a message is added or the submission ends.
        """

    def note_call(self, call_id: str, state: CallState, behavior: str = "") -> None:
        """Store that a call asks the user or got an answer (`behavior`), or that one begins which may change
        something."""

    def note_input(self, kind: str, fields: Json) -> None:
        """Store what the loop got from outside and no other record has, for replays: the end of a request without a
        message (`finished`, `broken`, `failed`), what hooks answered (`stop-hook`, `prompt-hook`, `call-stop`), an
        `answer` that belongs to no call, an `abort` that is not the user's Esc, a `budget` that the user sets, and the
        `settings`."""

    def mark_cut_off(self) -> None:
        """Offer this session at the next start: a signal ends the program in the middle of a submission."""

    def write_waiting(self) -> None:
        """Store the events of a resumed session that are waiting for its first message."""

    @property
    def title(self) -> str:
        """The session's name, or its generated title; "" if none."""
        return ""

    @property
    def is_title_generated(self) -> bool:
        return False

    def set_title(self, title: str, *, generated: bool = False) -> None:
        """Name the session. `generated`: not by the user."""

    def resume_name(self) -> str:
        """The argument for `--resume`: the session's name if it is unique, else its id. Blocking: with a name it reads
        the beginning and the end of every session of the folder."""
        return self.session_id

    def begin_branch(self, name: str, *, leaves: bool) -> None:
        """Name the branch that continues here. `leaves`: the branch so far has another name and ends here."""

    def add_branch(self, rewind: Rewind, there: LoadedSession, events: Iterable[ev.Event], name: str = "") -> str:
        """Store a branch on which these events follow the place of `rewind`, without going there. `there`: the session
        as `load_session` reads it at that place. Returns its id for `Rewind.branch`."""
        return ""

    def set_system_context(self, text: str, folders: Sequence[str] = (), style: Json | None = None) -> None:
        """Store the system context and the output style, which a resumed session must reuse byte for byte, and the
        context's lines about folders."""

    def set_user_context(self, text: str, sources: Mapping[str, str], boundary: str = "") -> None:
        """Store the user context, valid from this compact boundary on. `sources`: its files with their digests."""

    def note_seen(self, files: Json) -> None:
        """Store new file states seen by the model, by path; None for a forgotten file."""

    def note_front(self, front: Json) -> None:
        """Store digests of the request prefix, for comparison when the session is resumed. Written only if changed."""

    def note_choice(self, choice: Json) -> None:
        """Store the model and its parameters that the user chose after the last request, in the form of a front."""

    def note_server_tools(self, tools: list[Json]) -> None:
        """Store the tools of MCP servers that are part of every request of the session."""

    def results_dir(self) -> Path | None:
        """A private folder for large tool output, created on demand; None if it cannot be written."""
        return None

    def sync(self) -> None:
        """Sync to disk, at the end of a submission. Blocking; takes a fraction of a millisecond on a local disk."""

    def take_notice(self) -> str | None:
        """The next notice for the user about saving, each once; None if there is none."""
        notice, self._notice = self._notice, None
        return notice

    def close(self) -> None: ...

    def reopen(self) -> None:
        """Continue after `close`. Raises `SessionBusy`."""


# --------------------------------------------------------------------------------------------------------------- paths

KEY_LIMIT = 200
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9]")
_SESSION_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def is_session_id(text: str) -> bool:
    """Whether this is a UUID. Ids become file names, so nothing else is accepted."""
    return _SESSION_ID.fullmatch(text) is not None


def project_key(cwd: Path) -> str:
    """The folder name of a project. Different folders may share one, so a session also records its cwd."""
    real = real_path(cwd)
    if not real.isascii():
        from unicodedata import normalize

        real = normalize("NFC", real)
    key = _NOT_PLAIN.sub("-", real)
    if len(key) <= KEY_LIMIT:
        return key
    from hashlib import sha256

    digest = sha256(real.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{key[:KEY_LIMIT]}-{digest[:8]}"


def unique_project_key(root: Path) -> str:
    """The folder name of a project that it shares with no other one, for files that another project must not reach."""
    from hashlib import sha256

    real = real_path(root)
    return f"{project_key(root)}-{sha256(os.fsencode(real)).hexdigest()[:8]}"


def sessions_dir(state_dir: Path) -> Path:
    return state_dir / "sessions"


def project_dir(state_dir: Path, cwd: Path) -> Path:
    return sessions_dir(state_dir) / project_key(cwd)


def session_path(state_dir: Path, cwd: Path, session_id: str) -> Path:
    return project_dir(state_dir, cwd) / f"{session_id}.jsonl"


def results_path(session: Path) -> Path:
    """The folder for large tool output of the session with this file."""
    return session.with_suffix("") / "tool-results"


def make_private_dir(folder: Path) -> None:
    """Create a folder and its missing parents for this user only, whatever the umask is. Raises `OSError`.

    An existing folder keeps its mode, unless it belongs to this user and others have access: then it is made private.
    """
    if not folder.parent.exists():
        make_private_dir(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        status = folder.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o077 == 0:
            return
    with suppress(PermissionError):
        folder.chmod(0o700)


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


def title_fields(title: str, *, generated: bool = False) -> Json:
    """The fields of a line that names the session."""
    return {"customTitle": title, **({"generated": True} if generated else {})}


# ------------------------------------------------------------------------------------------------------------- events

TEXT_LIMIT = 64 * 1024
"""Most bytes recorded of a text that is only shown, such as the output of `/diff`."""
NOT_KEPT = "[The rest of this output is not kept in the session file.]"


def event_record(event: ev.Event) -> Json:
    """The event as in `event_to_dict`, without default values, and with a very long text cut."""
    if isinstance(event, ev.NoticeRaised | ev.AgentFinished):
        event = replace(event, text=_cut_beginning(event.text))
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


def _cut_beginning(text: str) -> str:
    # A character has at least one byte.
    start = text[: TEXT_LIMIT + 1].encode("utf-8", "surrogatepass")
    if len(start) <= TEXT_LIMIT:
        return text
    return f"{start[:TEXT_LIMIT].decode('utf-8', 'ignore')}\n\n{NOT_KEPT}"


def restore_event(data: Mapping[str, Any], calls: Mapping[str, ToolUseBlock]) -> ev.Event | None:
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


def restore_call_end(record: Json, block: Block, calls: Mapping[str, ToolUseBlock]) -> ev.ToolFinished | None:
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
        event = restore_event(record["event"], self._calls)
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
        event = restore_call_end(record, block, self._calls)
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


def is_open(events: Sequence[ev.Event]) -> bool:
    """Whether the last submission has no end."""
    for event in reversed(events):
        if isinstance(event, ev.Result | ev.SubmissionInterrupted | ev.SessionResumed):
            return False
        if isinstance(event, ev.MessageAppended) and event.message.origin is Origin.PROMPT:
            return True
    return False


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
