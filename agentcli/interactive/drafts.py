"""Drafts of prompts: the content of the prompt box as a value, the history of a project, and the unsent prompt.

A chip is a part of the text (`[Pasted #1: 120 lines]`) that stands for content too large for the box, or for an image.
The user sees and edits the text; pieces are looked up by the chip's text. No widgets here.

The history, browsed with Up and Down, has one JSON object a line, appended with one write under a lock, so that several
processes at once are fine. A torn or foreign line is skipped. The file is read at first use only; a start pays nothing.

The unsent prompt survives a crash: there is one draft per process, found at the next start. Its file name begins with
the id of the process; one of an ended process is free. It is written in a thread a moment after the last change, or at
once on request. A prompt with an API key, which was pasted by mistake, is not saved.

Neither raises for disk errors: without a disk, they are those of this process.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any
from zlib import crc32

from agentcli.config.files import replace_file
from agentcli.core.aio import start_task
from agentcli.core.files.access import Unread, open_regular, parse_json, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, ImageBlock, Json, TextBlock, clean_text
from agentcli.core.text.plaintext import has_key, is_lone_key, plain_line
from agentcli.session.base import make_private_dir, project_key

CHIP = re.compile(r"\[(?:Pasted|Image) #\d{1,9}: [^\[\]\n]{1,80}\]")
"""Text that looks like a chip. It is one only if there is a piece for it."""
_MAX_NAME = 40
_MAX_IMAGE_FILE = 100 * 1024 * 1024


@frozen
class PastedPiece:
    text: str


@frozen
class ImagePiece:
    """An image: either its data (base64, small enough to send) or only its path."""

    path: str = ""
    data: str = ""
    media_type: str = ""


Piece = PastedPiece | ImagePiece


def format_paste_chip(number: int, text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n"))
    amount = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
    return f"[Pasted #{number}: {amount}]"


def image_chip(number: int, name: str) -> str:
    shown = re.sub(r"[\[\]]", "_", plain_line(name)) or "picture"
    if len(shown) > _MAX_NAME:
        # Cut the middle: the end has the number of a screenshot and the suffix.
        shown = shown[: _MAX_NAME - 16] + "…" + shown[-15:]
    return f"[Image #{number}: {shown}]"


@frozen
class Draft:
    text: str = ""
    pieces: Mapping[str, Piece] = field(default_factory=dict)
    """Pieces by the text of their chip."""

    @property
    def is_empty(self) -> bool:
        return not self.text.strip()

    @property
    def images(self) -> int:
        return sum(isinstance(piece, ImagePiece) for _start, _end, piece in self.chips())

    def chips(self) -> Iterator[tuple[int, int, Piece]]:
        """Every chip in the text: its start, its end and its piece."""
        if self.pieces:
            for match in CHIP.finditer(self.text):
                if (piece := self.pieces.get(match.group())) is not None:
                    yield match.start(), match.end(), piece

    def expanded(self) -> str:
        """The text with pasted pieces in place of their chips. Chips of images stay, as their names."""
        parts: list[str] = []
        at = 0
        for start, end, piece in self.chips():
            if isinstance(piece, PastedPiece):
                parts += (self.text[at:start], piece.text)
                at = end
        return "".join((*parts, self.text[at:]))

    def content(self) -> str | tuple[Block, ...]:
        """The prompt for the engine. Blocking if there are images. Never raises: an unreadable image becomes text."""
        if not self.images:
            return self.expanded()
        blocks: list[Block] = []
        at = 0
        for start, end, piece in self.chips():
            if not isinstance(piece, ImagePiece):
                continue
            words = Draft(self.text[at:end], self.pieces).expanded()
            found = load_image(piece)
            if isinstance(found, ImagePiece):
                # With its path the model can look at it again, or use the file.
                words = words.removesuffix(self.text[start:end]) + _with_path(self.text[start:end], piece.path)
            else:
                words = f"{words[:-1]}, not attached: {found}]"
            blocks.append(TextBlock(clean_text(words)))
            if isinstance(found, ImagePiece):
                source = {"type": "base64", "media_type": found.media_type, "data": found.data}
                blocks.append(ImageBlock(source))
            at = end
        if rest := Draft(self.text[at:], self.pieces).expanded():
            blocks.append(TextBlock(clean_text(rest)))
        return tuple(blocks)

    def to_dict(self, *, largest_piece: int | None = None) -> Json:
        """As JSON. Pieces over `largest_piece` characters are left out; an image with a path keeps only the path."""
        pieces: Json = {}
        for start, end, piece in self.chips():
            form = _piece_to_dict(piece)
            if largest_piece is None or sum(map(len, form.values())) <= largest_piece:
                pieces[self.text[start:end]] = form
        return {"text": self.text, "pieces": pieces} if pieces else {"text": self.text}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Draft:
        """Parse the output of `to_dict`, ignoring unknown pieces of newer versions. Raises `ValueError`."""
        text, pieces = data.get("text"), data.get("pieces", {})
        if not isinstance(text, str) or not isinstance(pieces, Mapping):
            raise ValueError("not a draft")
        known = {chip: piece for chip, form in pieces.items() if (piece := _piece_from_dict(form)) is not None}
        return cls(clean_text(text), known)


def _with_path(chip: str, path: str) -> str:
    """The chip with the image's path in place of its name, if it can contain it."""
    if not path or re.search(r"[\[\]\n]", plain_line(path)) or plain_line(path) != path:
        return chip
    return f"{chip.partition(':')[0]}: {path}]"


