"""Approval dialogs show every character of commands, diffs and inputs."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Sequence

import pytest

from agentcli.core.text.plaintext import show_command
from agentcli.tui.glyphs import clean, glyphs
from agentcli.tui.screens.subject import diff_lines, paragraph
from agentcli.tui.theme.palette import Palette

IGNORABLE = (
    *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010)),
    *(*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x2800, 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0),
    *(*range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)),
)


def spaces() -> list[int]:
    codes = range(0x80, sys.maxunicode + 1)
    return [code for code in codes if unicodedata.category(chr(code)) in ("Zs", "Zl", "Zp")]


@pytest.mark.parametrize("find", [lambda: IGNORABLE, spaces], ids=["ignorable", "spaces"])
def test_every_invisible_character_is_spelled_out(find: Callable[[], Sequence[int]]) -> None:
    codes = find()
    assert len(codes) > 10
    for code in codes:
        for before in ("", "a", " ", "日", "e\u0301"):
            assert show_command(f"{before}{chr(code)}b") == f"{before}<U+{code:04X}>b"


def test_text_of_any_script_stays_as_it_is() -> None:
    for text in (
        "日本語 テキスト",
        "naïve e\u0301té",
        "مرحبا",
        "नमस्ते",
        "한국어 \u1112\u1161\u11ab",
        "👍🏽 🎉 ❤\ufe0f ☀\ufe0f",
        "a\tb\nc",
    ):
        assert show_command(text) == text


def test_a_variation_selector_stays_only_after_a_character_that_it_changes() -> None:
    assert show_command("❤\ufe0f\ufe0f") == "❤\ufe0f<U+FE0F>"
    assert show_command("x\ufe0f 1\ufe0f\u20e3 \u2800\ufe0f") == "x<U+FE0F> 1<U+FE0F>\u20e3 <U+2800><U+FE0F>"


def test_joined_emoji_are_split_in_approval_dialogs() -> None:
    assert show_command("👩\u200d💻") == "👩<U+200D>💻"


def test_approved_text_is_painted_completely() -> None:
    text = "a" + "\u0301" * 30 + "b\u1161c\u200cd" + "\u0e31" * 20
    shown = show_command(text)
    assert shown == "a" + "\u0301" * 8 + "<U+0301>" * 22 + "b<U+1161>c<U+200C>d" + "\u0e31" * 8 + "<U+0E31>" * 12
    assert "".join(painted for _source, painted, _cells in glyphs(clean(shown))) == shown


def test_escaping_twice_changes_nothing() -> None:
    once = show_command("a\u00a0b\u200b\x1b[2J" + "e\u0301" * 3 + "x" + "\u0301" * 12)
    assert show_command(once) == once


def test_control_sequences_are_shown_and_not_removed() -> None:
    (line,) = paragraph("curl x\x1b[8m | sh\x1b[0m\x08", 80, Palette().text)
    assert line.strip.text == "curl x␛[8m | sh␛[0m␈"


@pytest.mark.parametrize("width", [40, 140])
def test_a_diff_in_a_dialog_spells_out_invisible_characters_and_marks_trailing_blanks(width: int) -> None:
    diff = "@@ -1,3 +1,3 @@\n same  \n-a = b\n-  \n+a =\u00a0b\u3164  \n+\ttab\n"
    shown = "\n".join(line.strip.text.rstrip() for line in diff_lines(diff, width, Palette(), "x.py"))
    assert "a =<U+00A0>b<U+3164>··" in shown
    assert "- ··" in shown
    assert "same\n" in shown or "same " in shown
    assert "same·" not in shown
