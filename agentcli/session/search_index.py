"""The index of all sessions for full-text search, in SQLite's FTS5, and what lists of sessions show of each.

It only repeats what session files say, so it may be deleted at any time. It is updated from what was appended to each
file since the last time. The last prompt is always read again, because its answer may not have been complete.

Several processes may use it at the same time. Without FTS5, or where it cannot be written, `IndexUnavailable` says why,
and `search_sessions` reads the session files instead.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import astuple, fields, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from agentcli.core.errors import AgentError
from agentcli.core.files.access import real_path
from agentcli.core.frozen import frozen
from agentcli.session.base import is_session_id, make_private_dir, project_dir, sessions_dir
from agentcli.session.find import SessionInfo, describe_session
from agentcli.session.search_text import PromptText, Role, SessionText, WordQuery, WordsFound, clean, read_texts

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")
Pause = Callable[[], object]
"""Called often during long work: it may sleep, or raise to stop."""
Progress = Callable[[int, int], object]
"""Called with the number of files that are done, and of all."""

BUSY_SECONDS = 10.0
SLICE_SECONDS = 0.002
MAX_PIECE = 16_000
"""Characters of a row of the index. A long prompt has several: the words of a query must stand in one of them."""
_PIECES = 256
"""Rows that a prompt has at most."""
_ROLES: tuple[Role, ...] = ("prompt", "answer", "call")
_SCHEMA = """
CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT UNIQUE, size INTEGER, changed INTEGER, info TEXT, folder BLOB,
    read_to INTEGER, title TEXT, branch TEXT);
CREATE TABLE prompts (key INTEGER PRIMARY KEY, file INTEGER, id TEXT, number INTEGER, at TEXT, begins INTEGER,
    pieces INTEGER, cost REAL, changed TEXT);
CREATE INDEX prompts_of_file ON prompts (file, number);
CREATE VIRTUAL TABLE texts USING fts5 (prompt, answer, call, prefix = '2 3',
    tokenize = 'unicode61 remove_diacritics 2');
"""
VERSION = crc32(f"1 {_SCHEMA} {[spec.name for spec in fields(SessionInfo)]}".encode()) & 0x7FFF_FFFF
"""Changes with what is stored. Change the number in it if the same is stored with another meaning."""


class IndexUnavailable(AgentError):
    """The index cannot be used. The text says why."""


@frozen
class SearchHit:
    """A prompt in which the words occur, or in its answer or calls, or a session with them in its name."""

    session: SessionInfo
    prompt_id: str
    """"" for a session's name."""
    number: int
    at: str
    """Timestamp; "" for a session's name."""
    prompt: str
    """The beginning of the prompt, and of those that were queued while it ran."""
    found: WordsFound

    @property
    def time(self) -> float:
        """When the prompt was sent, or when a session with this name was changed, in seconds."""
        return _milliseconds(self.at, self.session.modified) / 1000


@frozen
class SessionFacts:
    branch: str
    """Of git, when the session began; "" if unknown."""
    prompts: int
    cost_usd: float
    files: tuple[str, ...]
    """Files that it changed, the last ones first."""


class NotNeeded(Exception):
    """Stops work whose result nobody waits for any more."""


class Pace:
    """Lets work in a thread run in small slices, so that the event loop gets the interpreter lock."""

    def __init__(self, is_needed: Callable[[], bool]) -> None:
        self._is_needed = is_needed
        self._began = 0.0

    def __call__(self) -> None:
        """Raises `NotNeeded`."""
        if time.perf_counter() - self._began > SLICE_SECONDS:
            if not self._is_needed():
                raise NotNeeded
            time.sleep(SLICE_SECONDS)
            self._began = time.perf_counter()


