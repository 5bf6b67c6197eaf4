"""Prompts on disk: the history of a project, browsed with Up and Down, and the unsent prompt, which survives a crash.

The history has one JSON object a line, appended with one write under a lock, so that several processes at once are
fine. A torn or foreign line is skipped. The file is read at first use only; a start pays nothing.

There is one draft per process, found at the next start. Its file name begins with the id of the process; one of an
ended process is free. It is written in a thread a moment after the last change, or at once on request. A prompt with
an API key, which was pasted by mistake, is not saved.

Neither raises for disk errors: without a disk, they are those of this process.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from agentcli.config.files import replace_file
from agentcli.core.aio import start_task
from agentcli.core.files.bounded_read import open_regular, parse_json, read_bounded
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


_QUIET_SECONDS = 0.5
_KEPT_SECONDS = 30 * 24 * 3600
_MAX_FILE = 64 * 1024 * 1024


def drafts_folder(state_dir: Path | None, cwd: Path) -> Path | None:
    return None if state_dir is None else state_dir / "drafts" / project_name(cwd)


class DraftStore:
    """Stores one process's draft. `folder` None: store nothing. Call from the event loop; `load` from any thread."""

    def __init__(self, folder: Path | None, *, quiet_seconds: float = _QUIET_SECONDS) -> None:
        self._folder = folder
        self._file = None if folder is None else folder / _new_name()
        self._quiet_seconds = quiet_seconds
        self._current: Callable[[], Draft] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._writing: asyncio.Task[None] | None = None
        self._disk = threading.Lock()
        """Held while a file is written, so that a late thread never writes a discarded draft again."""
        self._written = 0
        self._version = 0
        self._found: tuple[Path, Draft] | None = None
        """The draft of an ended process that `load` returned, and its file, which belongs to this process now."""
        self.problem = ""

    # ------------------------------------------------------------------------------------------ of this process

    def changed(self, current: Callable[[], Draft]) -> None:
        """Schedule a write after a change; `current` returns the content when it is written. Very cheap."""
        self._version += 1
        self._current = current
        if self._folder is None:
            return
        loop = asyncio.get_running_loop()
        self._due = loop.time() + self._quiet_seconds
        if self._timer is None:
            self._timer = loop.call_at(self._due, self._is_it_time)

    def flush(self) -> None:
        """Write pending changes now: the window lost its focus, or the program ends."""
        self._stop_timer()
        if self._current is not None and self._folder is not None:
            self._write(self._version, self._current())

    def hurry(self) -> None:
        """Like `flush`, but in a thread, so that the caller does not wait for the disk."""
        if self._timer is not None:
            self._stop_timer()
            self._due = 0.0
            self._is_it_time()

    def discard(self, sent: Draft | None = None) -> None:
        """Delete the stored draft: the prompt was sent."""
        self._version += 1
        self._current = None
        self._stop_timer()
        with self._disk:
            self._written = self._version
            if self._file is not None:
                with suppress(OSError):
                    self._file.unlink(missing_ok=True)
                if sent is not None:
                    self._drop_found(sent)

    async def aclose(self) -> None:
        """Write the draft, which the next start offers, and free the files."""
        self.flush()
        if self._writing is not None:
            await asyncio.wait({self._writing})
        with self._disk:
            found, self._found = self._found, None
            for path in (self._file, found[0] if found is not None else None):
                with suppress(OSError):
                    if path is not None:
                        path.rename(path.with_name(_new_name(pid=0)))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_it_time(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        if loop.time() < self._due - 0.001:
            self._timer = loop.call_at(self._due, self._is_it_time)
        elif self._writing is not None and not self._writing.done():
            self._timer = loop.call_later(self._quiet_seconds, self._is_it_time)
        elif self._current is not None:
            written = asyncio.to_thread(self._write, self._version, self._current())
            self._writing = start_task(written, name="draft")

    def _write(self, version: int, draft: Draft) -> None:
        assert self._file is not None
        with self._disk:
            if version <= self._written:
                return
            try:
                if draft.is_empty or has_key(draft.expanded()):
                    self._file.unlink(missing_ok=True)
                else:
                    make_private_dir(self._file.parent)
                    data = {"version": 1, "pid": os.getpid(), "draft": draft.to_dict()}
                    replace_file(self._file, json.dumps(data).encode(), 0o600)
                    self._drop_found(draft)
                self._written = version
                self.problem = ""
            except OSError as error:
                self.problem = f"The unsent prompt cannot be saved: {error.strerror or error}."

    # ----------------------------------------------------------------------------------------- of ended processes

    def load(self) -> Draft | None:
        """The newest draft whose process has ended, or None. Blocking, but short; for any thread.

        Its file is deleted only after our own file has its content, so that one of the two always exists.
        """
        if self._folder is None:
            return None
        files: list[tuple[float, Path]] = []
        with suppress(OSError):
            for file in self._folder.glob("*.json"):
                with suppress(OSError):
                    files.append((file.stat().st_mtime, file))
        with self._disk:
            for modified, file in sorted(files, reverse=True):
                if _is_running(file.name.partition("-")[0]):
                    continue
                draft = _read(file)
                with suppress(OSError):
                    if draft is None or time.time() - modified > _KEPT_SECONDS:
                        file.unlink(missing_ok=True)
                    elif self._found is None:
                        self._found = (file.rename(file.with_name(_new_name())), draft)
            return None if self._found is None else self._found[1]

    def _drop_found(self, draft: Draft) -> None:
        """Delete the file of the loaded draft once its text is part of the stored or sent one."""
        if self._found is not None and self._found[1].text.strip() in draft.text:
            with suppress(OSError):
                self._found[0].unlink(missing_ok=True)
            self._found = None


def _new_name(pid: int | None = None) -> str:
    """A file name for a draft of this process, or of none (0)."""
    return f"{os.getpid() if pid is None else pid}-{os.urandom(4).hex()}.json"


def _is_running(pid: str) -> bool:
    if not (pid.isascii() and pid.isdecimal() and 0 < int(pid) < 1 << 31):
        return False
    try:
        os.kill(int(pid), 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _read(file: Path) -> Draft | None:
    with suppress(ValueError):
        data = parse_json(read_bounded(file, _MAX_FILE) or b"")
        if isinstance(data, dict) and isinstance(data.get("draft"), dict):
            draft = Draft.from_dict(data["draft"])
            return None if draft.is_empty else draft
    return None
