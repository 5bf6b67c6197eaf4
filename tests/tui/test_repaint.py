"""Only what the terminal does not show yet is written, and the screen is as if all of it had been."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import split_graphemes
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.tui.repaint import RowMove, ScreenMemory, find_move, make_pens, switch_pen
from tests.support.emulator import Emulator, QuickStream

WIDTH, HEIGHT = 24, 8
BASE = Style.parse("#d5dae3 on #16181d")
STYLES = (
    BASE,
    Style.parse("bold #7cb7ff on #16181d"),
    Style.parse("bold dim italic on #1f2126"),
    Style.parse("underline #c39bf0"),
    Style.parse("reverse strike color(3) on default"),
    Style.parse("underline2 overline red on #16181d"),
    Style.parse("#7cb7ff on #16181d") + Style(link="https://example.org/notes"),
    Style.null(),
    Style.parse("bold magenta"),
)
WORDS = ("a", "word", "  ", "            ", "漢字", "café", "e\u0301", "│", "👍", "❤\ufe0f", "👩\u200d👩\u200d👧", "한")

_LINK = re.compile(r"\x1b\]8;.*?\x1b\\\\")

Line = list[tuple[str, int]]
"""Texts with the number of their style."""
Screen = list[Line]

texts = st.tuples(st.sampled_from(WORDS), st.integers(0, len(STYLES) - 1))
lines = st.lists(texts, max_size=6)
plain_lines = st.lists(texts.filter(lambda text: text[0] != "❤\ufe0f"), max_size=6)
"""Textual cuts a character whose width is that of two in its own way."""


def strip_of(line: Line, thumb: bool) -> Strip:
    """A row as in the app: text, the rest of the row on the background, and a cell of the scrollbar."""
    content = Strip([Segment(text, STYLES[style]) for text, style in line])
    bar = Segment(" ", Style.parse("reverse #3d4552") if thumb else BASE)
    return Strip([*content.adjust_cell_length(WIDTH - 1, BASE), bar], WIDTH)


def strips_of(screen: Screen, thumb: int) -> list[tuple[int, int, Strip]]:
    return [(0, y, strip_of(line, y == thumb)) for y, line in enumerate(screen)]


Cell = tuple[Any, ...]


class Terminal:
    """An emulator, and what it shows."""

    def __init__(self, height: int = HEIGHT, garbage: str = "") -> None:
        self.emulator = Emulator(WIDTH, height)
        self._stream = QuickStream(self.emulator)
        self.feed("\x1b[?7l" + "".join(f"\x1b[{y + 1}H{garbage * WIDTH}" for y in range(height)))

    def feed(self, text: str) -> None:
        self._stream.feed(_LINK.sub("", text).encode())

    def cells(self) -> list[list[Cell]]:
        assert self.emulator.display
        return [[_visible(self.emulator.buffer[y][x]) for x in range(WIDTH)] for y in range(self.emulator.lines)]


def _visible(cell: Any) -> Cell:
    """Without what cannot be seen of a space."""
    if cell.data == " " and not (cell.underscore or cell.strikethrough or cell.reverse):
        return " ", cell.bg
    return tuple(cell)


@cache
def expected(segments: tuple[Segment, ...]) -> tuple[list[Cell], set[int]]:
    """A row when every character is written to its place, and the columns that terminals treat differently."""
    terminal, open_columns, x = Terminal(1), set(), 0
    for text, style, _control in segments:
        pieces = [(0, len(text), len(text))] if text.isascii() else split_graphemes(text)[0]
        for start, end, width in pieces:
            glyph = text[start:end]
            shown = Strip.render_style(style or Style.null(), glyph, ColorSystem.TRUECOLOR)
            terminal.feed(f"\x1b[1;{x + 1}H{shown}")
            if not text.isascii() and (len(glyph) > 1 or glyph == "👍"):
                open_columns |= set(range(x + 1, x + width))
            x += width
    return terminal.cells()[0], open_columns


def assert_shows(terminal: Terminal, strips: Iterable[tuple[int, int, Strip]], *, looks: bool = True) -> None:
    shown = terminal.cells()
    for _x, y, strip in strips:
        wanted, open_columns = expected(tuple(strip))
        for x in range(WIDTH):
            same = shown[y][x] == wanted[x] if looks else shown[y][x][0] == wanted[x][0]
            assert same or x in open_columns, (x, y, terminal.emulator.display)
    assert terminal.emulator.margins is None


def scrolled(rows: int) -> Callable[[Screen, Line], Screen]:
    def move(screen: Screen, line: Line) -> Screen:
        new = [line] * abs(rows)
        return [*screen[rows:-1], *new, screen[-1]] if rows > 0 else [*new, *screen[: rows - 1], screen[-1]]

    return move


def changed(at: int) -> Callable[[Screen, Line], Screen]:
    return lambda screen, line: [*screen[:at], line, *screen[at + 1 :]]


def longer(at: int) -> Callable[[Screen, Line], Screen]:
    return lambda screen, line: [*screen[:at], [*screen[at], *line], *screen[at + 1 :]]


steps = st.tuples(
    st.one_of(
        st.integers(-4, 4).filter(bool).map(scrolled),
        st.integers(0, HEIGHT - 1).map(changed),
        st.integers(0, HEIGHT - 1).map(longer),
    ),
    lines,
)
frames = st.tuples(st.lists(steps, max_size=3), st.integers(0, HEIGHT), st.booleans())


@given(
    st.lists(lines, min_size=HEIGHT, max_size=HEIGHT),
    st.lists(frames, min_size=1, max_size=5),
    st.booleans(),
)
def test_the_screen_is_as_if_every_frame_had_been_written_whole(
    screen: Screen, changes: list[tuple[Any, int, bool]], erases_in_colour: bool
) -> None:
    terminal = Terminal(garbage="x")
    memory = ScreenMemory(erases_in_colour=erases_in_colour)
    memory.resize(WIDTH, HEIGHT)
    for made, thumb, is_written in [([], 0, True), *changes, ([], 0, True)]:
        for change, line in made:
            screen = change(screen, line)
        strips = strips_of(screen, thumb)
        memory.place(strips)
        if is_written:  # else the terminal takes nothing right now
            terminal.feed(memory.changes((3, 2)))
            assert_shows(terminal, strips)
            assert (terminal.emulator.cursor.x, terminal.emulator.cursor.y) == (3, 2)


@given(
    st.lists(st.tuples(st.integers(0, WIDTH), st.integers(0, HEIGHT), plain_lines), max_size=8),
    st.integers(0, 8),
)
def test_pieces_of_rows_may_cut_wide_characters(pieces: list[tuple[int, int, Line]], written: int) -> None:
    terminal, memory = Terminal(garbage="x"), ScreenMemory()
    memory.resize(WIDTH, HEIGHT)
    whole = strips_of([[("漢字" * 6, 0)]] * HEIGHT, 0)
    memory.place(whole)
    columns = [Strip.join([strip]) for _x, _y, strip in whole]
    for count, (x, y, line) in enumerate(pieces):
        if count == written:
            terminal.feed(memory.changes((0, 0)))
        piece = Strip([Segment(text, STYLES[style]) for text, style in line])
        memory.place([(x, y, piece)])
        if y < HEIGHT and x < WIDTH:
            row, kept = columns[y], piece.crop(0, WIDTH - x)
            columns[y] = Strip.join([row.crop(0, x), kept, row.crop(x + kept.cell_length, WIDTH)])
    terminal.feed(memory.changes((0, 0)))
    # The look of half a character that is gone is of no importance.
    assert_shows(terminal, [(0, y, strip) for y, strip in enumerate(columns)], looks=False)


def memory_with(*rows: str) -> ScreenMemory:
    memory = ScreenMemory()
    memory.resize(WIDTH, HEIGHT)
    memory.place(strips_of([[(row, 0)] for row in rows] + [[]] * (HEIGHT - len(rows)), -1))
    memory.changes((0, 0))
    return memory


def place(memory: ScreenMemory, *rows: str) -> str:
    memory.place(strips_of([[(row, 0)] for row in rows] + [[]] * (HEIGHT - len(rows)), -1))
    return memory.changes((0, 0))


def test_an_unchanged_frame_writes_nothing() -> None:
    memory = memory_with("one", "two")
    assert place(memory, "one", "two") == ""
    assert memory.changes((1, 1)) == "\x1b[2;2H"


def test_a_changed_character_is_written_alone() -> None:
    memory = memory_with("one", "two")
    assert re.findall(r"[^\x1b]+(?=\x1b)", re.sub(r"\x1b\[[\d;]*[mHG]", "\x1b", place(memory, "one", "twi"))) == ["i"]


def test_a_line_at_the_end_scrolls_the_others_up() -> None:
    rows = [f"this is row {number}" for number in range(9)]
    frame = place(memory_with(*rows[:8]), *rows[1:])
    assert "\x1b[1;8r\x1b[1H\x1b[1M\x1b[r" in frame
    assert "row 8" in frame
    assert not re.search("row [0-7]", frame)


def test_a_row_with_a_character_of_doubtful_width_is_written_whole() -> None:
    memory = memory_with("first 👍 and last")
    frame = place(memory, "first 👍 and more")
    assert "first" in frame
    assert "👍\x1b[1;9H" in frame  # never where the terminal thinks that the character ends


def test_the_halves_of_a_flag_are_written_together() -> None:
    assert "a🇩🇪\x1b[1;4H🇫🇷\x1b[1;6Hb" in place(memory_with(""), "a🇩🇪🇫🇷b")
    assert "m🇩🇪\x1b[1;3H" in place(memory_with(""), "🏻🇩🇪"), "a lone skin tone belongs to nothing"


def test_a_forgotten_screen_is_written_whole() -> None:
    memory = memory_with("one", "two")
    memory.forget()
    frame = memory.changes((0, 0))
    assert "one" in frame
    assert "two" in frame


def test_margins_that_another_program_left_are_taken_back() -> None:
    rows = [f"row {number}" for number in range(HEIGHT)]
    terminal, memory = Terminal(garbage="x"), memory_with(*rows)
    terminal.feed("\x1b[2;4r")
    memory.forget()
    terminal.feed(memory.changes((0, 0)))
    assert_shows(terminal, strips_of([[(row, 0)] for row in rows], -1))


def test_nothing_in_a_strip_can_become_a_control_sequence() -> None:
    memory = ScreenMemory()
    memory.resize(WIDTH, 1)
    memory.place([(0, 0, Strip([Segment("a\x1b]0;x\x07b\x9bc", BASE + Style(link="https://x.org/\x1b\\\x07"))]))])
    frame = memory.changes((0, 0))
    assert re.sub(r"\x1b\[[\d;]*[mHKGr]", "", frame) == "a]0;xbc"


@pytest.mark.parametrize(
    ("before", "after", "move"),
    [
        ("abcdefgh", "bcdefghi", RowMove(0, 7, 1)),
        ("abcdefgh", "xabcdefg", RowMove(0, 7, -1)),
        ("abcdefPQ", "cdefxyPQ", RowMove(0, 5, 2)),
        ("PQabcdef", "PQxyabcd", RowMove(2, 7, -2)),
        ("abcdefgh", "abcdefgx", None),
        ("abcdefgh", "ijklmnop", None),
        ("........", "bcdefghi", None),
    ],
)
def test_rows_that_moved_together_are_found(before: str, after: str, move: RowMove | None) -> None:
    rows = [[None if name == "." else name * 20 for name in names] for names in (before, after)]
    assert find_move(*rows) == move


@given(st.sampled_from(STYLES), st.sampled_from(STYLES))
def test_a_change_of_the_look_ends_everything_of_the_look_before(before: Style, after: Style) -> None:
    terminal, fresh = Terminal(), Terminal()
    first, second = make_pens(before)[0], make_pens(after)[0]
    terminal.feed(switch_pen(None, first) + "x" + switch_pen(first, second) + "\x1b[Hy")
    fresh.feed(switch_pen(None, second) + "\x1b[Hy")
    assert terminal.cells()[0][0] == fresh.cells()[0][0]
