"""Find sessions without reading them whole: names, ages and sizes come from the head and the tail of each file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentcli.core.errors import AgentError, UsageError
from agentcli.core.files.access import open_regular
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.secret_text import redact_values
from agentcli.session.base import decode_line, is_session_id, project_dir, results_path, sessions_dir

WINDOW = 64 * 1024
TEXT_LIMIT = 200
_PREFIX_LENGTH = 4
_PROMPT_TEXT = re.compile(rb'"text":"((?:[^"\\]|\\.){0,400})')


@frozen
class SessionInfo:
    session_id: str
    path: Path
    title: str
    """The session's name, or its generated title; "" if none."""
    first_prompt: str
    cwd: str
    modified: float
    size: int
    message_count: int | None
    """Messages in the log; None if the last submission did not end, so that only reading the file would tell."""
    is_cut_off: bool = False
    """Whether the last submission did not end, or a signal ended it together with the program."""
    parent: str = ""
    """Id of the session whose sub-agent it was; "" if it was started by the user."""
    is_title_generated: bool = False
    """Whether the title is not a name that the user gave."""

    @property
    def is_named(self) -> bool:
        """Whether the user gave it a name."""
        return bool(self.title) and not self.is_title_generated

    @property
    def label(self) -> str:
        """One line for display, without secrets. Untrusted text: the front end must sanitise it."""
        return str(redact_values(self.title or self.first_prompt)) or "(no prompt)"


def list_sessions(state_dir: Path, cwd: Path | None = None, *, agents: bool = False) -> list[SessionInfo]:
    """The sessions of a project, or of all projects, newest first; `agents`: also those of sub-agents. Files that
    cannot be read are left out."""
    return list(iterate_sessions(state_dir, cwd, agents=agents))


def latest(state_dir: Path, cwd: Path) -> SessionInfo | None:
    return next(iterate_sessions(state_dir, cwd), None)


def iterate_sessions(
    state_dir: Path,
    cwd: Path | None,
    describe: Callable[[Path, os.stat_result], SessionInfo | None] = lambda path, _status: describe_session(path),
    *,
    agents: bool = False,
) -> Iterator[SessionInfo]:
    """Sessions, newest first. Two folders may share a key (`a/b-c`, `a/b/c`), so the recorded folder is compared."""
    for path, status in list_files(state_dir, cwd):
        info = describe(path, status)
        if info is not None and (agents or not info.parent) and (cwd is None or info.cwd in ("", str(cwd))):
            yield info


def read_headers(state_dir: Path) -> Iterator[tuple[Path, Json]]:
    """The first record of each session of all projects, also of those of sub-agents."""
    for path, _status in list_files(state_dir, None):
        with suppress(OSError), open_regular(path) as file:
            yield path, decode_line(file.readline(WINDOW)) or {}


def find(state_dir: Path, cwd: Path, text: str) -> list[SessionInfo]:
    """Find sessions by id, prefix of an id or name, newest first; the caller handles several matches.

    A full id is searched in all projects, everything else in this one. If no id or name matches, a part of a name or of
    the first prompt is enough.
    """
    wanted = text.strip()
    if not wanted:
        return []
    if is_session_id(wanted):
        paths = [path for path, _status in list_files(state_dir, None) if path.stem.lower() == wanted.lower()]
        own = project_dir(state_dir, cwd)
        paths.sort(key=lambda path: path.parent != own)
        return [info for path in paths if (info := describe_session(path)) is not None]
    folded = wanted.casefold()
    sessions = list_sessions(state_dir, cwd)
    if named := [info for info in sessions if info.title.casefold() == folded]:
        return named
    if len(wanted) >= _PREFIX_LENGTH and (
        by_id := [info for info in sessions if info.session_id.lower().startswith(wanted.lower())]
    ):
        return by_id
    return [info for info in sessions if folded in info.title.casefold() or folded in info.first_prompt.casefold()]


def find_one(state_dir: Path, cwd: Path, text: str) -> SessionInfo:
    """Find the one session that `text` names. Raises `AgentError` for none, and `UsageError` for several."""
    matches = find(state_dir, cwd, text)
    if not matches:
        raise AgentError(f"No conversation found with this ID or name: {text}. See `agentcli sessions list`.")
    if len(matches) > 1:
        some = ", ".join(match.session_id for match in matches[:5])
        raise UsageError(f"{text!r} matches several sessions: {some}. Use a full id.")
    return matches[0]


