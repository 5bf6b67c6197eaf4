"""Convert the bytes of a response to text for a model: type, encoding, length.

HTML is converted by `html_worker` in a separate process.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from agentcli.core.abort import AbortSignal
from agentcli.core.aio import in_thread
from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.tools.worker import run_worker

MAX_CHARACTERS = 100_000
SECONDS = 30
"""Time that the conversion of a page may take."""
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = re.compile(
    r"text/.*|application/(?:[\w.-]+\+)?(?:json|xml|yaml|toml|javascript|ecmascript|typescript|graphql|sql|x-sh|ld\+json)"
    r"|application/(?:x-)?(?:yaml|ndjson|jsonlines|httpd-php|www-form-urlencoded)|image/svg\+xml|message/.*",
    re.IGNORECASE,
)
_META = re.compile(rb"<meta[^>]{0,500}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([\w:.-]{1,40})", re.IGNORECASE)
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_READ_AS = {
    # Browsers read these labels as a superset encoding.
    **dict.fromkeys(("iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii"), "cp1252"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis"), "cp932"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987"), "cp949"),
    **dict.fromkeys(("iso-8859-9",), "cp1254"),
}
_REFUSED_CODECS = frozenset(
    {"utf-7", "idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem"}
)
"""Codecs of Python that browsers do not know, or that depend on the machine."""
_MAGIC = (
    (b"%PDF-", "a PDF document"),
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "an ELF program"),
)


@frozen
class PageText:
    """A page that could be converted."""

    title: str
    text: str
    """Markdown or plain text, at most MAX_CHARACTERS."""
    cut: int
    """Number of characters cut off at the end."""


@frozen
class Binary:
    """A response that is no text."""

    what: str
    """Its kind with an article: `a PDF document`, `an image (image/webp)`, `binary data`."""


@frozen
class Unreadable:
    """A page whose conversion failed."""

    reason: str


async def read_page(body: bytes, content_type: str, url: str, signal: AbortSignal) -> PageText | Binary | Unreadable:
    """Convert a response, by its content type or, if that is missing or says nothing, by its bytes."""
    kind = content_type.partition(";")[0].strip().lower()
    named = next((what for magic, what in _MAGIC if body.startswith(magic)), None)
    is_html = kind in _HTML or (not kind and _looks_like_html(body))
    is_text = is_html or _TEXT.fullmatch(kind) or (not _is_specific(kind) and _looks_like_text(body))
    if named is not None or not is_text:
        return Binary(named or _kind_text(kind))
    text = await in_thread(decode, body, content_type)
    if is_html or (kind in ("text/plain", "") and _looks_like_html(body)):
        worker = Path(__file__).with_name("html_worker.py")
        found = await run_worker(worker, text.encode("utf-8", "replace"), url, seconds=SECONDS, signal=signal)
        if "error" in found:
            return Unreadable(found["error"])
        title, text = plain_line(found["title"]), found["markdown"]
    else:
        title = ""
    text = (await in_thread(plain_text, text)).strip()
    return PageText(title, text[:MAX_CHARACTERS], max(len(text) - MAX_CHARACTERS, 0))


def decode(body: bytes, content_type: str) -> str:
    """Decode by BOM, header, the page's declaration, else UTF-8; invalid bytes are replaced."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    header = re.search(r"charset\s*=\s*[\"']?\s*([\w:.-]{1,40})", content_type, re.IGNORECASE)
    own = _META.search(body[:4096])
    by_header = _codec(header[1]) if header else None
    by_page = _codec(own[1].decode("ascii", "replace")) if own else None
    if by_page is not None and by_page.startswith(("utf-16", "utf-32")):
        by_page = "utf-8"  # a declaration that could be read as ASCII cannot be UTF-16
    chosen = by_header or by_page
    if chosen is not None:
        return body.decode(chosen, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        # The end may be cut inside a character.
        return body.decode("utf-8" if error.reason == "unexpected end of data" else "cp1252", "replace")


def _codec(label: str) -> str | None:
    name = label.strip().lower()
    name = _READ_AS.get(name, name)
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    if found.name.replace("_", "-") in _REFUSED_CODECS or not getattr(found, "_is_text_encoding", True):
        return None
    return found.name


def _is_specific(kind: str) -> bool:
    """Whether a content type says more than "some bytes"."""
    return bool(kind) and kind not in ("application/octet-stream", "binary/octet-stream", "unknown/unknown")


def _kind_text(kind: str) -> str:
    if kind == "application/pdf":
        return "a PDF document"
    family = kind.partition("/")[0]
    if family in ("image", "audio", "video", "font"):
        article = "an" if family[0] in "ai" else "a"
        return f"{article} {family} ({plain_line(kind, limit=80)})"
    return f"binary data ({plain_line(kind, limit=80)})" if kind else "binary data"


def _looks_like_html(body: bytes) -> bool:
    start = body[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return start.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))


def _looks_like_text(body: bytes) -> bool:
    sample = body[:4096]
    odd = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in sample)
    return b"\x00" not in sample and odd <= len(sample) // 50
