"""Read: a file as numbered lines, an image, the pages of a PDF, or the cells of a notebook.

Records in the read cache what the model has seen. Never changes a file; memory use is bounded for any file size.
"""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path

from agentcli.core.aio import AbortSignal, in_thread, start_task, wait_uncancelled
from agentcli.core.files.access import real_path
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, TextBlock
from agentcli.core.permission import Need
from agentcli.core.text.format import counted
from agentcli.tools.base import (
    BuiltinTool,
    Output,
    ToolContext,
    ToolRun,
    absolute_path,
    failure,
    object_schema,
    os_failure,
    show_path,
)
from agentcli.tools.files.disk import (
    MAX_LOADED_SIZE,
    Refusal,
    folder_names,
    inspect,
    load,
    load_blocking,
    near_names,
    quote_name,
)
from agentcli.tools.files.encoding import decode, looks_binary
from agentcli.tools.files.file_kinds import image_media_type, is_pdf
from agentcli.tools.files.numbered_lines import MAX_LINES, LineRange, Wanted, format_lines, read_large, select_lines
from agentcli.tools.files.read_cache import Seen, digest_of

MAX_AT_ONCE = 1024 * 1024
"""Maximum bytes of a file that is found, read and formatted in one thread call."""
_MAX_NAMES = 50


class Read(BuiltinTool):
    name = "Read"
    subject = "file_path"
    names_file = explores = True
    again = "Read it again if you need it."
    input_schema = object_schema(
        ["file_path"],
        {
            "file_path": {"type": "string", "description": "The file, absolute or relative to the project's root"},
            "offset": {"type": "integer", "minimum": 0, "description": "First line (of a notebook: cell), from 1"},
            "limit": {"type": "integer", "minimum": 1, "description": "How many lines (of a notebook: cells)"},
            "pages": {"type": "string", "description": "Of a PDF: a page or a range, e.g. 3 or 1-5; at most 20 pages"},
        },
    )

    def title(self, input: Json) -> str:
        title = super().title(input)
        if input.get("pages"):
            return f"{title} (pages {str(input['pages'])[:20]})"
        first, count = input.get("offset"), input.get("limit")
        if isinstance(first, int) and isinstance(count, int):
            return f"{title} (lines {max(1, first)}–{max(1, first) + count - 1})"
        return f"{title} (from line {first})" if isinstance(first, int) and first > 1 else title

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        path = absolute_path(input.get("file_path"), context)
        try:
            real = real_path(path)
        except (OSError, ValueError):
            real = path
        return (Need("read", path, "" if real == path else real),)

    def check(self, input: Json, context: ToolContext) -> str | None:
        if input.get("pages"):
            from agentcli.tools.documents.pdf import page_range

            pages = page_range(input["pages"])
            if isinstance(pages, str):
                return pages
        return super().check(input, context)

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        path = absolute_path(input["file_path"], context)
        offset = max(1, int(input.get("offset") or 1))
        limit = min(MAX_LINES, int(input.get("limit") or MAX_LINES))
        wanted = Wanted(path, show_path(path, context), offset, limit)
        found = await in_thread(_find, wanted, context)
        if isinstance(found, Output):
            yield found
            return
        try:
            if found.size > MAX_LOADED_SIZE:
                output = await _large(found.real, wanted, signal)
                yield _note_ignored_pages(output) if input.get("pages") else output
                return
            data = await load(found.real) if found.data is None else found.data
        except OSError as error:
            yield os_failure(error, f"{wanted.shown} cannot be read")
            return
        if is_pdf(data):
            yield await _pdf(data, wanted, input.get("pages"), signal)
            return
        output, seen = await in_thread(_present, data, wanted) if found.presented is None else found.presented
        if seen is not None:
            context.read_cache.note_digest(found.real, seen.digest, seen.whole, data)
        yield _note_ignored_pages(output) if input.get("pages") else output


@frozen
class _Found:
    """A regular file. If it is small, with `data` and, unless it is a PDF, `presented`."""

    real: str
    size: int
    data: bytes | None = None
    presented: tuple[Output, Seen | None] | None = None


