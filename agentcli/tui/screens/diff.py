"""The `/diff` page: changed files with their counts, then the changes, unified or side by side.

Shows what the agent changed in this session; `l` shows only the last prompt, `a` all changes since HEAD. Long diffs are
laid out in a thread.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence

from textual.app import ComposeResult

from agentcli.commands.diff import CUT, NOTHING, Changes, format_heading
from agentcli.history.export.code_tokens import is_ready, language_of
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.diff import MIN_WIDTH_BESIDE, SIDE_BY_SIDE_FROM, FileView, PageRows, page_rows
from agentcli.tui.blocks.highlight import warm
from agentcli.tui.blocks.rows import Runs, cut, cut_runs, size
from agentcli.tui.screens.dialog import PAINTED
from agentcli.tui.screens.page import Page
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.sheet import MARGIN, Keys
from agentcli.tui.screens.text import StyledRows
from agentcli.workspace.base import DiffScope

_TITLES: Mapping[DiffScope, str] = {
    "session": "Changes of this session",
    "prompt": "Changes of the last prompt",
    "all": "All changes since HEAD",
}

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
        self._characters = 0
        self._beside: bool | None = None
        """Whether the user chose two columns; None: if there is room."""
        self._made: dict[bool, PageRows] = {}
        """Rows by whether they are side by side."""
        self._rows = PageRows()
        """The shown rows."""
        self._message = ""
        self._jumped: tuple[int, int] | None = None
        """Row of the last jump, and the scroll position after it: the end of a diff cannot be scrolled to the top."""

    def parts(self) -> ComposeResult:
        yield StyledRows(id="where")
        yield from super().parts()

    def on_mount(self) -> None:  # Textual also calls the `on_mount` of the base classes, after this one
        self._reload()

    def _reload(self) -> None:
        async def reload() -> None:
            scope = self.scope
            changes = await self._load(scope)
            await asyncio.to_thread(_load_lexers, changes)
            if self.is_open and scope == self.scope:
                self._take(changes)

        self._take(None)
        self.work(reload, "load")

    def _take(self, changes: Changes | None) -> None:
        files = changes.files if changes is not None else ()
        self._changes = changes
        self._views = [FileView(file.name, file.diff, file.sign, file.remarks, file.counts) for file in files]
        self._characters = sum(len(line.text) for file in files for hunk in file.diff.hunks for line in hunk.lines)
        self._jumped, self._rows = None, PageRows()
        self.update()
        self.scroller.move_to(0)

    def _switch(self, scope: DiffScope) -> None:
        self.scope = scope if scope != self.scope else "session"
        self.title_text = _TITLES[self.scope]
        self._reload()

    @property
    def size_of_body(self) -> int:
        return PAINTED * self._characters

    @property
    def layout_key(self) -> Hashable:
        return self.body_width, self._is_beside

    @property
    def _is_beside(self) -> bool:
        if self._beside is None:
            return self.body_width >= SIDE_BY_SIDE_FROM
        return self._beside and self.body_width >= MIN_WIDTH_BESIDE

    def body(self, width: int) -> list[BlockLine]:
        beside = self._is_beside
        self._made[beside] = rows = page_rows(self._views, width, self.palette, two_columns=beside)
        return rows.lines

    def lay_out(self, width: int, room: int) -> None:
        lines, pager, beside = self.body_lines(), self.scroller, self._is_beside
        height = max(1, room - self.searching - 1)
        if height != pager.shown and self._jumped is not None and self._jumped[0] == self._place:
            # In a larger window it may have been below the top, because the diff ended there.
            self.call_after_refresh(self._jump_again)
        before = self._rows.places[self._place] if self._rows.places and self._place else None
        pager.searches_painted = beside
        pager.show(lines, height)
        made = self._made.get(beside)
        if made is not None and made is not self._rows and made.lines is lines:
            self._rows = made
            if before is not None:
                self._go(made.find(before))

    def on_scroller_scrolled(self) -> None:
        if self.is_open:
            self.paint()

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

    @property
    def _current(self) -> int:
        """Number of the file at the top; -1 in the list of files."""
        return self._rows.places[self._place].file if self._place < len(self._rows.places) else -1

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
            said: Runs = [margin, (format_heading(self._changes, self.scope), palette.text)]
            return cut_runs([*said, (f" · {CUT}", palette.warning)] if self._changes.cut else said, width)
        file = self._views[number]
        aside = f"file {number + 1:,} of {len(self._views):,}"
        if room >= 60 and file.diff.hunks:
            hunk = max(0, self._rows.places[self._place].hunk)
            aside += f" · hunk {hunk + 1:,} of {len(file.diff.hunks):,}"
        left = max(8, room - len(aside) - 4)
        name = file.name if len(file.name) <= left else f"…{file.name[1 - left :]}"
        runs: Runs = [margin, (f"{file.sign} ", palette.accent), (cut(name, left), palette.text + palette.strong)]
        gap = " " * max(2, width - MARGIN - size(runs) - len(aside))
        return cut_runs([*runs, (gap, palette.muted), (aside, palette.muted)], width)

    def asides(self) -> Sequence[str]:
        return (*super().asides(), "side by side" if self._is_beside and self._views else "")

    def keys(self) -> Keys:
        if self.searching:
            return super().keys()
        scopes = [("l", "session" if self.scope == "prompt" else "last prompt")]
        scopes.append(("a", "session" if self.scope == "all" else "since HEAD"))
        if not self._views:
            return [*scopes, ("Esc", "close")]
        view = [("v", "unified" if self._is_beside else "side by side")] if self.size.width > MIN_WIDTH_BESIDE else []
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
        if key in ("f", "right", "tab"):
            self._step(self._rows.file_rows, 1)
        elif key in ("F", "left", "shift+tab"):
            self._step(self._rows.file_rows, -1)
        elif key in ("h", "H"):
            self._step(self._rows.hunk_rows, 1 if key == "h" else -1)
        elif key == "v":
            self._beside = not self._is_beside
            self.settle()
        elif key in ("a", "l"):
            self._switch("all" if key == "a" else "prompt")
        elif key in ("c", "C"):
            self._copy_diff(everything=key == "C")
        elif key == "o" and self._views:
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

        def chosen(number: int) -> None:
            if number < len(self._rows.file_rows):
                self._go(self._rows.file_rows[number])

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


def _load_lexers(changes: Changes) -> None:
    """Load the lexers of the files' languages: the first use of one takes longer than a frame. Blocking."""
    languages = {language_of(file.diff.path) for file in changes.files}
    warm([language for language in sorted(languages) if language and not is_ready(language)])
