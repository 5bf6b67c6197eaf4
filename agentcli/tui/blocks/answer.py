"""Block of the model's answer: Markdown that may grow while it is shown.

Finished pieces are laid out once, only the open end again, so the cost of a layout depends on the size of the open
piece, not of the answer. An open code block is not even parsed: its lines are taken as they arrive. A very long piece
(a list item or a table of many kilobytes) is parsed again only after it has grown by a fraction of its size, so that
nothing here is quadratic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from threading import Thread
from typing import Any

from rich.style import Style

from agentcli.core.text.terminal_colours import ColourSpan
from agentcli.history.export.code_tokens import is_ready, language_name
from agentcli.tui.blocks.base import Block, BlockLine, Run
from agentcli.tui.blocks.highlight import Highlighter, can_lex_whole, highlight, warm
from agentcli.tui.blocks.markdown import (
    Margin,
    MarkdownDocument,
    MarkdownPiece,
    MarkdownWriter,
    add_label,
    add_mark,
    as_lines,
    code_lines,
    load_parser,
)
from agentcli.tui.model import AnswerItem, Item
from agentcli.tui.theme.palette import Palette

_UNDECIDED = re.compile(r"[-=*_+#~`:|]*|\d{1,9}[.)]?|`{3,}[^`]*|~{3,}.*|(?:[-*+]|\d{1,9}[.)])[ \t]*\[?[ xX]?\]?")
"""Beginning of a list item, heading, rule, fence or quote without any content."""
_TABLE_ROW = re.compile(r"[ \t>]*\|")
_LONE_ROW = re.compile(r"(\A|\n[ \t]*\n) {0,3}\|.*\|[ \t]*\n\Z")
"""A first row at the end of the text: the next line decides whether it is one of a table."""
_DELIMITER = re.compile(r"[ \t>]*[-:|][-:| ]*")
_OPENED_FENCE = re.compile(r"^[ \t>]*(?:[-*+] +|\d{1,9}[.)] +)*(?:`{3,}|~{3,})", re.MULTILINE)
_HALF_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\Z")
_TICKS = re.compile(r"`+")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_TRAILING = re.compile(r"[*_~]+\Z|_+[-.:]\Z")
"""Marks that may still grow; after an underscore, a full stop may go on to `_init_.py`."""
_MARK = re.compile(r"(?<!\\)(\*\*\*|\*\*|\*|~~)")
"""Marks that are closed. An underscore may begin a name, so its emphasis appears only when it is complete."""


def presentable(text: str) -> str:
    start = text.rfind("\n") + 1
    line = text[start:]
    if len(_OPENED_FENCE.findall(text, 0, start)) % 2:
        # Inside code: do not show a possible closing fence as code.
        return text[:start] if line and not line.strip(" `~>") else text
    if not line:
        return _LONE_ROW.sub(r"\1", text)
    if _UNDECIDED.fullmatch(line.lstrip(" \t>").rstrip()) or _TABLE_ROW.match(line) or _is_half_delimiter(text, start):
        return _LONE_ROW.sub(r"\1", text[:start])
    return text[:start] + _close_line(line)


def _is_half_delimiter(text: str, start: int) -> bool:
    above = text[text.rfind("\n", 0, max(0, start - 1)) + 1 : start]
    return "|" in above and _DELIMITER.fullmatch(text[start:]) is not None


def _close_line(line: str) -> str:
    line = _HALF_LINK.sub(r"\1", line)
    code, opened = "", -1
    for ticks in _TICKS.finditer(line):
        if not code:
            code, opened = ticks.group(), ticks.end()
        elif ticks.group() == code:
            code, opened = "", -1
    if code and opened == len(line):
        line, code = line[: -len(code)], ""
    outside = _CODE.sub(lambda found: "x" * len(found.group()), line if not code else line[: opened - len(code)])
    if code:
        return line + code + _closers(outside)
    stripped = _TRAILING.sub("", line)
    if stripped.endswith("\\"):
        return line
    closers = _closers(_TRAILING.sub("", outside))
    # A mark after a blank would close nothing.
    return stripped.rstrip(" ") + closers if closers or stripped != line else line


def _closers(text: str) -> str:
    opened: list[str] = []
    for found in _MARK.finditer(text):
        mark = found.group()
        before = text[found.start() - 1 : found.start()]
        after = text[found.end() : found.end() + 1]
        if opened and opened[-1] == mark and before.strip():
            opened.pop()
        elif after.strip():
            opened.append(mark)
    return "".join(reversed(opened))


MARK = "◆ "
_LONG = 6_000
_LINE = 40
"""Weight of an open piece (`_LONG`) above which it is not parsed at every layout. A line weighs `_LINE` characters."""
_SHARE = 8
"""A long piece is parsed again when it has grown by one part in this many; until then the rest is not shown."""
_HUGE = 16_000
"""Maximum weight parsed at once. A heavier piece is laid out in parts, each as a separate piece."""
_MAX_LINE = 12_000
"""Maximum number of characters of a line laid out together; the rest continues below, as a separate piece."""
_MAX_KNOWN = 8
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")
_FENCE = re.compile(r"( {0,3})(?:(`{3,}+)([^`\n]*+)|(~{3,}+)([^\n]*+))\n")


class Flow:
    def __init__(self, width: int, palette: Palette, references: dict[str, Any] | None = None) -> None:
        self.width = width
        self.palette = palette
        self.references: dict[str, Any] = {} if references is None else references
        self.defined_late = False
        """Whether a link target was defined after text that might refer to it had been laid out."""
        self._coloured: dict[tuple[str, str], list[list[Run]]] = {}
        """Code of the open piece, which is laid out again and again."""
        self._loading: set[str] = set()
        self._writing_final = False
        wide = width >= 8
        self._margin = Margin([(MARK, palette.faint)] if wide else [], [("  ", Style.null())] if wide else [])
        self._writer = MarkdownWriter(width, palette, self._colour)
        self._tail = ""
        """Text that is not laid out finally; inside a fence, text that is not consumed yet."""
        self._fence: _Fence | None = None
        self._kept = 0
        self._kept_fresh = True
        """Whether the margin's first row is still unused after the kept lines."""
        self._last: MarkdownPiece | None = None
        self._apart = False
        self._parsed_weight = 0
        """Weight of a long open piece when it was parsed; 0 for a short one."""

    def feed(self, text: str) -> None:
        self._tail += text

    def lines(self, *, done: bool) -> Sequence[BlockLine]:
        going = True
        while going:
            if self._fence is not None:
                going = self._grow_fence(self._fence, done=done)
                continue
            self._skip_blank_lines()
            opening = _FENCE.match(self._tail)
            if opening is not None:
                self._open_fence(opening)
            else:
                going = self._grow_blocks(done=done)
        return self._writer.lines

    def _colour(self, code: str, language: str) -> list[list[Run]]:
        """Code with colours; plain while its piece is open and its language not loaded."""
        if self._writing_final:
            return highlight(code, language, self.palette, self.palette.code_block)
        if not self._is_loaded(language):
            return [[(line, self.palette.code_block)] for line in code.split("\n")]
        key = (language, code)
        if key not in self._coloured:
            if len(self._coloured) >= _MAX_KNOWN:
                self._coloured.clear()
            self._coloured[key] = highlight(code, language, self.palette, self.palette.code_block)
        return self._coloured[key]

    def _is_loaded(self, language: str) -> bool:
        """Whether a language can colour code now; if not, it is being loaded from now on."""
        if is_ready(language):
            return True
        if language not in self._loading:
            self._loading.add(language)
            Thread(target=warm, args=((language,),), name="lexers", daemon=True).start()
        return False

    def _skip_blank_lines(self) -> None:
        blank = _BLANK_LINES.match(self._tail)
        if blank is not None:
            self._tail = self._tail[blank.end() :]
            self._apart = True

    def _grow_blocks(self, *, done: bool) -> bool:
        """Keep the finished pieces and show the rest. Return whether there is more to do."""
        weight, parsed = _weight(self._tail), self._parsed_weight
        if not done and parsed and weight < parsed + parsed // _SHARE:
            return False
        if weight > _HUGE and self._take_part():
            return True
        self._drop_open()
        document = MarkdownDocument(self._tail if done else presentable(self._tail), dict(self.references))
        self._learn(document, done=done)
        pieces = document.pieces
        finished = len(pieces) if done else _count_finished(document)
        self._finish(document, pieces[:finished])
        if done:
            self._tail = ""
            return False
        if finished:
            self._cut(document, pieces[finished].line)
            if _FENCE.match(self._tail):
                return True
        last = self._last
        for piece in pieces[finished:]:
            self._write(document, piece, last)
            last = piece
        weight = _weight(self._tail)
        weight = _weight(self._tail)
        self._parsed_weight = weight if weight > _LONG else 0
        return False

    def _take_part(self) -> bool:
        """Lay out the beginning of a tail that is too long for one layout. Return False if that would split code."""
        text = as_lines(self._tail)
        size = _part_of(text)
        if size == len(text):
            return False
        document = MarkdownDocument(text[:size], dict(self.references))
        pieces = document.pieces
        whole = max(0, len(pieces) - 1)
        if not whole and any(token.type in ("fence", "code_block") for token in document.tokens):
            return False
        self._drop_open()
        self._learn(document, done=not whole)
        self._finish(document, pieces[: whole or 1])
        if whole:
            self._cut(document, pieces[whole].line)
            return True
        head = document.rows[:2] if pieces and pieces[0].table else []
        self._tail = "".join([row + "\n" for row in head]) + text[size:]
        self._apart = False
        self._parsed_weight = 0
        return True

    def _learn(self, document: MarkdownDocument, *, done: bool) -> None:
        """Collect link targets whose line is complete, and the next line too: it may be a title or invalidate them."""
        whole = len(document.rows) - (0 if done else 2)
        found: dict[str, Any] = document.environment["references"]
        known = {
            label: target for label, target in found.items() if label in self.references or target["map"][1] <= whole
        }
        if self._kept and len(known) > len(self.references):
            self.defined_late = True
        self.references = known

    def _cut(self, document: MarkdownDocument, line: int) -> None:
        """Continue at a line of the document. The document is the shown text, which differs from the tail only in the
        last line."""
        self._apart = document.is_blank_before(line)
        start = sum([len(row) + 1 for row in document.rows[:line]])
        self._tail = as_lines(self._tail)[start:]

    def _write(self, document: MarkdownDocument, piece: MarkdownPiece, last: MarkdownPiece | None) -> None:
        if last is not None:
            goes_on = piece.line == 0 and piece.item and piece.item == last.item
            if self._apart if goes_on else document.is_apart(last, piece):
                self._writer.gap(self._margin)
        self._writer.write(document, piece, self._margin)

    def _finish(self, document: MarkdownDocument, pieces: Sequence[MarkdownPiece]) -> None:
        """Write pieces that later text cannot change."""
        self._writing_final = True
        for piece in pieces:
            self._write(document, piece, self._last)
            self._keep(piece)
        self._writing_final = False

    def _keep(self, piece: MarkdownPiece) -> None:
        self._kept = len(self._writer.lines)
        self._kept_fresh = self._margin.fresh
        self._last = piece
        self._parsed_weight = 0

    def _drop_open(self) -> None:
        del self._writer.lines[self._kept :]
        self._margin.fresh = self._kept_fresh

    def _open_fence(self, opening: re.Match[str]) -> None:
        self._drop_open()
        indent, ticks, info, waves, wave_info = opening.groups()
        self._tail = self._tail[opening.end() :]
        if self._last is not None:
            self._writer.gap(self._margin)
        before, _copied = self._margin.take()
        self._keep(MarkdownPiece(0, 0, 0))
        language = language_name(info or wave_info or "")
        self._fence = _Fence(len(indent), ticks or waves, language, before, self._kept)

    def _grow_fence(self, fence: _Fence, *, done: bool) -> bool:
        if not done and fence.is_same_long_line(self._tail):
            return False
        self._drop_open()
        self._tail, ended = fence.take(self._tail, done=done)
        if ended:
            self._close_fence(fence)
            return True
        if fence.highlighter is None and self._is_loaded(fence.language):
            fence.highlighter = Highlighter(fence.language, self.palette, self.palette.code_block)
            fence.fed, self._kept = 0, fence.start
            self._drop_open()
        if fence.highlighter is None:
            plain = self.palette.code_block
            settled: list[list[Run]] = [[(line, plain)] for line in fence.lines[fence.fed :]]
            fence.fed = len(fence.lines)
            unsettled: list[list[Run]] = [[(fence.open_line, plain)]]
        else:
            settled, unsettled = fence.rows(fence.highlighter)
        if settled:
            self._write_code(fence, settled)
        self._kept = len(self._writer.lines)
        if not fence.open_line and (len(unsettled) > 1 or self._kept > fence.start):
            unsettled.pop()
        self._write_code(fence, unsettled)
        return False

    def _close_fence(self, fence: _Fence) -> None:
        code = "\n".join(fence.lines)
        if fence.highlighter is not None and not can_lex_whole(code):
            settled, unsettled = fence.rows(fence.highlighter)
            self._write_code(fence, [*settled, *unsettled[:-1]])
        else:
            del self._writer.lines[fence.start :]
            self._write_code(fence, highlight(code, fence.language, self.palette, self.palette.code_block))
        self._fence = None
        self._keep(MarkdownPiece(0, 0, 0))

    def _write_code(self, fence: _Fence, rows: Sequence[Sequence[Run]]) -> None:
        known, fence.painted = fence.painted, {}
        for runs in rows:
            is_first = len(self._writer.lines) == fence.start
            key = (is_first, tuple(runs))
            if key not in known:
                known[key] = lines = code_lines([runs], self.width, self.palette, self._margin.rest)
                if is_first:
                    lines[0] = add_mark(add_label(lines[0], fence.language, self.width, self.palette), fence.before)
            fence.painted[key] = known[key]
            self._writer.lines += known[key]