class SessionIndex:
    """All methods block, and may be called in any thread."""

    def __init__(self, folder: Path | None, state_dir: Path) -> None:
        name = sha256(os.fsencode(real_path(state_dir))).hexdigest()[:16]
        self._path = folder / f"{name}.sqlite" if folder is not None else None
        self._state_dir = state_dir

    # ----------------------------------------------------------------------------------------------------- updating

    def update(self, pause: Pause = lambda: None, progress: Progress = lambda _done, _all: None) -> None:
        """Read what is new in the session files, the newest file first. What was done stays if `pause` raises. Raises
        `IndexUnavailable`."""
        self._run(lambda db: self._update(db, pause, progress))

    def _update(self, db: Connection, pause: Pause, progress: Progress) -> None:
        files = _list_files(self._state_dir)
        known = {path: (size, changed) for path, size, changed in db.execute("SELECT path, size, changed FROM files")}
        for path in known.keys() - files.keys():
            with db:
                db.execute("BEGIN IMMEDIATE")
                _forget(db, path)
        due = [path for path in sorted(files, key=lambda path: -files[path][1]) if files[path] != known.get(path)]
        for number, path in enumerate(due):
            progress(number, len(due))
            pause()
            with db:
                db.execute("BEGIN IMMEDIATE")
                self._update_file(db, path, pause)
        progress(len(due), len(due))

    def forget(self, paths: Iterable[Path]) -> None:
        """Remove sessions that were deleted, before the next update does. Raises `IndexUnavailable`."""

        def work(db: Connection) -> None:
            with db:
                db.execute("BEGIN IMMEDIATE")
                for path in paths:
                    _forget(db, _relative(path))

        if self._path is not None and self._path.exists():
            self._run(work)

    def _update_file(self, db: Connection, path: str, pause: Pause) -> None:
        whole_path = sessions_dir(self._state_dir) / path
        row = db.execute("SELECT size, changed, id, read_to, title, branch FROM files WHERE path = ?", (path,))
        size, changed, file_id, read_to, title, branch = row.fetchone() or (-1, 0, None, 0, "", "")
        try:
            status = whole_path.stat()
            if (status.st_size, status.st_mtime_ns) == (size, changed):
                return  # Another process was faster.
            info = describe_session(whole_path)
            is_shown = info is not None and not info.parent
            if file_id is not None and (status.st_size < read_to or not is_shown):
                _forget(db, path)
                file_id = None
            text = self._read_more(db, file_id, whole_path, pause) if is_shown else SessionText()
        except OSError:
            return
        title, branch = clean(text.title) or title, clean(text.branch) or branch
        if file_id is None:
            file_id = db.execute("INSERT INTO files (path) VALUES (?)", (path,)).lastrowid
        facts = json.dumps(None if info is None else _encode_info(replace(info, title=info.title or title)))
        folder = os.fsencode(info.cwd) if info is not None else b""
        db.execute(
            "UPDATE files SET size = ?, changed = ?, info = ?, folder = ?, read_to = ?, title = ?, branch = ? "
            "WHERE id = ?",
            (status.st_size, status.st_mtime_ns, facts, folder, text.end, title, branch, file_id),
        )
        for prompt in text.prompts:
            _add_prompt(db, int(file_id or 0), prompt, status.st_mtime)

    def _read_more(self, db: Connection, file_id: int | None, path: Path, pause: Pause) -> SessionText:
        """Read from the last indexed prompt on, and remove that from the index. Everything, if the file is not the one
        that was indexed."""
        query = "SELECT key, pieces, id, begins, number FROM prompts WHERE file = ? ORDER BY number DESC"
        rows = db.execute(query, (file_id,)).fetchall()
        if rows:
            key, pieces, prompt_id, begins, number = rows[0]
            text = read_texts(path, begins, number - 1, pause)
            if text.prompts and (clean(text.prompts[0].id), text.prompts[0].begins) == (prompt_id, begins):
                _remove_prompts(db, [(key, pieces)])
                return text
        _remove_prompts(db, [row[:2] for row in rows])
        return read_texts(path, pause=pause)

    # ---------------------------------------------------------------------------------------------------- reading

    def search(self, query: WordQuery, cwd: Path | None = None, limit: int = 50) -> list[SearchHit]:
        """The newest prompts in which the words occur, of the sessions of a folder or of all. Raises
        `IndexUnavailable`."""
        return self._run(lambda db: list(self._search(db, query, cwd, limit))) if query else []

    def _search(self, db: Connection, query: WordQuery, cwd: Path | None, limit: int) -> Iterator[SearchHit]:
        folder = None if cwd is None else os.fsencode(cwd)
        found = db.execute(
            "SELECT p.key, p.id, p.number, p.at, f.path, f.info, t.prompt, t.answer, t.call "
            "FROM texts t CROSS JOIN prompts p ON p.key = t.rowid / ? CROSS JOIN files f ON f.id = p.file "
            "WHERE texts MATCH ? AND (? IS NULL OR f.folder IN (x'', ?)) ORDER BY t.rowid DESC",
            (_PIECES, query.fts, folder, folder),
        )
        seen = set()
        for key, prompt_id, number, at, path, info, *texts in found:
            if key not in seen:
                seen.add(key)
                session = _decode_info(sessions_dir(self._state_dir) / path, info)
                (prompt,) = db.execute("SELECT prompt FROM texts WHERE rowid = ?", (key * _PIECES,)).fetchone()
                where = query.locate(zip(_ROLES, texts, strict=True))
                yield SearchHit(session, prompt_id, number, at, prompt, where)
            if len(seen) == limit:
                return

    def facts(self, session: SessionInfo) -> SessionFacts | None:
        """What the index knows about a session; None if it was not read yet. Raises `IndexUnavailable`."""
        return self._run(lambda db: self._facts(db, _relative(session.path)))

    def _facts(self, db: Connection, path: str) -> SessionFacts | None:
        row = db.execute("SELECT id, branch FROM files WHERE path = ?", (path,)).fetchone()
        if row is None:
            return None
        query = "SELECT cost, changed FROM prompts WHERE file = ? ORDER BY number DESC"
        prompts = db.execute(query, (row[0],)).fetchall()
        files = dict.fromkeys(name for _cost, names in prompts for name in json.loads(names))
        return SessionFacts(row[1], len(prompts), sum(cost for cost, _names in prompts), tuple(files))

    def list_sessions(self, cwd: Path | None = None) -> Iterator[SessionInfo]:
        """As `find.list_sessions`, but only files that have changed since the index was updated are read, when the
        caller gets to them."""
        files = _list_files(self._state_dir, cwd)
        try:
            rows = self._run(lambda db: db.execute("SELECT path, size, changed, info FROM files").fetchall())
        except IndexUnavailable:
            rows = []
        known, folder = (
            {path: (size, changed, info) for path, size, changed, info in rows},
            sessions_dir(self._state_dir),
        )
        for path in sorted(files, key=lambda path: (files[path][1], path), reverse=True):
            whole_path = folder / path
            *state, facts = known.get(path, (0, 0, ""))
            is_known = tuple(state) == files[path] and facts != "null"
            info = _decode_info(whole_path, facts) if is_known else describe_session(whole_path)
            if info is not None and not info.parent and (cwd is None or info.cwd in ("", str(cwd))):
                yield info

    # ------------------------------------------------------------------------------------------------- the database

    def _run(self, work: Callable[[Connection], T]) -> T:
        """Work with the database; if that is damaged or of another version, make a new one and work with that."""
        try:
            import sqlite3
        except ImportError:
            raise IndexUnavailable("This Python has no SQLite.") from None
        for is_last in (False, True):
            try:
                with closing(self._connect()) as db:
                    return work(db)
            except sqlite3.OperationalError as error:
                if "no such module" in str(error):
                    raise IndexUnavailable("The SQLite of this Python has no full-text search (FTS5).") from None
                raise IndexUnavailable(f"The search index cannot be used: {error}.") from None
            except (sqlite3.DatabaseError, _OtherVersion):
                if is_last:
                    raise IndexUnavailable("The search index is damaged and cannot be made again.") from None
                self._delete()
            except OSError as error:
                raise IndexUnavailable(f"The search index cannot be written: {error.strerror or error}.") from None
        raise AssertionError

    def _connect(self) -> Connection:
        import sqlite3

        if self._path is None:
            raise IndexUnavailable("There is no folder for the search index: set HOME or AGENTCLI_CACHE_DIR.")
        make_private_dir(self._path.parent)
        # SQLite gives its other files the mode of this one.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        db = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16000;")
            if (version := _version(db)) not in (0, VERSION):
                raise _OtherVersion
            if version == 0:
                _create(db)
        except BaseException:
            db.close()
            raise
        return db

    def _delete(self) -> None:
        for end in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self._path}{end}").unlink()


