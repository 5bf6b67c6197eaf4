"""The list that all pickers use, and searching in it."""

from __future__ import annotations

import random
import time

import pytest
from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.pilot import Pilot

from agentcli.tui.blocks.rows import size
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.row_list import Row, RowList, RowSearch, entries_of, find
from agentcli.tui.screens.text import (
    LineEdit,
    cut,
    cut_runs,
    keys_row,
    marked,
    painted,
    safe,
    safe_block,
    wrapped,
)
from agentcli.tui.theme.palette import Palette
from tests.tui.sheet_host import UNANSWERED, Host, answer, look, play, press

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


def labels(found: object) -> list[str]:
    return [each.entry.label for each in found]  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------------------- finding


def test_without_a_query_everything_is_found_in_its_order() -> None:
    assert labels(find(entries_of(fruit()), "  ")) == [row.label for row in fruit()]


def test_letters_in_order_find_a_label_and_the_best_comes_first() -> None:
    rows = [Row(1, "permission dialog"), Row(2, "dialog"), Row(3, "other")]
    assert labels(find(entries_of(rows), "dia")) == ["dialog", "permission dialog"]
    assert find(entries_of(rows), "dia")[0].label_places == (0, 1, 2)


def test_every_query_word_must_match_the_label_or_literally_the_detail() -> None:
    rows = [Row(1, "fix parser", "main branch"), Row(2, "fix parser", "other"), Row(3, "main")]
    found = find(entries_of(rows), "pars main")
    assert [each.entry.row.value for each in found] == [1]
    assert found[0].detail_places == (0, 1, 2, 3)


def test_a_group_is_found_by_its_name() -> None:
    rows = [Row(1, "Enter", "send", group="Prompt"), Row(2, "PgUp", "scroll", group="View")]
    assert labels(find(entries_of(rows), "view")) == ["PgUp"]


def test_letters_scattered_over_a_sentence_do_not_match() -> None:
    rows = [Row(1, "take every hour more effort, and rest"), Row(2, "the theme of it")]
    assert labels(find(entries_of(rows), "theme")) == ["the theme of it"]


def test_a_capital_letter_makes_a_query_exact() -> None:
    rows = [Row(1, "Read file"), Row(2, "read file")]
    assert labels(find(entries_of(rows), "Rea")) == ["Read file"]


def test_a_sliced_search_finds_the_same_as_a_complete_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowSearch, "SLICE", 200)
    random.seed(7)
    entries = entries_of(Row(n, " ".join(random.choices(["alpha", "beta", "gamma"], k=4))) for n in range(500))
    search = RowSearch(entries, "alp gam")
    steps = 1
    while not search.step():
        steps += 1
    assert steps == 3
    assert search.finish() == find(entries, "alp gam")


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
    strip = painted([(safe(text), PLAIN), (safe(text), Style(bold=True))], width, PLAIN)
    assert sum(cell_len(segment.text) for segment in strip) == width
    assert cell_len(cut(safe(text), width)) <= width


def test_marks_never_split_a_glyph() -> None:
    text = safe("a👩‍💻b")
    runs = marked(text, [1], PLAIN, Style(bold=True))
    assert [part for part, _style in runs] == ["a", "👩‍💻", "b"]
    assert size(runs) == cell_len(text)


def test_cut_text_ends_in_an_ellipsis_but_not_between_columns() -> None:
    assert cut("hello world", 8) == "hello w…"
    assert cut("high         from the environment", 8) == "high"
    assert size(cut_runs([("abc", PLAIN), ("def", PLAIN)], 4)) == 4


def test_wrapped_rows_show_that_there_is_more() -> None:
    rows = wrapped([("one two three four five six", PLAIN)], 9, 2)
    assert ["".join(text for text, _style in row) for row in rows] == ["one two", "three…"] or len(rows) == 2
    assert "".join(text for text, _style in rows[-1]).endswith("…")


def test_a_block_of_text_becomes_lines_without_tabs() -> None:
    assert safe_block("a\tb\r\nc\x1b[2J") == ["a       b", "c"]


def test_the_keys_row_never_loses_escape() -> None:
    keys = [("↑↓", "move"), ("Enter", "choose"), ("Esc", "back")]
    text = ["".join(part for part, _style in keys_row(keys, width, PLAIN, PLAIN)) for width in (80, 25, 3)]
    assert text == ["↑↓ move · Enter choose · Esc back", "Enter choose · Esc back", "Esc back"]


# ------------------------------------------------------------------------------------------------------------- screen


