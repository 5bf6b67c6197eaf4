"""Import sessions of Claude Code: read its session files and write them again in our format.

<projects>/<project key>/<session id>.jsonl has one JSON object per line. Lines with a `uuid` form a tree by
`parentUuid`; the conversation is the way from the last message to the root. A reply of several blocks is several lines
with the same `message.id`, a result is a line of its own, and a compaction is a `system` line without a parent
(`logicalParentUuid` is the line before it) that a message with the summary follows.

Nothing there is ever written. Files are untrusted: whatever does not have the expected form is left out. Thinking is
left out because its signatures hold only in the requests of the account that got it, as are sub-agents, reminders and
what commands of that program have printed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from agentcli import __version__
from agentcli.agent.loop_state import EndReason
from agentcli.agent.submission import Account
from agentcli.context.compact import boundary, summary_text
from agentcli.context.estimate import text_tokens
from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.core.frozen import slotted
from agentcli.core.ids import RandomIds, SystemClock, seconds_between
from agentcli.core.messages import (
    NOTHING,
    SUMMARY,
    Block,
    ImageBlock,
    Json,
    Message,
    Origin,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_from_wire,
    clean_json,
)
from agentcli.core.text.format import byte_size, counted
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import Totals
from agentcli.providers.catalog import Catalog
from agentcli.session.base import KEY_LIMIT, SessionContext, is_session_id, project_key, session_path
from agentcli.session.find import TEXT_LIMIT, SessionInfo
from agentcli.session.load import UNFINISHED, LoadedSession, answer_calls, scan
from agentcli.session.store import SessionStore

MAX_SIZE = 256 * 1024 * 1024
"""Bytes of the largest file that is read."""
MAX_IMAGE = 5 * 1024 * 1024
"""Base64 characters of a picture that the API accepts."""
_ID = re.compile(r"[a-zA-Z0-9_-]{1,200}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_OUTPUT = re.compile(r"\s*<(local-command-|bash-|system-reminder>|task-notification>)")
"""Beginning of a text that the program added to a prompt, or that its commands have printed."""
_COMMAND = re.compile(
    r"\s*(?:<command-message>[^<]*</command-message>\s*)?<command-name>\s*([^<\s][^<]*)</command-name>"
)
_ARGUMENTS = re.compile(r"<command-args>\s*(.*?)\s*</command-args>", re.DOTALL)
_MAX_TITLE = 100
_INTERRUPTED = "[Request interrupted by user"


@slotted
class ForeignSession:
    info: SessionInfo
    messages: list[tuple[str, Message]] = field(default_factory=list)
    """The messages with their timestamps."""
    skipped: int = 0
    """Number of unreadable lines."""


def find_files(folder: Path, cwd: Path | None) -> list[Path]:
    """The session files of a project, or of all, newest first. `folder`: usually ~/.claude."""
    key = project_key(cwd) if cwd is not None else ""
    found: list[tuple[float, Path]] = []
    for path in (folder / "projects").glob("*/*.jsonl"):
        # The end of a long key is a digest, which is another one than ours.
        name = path.parent.name
        is_here = not key or name == key or (len(key) > KEY_LIMIT and name.startswith(key[:KEY_LIMIT]))
        if is_here and is_session_id(path.stem):
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_size > 0:
                    found.append((status.st_mtime, path))
    return [path for _modified, path in sorted(found, reverse=True)]


def read_session(path: Path) -> ForeignSession | None:
    """Read a session; None if it has no prompt. Raises `OSError`, and `AgentError` for a file that is too large."""
    status = path.stat()
    if status.st_size > MAX_SIZE:
        raise AgentError(f"the file is larger than {byte_size(MAX_SIZE)}")
    unread, lines = LoadedSession(path, path.stem), _Conversation()
    for record in scan(path, unread):
        lines.take(clean_json(record))
    messages = lines.build()
    prompts = [message.text for _at, message in messages if message.is_prompt]
    if not prompts:
        return None
    given, generated = lines.titles.values()
    info = SessionInfo(
        session_id=path.stem.lower(),
        path=path,
        title=given or generated,
        first_prompt=" ".join(prompts[0][: 4 * TEXT_LIMIT].split())[:TEXT_LIMIT],
        cwd=lines.cwd,
        modified=status.st_mtime,
        size=status.st_size,
        message_count=len(messages),
        is_title_generated=not given,
    )
    return ForeignSession(info, messages, unread.skipped)


class _Conversation:
    """Collects the lines of a file, then builds the conversation from those on the way to the last message."""

    def __init__(self) -> None:
        self.titles = {"custom-title": "", "ai-title": ""}
        """By type of line: a name that the user gave, and a generated title."""
        self.cwd = ""
        self._by_id: dict[str, Json] = {}
        self._leaf = ""
        self._replies: dict[str, list[Block]] = {}
        """The blocks of each reply, which has a line for each, by its id."""
        self._calls: set[str] = set()
        self._results: dict[str, ToolResultBlock] = {}
        """By the id of the call."""
        self._ids = RandomIds()
        self._messages: list[tuple[str, Message]] = []
        self._tokens = 0
        """Tokens before the last compaction."""
        self._command: tuple[str, Message] | None = None
        """A command that was entered, until a reply shows that it was a prompt."""

    def take(self, record: Json) -> None:
        kind, uuid = record.get("type"), record.get("uuid")
        match record:
            case {"type": "custom-title", "customTitle": str(title)} | {"type": "ai-title", "aiTitle": str(title)}:
                self.titles[str(kind)] = plain_line(title, _MAX_TITLE)
        if not isinstance(uuid, str) or record.get("isSidechain") is True:
            return
        if not self.cwd and isinstance(cwd := record.get("cwd"), str):
            self.cwd = cwd
        # It repeats what the message has.
        record.pop("toolUseResult", None)
        self._by_id[uuid] = record
        is_message = kind in ("user", "assistant") and isinstance(record.get("message"), dict)
        if not is_message or record.get("isMeta") is True:
            return
        self._leaf = uuid
        for block in _blocks(record):
            if isinstance(block, ToolResultBlock):
                content = tuple(part for part in block.content if _is_sendable(part))
                self._results.setdefault(block.tool_use_id, replace(block, content=content))
            elif kind == "assistant" and record["message"].get("model") != "<synthetic>":
                self._add_to_reply(self._replies.setdefault(_reply_id(record), []), block)

    def _add_to_reply(self, content: list[Block], block: Block) -> None:
        if isinstance(block, ToolUseBlock):
            if block.id not in self._calls and _ID.fullmatch(block.id) and _NAME.fullmatch(block.name):
                self._calls.add(block.id)
                content.append(ToolUseBlock(block.id, block.name, block.input))
        elif isinstance(block, TextBlock) and _is_sendable(block):
            content.append(TextBlock(block.text))

    def build(self) -> list[tuple[str, Message]]:
        way: dict[str, Json] = {}
        uuid: Any = self._leaf
        while isinstance(uuid, str) and uuid not in way and (record := self._by_id.get(uuid)) is not None:
            way[uuid] = record
            uuid = record.get("parentUuid") or record.get("logicalParentUuid")
        for record in reversed(way.values()):
            at = record["timestamp"] if isinstance(record.get("timestamp"), str) else ""
            if record.get("isMeta") is True:
                continue
            match record:
                case {"type": "assistant", "message": dict()}:
                    self._take_reply(self._replies.pop(_reply_id(record), []), at)
                case {"type": "user"}:
                    self._take_user(record, at)
                case {"type": "system", "compactMetadata": {"preTokens": int(tokens)}}:
                    self._tokens = tokens
                case {"type": "attachment", "attachment": {"type": "queued_command", "prompt": str(text)}}:
                    # A prompt that was entered while the model worked.
                    self._take_prompt([TextBlock(text)], at)
        return self._messages

    def _take_reply(self, content: list[Block], at: str) -> None:
        if self._command is not None and content:
            self._messages.append(self._command)
            self._command = None
        # A conversation begins with a prompt.
        if not content or not self._messages:
            return
        last = self._messages[-1][1]
        if last.origin is Origin.REPLY:
            # What was between them is left out.
            self._messages.pop()
            content = [*last.content, *content]
        reply = self._message(tuple(content), Origin.REPLY)
        self._messages.append((at, reply))
        if reply.tool_uses:
            found = (self._results.get(call.id) for call in reply.tool_uses)
            results = answer_calls(reply.tool_uses, tuple(filter(None, found)), in_call_order=True)
            self._messages.append((at, self._message(results, Origin.TOOL_RESULTS)))

    def _take_user(self, record: Json, at: str) -> None:
        blocks = [block for block in _blocks(record) if _is_sendable(block)]
        text = "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock))
        if record.get("isCompactSummary") is True:
            if text:
                summary = self._message((TextBlock(summary_text(text)),), Origin.SUMMARY, {SUMMARY: text.strip()})
                tokens = (self._tokens, round(text_tokens(text)))
                begin = boundary(self._ids.new(), "auto", tokens, [summary])
                self._messages += [(at, begin), (at, summary)]
        elif (command := _COMMAND.match(text)) is not None:
            arguments = _ARGUMENTS.search(text)
            typed = TextBlock(f"{command[1].strip()} {arguments[1] if arguments else ''}".strip())
            self._command = at, self._message((typed,), Origin.PROMPT)
        elif text.startswith(_INTERRUPTED):
            self._messages.append((at, self._message((TextBlock(text),), Origin.INTERRUPTION)))
        else:
            self._take_prompt(blocks, at)

    def _take_prompt(self, blocks: list[Block], at: str) -> None:
        kept = [block for block in blocks if not (isinstance(block, TextBlock) and _OUTPUT.match(block.text))]
        if kept:
            self._command = None
            self._messages.append((at, self._message(tuple(kept), Origin.PROMPT)))

    def _message(self, content: tuple[Block, ...], origin: Origin, meta: Mapping[str, Any] = NOTHING) -> Message:
        role: Role = "assistant" if origin is Origin.REPLY else "user"
        return Message(role, content, self._ids.new(), origin, meta=meta)


def _reply_id(record: Json) -> str:
    found = record["message"].get("id")
    return found if isinstance(found, str) and found else str(record["uuid"])


def _blocks(record: Mapping[str, Any]) -> Iterator[Block]:
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        yield TextBlock(content)
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            yield block_from_wire(block)


def _is_sendable(block: Block) -> bool:
    """Whether a text or picture may be part of a request."""
    if isinstance(block, ImageBlock):
        data = block.source.get("data")
        return block.source.get("type") == "base64" and isinstance(data, str) and len(data) <= MAX_IMAGE
    return isinstance(block, TextBlock) and bool(block.text.strip())


# --------------------------------------------------------------------------------------------------------------- write


class _PastClock(SystemClock):
    """Gives the lines of an imported session the times of its messages."""

    def __init__(self) -> None:
        super().__init__()
        self.now = ""

    def timestamp(self) -> str:
        return self.now or super().timestamp()


def write_session(session: ForeignSession, state_dir: Path, cwd: Path) -> None:
    """Save a session as one of this folder. Raises `SessionExists` if it was imported before, and `AgentError`."""
    clock, ids = _PastClock(), RandomIds()
    store = SessionStore.create(SessionContext(state_dir, cwd, clock, ids, __version__), session.info.session_id)
    path = session_path(state_dir, cwd, session.info.session_id)
    clock.now = session.messages[0][0]
    try:
        if session.info.title:
            store.set_title(session.info.title, generated=session.info.is_title_generated)
        skipped = f" Skipped {counted(session.skipped, 'unreadable line')}." if session.skipped else ""
        text = f"Imported from Claude Code, without thinking and sub-agents.{skipped}"
        store.record(ev.NoticeRaised(text=text, code="import"))
        begun, turns, names = "", 0, dict[str, str]()

        def end() -> None:
            """Its cost was paid elsewhere and is not counted here."""
            account = Account(clock, ended=ev.LoopEnded(terminal=EndReason.COMPLETED.value, turns=turns, text=""))
            result = account.result(Totals(), Catalog(), session.info.session_id, ids.new())
            store.record(replace(result, duration_ms=round((seconds_between(begun, clock.now) or 0) * 1000)))

        for at, message in session.messages:
            if message.origin is Origin.PROMPT:
                if turns:
                    end()
                begun, turns = at, 0
            turns += message.origin is Origin.REPLY
            clock.now = at or clock.now
            names.update((call.id, call.name) for call in message.tool_uses)
            for result in message.tool_results:
                call, name = result.tool_use_id, names[result.tool_use_id]
                outcome = "interrupted" if result.text == UNFINISHED else "failed" if result.is_error else "done"
                store.record(ev.ToolFinished(tool_use_id=call, name=name, result=result, outcome=outcome))
            store.record(ev.MessageAppended(message=message))
        end()
        store.sync()
        if store.problem is not None:
            raise AgentError(f"Cannot save the session: {store.problem}.")
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        store.close()
    os.utime(path, (session.info.modified,) * 2)
