"""Markdown rendered to lines. markdown-it (imported at the first use) parses; this module decides the appearance.

A document is split into pieces (a top-level block, or one item of a top-level list) whose rendering does not depend on
later text, so that a growing answer need not be laid out again (see `flow`). This requires two deviations from
CommonMark: lists are numbered as written, and a line of dashes under text is a rule, not a heading. Line breaks inside
a paragraph are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.history.export.code_tokens import language_name
from agentcli.history.export.markdown_parser import MAX_NESTING, parse_blocks, parse_inline, split_addresses
from agentcli.tui.blocks.base import BlockLine, Run, wrap
from agentcli.tui.blocks.highlight import highlight
from agentcli.tui.blocks.markdown_table import MAX_COLUMNS, Cell, Table, table_lines
from agentcli.tui.blocks.rows import fill_row
from agentcli.tui.glyphs import width_of
from agentcli.tui.theme.palette import Palette

if TYPE_CHECKING:
    from markdown_it.token import Token

_CLICKABLE = re.compile(r"https?://[!-~]{1,2000}").fullmatch
_TASK = re.compile(r"\[([ xX])\](?=\s)")


def inline_runs(children: Sequence[Token], palette: Palette, base: Style) -> list[Run]:
    styles = [base]
    links: list[tuple[str, int]] = []
    runs: list[Run] = []
    for token in children:
        kind = token.type
        style = styles[-1]
        if kind in ("text", "text_special"):
            if "://" in token.content and not links:
                runs += link_text(token.content, style, palette)
            elif token.content:
                runs.append((token.content, style))
        elif kind in ("softbreak", "hardbreak"):
            runs.append(("\n", style))
        elif kind == "code_inline":
            runs.append((token.content, style + palette.code))
        elif kind == "link_open":
            links.append((str(token.attrs.get("href", "")), len(runs)))
            styles.append(style + _link_style(links[-1][0], palette))
        elif kind == "link_close":
            styles.pop()
            href, start = links.pop()
            runs += _target("".join([text for text, _style in runs[start:]]), href, styles[-1] + palette.muted)
        elif kind == "image":
            alt = token.content or "image"
            source = str(token.attrs.get("src", ""))
            runs.append((f"[image: {alt}]" if alt != "image" else "[image]", style + palette.link))
            runs += _target(alt, source, style + palette.muted)
        elif kind in _MARKS:
            styles.append(style + getattr(palette, _MARKS[kind]))
        elif token.nesting < 0:
            styles.pop()
        elif token.content:  # HTML and anything else: shown as written.
            runs.append((token.content, style + palette.muted))
    return runs


_MARKS = {"em_open": "emphasis", "strong_open": "strong", "s_open": "strike"}


def link_text(text: str, style: Style, palette: Palette) -> list[Run]:
    pieces = [(piece, is_address) for piece, is_address in split_addresses(text) if piece]
    return [(piece, style + _link_style(piece, palette) if is_address else style) for piece, is_address in pieces]


def split_task(runs: Sequence[Run], palette: Palette) -> list[Run]:
    found = _TASK.match(runs[0][0]) if runs else None
    if found is None:
        return list(runs)
    text, style = runs[0]
    box = style + (palette.muted if found[1] == " " else palette.success)
    return [(found.group(), box), (text[found.end() :], style), *runs[1:]]


def _link_style(href: str, palette: Palette) -> Style:
    return palette.link + Style(link=href) if _CLICKABLE(href) else palette.link


def _target(text: str, href: str, style: Style) -> list[Run]:
    shown = href.removeprefix("mailto:")
    if not shown or shown.rstrip("/") == text.rstrip("/"):
        return []
    return [(f" ({shown})", style)]


_EDGE = "▏"


def code_lines(rows: Sequence[Sequence[Run]], width: int, palette: Palette, before: Sequence[Run]) -> list[BlockLine]:
    ground = palette.code_block
    edge = [*before, (_EDGE, ground + palette.faint)] if width >= 8 else before
    return [fill_row(line, width, ground) for runs in rows for line in wrap(runs, width, edge, edge)]


def add_label(line: BlockLine, language: str, width: int, palette: Palette) -> BlockLine:
    """Add the name of the language at the right end of the first row, if there is room."""
    used = line.indent + width_of(line.text)
    cells = width_of(language)
    if not language or line.joint != "\n" or used + cells + 3 > width:
        return line
    ground = palette.code_block
    start = line.strip.adjust_cell_length(width - cells - 1, ground)
    label = [Segment(language, ground + palette.faint), Segment(" ", ground)]
    return BlockLine(Strip([*start, *label], width), line.text, line.indent, line.joint)


def add_mark(line: BlockLine, mark: Sequence[Run]) -> BlockLine:
    """Replace the first cells of a row, for a code block that begins a list item or an answer."""
    cells = sum([width_of(text) for text, _style in mark])
    if not cells or cells > line.indent:
        return line
    segments = [Segment(text, style) for text, style in mark]
    strip = Strip([*segments, *line.strip.crop(cells)], line.strip.cell_length)
    return BlockLine(strip, line.text, line.indent, line.joint)


Code = Callable[[str, str], Sequence[Sequence[Run]]]

_BULLETS = "•◦▪"
_MIN_ROOM = 10
"""Cells that indentation has to leave for text; deeper nesting is not indented further."""


def render_markdown(text: str, width: int, palette: Palette) -> list[BlockLine]:
    document = MarkdownDocument(text)
    margin = Margin()
    writer = MarkdownWriter(
        width, palette, lambda code, language: highlight(code, language, palette, palette.code_block)
    )
    last: MarkdownPiece | None = None
    for piece in document.pieces:
        if last is not None and document.is_apart(last, piece):
            writer.gap(margin)
        writer.write(document, piece, margin)
        last = piece
    return writer.lines


def load_parser() -> None:
    """Import markdown-it (about 50 ms) before it is needed."""
    render_markdown("*x*\n\n- y", 80, Palette())


def as_lines(text: str) -> str:
    """Normalise text for the parser: line breaks to `\\n`, NUL to the replacement character."""
    return (
        text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd") if "\r" in text or "\0" in text else text
    )


@dataclass(frozen=True, slots=True)
class MarkdownPiece:
    start: int
    end: int
    line: int
    item: str = ""
    """Marker character of a list item: consecutive items with the same marker are one list."""
    table: bool = False


class MarkdownDocument:
    def __init__(self, text: str, references: dict[str, Any] | None = None) -> None:
        self.text = as_lines(text)
        self.rows = self.text.split("\n")
        self.environment: dict[str, Any] = {"references": {} if references is None else references}
        self.tokens = parse_blocks(self.text, self.environment)
        self.pieces = _pieces(self.tokens)

    def is_apart(self, above: MarkdownPiece, below: MarkdownPiece) -> bool:
        return not below.item or above.item != below.item or self.is_blank_before(below.line)

    def is_blank_before(self, line: int) -> bool:
        return line > 0 and not self.rows[line - 1].strip(" \t>")

    def inline(self, token: Token, palette: Palette, base: Style) -> list[Run]:
        return inline_runs(parse_inline(token.content, self.environment), palette, base)


@dataclass(slots=True)
class Margin:
    """Prefix of the rows of a container. `first` is for its first row and is used once.

    Copying replaces it by the source text of the same width: `- ` for a bullet, `> ` for a quote."""

    first: list[Run] = field(default_factory=list)
    rest: list[Run] = field(default_factory=list)
    copied_first: str = ""
    copied_rest: str = ""
    fresh: bool = True

    def take(self) -> tuple[list[Run], str]:
        if self.fresh:
            self.fresh = False
            return self.first, self.copied_first
        return self.rest, self.copied_rest

    def inner(self, mark: Run, rest: Run, copied: tuple[str, str], width: int) -> Margin:
        before, before_copied = self.take()
        within = self.cells + width_of(rest[0]) <= width - _MIN_ROOM
        return Margin(
            [*before, mark],
            [*self.rest, rest] if within else self.rest,
            before_copied + copied[0],
            self.copied_rest + copied[1] if within else self.copied_rest,
        )

    @property
    def cells(self) -> int:
        return sum([width_of(text) for text, _style in self.rest])


class MarkdownWriter:
    def __init__(self, width: int, palette: Palette, code: Code) -> None:
        self.width = width
        self.palette = palette
        self.code = code
        self.lines: list[BlockLine] = []
        self._blank = BlockLine(Strip([], 0))
        self._document = MarkdownDocument("")
        self._text_style = palette.text

    def gap(self, margin: Margin) -> None:
        if any(text.strip() for text, _style in margin.rest):
            self.lines += [BlockLine(line.strip, "", 0) for line in wrap((), self.width, margin.rest, margin.rest)]
        else:
            self.lines.append(self._blank)

    def write(self, document: MarkdownDocument, piece: MarkdownPiece, margin: Margin) -> None:
        self._document, tokens = document, document.tokens
        if any(token.level >= MAX_NESTING - 2 for token in tokens[piece.start : piece.end]):
            end = next((other.line for other in document.pieces if other.line > piece.line), len(document.rows))
            self.text([("\n".join(document.rows[piece.line : end]).rstrip(), self.palette.text)], margin)
        elif piece.item:
            self._item(piece.start, piece.end, margin, depth=0)
        else:
            self._container(piece.start, piece.end, margin, depth=0, loose=True)

    def text(self, runs: Sequence[Run], margin: Margin) -> None:
        before, copied = margin.take()
        lines = wrap(runs, self.width, before, margin.rest)
        if copied or margin.copied_rest:
            lines = _with_margin_copied(lines, copied, margin.copied_rest)
        self.lines += lines

    def code_block(self, code: str, info: str, margin: Margin) -> None:
        before, _copied = margin.take()
        language = language_name(info)
        lines = code_lines(self.code(code.removesuffix("\n"), language), self.width, self.palette, margin.rest)
        lines[0] = add_mark(add_label(lines[0], language, self.width, self.palette), before)
        self.lines += lines

    def table(self, table: Table, margin: Margin) -> None:
        before, _copied = margin.take()
        cells = margin.cells
        if cells > self.width - _MIN_ROOM:
            before, cells = [], 0
        for line in table_lines(table, self.width - cells, self.palette):
            segments = [Segment(*run) for run in before] if cells else []
            strip = Strip([*segments, *line.strip], line.strip.cell_length + cells)
            self.lines.append(BlockLine(strip, line.text, cells, line.joint))
            before = margin.rest

    def rule(self, margin: Margin) -> None:
        before, _copied = margin.take()
        room = max(1, self.width - margin.cells)
        (line, *_more) = wrap([("─" * room, self.palette.faint)], self.width, before, margin.rest)
        self.lines.append(BlockLine(line.strip, "---", line.indent))

    def _container(self, start: int, end: int, margin: Margin, *, depth: int, loose: bool) -> None:
        """Write sibling blocks. `loose`: always a blank line between them, else only where the source has one."""
        place = start
        while place < end:
            stop = _end_of(self._document.tokens, place)
            if place > start and (loose or self._blank_before(place)):
                self.gap(margin)
            self._block(place, stop, margin, depth)
            place = stop

    def _item(self, start: int, end: int, margin: Margin, *, depth: int) -> None:
        token = self._document.tokens[start]
        if token.info:
            mark = copied = f"{token.info}{token.markup} "
        else:
            mark, copied = _BULLETS[depth % len(_BULLETS)] + " ", "- "
        blank = " " * len(mark)
        inner = margin.inner((mark, self.palette.bullet), (blank, Style.null()), (copied, blank), self.width)
        self._container(start + 1, end - 1, inner, depth=depth + 1, loose=False)
        if inner.fresh:
            self.text((), inner)

    def _block(self, place: int, end: int, margin: Margin, depth: int) -> None:
        token, palette = self._document.tokens[place], self.palette
        kind = token.type
        if kind == "paragraph_open":
            runs = self._inline(place + 1, self._text_style)
            self.text(split_task(runs, palette) if depth and margin.fresh else runs, margin)
        elif kind == "heading_open":
            self.text(self._inline(place + 1, _style_heading(token.tag, palette)), margin)
        elif kind in ("fence", "code_block"):
            self.code_block(token.content, token.info, margin)
        elif kind in ("bullet_list_open", "ordered_list_open"):
            self._container(place + 1, end - 1, margin, depth=depth, loose=False)
        elif kind == "list_item_open":
            self._item(place, end, margin, depth=depth)
        elif kind == "blockquote_open":
            bar = ("▎ ", palette.faint)
            inner = margin.inner(bar, bar, ("> ", "> "), self.width)
            around, self._text_style = self._text_style, palette.quote
            self._container(place + 1, end - 1, inner, depth=depth, loose=True)
            self._text_style = around
            if inner.fresh:
                self.text((), inner)
        elif kind == "table_open":
            self.table(self._table(place, end), margin)
        elif kind == "hr":
            self.rule(margin)
        else:  # HTML: shown as written.
            self.text([(token.content.rstrip("\n"), palette.muted)], margin)

    def _table(self, start: int, end: int) -> Table:
        rows: list[list[Cell]] = []
        aligns: list[str] = []
        columns = 0
        for place in range(start, end):
            token = self._document.tokens[place]
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "th_open":
                columns += 1
                if columns <= MAX_COLUMNS:
                    aligns.append(str(token.attrs.get("style", "")).rpartition(":")[2] or "left")
                    rows[-1].append(self._inline(place + 1, self.palette.text + self.palette.strong))
            elif token.type == "td_open" and len(rows[-1]) < MAX_COLUMNS:
                rows[-1].append(self._inline(place + 1, self.palette.text))
        return Table(rows[0], rows[1:], aligns, columns - len(aligns))

    def _inline(self, place: int, base: Style) -> list[Run]:
        return self._document.inline(self._document.tokens[place], self.palette, base)

    def _blank_before(self, place: int) -> bool:
        lines = self._document.tokens[place].map
        return lines is not None and self._document.is_blank_before(lines[0])


def _style_heading(tag: str, palette: Palette) -> Style:
    """Heading levels differ without colour too: underlined, bold, and bold in the text colour."""
    if tag == "h1":
        return palette.heading + Style(underline=True)
    if tag == "h2":
        return palette.heading
    return palette.text + palette.strong + (Style.null() if tag == "h3" else palette.emphasis)


def _with_margin_copied(lines: Sequence[BlockLine], first: str, rest: str) -> list[BlockLine]:
    """Add the source's own margin to the copied text of rows that begin a source line."""
    found: list[BlockLine] = []
    prefix = first
    for line in lines:
        if prefix:
            line = BlockLine(line.strip, prefix + line.text, max(0, line.indent - len(prefix)), line.joint)
        found.append(line)
        prefix = rest if line.joint.endswith("\n") else ""
    return found


def _end_of(tokens: Sequence[Token], place: int) -> int:
    token = tokens[place]
    place += 1
    if token.nesting == 1:
        while tokens[place].level > token.level:
            place += 1
        place += 1
    return place


def _pieces(tokens: Sequence[Token]) -> list[MarkdownPiece]:
    pieces: list[MarkdownPiece] = []
    place = 0
    while place < len(tokens):
        token, stop = tokens[place], _end_of(tokens, place)
        if token.type in ("bullet_list_open", "ordered_list_open"):
            place += 1
            while place < stop - 1:
                end = _end_of(tokens, place)
                pieces.append(MarkdownPiece(place, end, _line(tokens[place]), item=tokens[place].markup))
                place = end
        else:
            pieces.append(MarkdownPiece(place, stop, _line(token), table=token.type == "table_open"))
        place = stop
    return pieces


def _line(token: Token) -> int:
    return token.map[0] if token.map else 0