def _count_finished(document: MarkdownDocument) -> int:
    """Number of pieces that later text cannot change. The last one is open; so is the one before it if the last began
    in the line being written, since that line may still turn out to belong to it."""
    pieces = document.pieces
    if not pieces:
        return 0
    line = pieces[-1].line
    decided = line < len(document.rows) - 1 or document.is_blank_before(line)
    return max(0, len(pieces) - (1 if decided else 2))


def _part_of(text: str) -> int:
    """Length of the first part of a long text to parse: up to a line between blocks, at least 3 lines (a table)."""
    *lines, last = text.split("\n")
    weight = size = best = 0
    least = len(text)
    for number, line in enumerate([*lines, last]):
        if len(line) > _MAX_LINE:
            # Also if the line has not ended: it may never end.
            return best or size + (line.rfind(" ", _MAX_LINE // 2, _MAX_LINE) + 1 or _MAX_LINE)
        if number == len(lines):
            break
        indent = len(line) - len(line.lstrip(" "))
        if number >= 3 and weight > _HUGE // 2 and indent <= least:
            best, least = size, indent
        weight += len(line) + 1 + _LINE
        size += len(line) + 1
        if number >= 3 and weight > _HUGE:
            return best or size
    return len(text)  # not enough whole lines yet


def _weight(text: str) -> int:
    return len(text) + _LINE * text.count("\n")


class _Fence:
    def __init__(self, indent: int, marker: str, language: str, before: Sequence[Run], start: int) -> None:
        self.language = language
        self.before = before
        self.start = start
        self.lines: list[str] = []
        self.open_line = ""
        self.highlighter: Highlighter | None = None
        self.painted: dict[tuple[bool, tuple[Run, ...]], list[BlockLine]] = {}
        """Rows of the last layout by their runs: rows that stay the same are not painted again."""
        self.fed = 0
        self._indent = re.compile(rf"\A {{0,{indent}}}")
        self._end = re.compile(rf" {{0,3}}{re.escape(marker[0])}{{{len(marker)},}}[ \t]*").fullmatch
        self._half_end = re.compile(rf" {{0,3}}{re.escape(marker[0])}+[ \t]*").fullmatch

    def take(self, text: str, *, done: bool) -> tuple[str, bool]:
        *whole, last = as_lines(text).split("\n")
        for number, line in enumerate(whole):
            if self._end(line):
                return "\n".join([*whole[number + 1 :], last]), True
            self.lines.append(self._indent.sub("", line))
        if done:
            if last.strip(" \t") and not self._end(last):
                self.lines.append(self._indent.sub("", last))
            return "", True
        self.open_line = "" if self._half_end(last) else self._indent.sub("", last)
        return last, False

    def is_same_long_line(self, text: str) -> bool:
        """Whether the only new text is a small addition to a very long line."""
        long = len(self.open_line)
        return long > _LONG and "\n" not in text[long:] and len(text) < long + long // _SHARE

    def rows(self, highlighter: Highlighter) -> tuple[list[list[Run]], list[list[Run]]]:
        settled = highlighter.feed("".join([line + "\n" for line in self.lines[self.fed :]]))
        self.fed = len(self.lines)
        return settled, highlighter.open_rows(self.open_line)


AT_ONCE = 5_000
"""New characters processed by one layout, about 15 ms of work. A reply that arrives at once takes several layouts."""


def warm_up() -> None:
    """Load the parser and the most common languages for the first answer. Run it in a thread."""
    load_parser()
    warm()


class AnswerBlock(Block):
    """An answer. Finished lines are kept while the width and the palette stay the same."""

    item: AnswerItem

    def __init__(self, item: AnswerItem) -> None:
        super().__init__(item)
        self._grown: str | None = None
        """The whole text if it has grown; None if `item.text` is complete."""
        self._flow: Flow | None = None
        self._left = 0
        """Number of characters at the end that are not laid out yet."""

    def grow(self, text: str, colours: Sequence[ColourSpan] = ()) -> None:
        self._grown = self._text + text
        self._left += len(text)

    def replace(self, item: Item) -> None:
        before = self._text
        self.item = item if isinstance(item, AnswerItem) else self.item
        # After an interruption the item has no text: keep the shown one. At the end of an answer only blank lines
        # around it are dropped, so it need not be laid out again.
        if not self.item.text:
            self._grown = before
        elif self.item.text.strip("\n") != before.strip("\n"):
            self._grown = None
            self.forget()

    def pack(self) -> None:
        if self.item.done and self.item.text and not self._left:
            self._grown = None
        super().pack()

    def forget(self) -> None:
        self._flow, self._left = None, 0

    @property
    def source(self) -> str:
        return self._text.strip("\n") if self.item.done else self._text

    @property
    def _text(self) -> str:
        return self.item.text if self._grown is None else self._grown

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        flow, text = self._flow, self._text
        if flow is None or flow.width != width or flow.palette is not palette:
            flow = self._flow = Flow(width, palette)
            flow.feed(text[: len(text) - self._left])
        if self._left:
            start = len(text) - self._left
            flow.feed(text[start : start + AT_ONCE])
            self._left = max(0, self._left - AT_ONCE)
        self.behind = self._left > 0
        done = self.item.done and not self.behind
        lines = flow.lines(done=done)
        if done and flow.defined_late:  # link targets defined after the links
            flow = self._flow = Flow(width, palette, flow.references)
            flow.feed(text)
            lines = flow.lines(done=True)
        return lines
