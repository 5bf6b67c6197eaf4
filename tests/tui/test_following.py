"""The view follows the end until the user scrolls, through any order of size changes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Static

from agentcli.tui.blocks.items import make_block
from agentcli.tui.model import Add, AnswerItem, Grow, NoticeItem, Operation
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.widget import Transcript


class Host(App[None]):
    """A transcript above a box whose height changes, as the prompt's does."""

    CSS = "#box { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self.transcript = Transcript(make_block, Palette())
        self.box = Static("", id="box")
        self.told: list[bool] = []

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield self.box

    def on_transcript_following_changed(self, event: Transcript.FollowingChanged) -> None:
        self.told.append(event.following)

    def rows(self) -> list[str]:
        strips = self.screen._compositor.render_strips()[: self.transcript.outer_size.height]
        return [strip.text.rstrip(" ▁▂▃▄▅▆▇█") for strip in strips]


def with_host(test: Callable[[Host, Pilot[None]], Awaitable[None]], size: tuple[int, int] = (40, 20)) -> None:
    async def main() -> None:
        app = Host()
        async with app.run_test(size=size) as pilot:
            await test(app, pilot)

    asyncio.run(main())


def lines(count: int, first: int) -> list[Operation]:
    return [Add(NoticeItem(id=f"n{number}", text=f"line {number}")) for number in range(first, first + count)]


def test_a_box_that_shrinks_while_text_arrives_does_not_end_following() -> None:
    async def test(app: Host, pilot: Pilot[None]) -> None:
        app.box.styles.height = 4
        app.transcript.apply(lines(50, 0))
        app.transcript.frame()
        await pilot.pause()
        app.transcript.apply([Add(AnswerItem(id="a", text="one"))])
        app.box.styles.height = 1
        await pilot.pause()
        app.transcript.apply([Grow("a", "\n\ntwo\n\nthe end")])
        app.transcript.frame()
        await pilot.pause()
        assert app.transcript.following
        assert app.told == []
        assert app.rows()[-1].endswith("the end")

    with_host(test)


@pytest.mark.parametrize("seed", range(2))
def test_following_survives_any_order_of_resizes_and_new_text(seed: int) -> None:
    rng = random.Random(seed)

    async def test(app: Host, pilot: Pilot[None]) -> None:
        count = 0
        for _ in range(20):
            for step in rng.sample(range(4), rng.randrange(1, 5)):
                if step == 0:
                    added = rng.randrange(1, 6)
                    app.transcript.apply(lines(added, count))
                    count += added
                elif step == 1:
                    app.box.styles.height = rng.randrange(1, 12)
                elif step == 2 and rng.random() < 0.3:
                    await pilot.resize_terminal(rng.randrange(20, 60), rng.randrange(14, 40))
                elif step == 3:
                    app.transcript.frame()
            await pilot.pause()
            assert app.transcript.following
        app.transcript.frame()
        await pilot.pause()
        assert app.told == []
        assert app.rows()[-1].endswith(f"line {count - 1}") or count < len(app.rows())

    with_host(test)


@pytest.mark.parametrize("seed", range(2))
def test_the_top_row_stays_while_heights_change(seed: int) -> None:
    rng = random.Random(seed)

    async def test(app: Host, pilot: Pilot[None]) -> None:
        count = 200
        app.transcript.apply(lines(count, 0))
        app.transcript.frame()
        app.transcript.scroll_rows(-60)
        top = app.rows()[0]
        for _ in range(20):
            app.box.styles.height = rng.randrange(1, 12)
            if rng.random() < 0.5:
                app.transcript.apply(lines(3, count))
                count += 3
            if rng.random() < 0.5:
                app.transcript.frame()
            await pilot.pause()
            assert app.rows()[0] == top
            assert not app.transcript.following

    with_host(test)


def test_a_taller_view_that_reaches_the_end_follows_again() -> None:
    async def test(app: Host, pilot: Pilot[None]) -> None:
        app.box.styles.height = 10
        app.transcript.apply(lines(50, 0))
        app.transcript.frame()
        await pilot.pause()
        app.transcript.scroll_rows(-4)
        await pilot.pause()
        assert app.told == [False]
        app.box.styles.height = 1
        # The layout posts the new size, the view then posts that it follows: two messages, one after the other.
        for _ in range(50):
            await pilot.pause()
            if app.told != [False]:
                break
        assert app.transcript.following
        assert app.told == [False, True]
        assert app.rows()[-1].endswith("line 49")

    with_host(test)
