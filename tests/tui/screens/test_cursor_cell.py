"""The cell for the terminal's own cursor, in what the tests in a terminal do not open."""

from __future__ import annotations

from textual.geometry import Offset
from textual.pilot import Pilot

from agentcli.tui.app import find_cursor
from agentcli.tui.screens.page import TextPage
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.row_list import Row
from tests.tui.screen_host import Host, play, press, settled
from tests.tui.screens.test_plan_dialog import dialog


def test_in_an_editor_the_cell_follows_a_resize_that_wraps_the_text() -> None:
    found: list[Offset | None] = []

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "3 | end |")
        found.append(find_cursor(host.screen))
        await pilot.resize_terminal(20, 24)
        await settled(pilot)
        found.append(find_cursor(host.screen))

    play(dialog("word " * 6), script, (80, 24))
    assert found == [Offset(31, 1), Offset(1 + 15, 2)]


def test_in_a_page_the_cell_is_at_the_title_or_in_the_search() -> None:
    found: list[Offset | None] = []

    async def script(pilot: Pilot[None], host: Host) -> None:
        found.append(find_cursor(host.screen))
        await press(pilot, "/ a b |")
        found.append(find_cursor(host.screen))
        await press(pilot, "enter |")
        found.append(find_cursor(host.screen))

    play(TextPage("Notes", ["abc"] * 5), script, (80, 24))
    assert found == [Offset(0, 17), Offset(3 + 2, 22), Offset(0, 16)]


class Letters(Picker[str]):
    letters = True


def test_in_a_list_without_a_line_for_typing_the_cell_is_at_the_marked_row() -> None:
    found: list[Offset | None] = []

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "down down |")
        found.append(find_cursor(host.screen))

    play(Letters("Which one", [Row(name, name) for name in ("one", "two", "three")]), script, (80, 24))
    assert found == [Offset(1, 22)]


def test_a_sheet_without_its_parts_has_no_cell() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        for part in ("#rows", "#rule", "#foot"):
            for widget in host.screen.query(part):
                await widget.remove()
        assert find_cursor(host.screen) is None

    play(Letters("Which one", [Row("one", "one")]), script)
    play(TextPage("Notes", ["abc"]), script)
    play(dialog(), script)
