"""The index of all sessions for full-text search, in SQLite's FTS5, and what lists of sessions show of each.

It only repeats what session files say, so it may be deleted at any time. A file that has changed is read again.

Several processes may use it at the same time. Where it cannot be used, `IndexUnavailable` says why, and
`update_and_search` makes one in memory.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, fields
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

from agentcli.core.errors import AgentError
from agentcli.core.files.access import real_path
from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import spell_hidden
from agentcli.core.text.secret_text import redact_values
from agentcli.session.base import make_private_dir, sessions_dir
from agentcli.session.find import SessionInfo, describe_session, iterate_sessions, list_files
from agentcli.session.search_text import Role, SessionText, clean, read_texts

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")
Step = Callable[[int, int], object]
"""Called often during long work, with the number of files that are done, and of all. May sleep, or raise to stop."""

BUSY_SECONDS = 3.0
SLICE_SECONDS = 0.002
MAX_SNIPPET = 160
MAX_BEGINNING = 16_000
"""Characters of a prompt that come with a hit."""
_BEFORE = 16
"""Characters shown before the words that were found: rows of lists are short."""
_MAX_PLACES = 30
"""Places of words that are compared in a text. FTS5's own snippets take seconds for a word that is very frequent."""
_ROLES: tuple[Role, ...] = ("title", "prompt", "answer", "call")
_MAX_NUMBER = 0xFFFF
"""The lower 16 bits of a row of the index are the number of a text in its file, the others the id of the file."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (id INTEGER PRIMARY KEY, path TEXT UNIQUE, size INTEGER, changed INTEGER, folder BLOB,
    info TEXT, facts TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5 (prompt_id UNINDEXED, number UNINDEXED, at UNINDEXED,
    beginning UNINDEXED, title, prompt, answer, call, prefix = '2 3', tokenize = 'unicode61 remove_diacritics 2');
"""
_SEARCH = """
SELECT f.path, f.info, prompt_id, number, at, beginning,
    highlight(texts, 4, char(1), char(2)), highlight(texts, 5, char(1), char(2)),
    highlight(texts, 6, char(1), char(2)), highlight(texts, 7, char(1), char(2))
FROM texts CROSS JOIN files f ON f.id = texts.rowid >> 16
WHERE texts MATCH :query AND (:folder IS NULL OR f.folder IN (x'', :folder))
ORDER BY texts.rowid DESC LIMIT :limit
"""
_INSERT = """
INSERT INTO texts (rowid, prompt_id, number, at, beginning, title, prompt, answer, call)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_MARKED = re.compile("\1(.*?)\2", re.DOTALL)
_BLANKS = re.compile(r"\s+")
_BREAK = "\u200b"
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Letters of scripts without blanks between words (Thai to Khmer, Japanese, Chinese): each is a word of the index."""


class IndexUnavailable(AgentError):
    """The index cannot be used. The text says why."""


@frozen
class WordsFound:
    role: Role
    text: str
    """The words with some text around them, on one line that is safe to show."""
    marks: tuple[tuple[int, int], ...]
    """Where the words stand in it: first character, and the one after the last."""


@frozen
class SearchHit:
    """A prompt in which the words occur, or in its answer or calls, or a session with them in its name."""

    session: SessionInfo
    prompt_id: str
    """"" for a session's name."""
    number: int
    """From 1, in the order of the file, branches included; 0 for a session's name."""
    at: str
    """Timestamp; "" for a session's name."""
    prompt: str
    """The beginning of the prompt, and of those that were queued while it ran."""
    found: WordsFound

    @property
    def time(self) -> float:
        """When the prompt was sent, or when a session with this name was changed, in seconds."""
        try:
            return datetime.fromisoformat(self.at).timestamp()
        except (ValueError, OverflowError):
            return self.session.modified


@frozen
class SessionFacts:
    branch: str
    """Of git, when the session began; "" if unknown."""
    prompts: int
    cost_usd: float
    files: Sequence[str]
    """Files that it changed, the last ones first."""


_STORED = [spec.name for kind in (SessionInfo, SessionFacts) for spec in fields(kind)]
VERSION = crc32(f"3 {_SCHEMA} {_STORED}".encode()) & 0x7FFF_FFFF
"""Changes with what is stored. Change the number in it if the same is stored with another meaning."""


class NotNeeded(Exception):
    """Stops work whose result nobody waits for any more."""


