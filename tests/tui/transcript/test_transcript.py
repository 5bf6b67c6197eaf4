"""The transcript on a screen: following, staying, folding, searching, selecting, and failing blocks."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from textwrap import dedent
from unittest import mock

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.geometry import Region, Size
from textual.pilot import Pilot
from textual.widgets import Input

from agentcli.tui.blocks.base import Block, BlockLine, wrap
from agentcli.tui.blocks.items import make_block
from agentcli.tui.model import (
    Add,
    AnswerItem,
    Clear,
    Grow,
    Item,
    NoticeItem,
    OutputItem,
    PromptItem,
    Remove,
    Replace,
    ToolItem,
)
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript import widget as module
from agentcli.tui.transcript.widget import Transcript

pytestmark = pytest.mark.anyio

MATCH, CURRENT, SELECTED = "#e6c07b", "#ffb454", "#33415e"
PALETTE = Palette(match=Style(bgcolor=MATCH), match_current=Style(bgcolor=CURRENT), selection=Style(bgcolor=SELECTED))


class TextBlock(Block):
    """Wraps its text behind a mark; folded it shows the first line and how many more there are."""

    layouts = 0

    def __init__(self, item: Item) -> None:
        super().__init__(item)
        self.text = str(getattr(item, "text", "") or getattr(item, "output", ""))
        self.ticked = 0.0

    @property
    def foldable(self) -> bool:  # type: ignore[override]
        return isinstance(self.item, OutputItem) and "\n" in self.text

    @property
    def source(self) -> str:
        return self.text

    def replace(self, item: Item) -> None:
        super().replace(item)
        self.text = str(getattr(item, "text", ""))

    def grow(self, text: str, colours: object = ()) -> None:
        self.text += text

    def tick(self, now: float) -> bool:
        self.ticked = now
        return isinstance(self.item, ToolItem)

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        TextBlock.layouts += 1
        if "raise" in self.text:
            raise ValueError("a \x1b[31mbug")
        if isinstance(self.item, ToolItem):
            return wrap([(f"{self.item.title} {self.ticked:.0f}", palette.tool)], width)
        if not self.text:
            return []
        text = self.text
        if self.foldable and not self.expanded:
            first, *rest = text.split("\n")
            text = f"{first} +{len(rest)}"
        return wrap([(text, palette.text)], width, [("> ", palette.faint)])


class Host(App[None]):
    CSS = "Screen { overflow: hidden; }"

    def __init__(self, make: Callable[[Item], Block]) -> None:
        super().__init__()
        self.transcript = Transcript(make, PALETTE)
        self.pilot: Pilot[None]
        self.told: list[tuple[bool, bool]] = []
        self.found: list[tuple[int, int, bool]] = []

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield Input(compact=True)

    def on_transcript_following_changed(self, event: Transcript.FollowingChanged) -> None:
        self.told.append((event.following, event.unseen))

    def on_transcript_find_changed(self, event: Transcript.FindChanged) -> None:
        self.found.append((event.count, event.position, event.done))

    def shown(self) -> str:
        """The rows of the transcript as text, without the scrollbar."""
        strips = self.screen._compositor.render_strips()[: self.transcript.outer_size.height]
        return "\n".join(strip.crop(0, self.transcript.outer_size.width - 1).text.rstrip() for strip in strips)

    def rows(self) -> list[str]:
        return self.shown().split("\n")

    def styles_of(self, row: int) -> list[tuple[str, Style]]:
        strip = self.screen._compositor.render_strips()[row]
        return [(segment.text, segment.style or Style.null()) for segment in strip]


def finish(transcript: Transcript) -> None:
    """Paint, and search everything."""
    transcript.frame()
    while transcript.is_searching:
        transcript.search_on()


@pytest.fixture(autouse=True)
def _a_slice_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked for is found in one go, however slow the machine is."""
    monkeypatch.setattr(module, "SLICE", 60.0)


@pytest.fixture
def make() -> Callable[[Item], Block]:
    return TextBlock


@pytest.fixture
async def app(request: pytest.FixtureRequest, make: Callable[[Item], Block]) -> AsyncIterator[Host]:
    """An app on a screen of this size, of which the prompt takes the last row."""
    host = Host(make)
    async with host.run_test(size=getattr(request, "param", (30, 8))) as host.pilot:
        yield host


def notices(count: int, first: int = 0) -> list[Add]:
    return [Add(NoticeItem(id=f"n{number}", text=f"line {number}")) for number in range(first, first + count)]