class _OtherVersion(Exception):
    """The index was made by another version of the program."""


def _version(db: Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _create(db: Connection) -> None:
    with db:
        db.execute("BEGIN IMMEDIATE")
        if not _version(db):  # else another process was faster
            for statement in _SCHEMA.split(";\n"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")


def _list_files(state_dir: Path, cwd: Path | None = None) -> dict[str, tuple[int, int]]:
    """Session files of a folder or of all, below the folder of sessions, with size and time of change."""
    folders = [sessions_dir(state_dir)] if cwd is None else []
    names = [entry.name for folder in folders for entry in _scan(folder)]
    found: dict[str, tuple[int, int]] = {}
    for name in names if cwd is None else [project_dir(state_dir, cwd).name]:
        for entry in _scan(sessions_dir(state_dir) / name):
            if entry.name.endswith(".jsonl") and is_session_id(entry.name[:-6]):
                with suppress(OSError):
                    status = entry.stat()
                    found[f"{name}/{entry.name}"] = status.st_size, status.st_mtime_ns
    return found


def _relative(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _scan(folder: Path) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return ()


def _encode_info(info: SessionInfo) -> list[Any]:
    session_id, _path, *values = astuple(info)
    return [session_id, "", *values]


def _decode_info(path: Path, text: str) -> SessionInfo:
    values = json.loads(text)
    return SessionInfo(values[0], path, *values[2:])


def _forget(db: Connection, path: str) -> None:
    row = db.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
    if row is not None:
        _remove_prompts(db, db.execute("SELECT key, pieces FROM prompts WHERE file = ?", row).fetchall())
        db.execute("DELETE FROM files WHERE id = ?", row)


def _remove_prompts(db: Connection, prompts: Sequence[tuple[int, int]]) -> None:
    for key, pieces in prompts:
        db.execute("DELETE FROM texts WHERE rowid BETWEEN ? AND ?", (key * _PIECES, key * _PIECES + pieces))
        db.execute("DELETE FROM prompts WHERE key = ?", (key,))


def _add_prompt(db: Connection, file_id: int, prompt: PromptText, changed: float) -> None:
    columns = [list(_cut(prompt.join(role))) for role in _ROLES]
    count = min(_PIECES, max(1, *map(len, columns)))
    key = _free_key(db, _milliseconds(prompt.at, changed), file_id * 8_191 + prompt.number)
    names = json.dumps([*reversed(prompt.files)])
    about = clean(prompt.id), prompt.number, clean(prompt.at), prompt.begins
    row = (key, file_id, *about, count, prompt.cost_usd, names)
    db.execute("INSERT INTO prompts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    for piece in range(count):
        texts = [column[piece] if piece < len(column) else "" for column in columns]
        db.execute(
            "INSERT INTO texts (rowid, prompt, answer, call) VALUES (?, ?, ?, ?)", (key * _PIECES + piece, *texts)
        )


def _free_key(db: Connection, milliseconds: int, spread: int) -> int:
    """A key that grows with time, so that the newest rows are found first without sorting. Copies of sessions have
    prompts of the same time: their keys are spread over a range that doubles until one is free."""
    for bits in range(32):
        key = milliseconds + spread % (1 << bits)
        if db.execute("SELECT 1 FROM prompts WHERE key = ?", (key,)).fetchone() is None:
            break
    return key


def _cut(text: str) -> Iterator[str]:
    """Pieces of a long text, cut at white space."""
    while len(text) > MAX_PIECE:
        end = max(text.rfind(" ", 0, MAX_PIECE), text.rfind("\n", 0, MAX_PIECE)) + 1 or MAX_PIECE
        yield text[:end]
        text = text[end:]
    yield text


def _milliseconds(timestamp: str, otherwise: float) -> int:
    try:
        seconds = datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError):
        seconds = otherwise
    return int(min(max(seconds, 0.0), 2.0**40) * 1000)


# ----------------------------------------------------------------------------------------------- names, files as well


def search_sessions(
    index: SessionIndex,
    words: Sequence[str],
    cwd: Path | None,
    limit: int,
    pause: Pause = lambda: None,
    progress: Progress = lambda _done, _all: None,
) -> tuple[list[SearchHit], str]:
    """Update the index and search: sessions with the words in their names, then prompts, the newest ones first. The
    second value says why session files were read instead of the index; "" if not."""
    query = WordQuery(words)
    if not query:
        return [], ""
    problem = ""
    try:
        index.update(pause, progress)
        found = index.search(query, cwd, limit)
    except IndexUnavailable as error:
        problem = str(error)
    sessions = list(index.list_sessions(cwd))
    hits = [
        SearchHit(info, "", 0, "", "", query.locate([("title", info.title)]))
        for info in sessions
        if info.title and query.matches([info.title])
    ]
    if problem:
        found = list(_scan_files(sessions, query, limit, pause))
    return [*hits, *found][:limit], problem


def _scan_files(sessions: Sequence[SessionInfo], query: WordQuery, limit: int, pause: Pause) -> Iterator[SearchHit]:
    count = 0
    for info in sessions:
        try:
            prompts = read_texts(info.path, pause=pause).prompts
        except OSError:
            continue
        for prompt in reversed(prompts):
            texts = [(role, prompt.join(role)) for role in _ROLES]
            if query.matches([text for _role, text in texts]):
                yield SearchHit(info, prompt.id, prompt.number, prompt.at, texts[0][1], query.locate(texts))
                count += 1
            if count == limit:
                return