def test_a_picker_is_at_the_bottom_and_the_rest_of_the_screen_stays_visible() -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        lines = host.lines()
        assert lines[0].startswith("above 0")
        assert "\n".join(lines[14:]) == (
            "─── Fruit ──────────────────────────────\n"
            " ⌕ type to search\n"
            " ❯ apple       0 in stock\n"
            "   banana      1 in stock\n"
            "   cherry      2 in stock\n"
            "   date        3 in stock\n"
            "   elderberry  4 in stock\n"
            "   fig         5 in stock\n"
            "   grape       6 in stock\n"
            " ↑↓ move · Enter choose · Esc back"
        )

    play(Picker("Fruit", fruit()), steps, (40, 24))


def test_typing_filters_at_once_and_enter_chooses_the_best() -> None:
    assert look(Picker("Fruit", fruit()), "e", "r", "r", size=(40, 24)) == (
        "─── Fruit ───────────────────── 2 of 7 ─\n"
        " ⌕ err\n"
        " ❯ elderberry  4 in stock\n"
        "   cherry      2 in stock\n"
        "\n\n\n\n\n"
        " ↑↓ move · Enter choose · Esc back"
    )
    assert answer(Picker("Fruit", fruit()), *"elder", "enter") == 4


def test_escape_closes_without_a_choice_also_while_something_is_typed() -> None:
    assert answer(Picker("Fruit", fruit()), "escape") is None
    assert answer(Picker("Fruit", fruit()), "b", "escape", "escape", "x") is None
    assert answer(Picker("Fruit", fruit()), "enter", "enter", "down", "escape") == 0


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

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        for keys, place in moves.items():
            await press(host, pilot, *keys.split())
            assert host.sheet.row.value == place, keys
        await press(host, pilot, "enter")

    assert play(Picker("Fruit", fruit()), steps).result == 1


def test_the_cursor_starts_at_the_current_value_and_returns_there_when_the_query_is_cleared() -> None:
    assert answer(Picker("Fruit", fruit(), start=3), "enter") == 3
    assert answer(Picker("Fruit", fruit()), *"fig", "backspace", "backspace", "backspace", "enter") == 5


def test_a_row_that_cannot_be_chosen_shows_the_reason() -> None:
    rows = [Row(1, "low"), Row(2, "max", "all it can do", disabled="the model has no such level")]
    seen = look(Picker("Effort", rows), "down", "enter")
    assert "max  the model has no such level" in seen
    assert "! max cannot be chosen: the model has no such level" in seen
    assert answer(Picker("Effort", rows), "down", "enter") is UNANSWERED


def test_without_matches_a_message_is_shown_and_enter_does_nothing() -> None:
    assert "No match for “zzz”." in look(Picker("Fruit", fruit()), *"zzz")
    assert answer(Picker("Fruit", fruit()), *"zzz", "enter") is UNANSWERED
    assert "There is nothing to choose from." in look(Picker[int]("Fruit", []))


def test_group_names_are_hidden_during_a_search() -> None:
    rows = [Row(1, "dark", group="Dark"), Row(2, "nord", group="Dark"), Row(3, "light", group="Light")]
    assert " Dark\n ❯ dark\n   nord\n Light\n   light" in look(Picker("Theme", rows))
    seen = look(Picker("Theme", rows), "n")
    assert "Dark\n" not in seen
    assert " ❯ nord" in seen


def test_a_preview_is_beside_the_list_where_there_is_room() -> None:
    def preview(row: Row[int]) -> list[str]:
        return [f"about {row.label}", "\x1b[31mred\x1b[0m"]

    wide = look(Picker("Fruit", fruit(), preview=preview), "down", size=(110, 30))
    assert "│ about banana" in wide
    assert "│ red" in wide
    assert "about" not in look(Picker("Fruit", fruit(), preview=preview), "down", size=(80, 30))


def test_text_that_the_list_had_to_cut_is_shown_below_it() -> None:
    rows = [Row(1, "one", "a sentence that is much too long for a row of forty cells"), Row(2, "two", "short")]
    seen = look(Picker("Narrow", rows), size=(40, 12))
    assert " ❯ one  a sentence that is much too lo…" in seen
    assert "\n a sentence that is much too long for a\n row of forty cells\n" in seen


def test_a_click_moves_the_cursor_and_a_second_one_chooses() -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await pilot.click(RowList, offset=(5, 2))
        assert host.result is UNANSWERED
        assert host.sheet.row.value == 2
        await pilot.click(RowList, offset=(5, 2))
        await pilot.pause()

    assert play(Picker("Fruit", fruit()), steps).result == 2


