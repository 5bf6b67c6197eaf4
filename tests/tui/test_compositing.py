"""The quick compositor shows the same picture as Textual's own, cell by cell."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest
from rich.cells import cell_len
from textual._context import active_app
from textual.app import App, ComposeResult
from textual.containers import Container, VerticalScroll
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static

from agentcli.tui.textual_internals import QuickCompositor, QuickUpdate

pytestmark = pytest.mark.anyio

SIZE = (37, 17)


class Picture(Screen[None]):
    CSS = """
    Picture { layers: default above; background: #101010; }
    #back { height: 9; width: 1fr; layers: default above; }
    #scroll { height: 9; border: round red; }
    #tall { height: 30; color: green; }
    #hint { dock: bottom; layer: above; width: 9; height: 2; background: blue; }
    #left { width: 11; height: 5; offset: 3 -2; background: #202020; }
    #wide { height: 3; color: yellow; padding: 0 3; }
    #box { layer: above; width: 13; height: 6; offset: 29 4; background: magenta; border: heavy white; }
    #hidden { visibility: hidden; height: 4; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._compositor = QuickCompositor()

    def compose(self) -> ComposeResult:
        with Container(id="back"):
            with VerticalScroll(id="scroll"):
                yield Static("\n".join(f"row {row} 日本語テキスト 👍" for row in range(30)), id="tall", markup=False)
            yield Static("a hint\nof two", id="hint")
        yield Static("left\nof the\nscreen", id="left")
        yield Static("日本語テキスト日本語テキスト\nx日本語テキスト日本語テキスト", id="wide")
        yield Static("over the\nedge", id="box")
        yield Static("never seen", id="hidden")


class Host(App[None]):
    def on_mount(self) -> None:
        self.push_screen(Picture())


@pytest.fixture
async def compositor() -> AsyncIterator[QuickCompositor]:
    host = Host()
    async with host.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert isinstance(host.screen._compositor, QuickCompositor)
        yield host.screen._compositor


def cells(strip: Strip) -> list[tuple[str, str]]:
    """Of every cell what it shows and how; a wide character is in both of its cells."""
    found: list[tuple[str, str]] = []
    for segment in strip:
        style = str(segment.style)
        for character in segment.text:
            found += [(character, style)] * cell_len(character)
    return found


def paint(update: QuickUpdate, screen: list[list[tuple[str, str]]]) -> None:
    for x, y, strip in update.strips:
        row = cells(strip)
        screen[y][x : x + len(row)] = row


def same(ours: tuple[str, str], textual: tuple[str, str]) -> bool:
    """Textual cuts wide characters at the edges of whatever is behind them: a blank in their style is left."""
    return ours == textual or (textual[0] == " " and ours[1] == textual[1] and cell_len(ours[0]) == 2)


async def test_a_whole_frame_is_what_textual_would_paint(compositor: QuickCompositor) -> None:
    update = compositor.render_full_update()
    assert isinstance(update, QuickUpdate)
    screen = [[("?", "")] * SIZE[0] for _row in range(SIZE[1])]
    paint(update, screen)
    wanted = [cells(strip) for strip in compositor.render_strips()]
    assert all(same(*pair) for row in zip(screen, wanted, strict=True) for pair in zip(*row, strict=True))


async def test_any_change_gives_the_frame_that_textual_would_paint(compositor: QuickCompositor) -> None:
    picture = active_app.get().screen
    random_of = random.Random(7)
    screen = [cells(strip) for strip in compositor.render_strips()]
    scroll = picture.query_one("#scroll")
    for step in range(60):
        if step % 7 == 3:
            picture.query_one("#box").styles.offset = (random_of.randint(-9, 36), random_of.randint(-3, 16))
            picture._refresh_layout()
            screen = [cells(strip) for strip in compositor.render_strips()]
        words = "".join(random_of.choice("ab 日👍") for _ in range(30))
        changed = picture.query_one(random_of.choice(("#wide", "#left", "#box", "#hint", "#tall")), Static)
        changed.update(words, layout=False)
        scroll.set_scroll(None, random_of.randint(0, 20))
        scroll.refresh()
        dirty = [widget for widget in picture.walk_children() if widget._repaint_regions]
        compositor.update_widgets(set(dirty) | {changed, scroll, *scroll.children})
        update = compositor.render_update()
        assert isinstance(update, QuickUpdate)
        paint(update, screen)
        wanted = [cells(strip) for strip in compositor.render_strips()]
        for y in range(SIZE[1]):
            if screen[y] != wanted[y]:
                assert [x for x in range(SIZE[0]) if not same(screen[y][x], wanted[y][x])] == [], (step, y)


async def test_output_begins_with_a_cursor_move_and_stays_within_the_change(compositor: QuickCompositor) -> None:
    compositor._dirty_regions.clear()
    compositor._dirty_regions.add(Region(0, 10, 5, 1))
    update = compositor.render_update()
    assert isinstance(update, QuickUpdate)
    assert [(x, y, strip.cell_length) for x, y, strip in update.strips] == [(0, 10, 3), (3, 10, 2)]
    assert compositor.render_update() is None


@pytest.mark.parametrize(
    "region", [Region(0, 16, 37, 4), Region(30, 0, 40, 2), Region(-4, 3, 10, 2), Region(5, 5, 0, 0)]
)
async def test_a_change_beyond_the_screen_is_cut_off(compositor: QuickCompositor, region: Region) -> None:
    compositor._dirty_regions.clear()
    compositor._dirty_regions.add(region)
    update = compositor.render_update()
    for x, y, strip in update.strips if isinstance(update, QuickUpdate) else ():
        assert 0 <= y < SIZE[1]
        assert x >= 0
        assert x + strip.cell_length <= SIZE[0]