def put(app: Host, *operations: Add | Grow | Replace | Remove | Clear) -> None:
    app.transcript.apply(operations)
    app.transcript.frame()


async def drag(app: Host, start: tuple[int, int], end: tuple[int, int]) -> None:
    await app.pilot.mouse_down(Transcript, offset=start)
    await app.pilot.hover(Transcript, offset=end)
    await app.pilot.mouse_up(Transcript, offset=end)
    await app.pilot.pause()


# ------------------------------------------------------------------------------------------------ what is shown


async def test_blocks_are_stacked_with_gaps(app: Host) -> None:
    put(
        app,
        Add(PromptItem(id="p", text="hello")),
        Add(ToolItem(id="t", name="Task", title="Task", status="running")),
        Add(AnswerItem(id="a", text="an answer")),
    )
    assert app.shown() == dedent("""\
        > hello

        Task 0

        > an answer

        """)


@pytest.mark.parametrize("app", [(14, 8)], indirect=True)
async def test_every_row_is_as_wide_as_the_screen_with_any_text(app: Host) -> None:
    put(app, Add(AnswerItem(id="a", text="日本語日本語日本 👩‍👩‍👧 e\u0301\u0301 مرحبا \t tab [bold]x[/]")))
    app.transcript.find("日")
    await app.pilot.pause()
    assert {strip.cell_length for strip in app.screen._compositor.render_strips()} == {14}
    assert "[bold]x" in app.shown().replace("\n  ", "")


@pytest.mark.parametrize("app", [(1, 4)], indirect=True)
async def test_a_screen_of_one_cell_works(app: Host) -> None:
    put(app, *notices(5))
    app.transcript.page_up()
    app.transcript.find("line")
    await app.pilot.resize_terminal(30, 8)
    app.transcript.frame()
    assert app.rows()[0].startswith("> line")


async def test_unknown_ids_are_ignored_and_known_ones_are_not_added_twice(app: Host) -> None:
    nobody = NoticeItem(id="nobody", text="x")
    put(app, *notices(1), Grow("nobody", "x"), Replace(nobody), Remove("nobody"), *notices(1))
    assert app.rows()[:2] == ["> line 0", ""]
    put(app, Replace(NoticeItem(id="n0", text="other")), Grow("n0", " text"))
    assert app.rows()[0] == "> other text"
    put(app, Clear())
    assert app.shown().strip() == ""
    assert app.transcript.items() == []


async def test_a_failing_block_shows_one_line_and_the_others_are_shown(app: Host) -> None:
    logging.getLogger("agentcli").setLevel(logging.CRITICAL)
    try:
        put(app, *notices(1), Add(NoticeItem(id="bad", text="raise")), *notices(1, first=1))
        assert app.rows()[:3] == ["> line 0", "(this block cannot be shown:", "> line 1"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TextBlock, "__init__", lambda _block, _item: 1 / 0)
            put(app, Add(NoticeItem(id="worse", text="x")), Grow("worse", "y"))
        assert app.rows()[3] == "(this block cannot be shown:"
    finally:
        logging.getLogger("agentcli").setLevel(logging.NOTSET)


async def test_a_new_palette_and_theme_repaint_the_visible_rows(app: Host) -> None:
    put(app, *notices(1))
    app.theme = "textual-light"
    app.transcript.set_palette(Palette(text=Style(color="#ff0000")))
    app.transcript.frame()
    await app.pilot.pause()
    colours = [style.color.name for text, style in app.styles_of(0) if "line" in text and style.color]
    assert colours == ["#ff0000"]
    backgrounds = {style.bgcolor.name for _text, style in app.styles_of(0)[:-1] if style.bgcolor}
    assert backgrounds == {app.screen.styles.background.rich_color.name}


async def test_sources_are_available_for_copying_and_export(app: Host) -> None:
    put(
        app,
        Add(PromptItem(id="p", text="question")),
        Add(ToolItem(id="t", name="Task", title="Task", status="done")),
        Add(AnswerItem(id="c", text="zero")),
        Add(AnswerItem(id="a", text="**first**")),
        Add(AnswerItem(id="b", text="second")),
        Grow("b", " and more"),
        Add(AnswerItem(id="e")),
    )
    assert app.transcript.source_text() == "question\n\nzero\n\n**first**\n\nsecond and more\n"
    assert len(app.transcript.blocks()) == len(app.transcript.items()) == 6


