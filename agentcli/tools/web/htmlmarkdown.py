"""Convert a web page to Markdown: keeps headings, lists, tables, code and links; drops scripts, hidden parts and
navigation.

For a model to read: short text in reading order matters, layout does not.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urljoin

from agentcli.core.frozen import frozen
from agentcli.tools.web.htmltokens import Token, tokens

_SKIPPED = frozenset(
    {"script", "style", "noscript", "template", "iframe", "svg", "math", "object", "canvas", "audio", "video", "map"}
    | {"select", "datalist", "button", "textarea", "dialog", "noembed", "xmp"}
)
_NOISE = frozenset({"nav", "footer", "menu"})
_NOISY_ROLES = frozenset({"navigation", "contentinfo", "search", "banner"})
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr", "param"}
)
_BLOCKS = frozenset(
    {
        "p",
        "div",
        "section",
        "article",
        "main",
        "header",
        "aside",
        "figure",
        "figcaption",
        "address",
        "details",
        "summary",
    }
    | {"dl", "dt", "dd", "fieldset", "form", "body", "hgroup", "center", "caption", "legend", "option", "nav", "footer"}
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~"}
_CODE = frozenset({"code", "kbd", "samp", "tt", "var"})
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source)-([\w+#.-]{1,30})")
_PERMALINKS = ("#", "§", "¶", "🔗")
"""Permalink symbols beside headings."""
_DEEPEST = 8
MOST_SOURCE = 2_000_000
"""Maximum characters of a page that are parsed: about two seconds of work, in a thread."""
MOST_WRITTEN = 400_000
_MOST_SPANS = 10
_SCANT = 200
"""A page with less text outside its navigation is shown with it."""


@frozen
class Document:
    title: str
    markdown: str


def to_markdown(source: str, base: str = "") -> Document:
    """Never raises; linear in the length of the page."""
    writer = _written(source, base, noise=False)
    document = Document(writer.title, writer.finished())
    if writer.left_out_noise and len(document.markdown) < _SCANT:
        whole = _written(source, base, noise=True).finished()
        if len(whole) > 2 * len(document.markdown):
            return Document(writer.title, whole)
    return document


def _written(source: str, base: str, *, noise: bool) -> _Writer:
    writer = _Writer(base, noise)
    for token in tokens(source[:MOST_SOURCE]):
        if writer.written > MOST_WRITTEN:
            break
        if token.kind == "text":
            writer.text(token.text)
        elif token.kind == "start":
            writer.start(token)
        else:
            writer.end(token.name)
    return writer


@dataclass(slots=True)
class _Span:
    """An open inline element: it wraps the text written since."""

    name: str
    start: int
    href: str = ""


@dataclass(slots=True)
class _List:
    number: int | None
    """Number of the next item; None in a bullet list."""
    bullet: str = ""
    """Prefix of the next block: set by `li`, used by the first block of the item."""


@dataclass(slots=True)
class _Table:
    rows: int = 0
    cells: list[str] = field(default_factory=list)
    in_cell: bool = False


class _Writer:
    def __init__(self, base: str, noise: bool) -> None:
        self.title = ""
        self.written = 0
        self.left_out_noise = False
        self._base = base
        self._noise = noise
        self._blocks: list[tuple[str, bool]] = []
        """Text, and whether it follows the previous block without an empty line."""
        self._inline: list[str] = []
        self._spans: list[_Span] = []
        self._lists: list[_List] = []
        self._tables: list[_Table] = []
        self._quotes = 0
        self._heading = 0
        self._code: list[str] | None = None
        self._language = ""
        self._skipped: tuple[str, int] | None = None
        """The skipped element, and how many of its name are open."""
        self._main: list[int] = []
        """Start and end of main content, in blocks."""

    def text(self, text: str) -> None:
        if self._skipped is not None:
            return
        if self._code is not None:
            self._code.append(text)
        else:
            self._inline.append(re.sub(r"[\s\u200b\ufeff]+", " ", text))

    def start(self, token: Token) -> None:
        name = token.name
        if self._skipped is not None:
            if name == self._skipped[0]:
                self._skipped = (name, self._skipped[1] + 1)
            return
        if name == "title":
            self.title = self.title or " ".join(html.unescape(token.text).split())[:300]
        elif name not in _VOID and self._is_left_out(token):
            self._skipped = (name, 1)
        elif name == "base":
            self._base = urljoin_or_empty(self._base, token.attributes.get("href", "")) or self._base
        elif self._code is not None:
            self._language = self._language or _language(token)
            if name == "br":
                self._code.append("\n")
        else:
            self._open(token)

    def end(self, name: str) -> None:
        if self._skipped is not None:
            if name == self._skipped[0]:
                self._skipped = (name, self._skipped[1] - 1) if self._skipped[1] > 1 else None
            return
        if self._code is not None:
            if name == "pre":
                self._end_code()
            return
        if name in _MARKS or name in _CODE or name == "a":
            self._close_span(name)
            return
        closer: Callable[[], None] | None = {
            "ul": self._end_list,
            "ol": self._end_list,
            "blockquote": self._end_quote,
            "td": self._end_cell,
            "th": self._end_cell,
            "tr": self._end_row,
            "table": self._end_table,
        }.get(name)
        if closer is not None:
            closer()
        elif name in _HEADINGS:
            self._flush()
            self._heading = 0
        elif name in _BLOCKS or name == "li":
            self._flush()
            if name == "main":
                self._main.append(len(self._blocks))

    def finished(self) -> str:
        if self._code is not None:
            self._end_code()
        self._flush()
        while self._tables:
            self._end_table()
        blocks = self._blocks
        if len(self._main) >= 2:
            inner = blocks[self._main[0] : self._main[-1]]
            if sum(len(text) for text, _tight in inner) > 500:
                blocks = inner
        parts: list[str] = []
        for text, tight in blocks:
            if parts:
                parts.append("\n" if tight else "\n\n")
            parts.append(text)
        return "".join(parts).strip()

    def _is_left_out(self, token: Token) -> bool:
        name, attributes = token.name, token.attributes
        if name in _SKIPPED:
            return True
        if name in ("html", "body"):
            return False
        if "hidden" in attributes or _HIDDEN.search(attributes.get("style", "")):
            return True
        if self._noise or name in ("main", "article"):
            return False
        noise = name in _NOISE or attributes.get("role", "").lower() in _NOISY_ROLES
        self.left_out_noise = self.left_out_noise or noise
        return noise

    def _open(self, token: Token) -> None:
        name = token.name
        if name in _MARKS or name in _CODE or name == "a":
            if name == "a":
                self._close_span("a")
            href = urljoin_or_empty(self._base, token.attributes.get("href", "")) if name == "a" else ""
            if len(self._spans) < _MOST_SPANS:
                self._spans.append(_Span(name, len(self._inline), href))
        elif name == "br":
            self._inline.append("\n")
        elif name == "img":
            alt = " ".join(token.attributes.get("alt", "").split())[:200]
            if alt:
                self._inline.append(f"[image: {alt}]")
        elif name == "pre":
            self._flush()
            self._code, self._language = [], _language(token)
        elif name in _HEADINGS:
            self._flush()
            self._heading = _HEADINGS[name]
        elif name in ("ul", "ol"):
            self._flush()
            start = token.attributes.get("start", "1")
            first = int(start) if start.isascii() and start.isdigit() and len(start) < 9 else 1
            self._lists.append(_List(first if name == "ol" else None))
        elif name == "li":
            self._open_item()
        elif name == "hr":
            self._flush()
            self._emit("---")
        else:
            self._open_block(name)

    def _open_block(self, name: str) -> None:
        if name == "blockquote":
            self._flush()
            self._quotes += 1
        elif name == "table":
            self._flush()
            self._tables.append(_Table())
        elif name == "tr":
            self._end_row()
        elif name in ("td", "th"):
            self._end_cell()
            if self._tables:
                self._tables[-1].in_cell = True
        elif name in _BLOCKS:
            self._flush()
            if name == "main":
                self._main.append(len(self._blocks))

    def _open_item(self) -> None:
        self._flush()
        if not self._lists:
            self._lists.append(_List(None))
        current = self._lists[-1]
        current.bullet = "- " if current.number is None else f"{current.number}. "
        if current.number is not None:
            current.number += 1

    def _end_list(self) -> None:
        self._flush()
        if self._lists:
            self._lists.pop()

    def _end_quote(self) -> None:
        self._flush()
        self._quotes = max(self._quotes - 1, 0)

    def _end_code(self) -> None:
        text = "".join(self._code or ()).strip("\n").replace("\r\n", "\n")
        self._code = None
        if text.strip():
            longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
            fence = "`" * max(3, longest + 1)
            self._emit(f"{fence}{self._language}\n{text}\n{fence}")
        self._language = ""

    def _close_span(self, name: str) -> None:
        place = next((p for p in range(len(self._spans) - 1, -1, -1) if self._spans[p].name == name), None)
        if place is None:
            return
        span = self._spans.pop(place)
        self._inline[span.start :] = [_wrapped(span, "".join(self._inline[span.start :]))]
        for other in self._spans[place:]:
            other.start = min(other.start, len(self._inline))

    def _end_cell(self) -> None:
        self._flush()
        if self._tables and self._tables[-1].in_cell:
            self._tables[-1].in_cell = False
            self._tables[-1].cells.append("")

    def _end_row(self) -> None:
        self._end_cell()
        if not self._tables or not self._tables[-1].cells:
            return
        table = self._tables[-1]
        cells = [cell.strip() for cell in table.cells[:-1]]
        table.cells = []
        if len(self._tables) > 1 or not any(cells):
            # A nested table is for layout; so is one with a single column.
            self._put(" ".join(filter(None, cells)))
            return
        if len(cells) == 1:
            self._put(cells[0])
            return
        row = "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
        table.rows += 1
        if table.rows == 1:
            row += "\n|" + "---|" * len(cells)
        self._put(row, tight=table.rows > 1)

    def _end_table(self) -> None:
        self._end_row()
        if self._tables:
            self._tables.pop()

    def _flush(self) -> None:
        """End of a block. Open spans continue in the next one."""
        for span in reversed(self._spans):
            self._inline[span.start :] = [_wrapped(span, "".join(self._inline[span.start :]))]
        text = "".join(self._inline)
        self._inline = []
        for span in self._spans:
            span.start = 0
        text = re.sub(r" *\n *", "\n", re.sub(r" {2,}", " ", text)).strip()
        if text:
            self._emit(f"{'#' * self._heading} {' '.join(text.split())}" if self._heading else text)

    def _emit(self, text: str) -> None:
        if self._tables and self._tables[-1].in_cell:
            table = self._tables[-1]
            table.cells = table.cells or [""]
            table.cells[-1] = f"{table.cells[-1]} {text}".strip()
            return
        self._put(text)

    def _put(self, text: str, *, tight: bool = False) -> None:
        if not text:
            return
        lists = self._lists[-_DEEPEST:]
        bullet = lists[-1].bullet if lists else ""
        if bullet:
            lists[-1].bullet = ""
            # An outer item without text must still show where it begins.
            tight = bool(self._blocks)
        outer = "  " * (len(lists) - 1) if lists else ""
        inner = outer + " " * len(bullet or "  ") if lists else ""
        quote = "> " * min(self._quotes, _DEEPEST)
        lines = text.split("\n")
        shown = [quote + (outer + bullet if bullet else inner) + lines[0]]
        shown += [(quote + inner + line).rstrip() for line in lines[1:]]
        self.written += len(text)
        self._blocks.append(("\n".join(shown), tight and self._follows_item()))

    def _follows_item(self) -> bool:
        last = self._blocks[-1][0].lstrip("> ") if self._blocks else ""
        return bool(re.match(r"(?:-|\d+\.) |\|", last)) or bool(self._lists and len(self._lists) > 1)


def _wrapped(span: _Span, text: str) -> str:
    """The Markdown of an inline element; blanks stay outside."""
    inner = text.strip()
    if not inner:
        return text
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    if span.name == "a" and not span.href and inner in _PERMALINKS:
        return before + after
    if span.name == "a":
        made = f"[{inner}]({span.href})" if span.href else inner
    elif span.name in _CODE:
        made = f"`` {inner} ``" if "`" in inner else f"`{inner}`"
    else:
        made = f"{_MARKS[span.name]}{inner}{_MARKS[span.name]}"
    return before + made + after


def urljoin_or_empty(base: str, href: str) -> str:
    """The absolute address of a link; empty if it cannot be fetched or stays within the page."""
    href = href.strip()
    if not href or href.startswith("#") or len(href) > 2000:
        return ""
    try:
        url = urljoin(base, href)
    except ValueError:
        return ""
    if not url.lower().startswith(("http://", "https://", "mailto:")) and base:
        return ""
    return re.sub(r"[\s()<>]", lambda found: f"%{ord(found[0]):02X}", url)


def _language(token: Token) -> str:
    found = _LANGUAGE.search(token.attributes.get("class", ""))
    return found[1] if found else ""
