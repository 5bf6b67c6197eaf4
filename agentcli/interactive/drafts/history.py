"""Prompt history per project: stored on disk for all processes, and browsed with Up and Down.

One JSON object a line, appended with one write under a lock, so that several processes at once are fine. A torn or
foreign line is skipped. The file is read at first use only; a start pays nothing. Never raises for the disk: without
one, the history is that of this process.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from agentcli.core.files.bounded_read import open_regular, parse_json
from agentcli.core.text.plaintext import has_key, is_lone_key
from agentcli.interactive.drafts.draft import Draft
from agentcli.session.base import make_private_dir, project_key

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_ENTRIES = 2_000
_MAX_PIECE = 20_000
"""Characters. Larger pasted texts are kept only in this process."""
_MAX_LINE = 100_000
_MAX_READ = 8 * 1024 * 1024
_COMPACT_AT = 4 * 1024 * 1024
_COMPACT_LINES = 2 * MAX_ENTRIES


def project_name(cwd: Path) -> str:
    """A file name for the project; the checksum distinguishes paths with the same readable part (`a/b` and `a-b`)."""
    return f"{project_key(cwd)}-{crc32(os.path.realpath(cwd).encode('utf-8', 'surrogateescape')):08x}"


def history_path(state_dir: Path | None, cwd: Path) -> Path | None:
    return None if state_dir is None else state_dir / "history" / f"{project_name(cwd)}.jsonl"


class History:
    """The stored history. `path` None: store nothing. For one thread at a time, except `warm`."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._own: list[Draft] = []
        """Entries added before the file was read."""
        self._entries: list[Draft] | None = None
        self.problem = ""
        """Message for the user if the last entry could not be saved."""

    @property
    def entries(self) -> list[Draft]:
        """All entries, oldest first, consecutive duplicates collapsed."""
        if self._entries is None:
            self._entries = self._with_own(self._read())
        return self._entries

    def warm(self) -> None:
        """Read the file in advance, in a thread, so that the first Up does not wait."""
        if self._entries is None:
            read = self._read()
            if self._entries is None:
                self._entries = self._with_own(read)

    def _with_own(self, read: list[Draft]) -> list[Draft]:
        """Add the entries of this process: those in the file may be cut, or missing if writing failed."""
        own = {draft.text: draft for draft in self._own}
        there = {draft.text for draft in read}
        missing = [draft for draft in self._own if draft.text not in there]
        return _collapse([*(own.get(draft.text, draft) for draft in read), *missing])[-MAX_ENTRIES:]

    def add(self, draft: Draft) -> None:
        if draft.is_empty or is_lone_key(draft.text):
            return
        known = self._own if self._entries is None else self._entries
        if known and known[-1].text == draft.text:
            known[-1] = draft
            return
        known.append(draft)
        del known[:-MAX_ENTRIES]
        if not has_key(draft.expanded()):
            self._append(draft)

    def search(self, query: str, limit: int = 100) -> list[tuple[Draft, tuple[int, ...]]]:
        """Entries that contain the query, newest first, then fuzzy matches, best first; each text once, with the
        indexes of the matching characters."""
        from agentcli.core.text.fuzzy import folded, fuzzy_match, is_case_sensitive

        wanted = query if is_case_sensitive(query) else folded(query)
        whole: list[tuple[Draft, tuple[int, ...]]] = []
        loose: list[tuple[int, Draft, tuple[int, ...]]] = []
        seen: set[str] = set()
        for draft in reversed(self.entries):
            if draft.text in seen:
                continue
            seen.add(draft.text)
            head = draft.text[:2_000]
            place = (head if wanted != folded(wanted) else folded(head)).find(wanted)
            if place >= 0:
                whole.append((draft, tuple(range(place, place + len(wanted)))))
                if len(whole) == limit:
                    return whole
            elif (found := fuzzy_match(query, head[:200])) is not None:
                loose.append((-found.score, draft, found.positions))
        loose.sort(key=lambda each: each[0])
        return [*whole, *((draft, positions) for _score, draft, positions in loose)][:limit]

    # --------------------------------------------------------------------------------------------------- the disk

    def _read(self) -> list[Draft]:
        if self._path is None:
            return []
        try:
            with open_regular(self._path) as file:
                size = os.fstat(file.fileno()).st_size
                if size > _MAX_READ:
                    file.seek(size - _MAX_READ)
                    file.readline()
                lines = file.read(_MAX_READ).split(b"\n")
        except OSError:
            return []
        entries = _parse(lines[-_COMPACT_LINES - 1 :])
        if size > _COMPACT_AT or len(lines) > _COMPACT_LINES:
            self._compact()
        return entries

    def _append(self, draft: Draft) -> None:
        if self._path is None:
            return
        line = json.dumps(draft.to_dict(largest_piece=_MAX_PIECE), ensure_ascii=False)
        if len(line) > _MAX_LINE:
            line = json.dumps({"text": draft.text[: _MAX_LINE // 2]}, ensure_ascii=False)
        try:
            make_private_dir(self._path.parent)
            with _locked(self._path) as descriptor:
                # An unfinished line of another process must not join ours.
                os.write(descriptor, _after_torn(descriptor) + line.encode("utf-8", "replace") + b"\n")
            self.problem = ""
        except OSError as error:
            self.problem = f"The prompt history is not saved: {error.strerror or error}."

    def _compact(self) -> None:
        """Keep only the newest entries. Appending processes wait for the lock, then use the new file."""
        from agentcli.config.files import replace_file

        assert self._path is not None
        with suppress(OSError), _locked(self._path) as descriptor:
            with open(descriptor, "rb", closefd=False) as file:
                file.seek(max(0, os.fstat(descriptor).st_size - _MAX_READ))
                kept = _collapse(_parse(file.read().split(b"\n")))[-MAX_ENTRIES:]
            lines = [json.dumps(draft.to_dict(), ensure_ascii=False) for draft in kept]
            while sum(map(len, lines)) > _COMPACT_AT // 2:
                del lines[: max(1, len(lines) // 4)]
            replace_file(self._path, "".join(line + "\n" for line in lines).encode("utf-8", "replace"), 0o600)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open and lock the file for the block; create it if missing. Raises OSError."""
    while True:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(path, descriptor):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the path still names this file; False if it was replaced while we waited for its lock."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _after_torn(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""


def _parse(lines: Iterable[bytes]) -> list[Draft]:
    entries: list[Draft] = []
    for line in lines:
        if not line.startswith(b"{"):
            continue
        with suppress(ValueError):
            data = parse_json(line)
            if isinstance(data, dict) and not (draft := Draft.from_dict(data)).is_empty:
                entries.append(draft)
    return entries


def _collapse(entries: Iterable[Draft]) -> list[Draft]:
    kept: list[Draft] = []
    for draft in entries:
        if kept and kept[-1].text == draft.text:
            kept[-1] = draft
        else:
            kept.append(draft)
    return kept


class HistoryWalk:
    """Position while browsing with Up and Down, and edited entries, so that no typed text is lost."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._entries: list[Draft] = []
        self._at: int | None = None
        self._changed: dict[int, Draft] = {}

    def older(self, current: Draft) -> Draft | None:
        if self._at is None:
            self._entries = list(self._history.entries)
            self._at = len(self._entries)
            self._changed = {}
        return self._moved(current, -1)

    def newer(self, current: Draft) -> Draft | None:
        return None if self._at is None else self._moved(current, 1)

    def end(self) -> None:
        """Stop browsing: the next walk begins at the newest entry."""
        self._at = None
        self._changed = {}
        self._entries = []

    def _moved(self, current: Draft, step: int) -> Draft | None:
        assert self._at is not None
        there = self._at + step
        if not 0 <= there <= len(self._entries):
            return None
        self._changed[self._at] = current
        self._at = there
        stored = self._entries[there] if there < len(self._entries) else Draft()
        found = self._changed.get(there, stored)
        if there == len(self._entries):
            self.end()
        return found
