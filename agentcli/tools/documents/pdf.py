"""Pages of a PDF as text; a page without text (a scan) as an image.

Text instead of the document: it costs a fraction of the tokens, works with every endpoint, and can be continued page by
page. `pdf_worker` does the parsing in a separate process.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentcli.core.aio import Aborted, AbortSignal, in_thread
from agentcli.core.frozen import frozen
from agentcli.core.messages import ImageBlock, TextBlock
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import spell_hidden
from agentcli.tools.base import Output, failure
from agentcli.tools.documents.image import Picture, fit_image
from agentcli.tools.files.numbered_lines import MAX_CHARACTERS, Wanted, make_legible
from agentcli.tools.worker import run_worker

MAX_PAGES = 20
_SECONDS = 60
_MAX_OF_A_PAGE = 20_000


@frozen
class PageRange:
    first: int
    last: int


def page_range(given: str) -> PageRange | str:
    """Parse `3` or `1-5`; returns a message if it is neither."""
    match = re.fullmatch(r"\s*(\d{1,6})\s*(?:[-–]\s*(\d{1,6})?\s*)?", given)
    if match is None or not int(match[1]):
        return f"pages must be a page or a range of pages, such as 3 or 1-5, not {given[:40]!r}."
    first = int(match[1])
    open_ended = match[2] is None and re.search(r"[-–]", given) is not None
    last = first + MAX_PAGES - 1 if open_ended else int(match[2] or first)
    if last < first:
        return f"pages {given[:40]!r} ends before it begins."
    if last - first >= MAX_PAGES:
        return f"At most {MAX_PAGES} pages can be read at once; {given.strip()} are {last - first + 1}."
    return PageRange(first, last)


async def read_pdf(data: bytes, wanted: Wanted, pages: PageRange | None, signal: AbortSignal) -> Output:
    """Read pages of a PDF. `data` is the whole file."""
    asked = pages or PageRange(1, MAX_PAGES)
    try:
        worker = Path(__file__).with_name("pdf_worker.py")
        pages_read = (str(asked.first), str(asked.last))
        result = await run_worker(worker, data, *pages_read, seconds=_SECONDS, signal=signal)
    except Aborted:
        return failure("Interrupted while the PDF was read.", summary="interrupted")
    if "error" in result:
        return failure(f"{wanted.shown} is a PDF that cannot be read: {result['error']}.", summary="PDF")
    if not result["pages"]:
        text = f"{wanted.shown} has {counted(result['total'], 'page')}; page {asked.first} is past its end."
        return failure(text, summary="past the end")
    return await in_thread(_format_pages, result, wanted)


def _format_pages(result: dict[str, Any], wanted: Wanted) -> Output:
    total, found = result["total"], result["pages"]
    blocks: list[TextBlock | ImageBlock] = []
    size, last = 0, found[0]["number"]
    for page in found:
        text = _page_text(page["text"])
        if size and size + len(text) > MAX_CHARACTERS:
            break
        size += len(text)
        last = page["number"]
        blocks += _page_blocks(page, text, total)
    first = found[0]["number"]
    if first > 1 or last < total:
        more = f' Continue with pages "{last + 1}-{min(total, last + MAX_PAGES)}".' if last < total else ""
        blocks.append(TextBlock(f"[Partial: pages {first}–{last} of {total}.{more}]"))
    count = last - first + 1
    partly = f" of {total}" if count != total else ""
    structured = {"type": "pdf", "path": wanted.path, "first_page": first, "last_page": last, "total_pages": total}
    shown = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))[:10_000]
    display = {"kind": "text", "path": wanted.shown, "text": spell_hidden(shown)}
    summary = f"{count}{partly} {'page' if total == 1 else 'pages'}"
    return Output(_join_texts(blocks), summary=summary, display=display, structured=structured)


def _page_text(text: str) -> str:
    text = make_legible(text).strip()
    if len(text) > _MAX_OF_A_PAGE:
        return f"{text[:_MAX_OF_A_PAGE]}… [{counted(len(text) - _MAX_OF_A_PAGE, 'more character')} on this page]"
    return text


def _page_blocks(page: dict[str, Any], text: str, total: int) -> Iterator[TextBlock | ImageBlock]:
    picture = fit_image(base64.b64decode(page["picture"])) if "picture" in page else None
    missing = "(as a picture)" if isinstance(picture, Picture) else "(no text; it may be a scan or empty)"
    yield TextBlock(f"--- page {page['number']} of {total} ---\n{text or missing}\n")
    if isinstance(picture, Picture):
        yield picture.block()


def _join_texts(blocks: list[TextBlock | ImageBlock]) -> tuple[TextBlock | ImageBlock, ...]:
    """Join adjacent texts: each block costs extra tokens."""
    joined: list[TextBlock | ImageBlock] = []
    for block in blocks:
        if joined and isinstance(block, TextBlock) and isinstance(joined[-1], TextBlock):
            joined[-1] = TextBlock(f"{joined[-1].text}\n{block.text}")
        else:
            joined.append(block)
    return tuple(joined)