# ----------------------------------------------------------------------------------------------------- following


async def test_a_scrolled_up_view_stays_while_the_end_grows(app: Host) -> None:
    put(app, *notices(20))
    app.transcript.scroll_rows(-4)
    before = app.rows()
    assert before[0] == "> line 9"
    await app.pilot.pause()
    assert app.told == [(False, False)]
    put(app, *notices(20, first=20), Grow("n19", "\nmore"))
    await app.pilot.pause()
    assert app.rows() == before
    assert app.told == [(False, False), (False, True)]


async def test_reaching_the_end_by_wheel_or_key_follows_again(app: Host) -> None:
    put(app, *notices(20))
    transcript = app.transcript
    transcript.home()
    assert app.rows()[0] == "> line 0"
    assert not transcript.following
    while not transcript.following:
        transcript.page_down()
    assert app.rows()[-1] == "> line 19"
    await app.pilot._post_mouse_events([module.events.MouseScrollUp], Transcript, offset=(3, 3))
    assert not transcript.following
    assert transcript.scroll_y == 20 - 7 - 3
    await app.pilot._post_mouse_events([module.events.MouseScrollDown], Transcript, offset=(3, 3))
    assert transcript.following
    transcript.page_up()
    await app.pilot.pause()
    transcript.follow()
    assert transcript.following


async def test_dragging_the_scrollbar_moves_the_view(app: Host) -> None:
    put(app, *notices(200))
    app.transcript.post_message(module.ScrollTo(y=100.0))
    await app.pilot.pause()
    assert app.rows()[0] == "> line 100"
    app.transcript.post_message(module.ScrollTo(y=1000.0))
    await app.pilot.pause()
    assert app.transcript.following


@pytest.mark.parametrize("app", [(30, 24)], indirect=True)
async def test_the_scrollbar_is_where_a_new_layout_would_put_it(app: Host) -> None:
    for number in range(80):
        put(app, *notices(1, first=number))
        await app.pilot.pause()
        before = app.screen._compositor.render_strips()[:23]
        app.refresh(repaint=True, layout=True)
        await app.pilot.pause()
        assert app.screen._compositor.render_strips()[:23] == before


# ------------------------------------------------------------------------------- following while the sizes change


async def test_a_box_that_shrinks_while_text_arrives_does_not_end_following(app: Host) -> None:
    box = app.query_one(Input).styles
    box.height = 4
    put(app, *notices(50))
    await app.pilot.pause()
    app.transcript.apply([Add(AnswerItem(id="a", text="one"))])
    box.height = 1
    await app.pilot.pause()
    put(app, Grow("a", "\n\ntwo\n\nthe end"))
    await app.pilot.pause()
    assert app.transcript.following
    assert app.told == []
    assert app.rows()[-1].endswith("the end")


@pytest.mark.parametrize("seed", range(2))
async def test_following_survives_any_order_of_resizes_and_new_text(app: Host, seed: int) -> None:
    rng, count = random.Random(seed), 0
    for _ in range(20):
        for step in rng.sample(range(4), rng.randrange(1, 5)):
            if step == 0:
                added = rng.randrange(1, 6)
                app.transcript.apply(notices(added, count))
                count += added
            elif step == 1:
                app.query_one(Input).styles.height = rng.randrange(1, 12)
            elif step == 2 and rng.random() < 0.3:
                await app.pilot.resize_terminal(rng.randrange(20, 60), rng.randrange(14, 40))
            elif step == 3:
                app.transcript.frame()
        await app.pilot.pause()
        assert app.transcript.following
    app.transcript.frame()
    await app.pilot.pause()
    assert app.told == []
    assert app.rows()[-1].endswith(f"line {count - 1}") or count < len(app.rows())


@pytest.mark.parametrize("app", [(40, 20)], indirect=True)
@pytest.mark.parametrize("seed", range(2))
async def test_the_top_row_stays_while_heights_change(app: Host, seed: int) -> None:
    rng, count = random.Random(seed), 200
    put(app, *notices(count))
    app.transcript.scroll_rows(-60)
    top = app.rows()[0]
    for _ in range(20):
        app.query_one(Input).styles.height = rng.randrange(1, 12)
        if rng.random() < 0.5:
            app.transcript.apply(notices(3, count))
            count += 3
        if rng.random() < 0.5:
            app.transcript.frame()
        await app.pilot.pause()
        assert app.rows()[0] == top
        assert not app.transcript.following


