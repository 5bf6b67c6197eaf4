"""What a sheet costs the screen below it: its rows are taken as they are, and nothing is laid out twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual._context import visible_screen_stack
from textual.app import ComposeResult
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Static

from agentcli.tui.screens.page import TextPage
from agentcli.tui.screens.scroller import Scroller
from agentcli.tui.screens.sheet import Sheet, StyledRows
from tests.tui.sheet_host import Host, play


def painted(host: Host) -> list[list[Segment]]:
    host.screen.refresh()
    visible_screen_stack.set(host._background_screens)
    return [list(Segment.simplify(strip)) for strip in host.screen._compositor.render_strips()]


def test_the_screen_below_looks_as_textual_would_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Colourful(Host):
        def compose(self) -> ComposeResult:
            yield Static("[red on blue]in colours[/] [@click=app.bell]to click[/] 漢字\n" * 30)

    async def run() -> None:
        host = Colourful()
        async with host.run_test() as pilot:
            host.open(TextPage("Log", ["one"]))
            await pilot.pause()
            ours = painted(host)
            monkeypatch.setattr(Sheet, "render", ModalScreen.render)
            assert ours == painted(host)
        assert "".join(segment.text for segment in ours[0]).rstrip() == "in colours to click 漢字"
        assert not any(segment.style and segment.style.meta for segment in ours[0])

    asyncio.run(run())


def test_a_sheet_is_laid_out_again_only_for_another_size_or_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        layouts: list[Size] = []
        compositor = host.screen._compositor
        reflow = compositor.reflow

        def counted(parent: Any, size: Size) -> Any:
            layouts.append(size)
            return reflow(parent, size)

        monkeypatch.setattr(compositor, "reflow", counted)
        host.screen.post_message(events.Resize(host.size, host.size))
        await pilot.pause()
        assert layouts == []
        host.screen.query_one("#keys").refresh(layout=True)
        await pilot.pause()
        assert layouts == [host.size]
        await pilot.resize_terminal(60, 12)
        assert Size(60, 12) in layouts

    play(TextPage("Log", ["one"]), steps)


def test_rows_that_a_smaller_sheet_leaves_free_are_dirty_though_a_new_widget_is_painted_first() -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        sheet, compositor = host.screen, host.screen._compositor
        row = StyledRows(id="late")
        row.display = False
        await sheet.query_one("#sheet").mount(row)
        await pilot.pause()
        top = sheet.query_one("#rule").region.y
        sheet.query_one(Scroller).styles.height = 1
        row.show([[("shown now", Style.null())]], 1)
        # A frame before the layout, which asks for the place of the cursor.
        compositor.update_widgets(sheet._dirty_widgets)
        assert sheet.query_one("#rule").region.y == top
        compositor._dirty_regions.clear()
        compositor.reflow(sheet, sheet.size)
        assert any(region.y <= top < region.bottom for region in compositor._dirty_regions)

    play(TextPage("Log", [f"line {number}" for number in range(9)]), steps)
