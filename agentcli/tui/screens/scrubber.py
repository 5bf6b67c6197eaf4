"""The scrubber: the steps of a session at the left, what belongs to the marked one in tabs at the right.

`/rewind`, `/tree`, `/trace` and replays are this screen with other steps, tabs and actions (`history/steps.py`). In a
narrow terminal the tab takes the place of the list while it is read.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from functools import partial

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from agentcli.core.errors import AgentError
from agentcli.core.messages import clean_text
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import terminal_text
from agentcli.core.text.unified_diff import parse_files
from agentcli.history.steps import Step, StepAction, StepChoice, StepList, StepText
from agentcli.tui.blocks.base import BlockLine, wrap
from agentcli.tui.blocks.diff import file_view, page_rows
from agentcli.tui.blocks.rows import Runs
from agentcli.tui.screens.page import LESS_KEYS, Scroller
from agentcli.tui.screens.picker import Action, ListSheet
from agentcli.tui.screens.row_list import FoundEntry, Row, RowEntry, RowList, find
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.text import EntryLine, StyledRows, first_rows, safe_block, wrap_rows
from agentcli.tui.theme.palette import Palette

MAX_TEXT = 400_000
"""Characters of a piece that are shown."""
_READ_PAUSE = 0.05
"""Delay in seconds before a tab is read, so that a held arrow key does not read all steps."""
_FOLDED, _UNFOLDED = "▸", "▾"


class Scrubber(ListSheet[str, StepChoice]):
    letters = True
    share = 1.0
    wide = 80
    """Minimum number of columns for the tab beside the list."""
    close_word = "close"
    DEFAULT_CSS = """
    Scrubber #edge { width: 1; height: 1fr; }
    Scrubber #pane { width: 1fr; height: 1fr; }
    """

    def __init__(self, steps: StepList) -> None:
        super().__init__(steps.title, [], start=steps.start or None)
        self._list = steps
        self.empty = "Reading the session …"
        self._steps: dict[str, Step] = {}
        self._parents: set[str] = set()
        """Ids of the steps that have others below them."""
        self._unfolded: set[str] = set()
        self._tab = steps.tab
        self.reading = False
        """Whether keys scroll the tab instead of moving in the list."""
        self._typing = False
        """Whether letters go to the search in the tab."""
        self._list_query: str | None = None
        """The search in the list while the tab is read; None if there is none."""
        self._lines: list[BlockLine] = []
        self._shown: tuple[str, int, int, Palette] | None = None
        """Step, tab, width and palette for which the lines were made."""
        self._texts: tuple[str, int, Sequence[StepText]] | None = None
        """Step and tab that were read, and their pieces."""

    # ---------------------------------------------------------------------------------------------------- the steps

    def on_mount(self) -> None:  # Textual also calls the `on_mount` of the base classes, after this one
        self.work(self._load, "load")

    async def _load(self) -> None:
        try:
            steps = await asyncio.to_thread(self._list.load)
            self.empty = self._list.empty
        except (OSError, AgentError) as error:
            steps, self.empty = (), f"The session could not be read: {error}."
        if not self.is_open:
            return
        if self._start is None and steps:
            self._start = next((step.id for step in reversed(steps) if not step.parent), steps[-1].id)
        self._take_steps(steps)
        if self._list.opened is not None:
            self._list.opened(self._update)

    def _take_steps(self, steps: Sequence[Step]) -> None:
        self._steps = {step.id: step for step in steps}
        self._parents = {step.parent for step in steps if step.parent}
        if self._start in self._steps:
            self._unfolded.add(self._steps[self._start].parent)
        self._set_rows()

    def _update(self, steps: Sequence[Step]) -> None:
        if self.is_open:
            self._take_steps(steps)
            self._texts = None
            if self._shown is not None:
                # The step and the tab stay, so that the position in the text does.
                self._shown = (*self._shown[:2], 0, self.palette)
            self._show_tab()

    def _set_rows(self) -> None:
        if self.is_open:
            self.set_rows([self._row(step) for step in self._steps.values()])

    def _row(self, step: Step) -> Row[str]:
        fold = (_UNFOLDED if step.id in self._unfolded else _FOLDED) if step.id in self._parents else " "
        mark = f"{fold if self._parents else ''}{step.mark}"
        return Row(step.id, f"{step.prefix}{'  ' if step.parent else ''}{step.label}", step.detail, mark)

    def search(self, entries: Sequence[RowEntry[str]], query: str) -> list[FoundEntry[str]]:
        if query.strip():
            return find(entries, query)
        return find([each for each in entries if self._is_visible(self._steps[each.row.value])], "")

    def _is_visible(self, step: Step) -> bool:
        return not step.parent or (step.parent in self._unfolded and self._is_visible(self._steps[step.parent]))

    @property
    def step(self) -> Step | None:
        return self._steps.get(self.row.value) if self.row is not None else None

    def _fold(self, unfold: bool | None = None) -> bool:
        """Fold or unfold the marked step, or what it is folded below; None: the other of the two."""
        step = self.step
        if step is None or self.searching:
            return False
        is_unfolded = step.id in self._unfolded
        if step.id in self._parents and unfold is not is_unfolded:
            self._unfolded ^= {step.id}
            self._set_rows()
        elif step.parent and not unfold:
            self._unfolded.discard(step.parent)
            self._set_rows()
            self._filter(step.parent)
        else:
            return False
        return True

    # ------------------------------------------------------------------------------------------------------ the tab

    def follow_cursor(self, row: Row[str] | None) -> None:
        self._show_tab()

    def _show_tab(self) -> None:
        """Read and lay out the tab of the marked step, unless that is what is shown."""
        if not self.is_open or not self.scroller.display:
            return
        step = self.step
        if step is None:
            self._lines, self._shown = [], None
            self._place_lines()
        elif self._shown != (wanted := (step.id, self._tab, self._pane_width, self.palette)):
            self.work(partial(self._read_tab, step, wanted), "tab")

    async def _read_tab(self, step: Step, wanted: tuple[str, int, int, Palette]) -> None:
        _id, tab, width, palette = wanted
        if self._texts is None or self._texts[:2] != (step.id, tab):
            await asyncio.sleep(_READ_PAUSE)
            self._texts = (step.id, tab, await self._read(step, tab))
        lines = await asyncio.to_thread(lay_out_texts, self._texts[2], width, palette)
        if not self.is_open:
            return
        is_same = self._shown is not None and self._shown[:2] == wanted[:2]
        self._lines, self._shown = lines, wanted
        self._place_lines()
        if not is_same:
            self.scroller.move_to(0)
        self.paint()

    async def _read(self, step: Step, tab: int) -> Sequence[StepText]:
        try:
            found = await asyncio.to_thread(self._list.tabs[tab].read, step)
            return await found if inspect.isawaitable(found) else found
        except (OSError, AgentError) as error:
            return (StepText(f"It could not be read: {error}.", "muted"),)

    @property
    def scroller(self) -> Scroller:
        return self.query_one(Scroller)

    @property
    def _is_wide(self) -> bool:
        return self.area.width >= self.wide and bool(self._steps)

    @property
    def _pane_width(self) -> int:
        """Columns of the text, without margin and scrollbar."""
        return max(1, self.area.width - (self._list_width + 1 if self._is_wide else 0) - 2)

    @property
    def _list_width(self) -> int:
        return (self.area.width - 1) * 9 // 20 if self._is_wide else self.area.width

    def _about(self, width: int) -> list[Runs]:
        hidden = self.listing.hidden_text(self._list_width) if self._is_wide else ""
        return super()._about(width) or (wrap_rows([(hidden, self.palette.text)], width - 2, 2) if hidden else [])

    def _place_lines(self) -> None:
        self.scroller.show(self._lines, max(1, self.scroller.shown))

    # ------------------------------------------------------------------------------------------------------- layout

    def parts(self) -> ComposeResult:
        yield StyledRows(id="head")
        yield EntryLine("⌕", "search", self.max_query)
        with Horizontal(id="body"):
            yield RowList[str](self.palette, self._cursor_moved, id="rows")
            yield StyledRows(id="preview")
            yield StyledRows(id="edge")
            with Vertical(id="pane"):
                yield StyledRows(id="tabs")
                yield Scroller(self.palette, id="text")
        yield StyledRows(id="about")

    def lay_out(self, width: int, room: int) -> None:
        self.query_one("#head").display = self.query_one("#preview").display = False
        is_wide = self._is_wide
        self.listing.display = is_wide or not self.reading
        self.listing.styles.width = self._list_width
        self.query_one("#pane").display = self.scroller.display = is_wide or self.reading
        self.query_one("#edge").display = is_wide
        about = self._about(width) if self.listing.display else []
        room -= self.entry.display
        self._most_about = max(self._most_about, len(about))
        self._about_rows = min(self._most_about, max(0, room // 3)) if self.listing.display else 0
        self.query_one("#about", StyledRows).show(first_rows(about, self._about_rows), self._about_rows)
        height = max(1, room - self._about_rows)
        self.query_one("#body").styles.height = height
        self.query_one("#edge", StyledRows).show([[("│", self.palette.faint)]] * height)
        self.scroller.show(self._lines, max(1, height - 1))
        self._show_tab()

    def paint(self) -> None:
        super().paint()
        palette = self.palette
        self.scroller.palette = palette
        self.scroller.refresh()
        self.query_one("#edge", StyledRows).show([[("│", palette.faint)]] * self.size.height)
        self.query_one("#tabs", StyledRows).show([self._tabs_row()])

    def _tabs_row(self) -> Runs:
        palette = self.palette
        runs: Runs = [("❯ " if self.reading else "  ", palette.accent)]
        for place, tab in enumerate(self._list.tabs):
            is_shown = place == self._tab
            name = f"[{tab.name}]" if is_shown else f" {tab.name} "
            runs.append((name, palette.accent + palette.strong if is_shown else palette.muted))
        step = self.step
        above, below = self.scroller.hidden
        if self.scroller.found:
            runs.append((f"  {self.scroller.found}", palette.muted))
        elif step is not None and self._shown is not None and self._shown[0] != step.id:
            runs.append(("  …", palette.muted))
        elif above or below:
            runs.append((f"  ↓ {below:,}" if below else "  end", palette.muted))
        return runs

    def on_scroller_scrolled(self) -> None:
        if self.is_open:
            self.query_one("#tabs", StyledRows).show([self._tabs_row()])

    def asides(self) -> Sequence[str]:
        if self.searching and self.query_text.strip():
            return (f"{self._found_count:,} of {len(self._steps):,}",)
        prompts = sum(not step.parent for step in self._steps.values())
        return (counted(prompts, self._list.noun),) if prompts else ()

    # --------------------------------------------------------------------------------------------------------- keys

    @property
    def query_text(self) -> str:
        return (self._list_query or "") if self.reading else super().query_text

    def enter_word(self) -> str:
        return "" if self.step is None else "read"

    def actions(self) -> Sequence[Action]:
        step = self.step
        if step is None:
            return ()
        chosen = [action for action in self._list.actions if action.applies(step)]
        return [(action.key, action.word, partial(self._act, action, step)) for action in chosen]

    def keys(self) -> Keys:
        listed = [(key, word) for key, word, _do in self.actions() if key != "enter"]
        enter = next((word for key, word, _do in self.actions() if key == "enter"), self.enter_word())
        more = [("Tab", self._list.tabs[(self._tab + 1) % len(self._list.tabs)].name)] * (len(self._list.tabs) > 1)
        if self._typing:
            return [("Enter", "next"), ("Esc", "end search")]
        if self.reading:
            return [("/", "search"), ("↑↓", "scroll"), *more, *listed, ("Esc", "back to the list")]
        if self.searching:
            return [("↑↓", "move"), ("Enter", enter), ("Esc", "end search")]
        if self.step is None:
            return [("Esc", self.close_word)]
        fold = [("→←", "calls")] * (bool(self._parents))
        return [("/", "search"), ("↑↓", "move"), *fold, *more, *listed, ("Enter", enter), ("Esc", self.close_word)]

    def press(self, key: str, character: str | None) -> bool:
        if self._typing:
            return self._type(key, character)
        if key in ("tab", "shift+tab") and self._list.tabs:
            self._tab = (self._tab + (1 if key == "tab" else -1)) % len(self._list.tabs)
            self.scroller.find("")
            self._show_tab()
            self.paint()
            return True
        if self.reading:
            return self._press_reading(key, character)
        if not self.searching:
            if key == "space":
                return self._fold()
            if key in ("right", "left"):
                if not self._fold(unfold=key == "right") and key == "right":
                    self.read()
                return True
            if key != "enter" and self._start_action(key, character):
                return True
        return super().press(key, character)

    def _start_action(self, key: str, character: str | None) -> bool:
        act = next((act for name, _word, act in self.actions() if name in (key, character)), None)
        if act is not None:
            act()
        return act is not None

    def choose(self, row: Row[str]) -> None:
        if not self._start_action("enter", None):
            self.read()

    def back(self) -> None:
        if self.searching and self.step is not None:
            self._unfolded.add(self.step.parent)
        super().back()

    def _act(self, action: StepAction, step: Step) -> None:
        if action.run is None:
            self.dismiss(StepChoice(action.key, step))
        else:
            self.work(partial(self._run, action.run(step)), "action")

    async def _run(self, action: Awaitable[str]) -> None:
        try:
            text, is_good = await action, True
        except AgentError as error:
            text, is_good = str(error), False
        if self.is_open:
            self.say(text, good=is_good)

    # ------------------------------------------------------------------------------------------------------ reading

    def read(self) -> None:
        """Scroll the tab from now on."""
        if self.step is None:
            return
        self._list_query = self.entry.line.text if self.entry.display else None
        self.reading = True
        self._close_entry()

    def _close_entry(self) -> None:
        self._typing = False
        self.entry.line.clear()
        self.entry.display = False
        self.settle()

    def _press_reading(self, key: str, character: str | None) -> bool:
        pressed = character or key
        if key in ("escape", "left"):
            if self.scroller.found and key == "escape":
                self.scroller.find("")
                self.settle()
            else:
                self._end_reading()
        elif pressed == "/":
            self._typing = self.entry.display = True
            self.settle()
        elif pressed in ("n", "N") and self.scroller.matches:
            self.scroller.step(1 if pressed == "n" else -1)
            self.paint()
        elif self._start_action(key, character) or self.scroller.press(LESS_KEYS.get(pressed, key)):
            pass
        else:
            return False
        return True

    def _end_reading(self) -> None:
        self.reading = False
        self.entry.display = self._list_query is not None
        self.entry.line.clear()
        self.entry.line.insert(self._list_query or "")
        self._list_query = None
        self.settle()

    def _type(self, key: str, character: str | None) -> bool:
        if key == "escape":
            self.scroller.find("")
            self._close_entry()
        elif key == "enter":
            self._close_entry()
        elif not self.scroller.press(key) and self.entry.line.press(key, character):
            self.scroller.find(self.entry.line.text)
            self.paint()
        return True

    def on_paste(self, event: events.Paste) -> None:
        if not self.reading:
            super().on_paste(event)


def lay_out_texts(texts: Sequence[StepText], width: int, palette: Palette) -> list[BlockLine]:
    from agentcli.tui.blocks.markdown import render_markdown

    lines: list[BlockLine] = []
    for piece in texts:
        text = piece.text if isinstance(piece.text, str) else piece.text(width)
        text = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[The rest is not shown.]"
        if piece.kind == "markdown":
            lines += render_markdown("\n".join(safe_block(text)), width, palette)
        elif piece.kind == "diff":
            files = [file_view(file) for file in parse_files(terminal_text(clean_text(text))) if file.path]
            lines += page_rows(files, width, palette, two_columns=False).lines
        else:
            styles = {"muted": palette.muted, "heading": palette.accent + palette.strong}
            style = styles.get(piece.kind, palette.text)
            lines += [row for line in safe_block(text) for row in wrap([(line, style)], width)]
    return lines or wrap([("(nothing)", palette.muted)], width)