def test_the_wheel_scrolls_and_leaves_the_cursor_alone() -> None:
    rows = [Row(number, f"row {number}") for number in range(100)]

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        listing = host.sheet.query_one(RowList)
        listing.scroll_to(y=40, animate=False)
        await pilot.pause()
        assert "row 45" in host.shown
        assert listing.cursor == 0

    play(Picker("Rows", rows), steps)


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (40, 10), (20, 5), (9, 3), (1, 1)])
def test_hostile_rows_are_inert_at_every_size(size: tuple[int, int]) -> None:
    rows = [Row(n, text, text, text[:3], text, text if n % 3 == 0 else "") for n, text in enumerate(HOSTILE)]

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "down", "end", "x", "backspace", "home")
        for strip in host.screen._compositor.render_strips():
            assert strip.cell_length == size[0]
            assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in strip.text)
            assert "\u202e" not in strip.text

    play(Picker("Hostile \x1b[2J[b]title", rows, preview=lambda row: [row.label]), steps, size)


def test_markup_in_rows_is_shown_literally() -> None:
    assert "[bold]no[/bold]" in look(Picker("x", [Row(1, "[bold]no[/bold]")]))


def test_a_resize_keeps_the_cursor_and_the_query() -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "e", "r", "down")
        for columns, rows in ((40, 10), (1, 1), (130, 50), (60, 12)):
            await pilot.resize_terminal(columns, rows)
            await pilot.pause()
        assert host.sheet.query_text == "er"
        assert " ❯ cherry" in host.shown
        assert host.shown.splitlines()[-1] == " ↑↓ move · Enter choose · Esc back"

    play(Picker("Fruit", fruit()), steps)


def test_without_colours_found_letters_and_the_cursor_can_still_be_seen() -> None:
    plain = Palette(colours=False, text=PLAIN, muted=Style(dim=True), accent=PLAIN, selection=Style(reverse=True))

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, *"fig")
        strip = next(s for s in host.screen._compositor.render_strips() if "❯" in s.text)
        found = [segment for segment in strip if segment.text == "fig"]
        assert found[0].style.underline
        assert found[0].style.reverse

    picker = Picker("Fruit", fruit())
    picker.palette = plain
    play(picker, steps)


def test_many_rows_are_searched_without_delaying_keys() -> None:
    random.seed(1)
    words = ["fix", "the", "parser", "bug", "in", "session", "loading", "tests", "for", "width", "of", "tables"]
    rows = [Row(number, " ".join(random.choices(words, k=8)), "2 h ago") for number in range(5_000)]
    rows.append(Row(5_000, "the needle"))
    assert answer(Picker("Many", rows), *"needle", "enter") == 5_000
    began = time.process_time()
    assert RowSearch(entries_of(rows[:2000]), "needle").step() is True
    assert time.process_time() - began < 0.5


def test_keys_count_in_the_order_in_which_they_were_pressed_however_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowSearch, "SLICE", 100)
    rows = [Row(number, f"row number {number}") for number in range(300)]
    assert answer(Picker("Many", rows), *"299", "enter") == 299
    assert answer(Picker("Many", rows), *"299", "backspace", "down", "enter") == 290
    assert answer(Picker("Many", rows), "down", *"row", "enter") == 0


def test_the_search_line_is_edited_like_other_lines() -> None:
    line = LineEdit(20)
    for key in ("f", "o", "o", "space", "b", "a", "r", "ctrl+a", "X", "right", "ctrl+e", "left", "backspace"):
        line.press(key, {"space": " "}.get(key, key if len(key) == 1 else None))
    assert (line.text, line.cursor) == ("Xfoo br", 6)
    line.press("ctrl+w", None)
    assert line.text == "Xfoo r"
    line.press("ctrl+left", None)
    assert line.cursor == 0
    line.press("ctrl+right", None)
    line.press("ctrl+k", None)
    assert line.text == "Xfoo"
    line.press("ctrl+u", None)
    assert line.text == ""
    line.insert("👩‍💻é\x1b[31m\nend")
    assert line.text == "👩‍💻é end"
    line.press("ctrl+a", None)
    line.press("delete", None)
    assert line.text == "é end"
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
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host._driver.send_message(events.Paste("che\nrry\x1b[31m"))
        await pilot.pause()
        assert host.sheet.query_text == "che rry"

    play(Picker("Fruit", fruit()), steps)