def load_image(piece: ImagePiece) -> ImagePiece | str:
    """Read an image and make it small enough to send; a string says why that failed. Blocking."""
    if piece.data:
        return piece
    data = read_bounded(piece.path, _MAX_IMAGE_FILE)
    if isinstance(data, Unread):
        return data.detail or f"the file is {data.reason}"
    return make_image_piece(data, piece.path)


def make_image_piece(data: bytes, path: str = "") -> ImagePiece | str:
    """Make an image from bytes, small enough to send; a string says why that failed. Blocking."""
    from agentcli.tools.documents.image import Picture, fit_image

    picture = fit_image(data)
    if not isinstance(picture, Picture):
        return picture.reason
    return ImagePiece(path, base64.b64encode(picture.data).decode("ascii"), picture.media_type)


def _piece_to_dict(piece: Piece) -> dict[str, str]:
    if isinstance(piece, PastedPiece):
        return {"text": piece.text}
    if piece.path:
        return {"path": piece.path}
    return {"data": piece.data, "media_type": piece.media_type}


def _piece_from_dict(form: object) -> Piece | None:
    if not isinstance(form, Mapping) or not all(isinstance(value, str) for value in form.values()):
        return None
    if "text" in form:
        return PastedPiece(form["text"])
    if form.get("path") or (form.get("data") and form.get("media_type")):
        return ImagePiece(form.get("path", ""), form.get("data", ""), form.get("media_type", ""))
    return None


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

    @property
    def entries(self) -> list[Draft]:
        """All entries, oldest first, consecutive duplicates collapsed."""
        self.warm()
        assert self._entries is not None
        return self._entries

    def warm(self) -> None:
        """Read the file in advance, in a thread, so that the first Up does not wait."""
        if self._entries is None:
            read = self._read()
            # Those of this process are whole here; in the file they may be cut, or missing if writing failed.
            own = {draft.text for draft in self._own}
            self._entries = _collapse([*(draft for draft in read if draft.text not in own), *self._own])[-MAX_ENTRIES:]

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

    def newest(self) -> list[Draft]:
        """Entries, newest first, each text once. Blocking before the file was read."""
        return list({draft.text: draft for draft in reversed(self.entries)}.values())

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
        with suppress(OSError):
            make_private_dir(self._path.parent)
            with _open_locked(self._path) as descriptor:
                # An unfinished line of another process must not join ours.
                os.write(descriptor, _after_torn(descriptor) + line.encode("utf-8", "replace") + b"\n")

    def _compact(self) -> None:
        """Keep only the newest entries. Appending processes wait for the lock, then use the new file."""
        assert self._path is not None
        with suppress(OSError), _open_locked(self._path) as descriptor:
            with open(descriptor, "rb", closefd=False) as file:
                file.seek(max(0, os.fstat(descriptor).st_size - _MAX_READ))
                kept = _collapse(_parse(file.read().split(b"\n")))[-MAX_ENTRIES:]
            lines = [json.dumps(draft.to_dict(), ensure_ascii=False) for draft in kept]
            while sum(map(len, lines)) > _COMPACT_AT // 2:
                del lines[: max(1, len(lines) // 4)]
            replace_file(self._path, "".join(line + "\n" for line in lines).encode("utf-8", "replace"), 0o600)


@contextmanager
def _open_locked(path: Path) -> Iterator[int]:
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
        return self._move(current, -1)

    def newer(self, current: Draft) -> Draft | None:
        return None if self._at is None else self._move(current, 1)

    def end(self) -> None:
        """Stop browsing: the next walk begins at the newest entry."""
        self._at = None
        self._changed = {}
        self._entries = []

    def _move(self, current: Draft, step: int) -> Draft | None:
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
        self._writing: asyncio.Task[None] | None = None
        self._disk = threading.Lock()
        """Held while a file is written, so that a late thread never writes a discarded draft again."""
        self._written = 0
        self._version = 0
        self._found: tuple[Path, Draft] | None = None
        """The draft of an ended process that `load` returned, and its file, which belongs to this process now."""

    # ------------------------------------------------------------------------------------------ of this process

    def changed(self, current: Callable[[], Draft]) -> None:
        """Schedule a write after a change; `current` returns the content when it is written. Very cheap."""
        self._version += 1
        self._current = current
        self._stop_timer()
        if self._folder is not None:
            self._timer = asyncio.get_running_loop().call_later(self._quiet_seconds, self._start_writing)

    def flush(self) -> None:
        """Write pending changes now: the program ends."""
        self._stop_timer()
        if self._current is not None and self._folder is not None:
            self._write(self._version, self._current())

    def flush_in_thread(self) -> None:
        """Start to write pending changes now, without waiting for the disk: the window lost its focus."""
        if self._timer is not None:
            self._stop_timer()
            self._start_writing()

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

    def _start_writing(self) -> None:
        self._timer = None
        if self._writing is not None and not self._writing.done():
            self._timer = asyncio.get_running_loop().call_later(self._quiet_seconds, self._start_writing)
        elif self._current is not None:
            written = asyncio.to_thread(self._write, self._version, self._current())
            self._writing = start_task(written, name="draft")

    def _write(self, version: int, draft: Draft) -> None:
        assert self._file is not None
        with self._disk, suppress(OSError):
            if version <= self._written:
                return
            if draft.is_empty or has_key(draft.expanded()):
                self._file.unlink(missing_ok=True)
            else:
                make_private_dir(self._file.parent)
                data = {"version": 1, "pid": os.getpid(), "draft": draft.to_dict()}
                replace_file(self._file, json.dumps(data).encode(), 0o600)
                self._drop_found(draft)
            self._written = version

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