class Pace:
    """Lets work in a thread run in small slices, so that the event loop gets the interpreter lock."""

    def __init__(self, is_needed: Callable[[], bool]) -> None:
        self._is_needed = is_needed
        self._began = 0.0

    def __call__(self, _done: int, _all: int) -> None:
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

    def update(self, step: Step = lambda _done, _all: None) -> None:
        """Read the session files that have changed, the newest first. What was done stays if `step` raises. Raises
        `IndexUnavailable`."""
        self._run(lambda db: _update(db, self._state_dir, step))

    def forget(self, paths: Iterable[Path]) -> None:
        """Remove sessions that were deleted, before the next update does. Raises `IndexUnavailable`."""
        if self._path is not None and self._path.exists():
            self._run(lambda db: _forget(db, map(_relative, paths)))

    def search(self, words: Sequence[str], cwd: Path | None = None, limit: int = 50) -> list[SearchHit]:
        """The prompts with all these words, or with words that begin with them, the newest session first; a word may
        be several that follow one another. Of the sessions of a folder or of all. Raises `IndexUnavailable`."""
        return self._run(lambda db: self._search(db, "prompt answer call", words, cwd, limit))

    def update_and_search(
        self, words: Sequence[str], cwd: Path | None, limit: int, step: Step
    ) -> tuple[list[SearchHit], str]:
        """Sessions with the words in their names, then prompts. The second value says why an index was made in memory;
        "" if it was not. Raises `IndexUnavailable`."""

        def work(db: Connection) -> list[SearchHit]:
            _update(db, self._state_dir, step)
            hits = self._search(db, "title", words, cwd, limit)
            return [*hits, *self._search(db, "prompt answer call", words, cwd, limit - len(hits))]

        try:
            return self._run(work), ""
        except IndexUnavailable as error:
            return self._run(work, in_memory=True), str(error)

    def _search(
        self, db: Connection, columns: str, words: Sequence[str], cwd: Path | None, limit: int
    ) -> list[SearchHit]:
        if not can_be_found(words):
            return []
        # Between quotes FTS5 splits a text into words as it did for the index.
        phrases = (_separate(clean(word)).replace('"', " ") for word in words)
        query = " ".join(f'"{phrase}"*' for phrase in phrases)
        folder = None if cwd is None else os.fsencode(cwd)
        rows = db.execute(_SEARCH, {"query": f"{{{columns}}} : ({query})", "folder": folder, "limit": limit})
        return [
            SearchHit(self._decode(path, info), prompt_id, number, at, beginning, _choose_words(texts))
            for path, info, prompt_id, number, at, beginning, *texts in rows
        ]

    def facts(self, session: SessionInfo) -> SessionFacts | None:
        """What the index knows about a session; None if it was not read yet. Raises `IndexUnavailable`."""

        def work(db: Connection) -> SessionFacts | None:
            query = "SELECT facts FROM files WHERE path = ?"
            row = db.execute(query, (_relative(session.path),)).fetchone()
            return None if row is None else SessionFacts(**json.loads(row[0]))

        return self._run(work)

    def list_sessions(self, cwd: Path | None = None) -> Iterator[SessionInfo]:
        """As `find.list_sessions`, but only files that have changed since the index was updated are read, when the
        caller gets to them."""
        known = {}
        with suppress(IndexUnavailable):
            rows = self._run(lambda db: db.execute("SELECT path, size, changed, info FROM files").fetchall())
            known = {(path, size, changed): info for path, size, changed, info in rows}

        def describe(path: Path, status: os.stat_result) -> SessionInfo | None:
            name = _relative(path)
            info = known.get((name, *_state(status)))
            if info is not None:
                with suppress(ValueError, TypeError):  # damaged: the next search makes the index again
                    return self._decode(name, info)
            return describe_session(path)

        return iterate_sessions(self._state_dir, cwd, describe)

    def _decode(self, path: str, info: str) -> SessionInfo:
        whole_path = sessions_dir(self._state_dir) / path
        return SessionInfo(whole_path.stem, whole_path, **json.loads(info))

    def _run(self, work: Callable[[Connection], T], *, in_memory: bool = False) -> T:
        """Work with the database; if that is damaged or of another version, make a new one and work with that."""
        try:
            import sqlite3
        except ImportError:
            raise IndexUnavailable("This Python has no SQLite.") from None
        transient = (
            *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY),
            *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN),
        )
        for is_last in (True,) if in_memory else (False, True):
            try:
                with closing(self._connect(in_memory)) as db:
                    return work(db)
            except (sqlite3.DatabaseError, ValueError, TypeError, AttributeError) as error:
                if "no such module" in str(error):
                    raise IndexUnavailable("The SQLite of this Python has no full-text search (FTS5).") from None
                if is_last or getattr(error, "sqlite_errorcode", 0) & 0xFF in transient:
                    raise IndexUnavailable(f"The search index cannot be used: {error}.") from None
                for end in ("", "-wal", "-shm"):
                    with suppress(OSError):
                        Path(f"{self._path}{end}").unlink()
            except OSError as error:
                raise IndexUnavailable(f"The search index cannot be written: {error.strerror or error}.") from None
        raise AssertionError

    def _connect(self, in_memory: bool) -> Connection:
        import sqlite3

        if not in_memory:
            if self._path is None:
                raise IndexUnavailable("There is no folder for the search index: set HOME or AGENTCLI_CACHE_DIR.")
            make_private_dir(self._path.parent)
            # SQLite gives its other files the mode of this one.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        db = sqlite3.connect(":memory:" if in_memory else str(self._path), timeout=BUSY_SECONDS, isolation_level=None)
        try:
            db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16000;")
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
            elif version != VERSION:
                raise ValueError("made by another version")
        except BaseException:
            db.close()
            raise
        return db