def _find(wanted: Wanted, context: ToolContext) -> _Found | Output:
    """Find the file, and read and format a small one: a second thread call would take longer than reading it.
    Blocking."""
    try:
        real = os.path.realpath(wanted.path)
    except OSError as error:
        # A link may disappear while it is resolved.
        return os_failure(error, f"{wanted.shown} cannot be found")
    decided = [need.real or need.target for need in context.needs if need.kind == "read"]
    if decided and real not in decided:
        text = f"{wanted.shown} now leads to another file than when it was approved. Try again."
        return failure(text, summary="led elsewhere")
    found = inspect(real, wanted.shown)
    if isinstance(found, Refusal):
        return _report_refusal(found, wanted.path, context)
    if found.st_size > MAX_AT_ONCE:
        return _Found(real, found.st_size)
    try:
        data = load_blocking(real)
    except OSError as error:
        return os_failure(error, f"{wanted.shown} cannot be read")
    return _Found(real, found.st_size, data, None if is_pdf(data) else _present(data, wanted))


async def _large(real: str, wanted: Wanted, signal: AbortSignal) -> Output:
    stop = threading.Event()
    unhook = signal.on_abort(lambda _reason: stop.set())
    work = start_task(in_thread(read_large, real, wanted, stop.is_set))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        await wait_uncancelled([work])
        raise
    finally:
        unhook()


async def _pdf(data: bytes, wanted: Wanted, pages: str | None, signal: AbortSignal) -> Output:
    from agentcli.tools.documents.pdf import page_range, read_pdf

    chosen = page_range(pages) if pages else None
    return failure(chosen) if isinstance(chosen, str) else await read_pdf(data, wanted, chosen, signal)


def _note_ignored_pages(output: Output) -> Output:
    note = "[This is not a PDF, so pages was ignored. Use offset and limit to choose lines.]"
    if isinstance(output.content, str):
        return replace(output, content=f"{output.content}\n\n{note}")
    return replace(output, content=(*output.content, TextBlock(note)))


def _report_refusal(refusal: Refusal, path: str, context: ToolContext) -> Output:
    if refusal.is_folder:
        return failure(f"{refusal.text}{_list_names(path, context)}", summary="directory")
    if not refusal.missing:
        return failure(refusal.text)
    near = near_names(path, context.hides)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    folder = Path(path).parent
    if not hint and not folder.is_dir():
        hint = f" Neither does its folder, {show_path(str(folder), context)}."
    return failure(f"{refusal.text}{hint} Relative paths start at {context.root}.", summary="not found")


def _list_names(folder: str, context: ToolContext) -> str:
    names = [quote_name(name) for name in folder_names(folder, context.hides)]
    if not names:
        return " It is empty."
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return f" It contains: {', '.join(names[:_MAX_NAMES])}{more}."


def _present(data: bytes, wanted: Wanted) -> tuple[Output, Seen | None]:
    if image_media_type(data) is not None:
        return _image(data, wanted), None
    if not data:
        return Output(f"{wanted.shown} exists and is empty.", summary="empty"), Seen(digest_of(data), whole=True)
    decoded = decode(data)
    if decoded is None:
        is_binary = looks_binary(data[:8192]) or b"\x00" in data
        what = "a binary file" if is_binary else "in an unknown encoding"
        text = f"{wanted.shown} is {what} ({counted(len(data), 'byte')}) and cannot be shown as text."
        return failure(text, summary="binary"), None
    if wanted.path.endswith(".ipynb"):
        from agentcli.tools.documents.notebook import parse_notebook, show_notebook

        notebook = parse_notebook(decoded.text)
        if notebook is not None:
            cells = show_notebook(notebook, wanted)
            return cells.output, None if cells.output.is_error else Seen(digest_of(data), cells.whole)
    line_range = select_lines(decoded, wanted)
    if not isinstance(line_range, LineRange):
        return line_range, None
    return format_lines(line_range, wanted, decoded.unusual), Seen(digest_of(data), line_range.whole)


def _image(data: bytes, wanted: Wanted) -> Output:
    from agentcli.tools.documents.image import Picture, fit_image

    picture = fit_image(data)
    if not isinstance(picture, Picture):
        text = f"{wanted.shown} is a picture ({counted(len(data), 'byte')}) that cannot be shown: {picture.reason}."
        return failure(text, summary="picture")
    content = (TextBlock(f"{wanted.shown} ({picture.words})"), picture.block())
    summary = f"picture, {picture.width}×{picture.height}"
    structured = {
        "type": "image",
        "path": wanted.path,
        "media_type": picture.media_type,
        "width": picture.width,
        "height": picture.height,
    }
    display = {"kind": "image", "path": wanted.shown, "width": picture.width, "height": picture.height}
    return Output(content, summary=summary, display=display, structured=structured)
