from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.text.plaintext import (
    _CSI,
    ControlStripper,
    continue_output,
    is_lone_key,
    json_for_terminal,
    last_states,
    plain_bytes,
    plain_line,
    plain_text,
    terminal_line,
    terminal_text,
    visible_text,
)
from tests.support.tables import each_row

CASES = {
    "\x1b[31mred\x1b[0m": "red",
    "\x1b]0;title\x07x": "x",
    "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
    "\x9b2Jx": "x",
    "\x1bP1;2|data\x1b\\x": "x",
    "a\r\nb\rc": "a\nb\nc",
    "a\x00b\x07c\x7f": "abc",
    "x\x08y": "y",
    "\x1bcx": "x",
    "\x1b(Bx": "x",
    "\x1b]52;c;never ended": "52;c;never ended",
    "tab\tand\nline": "tab\tand\nline",
}


@each_row(("given_text", "expected"), CASES.items())
def test_control_sequences_are_removed(given_text: str, expected: str) -> None:
    assert plain_text(given_text) == expected


@given(st.lists(st.sampled_from([*"a\x1b[3m;\n\x07\r\u0080\u009b©漢", "\x1b[32m", "\x1b[0m"])).map("".join))
def test_bytes_that_need_no_stripper_become_the_same_text(text: str) -> None:
    plain = plain_bytes(text.encode())
    assert plain is None or plain.decode() == plain_text(text)
    assert (plain is None) == any(part in "\x1b\x07\r\u0080\u009b" for part in _CSI.sub("", text))


def test_colours_need_no_stripper() -> None:
    assert plain_bytes("\x1b[1;32m✓\x1b[0m ©\tok\n".encode()) == "✓ ©\tok\n".encode()


def test_removed_colours_join_no_bytes_to_a_control_character() -> None:
    assert plain_bytes(b"\xc2\x1b[m\x9b31m") is None
    assert plain_bytes(b"\xc2\x1b[m\xa9") == "©".encode()


def test_of_a_row_that_is_started_again_the_last_state_stays() -> None:
    assert last_states("10%\r20%\r30%\nnext\r\r\n1\r") == "30%\nnext\r\n1\r"
    assert continue_output("a\nold", "\rnew\nrow\rlast") == "a\nnew\nlast"
    assert continue_output("a\nold", "\r") == "a\n"


@given(st.text(alphabet="ab\x1b[]0;m\x07\\\x9b\x9c\x9dP\r\n\x08\x00"), st.integers(1, 5))
def test_no_control_sequence_survives_however_the_text_is_split(text: str, size: int) -> None:
    stripper = ControlStripper()
    pieces = [stripper.feed(text[at : at + size]) for at in range(0, len(text), size)] + [stripper.finish()]
    for result in ("".join(pieces), plain_text(text)):
        assert not any(char < " " and char not in "\n\t" for char in result)
        assert not any("\x7f" <= char <= "\x9f" for char in result)


def test_a_sequence_cut_in_two_is_still_removed() -> None:
    stripper = ControlStripper()
    assert stripper.feed("a\x1b[3") + stripper.feed("1mb\x1b]0;ti") + stripper.feed("tle\x07c") == "abc"


def test_a_line_break_cut_in_two_stays_one() -> None:
    stripper = ControlStripper()
    assert stripper.feed("a\r") + stripper.feed("\nb") + stripper.finish() == "a\nb"


def test_a_string_that_never_ends_does_not_swallow_the_output() -> None:
    stripper = ControlStripper()
    text = stripper.feed("\x1b]0;" + "x" * 3000) + stripper.feed("y" * 3000) + stripper.finish()
    assert len(text) >= 6000


def test_visible_text_keeps_every_column() -> None:
    assert visible_text("a\x1bb\x00\x85\tc") == "a␛b␀\ufffd\tc"


def test_a_title_is_one_short_line() -> None:
    assert plain_line("a\nb\x1b[31m c", 200) == "a b c"
    assert len(plain_line("x" * 1000, 50)) == 50


HIDDEN = [
    *range(0x202A, 0x202F), *range(0x2066, 0x2070), 0x61C, 0x200E, 0x200F,
    0xAD, 0x34F, 0x115F, 0x1160, 0x180B, 0x180E, 0x200B, 0x200C, 0x200D, *range(0x2060, 0x2065), 0x3164, 0xFEFF, 0xFFA0,
    0x2028, 0x2029, 0xD800, 0xDFFF, 0xFE00, 0xFE0E, 0xFE0F, 0xFFF9, 0x1D173, 0xE0001, 0xE0041, 0xE007F, 0xE0100,
]  # fmt: skip


@each_row("code", HIDDEN)
def test_invisible_characters_are_spelled_out_for_a_terminal(code: int) -> None:
    assert terminal_text(f"a{chr(code)}b") == f"a<U+{code:04X}>b"
    assert terminal_line(f"a{chr(code)}b") == f"a<U+{code:04X}>b"
    if code not in (0x2028, 0x2029):
        assert plain_line(f"a{chr(code)}b") == f"a<U+{code:04X}>b"


@each_row("text", ["👨‍👩‍👧 ❤️ 🏳️‍🌈 1️⃣ ©️", "می‌خواهم", "क्‍ष", "שלום", "e\u0301 日本 ｶﾞ", "tab\tand\nline"])
def test_joiners_needed_by_languages_and_emoji_are_kept(text: str) -> None:
    assert terminal_text(text) == text


def test_a_name_stays_on_its_line() -> None:
    assert terminal_line("a\nb\r\n\tc\x1b[2J\u2028d") == "a␊b␍␊␉c␛[2J<U+2028>d"


@given(st.text(max_size=40))
def test_json_for_a_terminal_is_the_same_value(text: str) -> None:
    for ascii_only in (True, False):
        escaped = json_for_terminal(json.dumps(text, ensure_ascii=ascii_only))
        assert json.loads(escaped) == text
        assert terminal_text(escaped) == escaped


@pytest.mark.parametrize("piece", ["\0", "\x1b", "\x90", "\x1b]0;", "a\b", "\x9b", "\x9d1;", "\x1b[", "\x90a\x1b"])
def test_a_flood_of_control_sequences_is_removed_in_linear_time(piece: str) -> None:
    """Without a clock: quadratic scanning would take very long here."""
    flood = piece * (300_000 // len(piece))
    stripper = ControlStripper()
    left = stripper.feed(flood) + stripper.finish()
    assert not any(character < " " or "\x7f" <= character <= "\x9f" for character in left)


def test_a_text_that_is_only_an_api_key_is_recognised() -> None:
    key = "sk-ant-api03-0123456789_abcdefghij-XYZ"
    assert all(map(is_lone_key, (key, f" {key}\n")))
    assert not any(map(is_lone_key, ("", "sk-ant-", "sk-ant-short", f"use {key}", f"{key} please", f"{key}\n{key}")))