@pytest.mark.parametrize("app", [(40, 20)], indirect=True)
async def test_a_taller_view_that_reaches_the_end_follows_again(app: Host) -> None:
    app.query_one(Input).styles.height = 10
    put(app, *notices(50))
    await app.pilot.pause()
    app.transcript.scroll_rows(-4)
    await app.pilot.pause()
    assert app.told == [(False, False)]
    app.query_one(Input).styles.height = 1
    # The layout posts the new size, the view then posts that it follows: two messages, one after the other.
    for _ in range(50):
        await app.pilot.pause()
        if len(app.told) > 1:
            break
    assert app.transcript.following
    assert app.told == [(False, False), (True, False)]
    assert app.rows()[-1].endswith("line 49")


# ------------------------------------------------------------------------------------------------- frames, widths


async def test_operations_lay_nothing_out_and_a_frame_lays_out_visible_blocks(app: Host) -> None:
    TextBlock.layouts = 0
    app.transcript.apply(notices(500))
    assert TextBlock.layouts == 0
    app.transcript.frame()
    assert TextBlock.layouts == 8
    app.transcript.apply([Grow("n499", "x") for _ in range(100)])
    app.transcript.frame()
    assert TextBlock.layouts == 9
    app.transcript.frame()
    assert TextBlock.layouts == 9


