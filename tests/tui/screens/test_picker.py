"""The list that all pickers use, and searching in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.pilot import Pilot

from agentcli.tui.blocks.rows import cut, size
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.row_list import FoundEntry, Row, RowEntry, RowList, entries_of, find
from agentcli.tui.screens.text import LineEdit, keys_row, mark_places, paint_runs, safe, wrap_rows
from agentcli.tui.theme.palette import Palette
from tests.tui.screen_host import OPEN, Host, answer, check, play, press

PLAIN = Style()
HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07bell\x07",
    "[bold]no markup[/bold] [@click=app.quit]x[/]",
    "two\nlines\tand a tab\r",
    "\u202eoverride\u2066",
    "日本語のとても長い名前がここにあります",
    "👩‍💻👨‍👩‍👧‍👦🇩🇪e\u0301\u0301",
    "שלום עולם",
    "\ud800 half",
    "",
    "x" * 5000,
]


def fruit() -> list[Row[int]]:
    names = ["apple", "banana", "cherry", "date", "elderberry", "fig", "grape"]
    return [Row(number, name, f"{number} in stock", group="") for number, name in enumerate(names)]


# ---------------------------------------------------------------------------------------------------------- finding


@pytest.mark.parametrize(
    ("rows", "query", "found"),
    [
        (fruit(), "  ", [row.label for row in fruit()]),
        ([Row(1, "permission dialog"), Row(2, "dialog"), Row(3, "other")], "dia", ["dialog", "permission dialog"]),
        ([Row(1, "fix parser", "main branch"), Row(2, "fix parser", "other")], "pars main", ["fix parser"]),
        ([Row(1, "Enter", group="Prompt"), Row(2, "PgUp", group="View")], "view", ["PgUp"]),
        ([Row(1, "take every hour more effort, and rest"), Row(2, "the theme")], "theme", ["the theme"]),
        ([Row(1, "Read file"), Row(2, "read file")], "Rea", ["Read file"]),
    ],
    ids=["no query", "best first", "every word, detail literally", "group", "no scattered letters", "capital: exact"],
)
def test_a_query_finds_rows(rows: list[Row[int]], query: str, found: list[str]) -> None:
    assert [each.entry.label for each in find(entries_of(rows), query)] == found


def test_many_rows_are_searched_in_a_thread_and_keys_for_the_result_wait_for_it() -> None:
    threads: list[int] = []

    class Watched(Picker[int]):
        def search(self, entries: Sequence[RowEntry[int]], query: str) -> list[FoundEntry[int]]:
            threads.append(threading.get_ident())
            return super().search(entries, query)

    rows = [Row(number, f"row {number:04}") for number in range(2_000)]

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "1 9 9 down enter x enter")
        assert host.answer == 1991, "the second match, although all keys came in one burst"
        assert host.prompt == "x", "the key after the one that closes the list; a second Enter sends nothing"
        assert threading.get_ident() not in threads
        assert len(threads) < 4, "not one thread for each key"

    play(Watched("Rows", rows), script)


def test_few_rows_are_searched_at_once() -> None:
    async def script(_pilot: Pilot[None], host: Host) -> None:
        host.sheet.press("h", "h")
        assert host.sheet.row.label == "cherry"
        host.sheet.press("enter", None)

    assert play(Picker("Fruit", fruit()), script).answers == [2]


def test_matched_letters_are_known() -> None:
    found = find(entries_of([Row(1, "fix parser", "main branch")]), "pars main")[0]
    assert (found.label_places, found.detail_places) == ((4, 5, 6, 7), (0, 1, 2, 3))


# ------------------------------------------------------------------------------------------------------ text and cells


@pytest.mark.parametrize("text", HOSTILE)
def test_a_label_is_one_row_without_control_characters(text: str) -> None:
    shown = safe(text)
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) < 0xE000 for char in shown)
    assert not any(char in shown for char in "\u202e\u2066\u2028")
    shown.encode()
    assert len(shown) <= 600


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("width", [0, 1, 2, 3, 7, 20])
def test_a_painted_row_is_exactly_as_wide_as_asked(text: str, width: int) -> None:
    strip = paint_runs([(safe(text), PLAIN), (safe(text), Style(bold=True))], width, PLAIN)
    assert sum(cell_len(segment.text) for segment in strip) == width
    assert cell_len(cut(safe(text), width)) <= width


def test_marks_never_split_a_glyph() -> None:
    text = safe("a👩‍💻b")
    runs = mark_places(text, [1], PLAIN, Style(bold=True))
    assert [part for part, _style in runs] == ["a", "👩‍💻", "b"]
    assert size(runs) == cell_len(text)


def test_wrapped_rows_show_that_there_is_more() -> None:
    rows = wrap_rows([("one two three four five six", PLAIN)], 9, 2)
    assert ["".join(text for text, _style in row) for row in rows] == ["one two", "three…"] or len(rows) == 2
    assert "".join(text for text, _style in rows[-1]).endswith("…")


def test_the_keys_row_never_loses_escape() -> None:
    keys = [("↑↓", "move"), ("Enter", "choose"), ("Esc", "back")]
    text = ["".join(part for part, _style in keys_row(keys, width, PLAIN, PLAIN)) for width in (80, 25, 3)]
    assert text == ["↑↓ move · Enter choose · Esc back", "Enter choose · Esc back", "Esc back"]


# ------------------------------------------------------------------------------------------------------------- screen


def test_a_picker_is_at_the_bottom_and_typing_filters_at_once() -> None:
    async def steps(pilot: Pilot[None], host: Host) -> None:
        assert host.strips()[0].text.startswith("above 0")
        assert host.shown.startswith(
            f"─── Fruit {'─' * 30}\n ⌕ type to search\n ❯ apple       0 in stock\n   banana      1"
        )
        assert host.shown.endswith("   grape       6 in stock\n ↑↓ move · Enter choose · Esc back")
        await press(pilot, "=err")
        assert host.shown == (
            "─── Fruit ───────────────────── 2 of 7 ─\n"
            " ⌕ err\n"
            " ❯ elderberry  4 in stock\n"
            "   cherry      2 in stock\n"
            "\n\n\n\n\n"
            " ↑↓ move · Enter choose · Esc back"
        )

    play(Picker("Fruit", fruit()), steps, (40, 24))


@pytest.mark.parametrize(
    ("keys", "start", "result"),
    [
        ("=elder enter", None, 4),
        ("enter", 3, 3),
        ("=fig backspace backspace backspace enter", None, 5),
        ("=zzz enter", None, OPEN),
        ("escape", None, None),
        ("b escape escape x", None, None),
        ("enter enter down escape", None, 0),
    ],
)
def test_enter_chooses_and_escape_closes(keys: str, start: int | None, result: object) -> None:
    assert answer(Picker("Fruit", fruit(), start=start), keys) == result


def test_keys_move_the_cursor() -> None:
    moves = {
        "down down": 2,
        "home up": 6,
        "home down up": 0,
        "end": 6,
        "end down": 0,
        "end home": 0,
        "home pagedown": 6,
        "home pagedown pageup": 0,
        "home ctrl+n ctrl+n ctrl+p": 1,
    }

    async def steps(pilot: Pilot[None], host: Host) -> None:
        for keys, place in moves.items():
            await press(pilot, keys)
            assert host.sheet.row.value == place, keys
        await press(pilot, "enter")

    assert play(Picker("Fruit", fruit()), steps).answer == 1


GROUPED = [Row(1, "dark", group="Dark"), Row(2, "nord", group="Dark"), Row(3, "light", group="Light")]
REFUSED = [Row(1, "low"), Row(2, "max", "all it can do", disabled="the model has no such level")]
NARROW = [Row(1, "one", "a sentence that is much too long for a row of forty cells"), Row(2, "two", "short")]


def about(row: Row[int]) -> list[str]:
    return [f"about {row.label}", "\x1b[31mred\x1b[0m"]


@pytest.mark.parametrize(
    ("make", "size", "steps"),
    [
        (
            lambda: Picker("Effort", REFUSED),
            (80, 24),
            [("down enter", "max  the model has no such level", "! max cannot be chosen: the model has", OPEN)],
        ),
        (lambda: Picker("Fruit", fruit()), (80, 24), [("=zzz", "No match for “zzz”.")]),
        (lambda: Picker[int]("Fruit", []), (80, 24), [("", "There is nothing to choose from.")]),
        (
            lambda: Picker("Theme", GROUPED),
            (80, 24),
            [("", " Dark\n ❯ dark\n   nord\n Light\n   light"), ("n", "¬Dark\n", " ❯ nord")],
        ),
        (lambda: Picker("Fruit", fruit(), preview=about), (110, 30), [("down", "│ about banana", "│ red")]),
        (lambda: Picker("Fruit", fruit(), preview=about), (80, 30), [("down", "¬about")]),
        (
            lambda: Picker("Narrow", NARROW),
            (40, 12),
            [("", "lo…", "\n a sentence that is much too long for a\n row of forty cells\n")],
        ),
        (lambda: Picker("x", [Row(1, "[bold]no[/bold]")]), (80, 24), [("", "[bold]no[/bold]")]),
    ],
    ids=["refused", "no match", "empty", "groups", "preview", "no room for it", "cut text below", "markup"],
)
def test_a_list_shows(make: Callable[[], Picker[int]], size: tuple[int, int], steps: list[tuple[Any, ...]]) -> None:
    check(make(), *steps, size=size)


def test_a_click_moves_the_cursor_and_a_second_one_chooses() -> None:
    async def steps(pilot: Pilot[None], host: Host) -> None:
        await pilot.click(RowList, offset=(5, 2))
        assert host.answers == []
        assert host.sheet.row.value == 2
        await pilot.click(RowList, offset=(5, 2))
        await pilot.pause()

    assert play(Picker("Fruit", fruit()), steps).answer == 2


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (40, 10), (20, 5), (9, 3), (1, 1)])
def test_hostile_rows_are_inert_at_every_size(size: tuple[int, int]) -> None:
    rows = [Row(n, text, text, text[:3], text, text if n % 3 == 0 else "") for n, text in enumerate(HOSTILE)]

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "down end x backspace home")
        for strip in host.screen._compositor.render_strips():
            assert strip.cell_length == size[0]
            assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in strip.text)
            assert "\u202e" not in strip.text

    play(Picker("Hostile \x1b[2J[b]title", rows, preview=lambda row: [row.label]), steps, size)


def test_a_resize_keeps_the_cursor_and_the_query() -> None:
    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "e r down")
        for columns, rows in ((40, 10), (1, 1), (130, 50), (60, 12)):
            await pilot.resize_terminal(columns, rows)
            await pilot.pause()
        assert host.sheet.query_text == "er"
        assert " ❯ cherry" in host.shown
        assert host.shown.splitlines()[-1] == " ↑↓ move · Enter choose · Esc back"

    play(Picker("Fruit", fruit()), steps)


def test_without_colours_found_letters_and_the_cursor_can_still_be_seen() -> None:
    plain = Palette(colours=False, text=PLAIN, muted=Style(dim=True), accent=PLAIN, selection=Style(reverse=True))

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "=fig")
        strip = next(s for s in host.screen._compositor.render_strips() if "❯" in s.text)
        found = [segment for segment in strip if segment.text == "fig"]
        assert found[0].style.underline
        assert found[0].style.reverse

    picker = Picker("Fruit", fruit())
    picker.palette = plain
    play(picker, steps)


@pytest.mark.parametrize(
    ("keys", "value"), [("=299 enter", 299), ("=299 backspace down enter", 290), ("down =row enter", 0)]
)
def test_keys_count_in_the_order_in_which_they_were_pressed_however_fast(keys: str, value: int) -> None:
    assert answer(Picker("Many", [Row(number, f"row number {number}") for number in range(300)]), keys) == value


def test_the_search_line_is_edited_like_other_lines() -> None:
    line = LineEdit(20)

    def pressing(*keys: str) -> tuple[str, int]:
        for key in keys:
            line.press(key, {"space": " "}.get(key, key if len(key) == 1 else None))
        return line.text, line.cursor

    edits = ("ctrl+a", "X", "right", "ctrl+e", "left", "backspace")
    assert pressing("f", "o", "o", "space", "b", "a", "r", *edits) == ("Xfoo br", 6)
    assert pressing("ctrl+w") == ("Xfoo r", 5)
    assert pressing("ctrl+left") == ("Xfoo r", 0)
    assert pressing("ctrl+right", "ctrl+k") == ("Xfoo", 4)
    assert pressing("ctrl+u") == ("", 0)
    line.insert("👩‍💻é\x1b[31m\nend")
    assert line.text == "👩‍💻é end"
    assert pressing("ctrl+a", "delete") == ("é end", 0)
    line.insert("y" * 100)
    assert len(line.text) == 20
    assert not line.press("f5", None)


@pytest.mark.parametrize("width", [1, 2, 5, 12])
def test_the_cursor_of_a_long_line_stays_visible(width: int) -> None:
    for text in ("a long line of text", "日本語のテキスト", "👩‍💻👩‍💻👩‍💻"):
        line = LineEdit()
        line.insert(text)
        while True:
            runs, column = line.row(width, Palette(), "type")
            assert column <= width
            assert width < 3 or "".join(part for part, _style in runs).strip()
            if not line.cursor:
                break
            line.press("left", None)


def test_a_paste_goes_into_the_search() -> None:
    async def steps(pilot: Pilot[None], host: Host) -> None:
        pilot.app.post_message(events.Paste("che\nrry\x1b[31m"))
        await pilot.pause()
        assert host.sheet.query_text == "che rry"

    play(Picker("Fruit", fruit()), steps)
