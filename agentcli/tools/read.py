"""Read: a file as numbered lines, or a picture as a picture.

Notes what was seen in the read cache. Never changes a file; a file of any size costs bounded memory.
"""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncGenerator, Callable, Iterable

from agentcli.core.abort import AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.messages import ImageBlock, Json, TextBlock
from agentcli.core.plaintext import visible_text
from agentcli.tools.base import Output, Progress, ToolContext
from agentcli.tools.builtin import BuiltinTool, absolute_path, failure, in_thread, object_schema, os_failure, shown_path
from agentcli.tools.encoding import decode, looks_binary
from agentcli.tools.files import LARGEST_LOADED, Refusal, inspect, load, near_names, open_without_links
from agentcli.tools.readcache import Seen, digest_of

MOST_LINES = 2_000
LONGEST_LINE = 2_000
MOST_CHARACTERS = 48_000
"""Below the limit at which a result is moved out of the conversation: what Read shows stays readable."""
LARGEST_IMAGE = 5 * 1024 * 1024 * 3 // 4
"""The API takes 5 MB of base64, which is this many bytes."""


@frozen
class _Page:
    """Some lines of a file."""

    text: str
    first: int
    last: int
    total: int | None
    """None: not counted, there is more."""
    cut_lines: int

    @property
    def whole(self) -> bool:
        return self.first == 1 and self.last == self.total and not self.cut_lines


class Read(BuiltinTool):
    name = "Read"
    subject = "file_path"
    input_schema = object_schema(
        ["file_path"],
        {
            "file_path": {"type": "string", "description": "The file, absolute or relative to the working directory"},
            "offset": {"type": "integer", "minimum": 0, "description": "First line to show, counted from 1"},
            "limit": {"type": "integer", "minimum": 1, "description": "How many lines to show"},
        },
    )

    async def run(
        self, input: Json, context: ToolContext, signal: AbortSignal
    ) -> AsyncGenerator[Progress | Output, None]:
        path = absolute_path(input["file_path"], context)
        shown = shown_path(path, context)
        real = await in_thread(os.path.realpath, path)
        found = await in_thread(inspect, real, shown)
        if isinstance(found, Refusal):
            yield await _refused(found, path, context)
            return
        offset = max(1, int(input.get("offset") or 1))
        limit = min(MOST_LINES, int(input.get("limit") or MOST_LINES))
        try:
            if found.st_size > LARGEST_LOADED:
                yield await in_thread(_read_large, real, shown, offset, limit)
                return
            data = await load(real)
        except OSError as error:
            yield os_failure(error, f"{shown} cannot be read")
            return
        output, seen = await in_thread(_present, data, shown, offset, limit)
        if seen is not None:
            context.read_cache.note_digest(real, seen.digest, seen.whole)
        yield output


async def _refused(refusal: Refusal, path: str, context: ToolContext) -> Output:
    if not refusal.missing:
        return failure(refusal.text)
    near = await in_thread(near_names, path)
    hint = f" Did you mean {' or '.join(visible_text(name) for name in near)}?" if near else ""
    return failure(f"{refusal.text}{hint} The working directory is {context.cwd}.", summary="not found")


def _present(data: bytes, shown: str, offset: int, limit: int) -> tuple[Output, Seen | None]:
    """What is shown of a file, and what the model has then seen of it."""
    kind = image_kind(data)
    if kind is not None:
        return _image(data, kind, shown), None
    if not data:
        return Output(f"{shown} exists and is empty.", summary="empty"), Seen(digest_of(data), whole=True)
    decoded = decode(data)
    if decoded is None:
        what = "a binary file" if looks_binary(data[:8192]) or b"\x00" in data else "in an unknown encoding"
        text = f"{shown} is {what} ({len(data):,} bytes) and cannot be shown as text."
        return failure(text, summary="binary"), None
    lines = decoded.text.split("\n")
    if lines[-1] == "":
        lines.pop()
    page = _page(lines[offset - 1 :], offset, limit, total=len(lines))
    if page is None:
        text = f"{shown} has {len(lines):,} lines; offset {offset:,} is past its end."
        return failure(text, summary="past the end"), None
    return _shown(page, shown), Seen(digest_of(data), page.whole)