def results_along(state_dir: Path, session_id: str) -> tuple[Path, ...]:
    """The folders with large tool output of a session and of all sessions from which it was forked, because its
    conversation names files in all of them. Returns only folders of sessions, whatever the files say."""
    found: list[Path] = []
    seen: set[str] = set()
    while is_session_id(session_id) and session_id not in seen:
        seen.add(session_id)
        session_id, folders = _source_and_results(sessions_dir(state_dir), session_id)
        found += folders
    return tuple(found)


def _source_and_results(sessions: Path, session_id: str) -> tuple[str, list[Path]]:
    source = ""
    for path in sessions.glob(f"*/{session_id}.jsonl"):
        try:
            with open_regular(path) as file:
                header = decode_line(file.readline(WINDOW)) or {}
        except OSError:
            continue
        source = source or str(header.get("forkedFrom") or "")
    # The folder may exist without the file.
    folders = (results_path(folder) for folder in sessions.glob(f"*/{session_id}"))
    return source, [folder for folder in folders if folder.is_dir() and not folder.is_symlink()]


def describe_session(path: Path) -> SessionInfo | None:
    """Describe a session from its file; None if that is empty or cannot be read."""
    try:
        with open_regular(path) as file:
            status = path.stat()
            head = file.read(WINDOW)
            tail_start = max(status.st_size - WINDOW, 0)
            file.seek(tail_start)
            tail = file.read(WINDOW)
    except OSError:
        return None
    if not head.strip():
        return None
    first = list(_records(head))
    # The window may begin inside a line: skip to its first newline.
    last = list(_records(tail if not tail_start else tail.partition(b"\n")[2]))
    title, is_generated = _title(last) or _title(first) or ("", False)
    return SessionInfo(
        session_id=path.stem,
        path=path,
        title=title,
        first_prompt=_first_prompt(first) or _cut_prompt(head),
        cwd=next((str(record["cwd"]) for record in first if isinstance(record.get("cwd"), str)), ""),
        modified=status.st_mtime,
        size=status.st_size,
        message_count=_message_count(last),
        is_cut_off=_is_cut_off(last, is_whole=not tail_start),
        parent=next((str(record["parentSession"]) for record in first if "parentSession" in record), ""),
        is_title_generated=is_generated,
    )


def list_files(state_dir: Path, cwd: Path | None) -> list[tuple[Path, os.stat_result]]:
    """Session files of a project, or of all projects, newest first."""
    folder = sessions_dir(state_dir) if cwd is None else project_dir(state_dir, cwd)
    found = []
    for path in folder.glob("*/*.jsonl" if cwd is None else "*.jsonl"):
        if is_session_id(path.stem):
            with suppress(OSError):
                found.append((path, path.stat()))
    dated = sorted(found, key=lambda file: (file[1].st_mtime_ns, file[0].name), reverse=True)
    return [(path, status) for path, status in dated if status.st_size]


def _records(window: bytes) -> Iterator[Json]:
    for line in window.split(b"\n"):
        if line and (record := decode_line(line)) is not None:
            yield record


def _title(records: list[Json]) -> tuple[str, bool] | None:
    """The last title, and whether it was generated; None if there is none."""
    for record in reversed(records):
        if record.get("type") in ("custom-title", "submission-end") and isinstance(record.get("customTitle"), str):
            return record["customTitle"], record.get("generated") is True
    return None


def _message_count(records: list[Json]) -> int | None:
    for record in reversed(records):
        if record.get("type") == "submission-end":
            count = record.get("messages")
            return count if isinstance(count, int) else None
        if record.get("type") in ("user", "assistant"):
            return None
    return None


def _is_cut_off(records: list[Json], *, is_whole: bool) -> bool:
    for record in reversed(records):
        if record.get("type") == "submission-end":
            return record.get("cutOff") is True
        if record.get("type") in ("user", "assistant", "reply-end", "results-end", "call"):
            return True
    # The last line may be longer than the window: a large prompt or result.
    return not is_whole


def _first_prompt(records: list[Json]) -> str:
    for record in records:
        if record.get("type") == "user" and record.get("origin", "prompt") == "prompt":
            text = _text_of(record.get("message"))
            if text:
                return " ".join(text[: 4 * TEXT_LIMIT].split())[:TEXT_LIMIT]
    return ""


def _text_of(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (block.get("text") for block in content if isinstance(block, dict))
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def _cut_prompt(head: bytes) -> str:
    """The start of a prompt whose line is longer than the window."""
    line = head.rpartition(b"\n")[2]
    match = _PROMPT_TEXT.search(line) if line.startswith(b'{"type":"user"') else None
    if match is None:
        return ""
    try:
        text = json.loads(b'"' + match[1] + b'"')
    except ValueError:
        return ""
    return " ".join(str(text).split())[:TEXT_LIMIT]