def can_be_found(words: Iterable[str]) -> bool:
    """Whether there is something to search: a letter or a digit."""
    return any(character.isalnum() for word in words for character in word)


def _relative(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _update(db: Connection, state_dir: Path, step: Step) -> None:
    files = {_relative(path): (path, status) for path, status in list_files(state_dir, None)}
    known = {path: tuple(state) for path, *state in db.execute("SELECT path, size, changed FROM files")}
    _forget(db, known.keys() - files.keys())
    due = [name for name, (_path, status) in files.items() if known.get(name) != _state(status)]
    for number, name in enumerate(due):
        step(number, len(due))
        path, status = files[name]
        row = db.execute("SELECT size, changed FROM files WHERE path = ?", (name,)).fetchone()
        if row != _state(status):  # else another process was faster
            with suppress(OSError):
                _read_file(db, path, status, partial(step, number, len(due)))
    step(len(due), len(due))


def _state(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _read_file(db: Connection, path: Path, status: os.stat_result, step: Callable[[], object]) -> None:
    """Replace what the index has of a session. Raises `OSError`."""
    info = describe_session(path)
    text = SessionText() if info is None or info.parent else read_texts(path, step)
    facts = SessionFacts(text.branch, text.prompts, text.cost_usd, [*reversed(text.files)])
    with db:
        db.execute("BEGIN IMMEDIATE")
        _remove(db, _relative(path))
        if info is None:
            return
        stored = {name: value for name, value in asdict(info).items() if name not in ("session_id", "path")}
        about = _relative(path), *_state(status), os.fsencode(info.cwd), json.dumps(stored), json.dumps(asdict(facts))
        file_id = _free_id(db, path, status)
        db.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", (file_id, *about))
        if info.parent:
            return
        first = file_id << 16
        db.execute(_INSERT, (first, "", 0, "", "", _separate(clean(redact_values(info.title))), "", "", ""))
        for row, part in enumerate(text.parts[:_MAX_NUMBER], first + 1):
            beginning = (part.first or part).join("prompt", MAX_BEGINNING)
            texts = (_separate(part.join(role)) for role in _ROLES[1:])
            db.execute(_INSERT, (row, part.id, part.number, part.at, beginning, "", *texts))


def _free_id(db: Connection, path: Path, status: os.stat_result) -> int:
    """An id that grows with the time of the change, so that the newest rows are found first without sorting. Files of
    the same second are spread by their names."""
    file_id = min(max(int(status.st_mtime), 0), 0xFFFF_FFFF) << 14 | crc32(path.name.encode()) & 0x3FFF
    while db.execute("SELECT 1 FROM files WHERE id = ?", (file_id,)).fetchone():
        file_id += 1
    return file_id


def _forget(db: Connection, names: Iterable[str]) -> None:
    with db:
        db.execute("BEGIN IMMEDIATE")
        for name in names:
            _remove(db, name)


def _remove(db: Connection, name: str) -> None:
    for (file_id,) in db.execute("SELECT id FROM files WHERE path = ?", (name,)).fetchall():
        first = file_id << 16
        db.execute("DELETE FROM texts WHERE rowid BETWEEN ? AND ?", (first, first + _MAX_NUMBER))
        db.execute("DELETE FROM files WHERE id = ?", (file_id,))


def _separate(text: str) -> str:
    """The text with an invisible break after each letter that is a word of the index."""
    return text if text.isascii() else _UNSPACED.sub(rf"\g<0>{_BREAK}", text.replace(_BREAK, ""))


def _join(text: str) -> str:
    return text.replace(_BREAK, "")


def _choose_words(texts: Sequence[str]) -> WordsFound:
    """The place with most of the words, which are between the characters 1 and 2, in the texts of the roles."""
    most, role, text, place = 0, _ROLES[0], "", 0
    for one, other in zip(_ROLES, texts, strict=True):
        places = [(mark.start(), mark[1].lower()) for mark in islice(_MARKED.finditer(other), _MAX_PLACES)]
        for number, (start, _word) in enumerate(places):
            count = len({word for position, word in places[number:] if position < start + MAX_SNIPPET})
            if count > most:
                most, role, text, place = count, one, other, start
    before = _BLANKS.sub(" ", re.sub("[\1\2]", "", _join(text[max(0, place - MAX_SNIPPET) : place])))
    if len(before) > _BEFORE:
        before = "… " + before[before.find(" ", len(before) - _BEFORE) + 1 or -_BEFORE :]
    line, marks = "", []
    after = _BLANKS.sub(" ", _join(text[place : place + 3 * MAX_SNIPPET]))
    for number, piece in enumerate(re.split("[\1\2]", before + after)):
        start, line = len(line), line + spell_hidden(piece)
        if number % 2 and start < MAX_SNIPPET:
            marks.append((start, min(len(line), MAX_SNIPPET)))
    return WordsFound(role, line[:MAX_SNIPPET].rstrip(), tuple(marks))
