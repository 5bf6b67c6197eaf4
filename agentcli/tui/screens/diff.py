"""The `/diff` page: changed files with their counts, then the changes, unified or side by side.

Shows what the agent changed in this session; `l` shows only the last prompt, `a` all changes since HEAD. Nothing is
folded. Very long diffs are laid out in a thread and painted row by row.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import accumulate, islice
from typing import NamedTuple

from textual.app import ComposeResult

from agentcli.commands.diff import CUT, NOTHING, Changes, heading
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.diff_layout import DiffEntry, DiffLayout, DiffLook, FileView
from agentcli.tui.blocks.diff_lines import MIN_WIDTH_BESIDE, SIDE_BY_SIDE_FROM
from agentcli.tui.blocks.highlight import language_of
from agentcli.tui.blocks.rows import size
from agentcli.tui.screens.page import Page, Scroller
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.sheet import MARGIN, Keys
from agentcli.tui.screens.text import Runs, StyledRows, cut, cut_runs
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.search import MAX_MATCHES, Query, matches_in
from agentcli.workspace.base import DiffScope

_TITLES: Mapping[DiffScope, str] = {
    "session": "Changes of this session",
    "prompt": "Changes of the last prompt",
    "all": "All changes since HEAD",
}
_AT_ONCE = 2_000

Load = Callable[[DiffScope], Awaitable[Changes]]
Copy = Callable[[str], Awaitable[str]]


class DiffPage(Page[None]):
    share = 1.0

    def __init__(self, load: Load, copy: Copy, scope: DiffScope) -> None:
        super().__init__(_TITLES[scope])
        self.scope = scope
        self._load, self._copy = load, copy
        self._changes: Changes | None = None
        self._views: list[FileView] = []
        self._lines = 0
        self._beside: bool | None = None
        self._message = ""
        self._jumped: tuple[int, int] | None = None
        """Row of the last jump, and the scroll position after it: the end of a diff cannot be scrolled to the top."""

    def parts(self) -> ComposeResult:
        yield StyledRows(id="where")
        yield from super().parts()

    def make_scroller(self) -> DiffPager:
        return DiffPager(self.palette, id="body")

    @property
    def scroller(self) -> DiffPager:
        return self.query_one(DiffPager)

    def on_mount(self) -> None:  # Textual also calls the `on_mount` of the base classes, after this one
        self.watch(self.scroller, "scroll_y", self._scrolled, init=False)
        self._reload()

    def _reload(self) -> None:
        async def reload() -> None:
            scope = self.scope
            changes = await self._load(scope)
            await asyncio.to_thread(_warm, changes)
            if self.is_open and scope == self.scope:
                self._take(changes)

        self._changes, self._views = None, []
        self.work(reload, "load")

    def _take(self, changes: Changes) -> None:
        self._changes = changes
        self._views = [FileView(file.name, file.diff, file.sign, file.remarks, file.counts) for file in changes.files]
        self._lines = sum(len(hunk.lines) for file in changes.files for hunk in file.diff.hunks)
        self._jumped = None
        self.settle()
        self.scroller.move_to(0)

    def _switch(self, scope: DiffScope) -> None:
        self.scope = scope if scope != self.scope else "session"
        self.title_text = _TITLES[self.scope]
        self._reload()
        self.settle()

    def lay_out(self, width: int, room: int) -> None:
        search = 1 if self.searching else 0
        inner = max(1, width - 2 * MARGIN - 1)
        look = DiffLook(inner, self.palette, self._is_beside(inner), listed=True)
        pager = self.scroller
        height = max(1, room - search - 1)
        if height != pager.shown and self._jumped is not None and self._jumped[0] == self._place:
            # In a larger window it may have been below the top, because the diff ended there.
            self.call_after_refresh(self._jump_again)
        pager.set_height(height)
        if look == pager.diff_layout.look and self._views is pager.diff_layout.files:
            return
        views = self._views
        if self._lines <= _AT_ONCE:
            self._show(DiffLayout(views, look))
            return

        async def lay_out() -> None:
            layout = await asyncio.to_thread(DiffLayout, views, look)
            if self.is_open and views is self._views:
                self._show(layout)
                self.paint()

        self.work(lay_out, "layout")

    def _is_beside(self, width: int) -> bool:
        if self._beside is None:
            return width >= SIDE_BY_SIDE_FROM
        return self._beside and width >= MIN_WIDTH_BESIDE

    def _show(self, layout: DiffLayout) -> None:
        pager = self.scroller
        old = pager.diff_layout
        where: DiffEntry | None = None
        if old.entries and old.files and layout.files and old.files[0] is layout.files[0]:
            where = old.entries[old.entry_at(self._place)]
        pager.show_layout(layout)
        if where is not None and self._place:
            self._go(layout.row_of(layout.find_entry(where)))

    def paint(self) -> None:
        super().paint()
        self.query_one("#where", StyledRows).show([self._where(self.size.width)])

    @property
    def _place(self) -> int:
        top = self.scroller.scroll_offset.y
        return self._jumped[0] if self._jumped is not None and self._jumped[1] == top else top

    def _go(self, row: int) -> None:
        self.scroller.move_to(row)
        self._jumped = (row, self.scroller.hidden[0])
        self.paint()

    def _jump_again(self) -> None:
        if self.is_open and self._jumped is not None:
            self._go(self._jumped[0])

    def _step(self, rows: list[int], steps: int) -> None:
        here = self._place
        place = bisect_right(rows, here) if steps > 0 else bisect_left(rows, here) - 1
        if 0 <= place < len(rows):
            self._go(rows[place])
        elif steps < 0:
            self._go(0)

    def _scrolled(self) -> None:
        if self.is_open:
            self.paint()

    @property
    def _current(self) -> int:
        layout = self.scroller.diff_layout
        if not layout.file_rows or self._place < layout.file_rows[0]:
            return -1
        return layout.entries[layout.entry_at(self._place)].file

    def _where(self, width: int) -> Runs:
        palette, room = self.palette, width - 2 * MARGIN
        margin = (" " * MARGIN, palette.muted)
        if self._message:
            return [margin, (cut(self._message, room), palette.info)]
        if self._changes is None:
            return [margin, ("Comparing …", palette.muted)]
        if self._changes.problem or not self._changes.files:
            style = palette.warning if self._changes.problem else palette.muted
            return cut_runs([margin, (self._changes.problem or NOTHING[self.scope], style)], width)
        number = self._current
        if number < 0:
            said: Runs = [margin, (heading(self._changes, self.scope), palette.text)]
            return cut_runs([*said, (f" · {CUT}", palette.warning)] if self._changes.cut else said, width)
        file = self._views[number]
        aside = f"file {number + 1:,} of {len(self._views):,}"
        if room >= 60 and file.diff.hunks:
            layout = self.scroller.diff_layout
            hunk = max(0, layout.entries[layout.entry_at(self._place)].hunk)
            aside += f" · hunk {hunk + 1:,} of {len(file.diff.hunks):,}"
        left = max(8, room - len(aside) - 4)
        name = file.name if len(file.name) <= left else f"…{file.name[1 - left :]}"
        runs: Runs = [margin, (f"{file.sign} ", palette.accent), (cut(name, left), palette.text + palette.strong)]
        gap = " " * max(2, width - MARGIN - size(runs) - len(aside))
        return cut_runs([*runs, (gap, palette.muted), (aside, palette.muted)], width)

    def asides(self) -> Sequence[str]:
        return (*super().asides(), "side by side" if self.scroller.diff_layout.look.beside and self._views else "")

    def keys(self) -> Keys:
        if self.searching:
            return super().keys()
        beside = self.scroller.diff_layout.look.beside
        scopes = [("l", "session" if self.scope == "prompt" else "last prompt")]
        scopes.append(("a", "session" if self.scope == "all" else "since HEAD"))
        if not self._views:
            return [*scopes, ("Esc", "close")]
        view = [("v", "unified" if beside else "side by side")] if self.size.width > MIN_WIDTH_BESIDE else []
        return [
            *(("↑↓", "scroll"), ("o", "files"), ("C", "copy all"), ("c", "copy")),
            *(*scopes[:1], *view, ("/", "search"), *scopes[1:]),
            *(("h H", "hunk"), ("f F", "file"), ("Esc", "close")),
        ]

    def press(self, key: str, character: str | None) -> bool:
        if self._message:
            self._message = ""
            self.paint()
        return super().press(key, character)

    def read_on(self, key: str) -> bool:
        layout = self.scroller.diff_layout
        name = {"upper_f": "F", "upper_h": "H", "upper_c": "C"}.get(key, key)
        if name in ("f", "right", "tab"):
            self._step(layout.file_rows, 1)
        elif name in ("F", "left", "shift+tab"):
            self._step(layout.file_rows, -1)
        elif name in ("h", "H"):
            self._step(layout.hunk_rows, 1 if name == "h" else -1)
        elif name == "v":
            self._beside = not layout.look.beside
            self.settle()
        elif name in ("a", "l"):
            self._switch("all" if name == "a" else "prompt")
        elif name in ("c", "C"):
            self._copy_diff(everything=name == "C")
        elif name == "o" and self._views:
            self._choose_file()
        else:
            return super().read_on(key)
        return True

    def _choose_file(self) -> None:
        assert self._changes is not None
        rows = [
            Row(number, file.name, f"{file.numbers}  {file.remarks}".strip(), file.sign)
            for number, file in enumerate(self._changes.files)
        ]

        def chosen(number: int | None) -> None:
            rows = self.scroller.diff_layout.file_rows
            if number is not None and number < len(rows):
                self._go(rows[number])

        self.open(Picker("Files", rows), chosen)

    def _copy_diff(self, *, everything: bool) -> None:
        files = self._changes.files if self._changes is not None else ()
        if not files:
            return
        number = max(0, self._current)
        chosen = files if everything else files[number : number + 1]
        text = "".join(file.source for file in chosen)
        what = "All changes" if everything else chosen[0].name

        async def copy() -> None:
            said = await self._copy(text) if text else "there are no lines to copy"
            if self.is_open:
                self._message = f"{what}: {said}"
                self.paint()

        self.work(copy, "copy")


class _Hit(NamedTuple):
    entry: int
    side: int
    number: int
    """Index among the matches in this column of the entry."""


class DiffPager(Scroller):
    """Rows of a `DiffLayout`, painted when they become visible, with search and copy."""

    def __init__(self, palette: Palette, id: str) -> None:
        super().__init__(palette, id)
        self.diff_layout = DiffLayout((), DiffLook(80, palette))
        self._index: tuple[DiffLayout, TextIndex, list[tuple[int, int]]] | None = None

    def show_layout(self, layout: DiffLayout) -> None:
        self.diff_layout = layout
        self.changed()

    @property
    def row_count(self) -> int:
        return self.diff_layout.row_count

    def row(self, place: int) -> BlockLine:
        return self.diff_layout.row(place)

    def search(self, query: Query) -> Sequence[_Hit]:
        layout = self.diff_layout
        if self._index is None or self._index[0] is not layout:
            texts = [
                (place, side, text)
                for place in range(len(layout.entries))
                for side, text in enumerate(layout.texts(place))
            ]
            columns = [(place, side) for place, side, _text in texts]
            self._index = layout, TextIndex([text for _place, _side, text in texts]), columns
        _layout, index, columns = self._index
        hits: list[_Hit] = []
        for text in index.search(query):
            again = bool(hits) and hits[-1][:2] == columns[text]
            hits.append(_Hit(*columns[text], hits[-1].number + 1 if again else 0))
        return hits

    def is_from(self, match: _Hit, row: int) -> bool:
        return match.entry >= (self.diff_layout.entry_at(row) if self.diff_layout.entries else 0)

    def row_of(self, match: _Hit) -> int:
        sides = self.diff_layout.sides(match.entry)
        spots = matches_in(sides[match.side].lines, self.sought) if self.sought and match.side < len(sides) else []
        return self.diff_layout.row_of(match.entry) + (spots[match.number][0].row if match.number < len(spots) else 0)

    def spots(self, place: int) -> Iterable[tuple[int, int, bool]]:
        assert self.sought is not None
        layout, current = self.diff_layout, self.matches[self.match]
        entry = layout.entry_at(place)
        row = place - layout.row_of(entry)
        for number, side in enumerate(layout.sides(entry)):
            for order, match in enumerate(matches_in(side.lines, self.sought)):
                here = current == _Hit(entry, number, order)
                yield from ((side.left + one.start, side.left + one.end, here) for one in match if one.row == row)


class TextIndex:
    def __init__(self, texts: Sequence[str]) -> None:
        self._whole = "\n".join(texts)
        self._starts = [0, *accumulate(len(text) + 1 for text in texts)]

    def search(self, query: Query) -> list[int]:
        """Index of the text of each match. No match spans two texts."""
        matches = (match for match in query.pattern.finditer(self._whole) if "\n" not in match.group())
        return [bisect_right(self._starts, match.start()) - 1 for match in islice(matches, MAX_MATCHES)]


def _warm(changes: Changes) -> None:
    """Load the lexers of the files' languages: the first use of one takes longer than a frame. Blocking."""
    from agentcli.tui.blocks.highlight import is_ready, warm

    languages = {language_of(file.diff.path) for file in changes.files}
    warm([language for language in sorted(languages) if language and not is_ready(language)])
