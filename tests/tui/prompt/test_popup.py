"""The menu above the prompt box: its columns."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from agentcli.tui.prompt.menu import Popup, PopupRow

pytestmark = pytest.mark.anyio


class Host(App[None]):
    CSS = "Popup { overlay: none; }"

    def compose(self) -> ComposeResult:
        yield Popup()


async def test_details_begin_in_one_column_also_where_there_is_little_room() -> None:
    rows = [PopupRow("/status", "", "session"), PopupRow("/undo", "[keep|replace]", "changes")]
    for width, column in ((40, 24), (80, 25)):
        async with Host().run_test(size=(width, 10)) as pilot:
            popup = pilot.app.query_one(Popup)
            popup.open(rows, title="commands", note="", chosen=0, room=9)
            await pilot.pause()
            lines = [popup.render_line(y).text for y in (1, 2)]
        assert [line.index(row.detail) for line, row in zip(lines, rows, strict=True)] == [column, column]
