"""The session store: writes the engine's events as lines from which `load` can restore the log.

Blocks of a reply and tool results are written as soon as they are complete, before they are shown. When the whole
message enters the log, only missing blocks are added, and an end record that lists the lines of the message. The
journal handles the file.

Only the main agent's events are stored here.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen, slotted
from agentcli.core.messages import (
    Block,
    Json,
    Message,
    Origin,
    ToolUseBlock,
    block_to_dict,
    is_thinking,
    message_to_dict,
)
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.secret_text import redact_values
from agentcli.session.base import (
    FORMAT,
    CallState,
    Rewind,
    SessionContext,
    SessionExists,
    SessionTooNew,
    Store,
    call_record,
    encode_line,
    event_record,
    is_session_id,
    make_private_dir,
    results_path,
    session_path,
    title_fields,
)
from agentcli.session.journal import SessionJournal

if TYPE_CHECKING:
    from agentcli.session.load import LoadedSession

EARLY_LIMIT = 50
EARLY_BYTES = 16_000


@frozen
class _Part:
    uuid: str
    block: Block


@slotted
class _OpenReply:
    message_id: str
    leaf_before: str | None
    parts: list[_Part] = field(default_factory=list)


class SessionStore(Store):
    """A store with a session file. Make one with `create`, `resume` or `fork`."""

    def __init__(self, workplace: SessionContext, journal: SessionJournal, loaded: LoadedSession | None = None) -> None:
        self._workplace = workplace
        self._journal = journal
        super().__init__(journal.path.stem)
        self._forked_from = ""
        self._parent = ""
        """Id of the session whose sub-agent this is."""
        self._system_context = loaded.system_context if loaded else None
        self._folders = loaded.folders if loaded else ()
        self._style = loaded.style if loaded else None
        self._user_contexts = dict(loaded.user_contexts) if loaded else {}
        self._front = (loaded.front, loaded.front_version) if loaded else (None, "")
        """Digests of the request prefix, and the version that first sent it."""
        self._title = loaded.title if loaded else ""
        self._is_title_generated = loaded.is_title_generated if loaded else False
        self._opening: str | None = "resume" if loaded else "session"
        """Type of the record to write first."""
        self._leaf = loaded.leaf if loaded else None
        self._message_count = loaded.message_count if loaded else 0
        self._reply: _OpenReply | None = None
        self._results: list[_Part] = []
        self._call_lines: dict[str, _Part] = {}
        self._early: deque[ev.Event] = deque()
        """Events shown before the first record; they alone do not create a file."""

    @classmethod
    def create(cls, workplace: SessionContext, session_id: str, parent: str = "") -> SessionStore:
        """Create a session; only the lock is on disk before the first record. `parent`: the session whose sub-agent it
        is, which hides it from lists.

        Raises `UsageError` for an id that is not a UUID, `SessionExists`, `SessionBusy`.
        """
        store = cls(workplace, _new_journal(workplace, session_id))
        store._parent = parent
        return store

    @classmethod
    def resume(
        cls,
        workplace: SessionContext,
        path: Path,
        *,
        with_history: bool = True,
        state_calls: Sequence[str] = (),
        rewind: Rewind | None = None,
    ) -> tuple[SessionStore, LoadedSession]:
        """Resume a session, at its end or where `rewind` says. Raises `SessionBusy`, `SessionTooNew`, `UnknownPlace`
        or `OSError`. Other parameters as for `load_recent`."""
        from agentcli.session.load import load_session
        from agentcli.session.recent_messages import load_recent

        journal = SessionJournal(path, workplace.clock)
        # The lock comes first: a process that is just ending may still write its last lines.
        journal.start()
        try:
            if rewind is None:
                loaded = load_recent(path, with_history=with_history, state_calls=state_calls)
            else:
                loaded = load_session(path, with_history=with_history, rewind=rewind)
            if loaded.too_new:
                raise SessionTooNew(
                    f"Session {path.stem} was written by a newer version of agentcli and cannot be continued "
                    "here. Update agentcli, or use --fork-session to continue in a copy."
                )
        except BaseException:
            journal.abandon()
            raise
        journal.go_on_after(loaded.ending)
        for notice in loaded.notices():
            journal.add_notice(notice)
        store = cls(workplace, journal, loaded)
        if rewind is not None:
            store._write("rewind", rewind.to_dict())
        return store, loaded

    @classmethod
    def fork(
        cls,
        workplace: SessionContext,
        source: Path,
        session_id: str,
        *,
        with_history: bool = True,
        rewind: Rewind | None = None,
    ) -> tuple[SessionStore, LoadedSession]:
        """Create a session as a copy of another one, which may be in use. Raises like `create`, and `OSError`.

        All readable records are copied, including those of types unknown to this version. `with_history` and `rewind`
        as for `load_session`.
        """
        from agentcli.session.load import load_session, read_records

        loaded = load_session(source, with_history=with_history, rewind=rewind)
        store = cls(workplace, _new_journal(workplace, session_id), loaded)
        store._forked_from, store._opening = loaded.session_id, "session"
        store._write_opening()
        for record in read_records(source):
            if record.get("type") != "session":
                store._journal.append(encode_line({**record, "sessionId": session_id}))
        store._opening = "resume"
        if rewind is not None:
            store._write("rewind", rewind.to_dict())
        for notice in loaded.notices():
            store._journal.add_notice(notice)
        return store, replace(loaded, path=store._journal.path, session_id=session_id, forked_from=source.stem)

    # ------------------------------------------------------------------------------------------------------ Store

    @property
    def path(self) -> Path | None:
        return self._journal.path

    @property
    def problem(self) -> str | None:
        return self._journal.problem

    def record(self, event: ev.Event) -> None:
        if isinstance(event, ev.HookFinished) and not event.is_notable:
            return
        if event.policy.recorded != "no":
            self._record(event)

    def note_call(self, call_id: str, state: CallState, behavior: str = "") -> None:
        answer = {"behavior": behavior} if behavior else {}
        self._write("call", {"toolUseId": call_id, "state": state, **answer})

    def note_input(self, kind: str, fields: Json) -> None:
        if self._opening != "session":
            self._write("input", {**redact_values(fields), "kind": kind})

    def mark_cut_off(self) -> None:
        self._journal.keeps_lock_file = True

    def write_waiting(self) -> None:
        if self._opening == "resume" and self._early:
            self._write_opening()

    def _record(self, event: ev.Event) -> None:
        if event.agent == ev.USER_AGENT or event.policy.recorded == ("agent" if event.agent else "shown"):
            self._record_shown(event)
            return
        if event.agent and not isinstance(event, ev.UsageReported):
            return
        self._journal.retry_if_due(self._after_loss)
        match event:
            case ev.MessageAppended(message=message):
                self._record_message(message)
            case ev.BlockFinished():
                self._record_block(event.message_id, event.api_id, event.model, event.block, event.duration_ms)
            case ev.ToolFinished():
                self._record_result(event)
            case ev.ReplyTombstoned(message_id=message_id):
                self._record_tombstone(message_id)
            case ev.Result():
                self._void_open_reply()
                cut_off = {"cutOff": True} if self._journal.keeps_lock_file else {}
                fields = {"event": event_record(event), "messages": self._message_count, **cut_off}
                self._write("submission-end", {**fields, **self._title_fields()})
            case _:
                self._write("event", {"event": event_record(event)})

    @property
    def title(self) -> str:
        return self._title

    @property
    def is_title_generated(self) -> bool:
        return self._is_title_generated

    def set_title(self, title: str, *, generated: bool = False) -> None:
        self._title, self._is_title_generated = title, generated
        # A new session gets its file with the first record; a name alone does not create it.
        if self._opening != "session":
            self._write("custom-title", title_fields(title, generated=generated))

    def _title_fields(self) -> Json:
        return title_fields(self._title, generated=self._is_title_generated) if self._title else {}

    def begin_branch(self, name: str, *, leaves: bool) -> None:
        if leaves:
            self._write("rewind", {})
        self._write("branch-name", {"name": name})

    def add_branch(self, rewind: Rewind, there: LoadedSession, events: Iterable[ev.Event], name: str = "") -> str:
        here = self._leaf, self._message_count
        left = self._write("rewind", {**rewind.to_dict(), "added": "begin"})
        self._leaf, self._message_count = there.leaf, there.message_count
        for event in events:
            self.record(event)
        if name:
            self._write("branch-name", {"name": name})
        branch = self._write("rewind", {"branch": left, "added": "end"})
        self._leaf, self._message_count = here
        return branch

    def resume_name(self) -> str:
        # A generated title may change, and a name that begins with a dash would be taken for a flag.
        is_given = bool(self._title) and not self._is_title_generated
        if not is_given or self._title.startswith("-") or plain_line(self._title) != self._title:
            return self.session_id
        from agentcli.session.find import find

        found = find(self._workplace.state_dir, self._workplace.cwd, self._title)
        return self._title if [info.session_id for info in found] == [self.session_id] else self.session_id

    def set_system_context(self, text: str, folders: Sequence[str] = (), style: Json | None = None) -> None:
        if (text, style) == (self._system_context, self._style):
            return
        self._system_context, self._folders, self._style = text, tuple(folders), style
        if self._opening != "session":
            self._write("system-context", self._context_fields(text))

    def _context_fields(self, text: str) -> Json:
        style = {"outputStyle": self._style} if self._style is not None else {}
        return {"systemContext": text, "folders": list(self._folders), **style}

    def set_user_context(self, text: str, sources: Mapping[str, str], boundary: str = "") -> None:
        if (text, dict(sources)) == self._user_contexts.get(boundary):
            return
        self._user_contexts[boundary] = (text, dict(sources))
        if self._opening != "session":
            self._write_opening()
            self._journal.append(self._user_context_line(boundary))

    def note_seen(self, files: Json) -> None:
        # This alone does not create a file: without records there are no messages.
        if self._opening != "session":
            self._write("seen", {"files": files})

    def note_front(self, front: Json) -> None:
        # Also if only the version differs: otherwise a later change would be attributed to the update.
        noted = (front, self._workplace.version)
        if noted != self._front and self._opening != "session":
            self._front = noted
            self._write("request-front", {"front": front})

    def note_choice(self, choice: Json) -> None:
        if self._opening != "session":
            self._write("model-choice", {"front": choice})

    def note_server_tools(self, tools: list[Json]) -> None:
        if self._opening != "session":
            self._write("mcp-tools", {"tools": tools})

    def results_dir(self) -> Path | None:
        folder = results_path(self._journal.path)
        try:
            make_private_dir(folder)
        except OSError:
            return None
        return folder

    def sync(self) -> None:
        self._journal.sync()

    def take_notice(self) -> str | None:
        return self._journal.take_notice()

    def reopen(self) -> None:
        self._journal.reopen()

    def close(self) -> None:
        folder = self._journal.path.with_suffix("")
        with suppress(OSError):  # not empty: there are results to keep
            (folder / "tool-results").rmdir()
            folder.rmdir()
        self._journal.close(self._after_loss)

    # ---------------------------------------------------------------------------------------------- event by event

    def _record_message(self, message: Message) -> None:
        self._message_count += 1
        if message.role == "assistant" and message.origin is Origin.REPLY:
            self._record_reply(message)
            return
        if message.role == "user" and message.origin is Origin.TOOL_RESULTS:
            self._record_results(message)
            return
        kind: str = message.role
        if message.origin.local:
            kind = message.origin.value
        else:
            self._void_open_reply()
        self._write(kind, {"origin": message.origin.value, "message": message_to_dict(message)}, uuid=message.id)
        if not message.origin.local:
            self._leaf = message.id

    def _record_block(
        self, message_id: str, api_id: str, model: str, block: Block, duration_ms: int | None = None
    ) -> _Part:
        reply = self._open_reply(message_id)
        body = {"id": api_id or message_id, "type": "message", "role": "assistant", "model": model}
        fields: Json = {"messageId": message_id, "message": {**body, "content": [block_to_dict(block)]}}
        if duration_ms is not None and is_thinking(block):
            fields["durationMs"] = duration_ms
        part = _Part(self._write("assistant", fields), block)
        self._leaf = part.uuid
        reply.parts.append(part)
        if isinstance(block, ToolUseBlock):
            self._call_lines[block.id] = part
        return part

    def _open_reply(self, message_id: str) -> _OpenReply:
        if self._reply is None or self._reply.message_id != message_id:
            self._void_open_reply()
            self._reply = _OpenReply(message_id, self._leaf)
        return self._reply

    def _record_reply(self, message: Message) -> None:
        def add(block: Block) -> _Part:
            return self._record_block(message.id, message.api_id, message.model, block)

        chosen = _choose(message.content, self._open_reply(message.id).parts, add)
        self._reply = None
        self._write_end("reply-end", message, chosen)

    def _record_result(self, event: ev.ToolFinished) -> None:
        try:
            part = self._result_part(event.result, event.tool_use_id, event)
        except (TypeError, ValueError, RecursionError):
            # The display and structured output of a tool may not be JSON; the result always is.
            known = replace(event, display={}, structured=None)
            part = self._result_part(event.result, event.tool_use_id, known)
        self._results.append(part)

    def _result_part(self, block: Block, tool_use_id: str, event: ev.ToolFinished | None = None) -> _Part:
        body = {"role": "user", "content": [block_to_dict(block)]}
        fields: Json = {"origin": Origin.TOOL_RESULTS.value, "message": body}
        if event is not None:
            fields["event"] = call_record(event)
        call = self._call_lines.get(tool_use_id)
        return _Part(self._write("user", fields, parent=call.uuid if call else None), block)

    def _record_results(self, message: Message) -> None:
        def add(block: Block) -> _Part:
            return self._result_part(block, getattr(block, "tool_use_id", ""))

        chosen = _choose(message.content, self._results, add)
        self._write_end("results-end", message, chosen)
        self._results.clear()
        self._call_lines.clear()

    def _write_end(self, kind: str, message: Message, parts: Sequence[_Part]) -> None:
        """Write that a message is complete: its lines in order, and all of it but its content."""
        self._write(
            kind, {"parts": [part.uuid for part in parts], "message": message_to_dict(replace(message, content=()))}
        )
        if parts:
            self._leaf = parts[-1].uuid

    def _record_tombstone(self, message_id: str) -> None:
        reply = self._reply
        self._write("tombstone", {"messageId": message_id})
        if reply is not None and reply.message_id == message_id:
            self._reply = None
            self._leaf = reply.leaf_before
            void = {part.block.id for part in reply.parts if isinstance(part.block, ToolUseBlock)}
            self._results = [part for part in self._results if getattr(part.block, "tool_use_id", "") not in void]

    def _void_open_reply(self) -> None:
        """Mark an abandoned reply as void, so that a reader does not treat it as left by a crash."""
        if self._reply is not None:
            self._record_tombstone(self._reply.message_id)

    def _record_shown(self, event: ev.Event) -> None:
        """Record an event that is only shown again; it waits until another record creates the file."""
        if event.policy.recorded == "state" and not isinstance(event, ev.ToolFinished):
            return
        if self._opening is not None:
            self._early.append(event)
            while len(self._early) > EARLY_LIMIT:
                self._early.popleft()
            return
        self._journal.retry_if_due(self._after_loss)
        self._journal.append(self._encode_shown(event))

    def _encode_shown(self, event: ev.Event) -> bytes:
        data = event_record(event)
        call = self._call_lines.get(event.tool_use_id) if isinstance(event, ev.ToolStarted) else None
        if call is not None and isinstance(call.block, ToolUseBlock) and call.block.input == data.get("input"):
            del data["input"]
        return encode_line(self._line("shown", self._workplace.ids.new(), self._leaf, {"event": data}))

    def _early_lines(self) -> bytes:
        """Lines of the early events, limited in size: listing sessions reads the first prompt from the file's head."""
        lines: list[bytes] = []
        while self._early:
            line = self._encode_shown(self._early.popleft())
            if sum(map(len, lines)) + len(line) <= EARLY_BYTES:
                lines.append(line)
        return b"".join(lines)

    # ------------------------------------------------------------------------------------------------------- lines

    def _write(self, kind: str, fields: Json, *, uuid: str = "", parent: str | None = None) -> str:
        begins = self._opening == "session"
        self._write_opening()
        uuid = uuid or self._workplace.ids.new()
        line = encode_line(self._line(kind, uuid, parent or self._leaf, fields))
        if begins:
            # After the first prompt, which listing sessions reads from the file's head. In one write with it, so that
            # there is never a prompt without the context that was sent before it.
            line += self._user_context_lines()
        self._journal.append(line)
        return uuid

    def _user_context_lines(self) -> bytes:
        return b"".join(map(self._user_context_line, self._user_contexts))

    def _user_context_line(self, boundary: str) -> bytes:
        text, sources = self._user_contexts[boundary]
        fields = {"userContext": text, "sources": sources, "boundary": boundary}
        return encode_line(self._line("user-context", self._workplace.ids.new(), self._leaf, fields))

    def _write_opening(self) -> None:
        kind, self._opening = self._opening, None
        if kind == "session":
            self._journal.append(self._header())
        elif kind == "resume":
            self._write("resume", {"format": FORMAT})
        if kind is not None and (early := self._early_lines()):
            self._journal.append(early)

    def _line(self, kind: str, uuid: str, parent: str | None, fields: Json) -> Json:
        return {
            "type": kind,
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": self._session_id,
            "timestamp": self._workplace.clock.timestamp(),
            "cwd": str(self._workplace.cwd),
            "version": self._workplace.version,
            "isSidechain": False,
            **fields,
        }

    def _header(self) -> bytes:
        """The first lines of a file: the header, and the name if there is one already."""
        fields: Json = {"format": FORMAT}
        if self._forked_from:
            fields["forkedFrom"] = self._forked_from
        if self._parent:
            fields["parentSession"] = self._parent
        if self._system_context is not None:
            fields |= self._context_fields(self._system_context)
        header = encode_line(self._line("session", self._workplace.ids.new(), None, fields))
        if not self._title:
            return header
        title = self._line("custom-title", self._workplace.ids.new(), None, self._title_fields())
        return header + encode_line(title)

    def _after_loss(self, count: int) -> bytes:
        """Reset after lost lines, so that later messages write all their parts again; returns the lines to write
        instead."""
        self._reply = None
        self._results.clear()
        self._call_lines.clear()
        gap = self._line("gap", self._workplace.ids.new(), self._leaf, {"lost": count})
        # The header may be among the lost lines.
        again = self._header() + encode_line(gap) + self._user_context_lines()
        front, version = self._front
        if front is not None and version == self._workplace.version:
            again += encode_line(self._line("request-front", self._workplace.ids.new(), self._leaf, {"front": front}))
        return again


def _new_journal(workplace: SessionContext, session_id: str) -> SessionJournal:
    if not is_session_id(session_id):
        raise UsageError(f"{session_id!r} is not a session id. Give a UUID such as {workplace.ids.new()}.")
    path = session_path(workplace.state_dir, workplace.cwd, session_id)
    if os.path.lexists(path):
        raise SessionExists(f"Session {session_id} already exists. Use --resume to continue it, or choose another id.")
    journal = SessionJournal(path, workplace.clock)
    journal.start()
    return journal


def _choose(content: Iterable[Block], pool: Iterable[_Part], add: Callable[[Block], _Part]) -> list[_Part]:
    """Choose a line for each block: an existing one, or a new one."""
    unused = list(pool)
    chosen: list[_Part] = []
    for block in content:
        part = next((part for part in unused if _same(part.block, block)), None)
        if part is None:
            part = add(block)
        else:
            unused.remove(part)
        chosen.append(part)
    return chosen


def _same(one: Block, other: Block) -> bool:
    """Whether two blocks are equal, also as text: 1, 1.0 and True are equal in Python but not for the prompt cache."""
    if one is other:
        return True
    return one == other and encode_line(block_to_dict(one)) == encode_line(block_to_dict(other))