async def test_the_first_change_after_a_pause_is_painted_at_once_and_those_after_it_wait(
    app: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    while not app.transcript.is_idle:
        await app.pilot.pause(0.01)
    await app.pilot.pause(2 * module.FRAME)
    frames: list[str] = []
    frame = app.transcript.frame
    monkeypatch.setattr(app.transcript, "frame", lambda: (frames.append("frame"), frame()))
    app.transcript.apply(notices(1))
    for _ in range(20):
        await asyncio.sleep(0)
    assert frames == ["frame"]
    for number in range(20):
        app.transcript.apply([Grow("n0", str(number))])
        await asyncio.sleep(0)
    assert len(frames) <= 2


@pytest.mark.parametrize("make", [make_block])
async def test_an_answer_that_arrives_at_once_is_shown_over_several_frames(app: Host) -> None:
    transcript = app.transcript
    put(app, Add(AnswerItem(id="a")))
    text = "".join(f"Paragraph {number} of many words.\n\n" for number in range(300))
    put(app, Grow("a", text), Replace(AnswerItem(id="a", text=text, done=True)))
    assert transcript.blocks()[0].behind
    for _ in range(40):
        await app.pilot.pause()
    assert not transcript.blocks()[0].behind
    assert "Paragraph 299" in app.shown()


async def test_only_rows_that_look_different_are_painted_again(app: Host) -> None:
    put(app, *notices(5))
    regions: list[Region] = []
    with mock.patch.object(app.transcript, "refresh", lambda *changed, **_options: regions.extend(changed)):
        put(app, Grow("n4", " x"))
        assert [(region.y, region.height) for region in regions] == [(4, 1)]
        regions.clear()
        put(app, Grow("n1", "!"), Grow("n3", "!"))
        assert [(region.y, region.height) for region in regions] == [(1, 1), (3, 1)]
        regions.clear()
        app.transcript.frame()
        assert regions == []


async def test_growing_does_not_lay_the_screen_out_again(app: Host) -> None:
    put(app, *notices(3))
    await app.pilot.pause()
    layouts = []
    reflow = app.screen._compositor.reflow
    app.screen._compositor.reflow = lambda *args: layouts.append(1) or reflow(*args)  # type: ignore
    for number in range(3, 30):
        put(app, *notices(1, first=number))
        await app.pilot.pause()
    assert layouts == []
    assert app.transcript.virtual_size == Size(29, 30)


async def test_another_width_keeps_the_top_block_at_the_top(app: Host) -> None:
    put(app, *(Add(NoticeItem(id=f"n{n}", text=f"line {n} with words to wrap")) for n in range(60)))
    app.transcript.scroll_rows(-20)
    top = app.rows()[0]
    for width in (16, 80, 20, 30):
        await app.pilot.resize_terminal(width, 8)
        app.transcript.frame()
        finish(app.transcript)
        assert app.rows()[0].split()[:3] == top.split()[:3]


async def test_clocks_tick_only_in_view(app: Host) -> None:
    tools = [Add(ToolItem(id=f"t{n}", name="Bash", title=f"Bash {n}", status="running")) for n in range(20)]
    put(app, *tools)
    app.transcript.tick(7.0)
    app.transcript.frame()
    assert app.rows()[-1] == "Bash 19 7"
    ticked = [block.ticked for block in app.transcript.blocks() if isinstance(block, TextBlock)]
    assert ticked == [0.0] * 13 + [7.0] * 7


# ------------------------------------------------------------------------------------------------------- folding


def folded(id: str, rows: int = 12) -> Add:
    return Add(OutputItem(id=id, text="\n".join(f"{id} row {row}" for row in range(rows))))


async def test_a_click_opens_a_folded_block_in_its_place_and_another_folds_it(app: Host) -> None:
    app.CLICK_CHAIN_TIME_THRESHOLD = 0.0  # two clicks are no double click
    put(app, *notices(3), folded("o"), Add(AnswerItem(id="a", text="end")))
    assert app.rows()[4] == "> o row 0 +11"
    await app.pilot.click(Transcript, offset=(4, 4))
    app.transcript.frame()
    assert app.rows()[4:6] == ["> o row 0", "  o row 1"]
    assert not app.transcript.following
    await app.pilot.click(Transcript, offset=(4, 4))
    app.transcript.frame()
    assert app.rows()[4] == "> o row 0 +11"
    assert app.transcript.following


async def test_the_details_key_opens_and_folds_everything_and_the_view_stays(app: Host) -> None:
    put(app, *notices(20), folded("o"), *notices(20, first=20))
    app.transcript.scroll_rows(-6)
    before = app.rows()[0]
    assert app.transcript.toggle_details()
    app.transcript.frame()
    assert app.rows()[0] == before
    put(app, folded("later"))
    app.transcript.follow()
    assert app.rows()[-1] == "  later row 11"
    assert not app.transcript.toggle_details()
    app.transcript.frame()
    assert app.rows()[-1] == "> later row 0 +11"


# -------------------------------------------------------------------------------------------------- the selection


async def test_a_selection_copies_source_text_and_survives_streaming_below(app: Host) -> None:
    text = "one two three four five six seven"
    put(app, Add(AnswerItem(id="a", text=text)), Add(AnswerItem(id="b", text="next")))
    await drag(app, (6, 0), (4, 3))
    assert app.screen.get_selected_text() == "two three four five six seven\n\nnex"
    put(app, Grow("b", " and more"), *notices(1))
    await app.pilot.pause()
    assert app.screen.get_selected_text() == "two three four five six seven\n\nnex"
    assert marked(app, 3, SELECTED) == "nex"


async def test_the_view_does_not_move_during_a_selection(app: Host) -> None:
    put(app, *notices(20))
    await drag(app, (2, 1), (7, 2))
    before = app.rows()
    put(app, *notices(5, first=20))
    await app.pilot.pause()
    assert app.rows()[:-1] == before[:-1]
    assert app.told == [(False, True)]
    assert app.screen.get_selected_text() == "line 14\nline 1"
    app.screen.clear_selection()
    await app.pilot.pause()
    await app.pilot.pause()
    assert app.rows()[-1] == "> line 24"
    assert app.told[-1] == (True, False)


async def test_a_drag_continues_over_rows_scrolled_into_view(app: Host) -> None:
    put(app, *notices(40))
    await app.pilot.mouse_down(Transcript, offset=(2, 4))
    await app.pilot.hover(Transcript, offset=(2, 3))
    await app.pilot.pause()
    app.transcript.scroll_rows(-3)
    await app.pilot.pause()
    await app.pilot.mouse_up(Transcript, offset=(2, 3))
    await app.pilot.pause()
    assert app.screen.get_selected_text() == "line 33\nline 34\nline 35\nline 36\nl"


async def test_a_drag_and_the_click_that_ends_a_selection_fold_nothing(app: Host) -> None:
    put(app, folded("o"), Add(AnswerItem(id="a", text="end")))
    await drag(app, (3, 0), (8, 0))
    assert app.screen.get_selected_text() == " row 0"
    await app.pilot.click(Transcript, offset=(4, 0))
    app.transcript.frame()
    assert app.screen.get_selected_text() is None
    assert app.rows()[0] == "> o row 0 +11"


async def test_a_double_click_selects_a_word_and_a_triple_click_a_row(app: Host) -> None:
    put(app, Add(AnswerItem(id="a", text="see src/app.py for it")))
    await app.pilot.click(Transcript, offset=(9, 0), times=2)
    await app.pilot.pause()
    assert app.screen.get_selected_text() == "src/app.py"
    await app.pilot.click(Transcript, offset=(9, 0), times=3)
    await app.pilot.pause()
    assert app.screen.get_selected_text() == "see src/app.py for it"


async def test_a_selection_ends_with_the_width_it_was_made_at(app: Host) -> None:
    put(app, *notices(3))
    await drag(app, (2, 0), (7, 1))
    await app.pilot.resize_terminal(20, 8)
    app.transcript.frame()
    assert app.screen.get_selected_text() is None


async def test_the_prompt_keeps_the_focus_when_the_transcript_is_clicked(app: Host) -> None:
    put(app, *notices(3))
    app.query_one(Input).focus()
    await app.pilot.click(Transcript, offset=(4, 0))
    assert isinstance(app.focused, Input)


# ----------------------------------------------------------------------------------------------------- the search


def marked(app: Host, row: int, colour: str) -> str:
    return "".join(text for text, style in app.styles_of(row) if style.bgcolor and style.bgcolor.name == colour)


async def test_a_search_shows_the_nearest_match_above_and_steps_through_all(app: Host) -> None:
    put(app, *notices(30))
    assert app.transcript.find("LINE 1") == 0
    assert app.transcript.find("line 1") == 11
    await app.pilot.pause()
    row = app.rows().index("> line 19")
    assert marked(app, row, CURRENT) == "line 1"
    assert marked(app, row - 1, MATCH) == "line 1"
    assert app.found[-1] == (11, 11, True)
    app.transcript.find_step(1)
    await app.pilot.pause()
    assert app.found[-1] == (11, 1, True)
    assert "> line 1" in app.rows()
    app.transcript.find_step(-1)
    app.transcript.find_step(-1)
    await app.pilot.pause()
    assert app.found[-1] == (11, 10, True)
    assert "> line 18" in app.rows()
    app.transcript.clear_find()
    app.transcript.frame()
    await app.pilot.pause()
    assert all(not marked(app, row, MATCH) for row in range(7))


async def test_the_end_of_a_search_folds_what_it_opened_except_a_match_that_was_kept(app: Host) -> None:
    put(app, folded("a", rows=40), folded("b", rows=40), *notices(30))
    transcript = app.transcript
    assert transcript.find("row 33") == 2
    transcript.find_step(-1)
    finish(transcript)
    assert "  a row 33" in app.rows()
    assert transcript.match_count == 2
    transcript.clear_find()
    assert [block.expanded for block in transcript.blocks()[:2]] == [False, False]
    transcript.find("row 33")
    transcript.find_step(-1, keep=True)
    transcript.clear_find()
    assert [block.expanded for block in transcript.blocks()[:2]] == [True, False]
    transcript.find("b row 33")
    transcript.toggle_details()
    transcript.clear_find()
    assert [block.expanded for block in transcript.blocks()[:2]] == [True, True], "the user asked for all details"


async def test_a_long_conversation_is_searched_in_slices_and_matches_that_come_later_count(app: Host) -> None:
    put(app, *notices(30))
    transcript = app.transcript
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLICE", -1.0)
        assert transcript.find("line 3") == 0
        assert transcript.is_searching
    finish(transcript)
    assert transcript.match_count == 1
    put(app, *notices(1, first=30))
    finish(transcript)
    assert transcript.match_count == 2
    put(app, Replace(NoticeItem(id="n30", text="nothing")), Remove("n3"))
    finish(transcript)
    assert transcript.match_count == 0


async def test_an_empty_search_or_one_without_matches_keeps_the_view(app: Host) -> None:
    put(app, *notices(30))
    before = app.rows()
    assert app.transcript.find("") == 0
    assert app.transcript.find("not there") == 0
    app.transcript.find_step(1)
    await app.pilot.pause()
    assert app.rows() == before
    assert app.found[-1] == (0, 0, True)


async def test_streaming_text_does_not_move_the_current_match(app: Host) -> None:
    put(app, *notices(30))
    app.transcript.find("line 28")
    before = app.rows()
    assert before[-2] == "> line 28"
    put(app, *notices(10, first=30))
    assert app.rows() == before
    app.transcript.clear_find()
    app.transcript.frame()
    assert app.rows()[-1] == "> line 39"
    assert app.transcript.following
