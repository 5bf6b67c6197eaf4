"""Text as Read shows it: numbered lines, limited, with a notice about missing parts.

A file too large to load is read in chunks: reading a few lines of a gigabyte takes time for the lines before them, but
no memory. Blocking; the loop checks `stopped` often.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import BinaryIO

from agentcli.core.files.access import open_without_links
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, clean_text
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import spell_hidden, visible_text
from agentcli.tools.base import Output, failure
from agentcli.tools.files.encoding import Decoded, decode, looks_binary
from agentcli.tools.files.file_kinds import language_of

MAX_LINES = 2_000
MAX_LINE_LENGTH = 2_000
MAX_CHARACTERS = 48_000
"""Below the limit at which results are moved out of the conversation, so that Read output stays in it."""
_MAX_DISPLAYED = 10_000
_CHUNK = 1 << 20


@frozen
class Wanted:
    path: str
    shown: str
    offset: int = 1
    limit: int = MAX_LINES


@frozen
class LineRange:
    lines: tuple[str, ...]
    first: int
    total: int | None
    """Number of lines in the file; None if not counted, so there may be more."""
    cut_lines: int = 0

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def whole(self) -> bool:
        return self.first == 1 and self.last == self.total and not self.cut_lines


def make_legible(text: str) -> str:
    """Make text safe for terminals and for the API, character by character."""
    if text.isascii() and text.isprintable():
        return text
    return clean_text(visible_text(text))


def select_lines(decoded: Decoded, wanted: Wanted) -> LineRange | Output:
    lines = decoded.text.split(decoded.newline if decoded.newline == "\r" else "\n")
    if lines[-1] == "":
        lines.pop()
    line_range = _line_range(lines[wanted.offset - 1 :], wanted, total=len(lines))
    return line_range or _report_past_end(wanted, len(lines))


def _report_past_end(wanted: Wanted, count: int) -> Output:
    text = f"{wanted.shown} has {counted(count, 'line')}; offset {wanted.offset:,} is past its end."
    return failure(text, summary="past the end")


def format_lines(line_range: LineRange, wanted: Wanted, encoding: str | None, size: int | None = None) -> Output:
    notices: list[str] = []
    is_partial = line_range.total is None or line_range.first > 1 or line_range.last < line_range.total
    if is_partial:
        of = f" of {line_range.total:,}" if line_range.total is not None else ""
        has_more = line_range.total is None or line_range.last < line_range.total
        more = f" Continue with offset {line_range.last + 1}." if has_more else ""
        large = f" The file has {counted(size, 'byte')}." if size is not None else ""
        notices.append(f"Partial: lines {line_range.first:,}–{line_range.last:,}{of}.{more}{large}")
    if line_range.cut_lines:
        verb = "is" if line_range.cut_lines == 1 else "are"
        notices.append(
            f"{counted(line_range.cut_lines, 'long line')} {verb} cut at {MAX_LINE_LENGTH:,} characters; "
            "get the rest with a command (cut -c) or Grep."
        )
    if encoding is not None:
        notices.append(f"Encoding: {encoding}.")
    text = "\n".join(f"{number}\t{line}" for number, line in enumerate(line_range.lines, line_range.first))
    if notices:
        text += f"\n\n[{' '.join(notices)}]"
    count = len(line_range.lines)
    partly = f" of {line_range.total:,}" if line_range.total is not None and line_range.total != count else ""
    structured = {
        "type": "text",
        "path": wanted.path,
        "start_line": line_range.first,
        "line_count": count,
        "total_lines": line_range.total,
        "encoding": encoding or "UTF-8",
    }
    summary = f"{count:,}{partly} {'line' if (line_range.total or count) == 1 else 'lines'}"
    data = {"partial": True} if is_partial or line_range.cut_lines else {}
    return Output(text, summary=summary, display=_display(line_range, wanted), structured=structured, data=data)


def _display(line_range: LineRange, wanted: Wanted) -> Json:
    text = "\n".join(line_range.lines)
    if len(text) > _MAX_DISPLAYED:
        text = text[:_MAX_DISPLAYED].rpartition("\n")[0]
    return {
        "kind": "code",
        "path": wanted.shown,
        "language": language_of(wanted.path),
        "text": spell_hidden(text),
        "start": line_range.first,
        "lines": len(line_range.lines),
    }


def _line_range(lines: Iterable[str], wanted: Wanted, *, total: int | None) -> LineRange | None:
    """The range that starts at the offset, where `lines` begins; None if there are no lines."""
    shown: list[str] = []
    size = cut = 0
    for line, _index in zip(lines, range(wanted.limit), strict=False):
        line = line.removesuffix("\r")
        text = make_legible(line[:MAX_LINE_LENGTH])
        if len(line) > MAX_LINE_LENGTH:
            # In a large file the line was truncated earlier, so its length is unknown.
            more = (
                f"{counted(len(line) - MAX_LINE_LENGTH, 'more character')} in this line" if total is not None else "cut"
            )
            text += f"… [{more}]"
            cut += 1
        size += len(text) + 8
        if size > MAX_CHARACTERS and shown:
            break
        shown.append(text)
    return LineRange(tuple(shown), wanted.offset, total, cut) if shown else None


def read_large(real: str, wanted: Wanted, stopped: Callable[[], bool]) -> Output:
    """Read a range of a large file in chunks. Raises OSError."""
    with open(real, "rb", opener=open_without_links) as file:
        size = os.fstat(file.fileno()).st_size
        sample = file.read(1 << 16)
        encoding = _detect_encoding(sample)
        if encoding is None:
            text = f"{wanted.shown} is a binary file ({counted(size, 'byte')}) and cannot be shown as text."
            return failure(text, summary="binary")
        if encoding.encoding.startswith(("utf-16", "utf-32")):
            name = encoding.unusual
            large = f"{wanted.shown} is {name} and too large to be loaded ({counted(size, 'byte')})."
            text = f"{large} Convert it first (iconv)."
            return failure(text, summary="too large")
        file.seek(len(encoding.mark))
        skipped = _skip_lines(file, wanted.offset - 1, stopped)
        if stopped():
            return failure("Interrupted while looking for the line.", summary="interrupted")
        if skipped < wanted.offset - 1:
            return _report_past_end(wanted, skipped)
        errors = "replace" if encoding.encoding != "utf-8" or not encoding.invalid else "surrogateescape"
        raw = iter(lambda: _read_bounded_line(file.readline, stopped), b"")
        lines = (line.decode(encoding.encoding, errors).rstrip("\n") for line in raw)
        line_range = _line_range(lines, wanted, total=None)
    return format_lines(line_range, wanted, encoding.unusual, size) if line_range else _report_past_end(wanted, skipped)


def _detect_encoding(sample: bytes) -> Decoded | None:
    # The sample may end inside a character; try a few bytes less.
    for cut in range(4):
        decoded = decode(sample[: len(sample) - cut])
        if decoded is not None and not decoded.invalid and decoded.encoding == "utf-8":
            return decoded
    return None if looks_binary(sample[:8192]) or b"\x00" in sample[:8192] else decode(sample) or Decoded("", "latin-1")


def _skip_lines(file: BinaryIO, count: int, stopped: Callable[[], bool]) -> int:
    """Move to the beginning of a line; returns how many lines were skipped, fewer only at the end of the file."""
    skipped, unended = 0, False
    while skipped < count and not stopped():
        chunk = file.read(_CHUNK)
        if not chunk:
            return skipped + unended
        ends = chunk.count(b"\n")
        if skipped + ends < count:
            skipped += ends
            unended = not chunk.endswith(b"\n")
            continue
        at = -1
        for _end in range(count - skipped):
            at = chunk.index(b"\n", at + 1)
        file.seek(at + 1 - len(chunk), os.SEEK_CUR)
        return count
    return skipped


def _read_bounded_line(readline: Callable[[int], bytes], stopped: Callable[[], bool]) -> bytes:
    line = readline(MAX_LINE_LENGTH * 4)
    rest = line
    # Skip the rest of an overlong line in chunks.
    while rest and not rest.endswith(b"\n") and not stopped():
        rest = readline(_CHUNK)
    return line if line.endswith(b"\n") or not line else line + b"\n"