def _read_large(real: str, shown: str, offset: int, limit: int) -> Output:
    """Line by line: whoever reads a few lines of a gigabyte pays for those before them, in time but not in memory."""
    with open(real, "rb", opener=open_without_links) as file:
        if looks_binary(file.read(8192)):
            size = os.fstat(file.fileno()).st_size
            return failure(f"{shown} is a binary file ({size:,} bytes) and cannot be shown as text.", summary="binary")
        file.seek(0)
        raw = iter(lambda: _bounded_line(file.readline), b"")
        skipped = sum(1 for _index, _line in zip(range(offset - 1), raw, strict=False))
        if skipped < offset - 1:
            return failure(f"{shown} has {skipped:,} lines; offset {offset:,} is past its end.", summary="past the end")
        lines = (line.decode("utf-8", errors="replace").rstrip("\n") for line in raw)
        page = _page(lines, offset, limit, total=None)
    if page is None:
        return failure(f"{shown} has {skipped:,} lines; offset {offset:,} is past its end.", summary="past the end")
    return _shown(page, shown)


def _bounded_line(readline: Callable[[int], bytes]) -> bytes:
    line = readline(LONGEST_LINE * 4)
    rest = line
    # The rest of a line too long to be shown is read away piece by piece.
    while rest and not rest.endswith(b"\n"):
        rest = readline(1 << 20)
    return line if line.endswith(b"\n") or not line else line + b"\n"


def _page(lines: Iterable[str], offset: int, limit: int, *, total: int | None) -> _Page | None:
    """The lines from `offset` on, which is where `lines` begins; None if there are none."""
    shown: list[str] = []
    size = cut = 0
    number = offset - 1
    for line, _index in zip(lines, range(limit), strict=False):
        text = visible_text(line.removesuffix("\r"))
        if len(text) > LONGEST_LINE:
            text = f"{text[:LONGEST_LINE]}… [{len(text) - LONGEST_LINE:,} more characters in this line]"
            cut += 1
        size += len(text) + 8
        if size > MOST_CHARACTERS and shown:
            break
        number += 1
        shown.append(f"{number}\t{text}")
    return _Page("\n".join(shown), offset, number, total, cut) if shown else None


def _shown(page: _Page, shown: str) -> Output:
    notices: list[str] = []
    if page.total is None or page.first > 1 or page.last < page.total:
        of = f" of {page.total:,}" if page.total is not None else ""
        more = f" Continue with offset {page.last + 1}." if page.total is None or page.last < page.total else ""
        notices.append(f"Partial: lines {page.first:,}–{page.last:,}{of}.{more}")
    if page.cut_lines:
        notices.append(f"{page.cut_lines} long lines are cut at {LONGEST_LINE:,} characters.")
    text = page.text + (f"\n\n[{' '.join(notices)}]" if notices else "")
    count = page.last - page.first + 1
    display = {"kind": "code", "path": shown, "first_line": page.first, "lines": count}
    return Output(text, summary=f"{count:,} line{'s' if count != 1 else ''}", display=display)


# -------------------------------------------------------------------------------------------------------- pictures


def image_kind(data: bytes) -> str | None:
    """The media type by what is in the file, not by its name: the API refuses a picture that is not what it says."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def _image(data: bytes, kind: str, shown: str) -> Output:
    if len(data) > LARGEST_IMAGE:
        limit = f"{LARGEST_IMAGE / 1024 / 1024:.2f} MB"
        text = f"{shown} is a picture of {len(data):,} bytes; at most {limit} can be shown. Make a smaller copy first."
        return failure(text, summary="too large")
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode("ascii")}
    content = (TextBlock(f"{shown} ({kind}, {len(data):,} bytes)"), ImageBlock(source))
    return Output(content, summary=kind, structured={"type": "image", "path": shown, "media_type": kind})
