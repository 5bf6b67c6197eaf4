"""The quick terminal emulator of the tests shows what pyte shows."""

from __future__ import annotations

import random

import pyte

from tests.support.emulator import Emulator, QuickStream

PIECES = (
    *("hello", "─" * 20, "日本", "e\u0301", "x" * 100, "\t", "\b", "\r\n", "\n", "\x07", "\x1bM", "\x1bD", "\x1b(B"),
    *("\x1b[1;31m", "\x1b[m", "\x1b[38;2;1;2;3m", "\x1b[4:3m", "\x1b[?5h", "\x1b[?5l", "\x1b[?7l", "\x1b[?7h"),
    *("\x1b[5;10H", "\x1b[3A", "\x1b[2J", "\x1b[K", "\x1b[L", "\x1b[2M", "\x1b[P", "\x1b[3@", "\x1b[4h", "\x1b[4l"),
    *("\x1b[2;8r", "\x1b[r", "\x1b7", "\x1b8", "\x1b[10X", "\x1b[>1u", "\u200b", "\x85", "👍"),
)


def test_any_output_gives_the_screen_of_pyte() -> None:
    compared = 0
    for seed in range(60):
        chance = random.Random(seed)
        quick, slow = Emulator(40, 12), pyte.Screen(40, 12)
        streams = QuickStream(quick), pyte.ByteStream(slow)
        for _look in range(6):
            data = "".join(chance.choices(PIECES, k=12)).encode()
            cut = chance.randrange(len(data))
            for stream in streams:
                stream.feed(data[:cut])
                stream.feed(data[cut:])
            try:
                display = slow.display
            except IndexError:  # pyte cannot show half of a wide character
                break
            assert quick.display == display, (seed, data)
            assert {row: line for row, line in quick.buffer.items() if line} == {
                row: line for row, line in slow.buffer.items() if line
            }
            assert (quick.cursor.x, quick.cursor.y, quick.cursor.attrs) == (
                slow.cursor.x,
                slow.cursor.y,
                slow.cursor.attrs,
            )
            compared += 1
    assert compared > 120
