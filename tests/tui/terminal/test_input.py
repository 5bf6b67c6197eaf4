"""Terminal input: keys, pastes and replies are distinguished, and garbage is never typed."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.tui.terminal.input import AMBIGUOUS_SECONDS, PASTE_SECONDS, SEQUENCE_SECONDS, InputFilter, Token
from tests.support.tables import each_row

ESCAPE_SECONDS = 0.005
ESCAPE = Token("sequence", "\x1b")


def read(*pieces: bytes, now: float = 0.0) -> list[Token]:
    """All pieces at one moment, then the clock passes every deadline."""
    source = InputFilter(ESCAPE_SECONDS)
    found = [token for piece in pieces for token in source.feed(piece, now)]
    while source.deadline is not None:
        found += source.tick(source.deadline)
    return joined(found)


def joined(found: list[Token]) -> list[Token]:
    """Text that came in pieces as one."""
    whole: list[Token] = []
    for token in found:
        if whole and token.kind == whole[-1].kind == "typed":
            whole[-1] = typed(whole[-1].text + token.text)
        else:
            whole.append(token)
    return whole


def typed(text: str) -> Token:
    return Token("typed", text)


def escaped(text: str) -> Token:
    return Token("sequence", text)


def pasted(text: str) -> Token:
    return Token("pasted", text)


@each_row(
    ("data", "tokens"),
    [
        ("héllo 日本 👍🏽\r\x03\x7f".encode(), [typed("héllo 日本 👍🏽\r\x03\x7f")]),
        (b"a\xff\xc3(b\xc2\x9b31mc\xed\xa0\x80d", [typed("a(b31mcd")]),
        (b"a\xe6\x97\x1b[Ab", [typed("a"), escaped("\x1b[A"), typed("b")]),
        (b"\x1b\x1b", [ESCAPE, ESCAPE]),
        (b"\x1bb\x1b\r\x1b\x7f\x1b\xc3\xa9", [escaped(f"\x1b{key}") for key in "b\r\x7fé"]),
        (b"\x1b[12\x03", [typed("\x03")]),
        (b"\x1b]11;rgb:\x03a", [typed("\x03a")]),
        (b"\x1b[12\x1b[A", [escaped("\x1b[A")]),
        (b"\x1b[1;2R", [escaped("\x1b[1;2R")]),  # Shift+F3
        (b"\x1b]x", [escaped("\x1b]"), typed("x")]),
        (b"a\x1b[200~one\r\ntwo\rthree\tx\x1b[201~b", [typed("a"), pasted("one\ntwo\nthree\tx"), typed("b")]),
        (
            b"\x1b[200~\x1b[31mred\x1b[0m\x00\x07 \x9b \xff\x1b]0;t\x07.\x1b[201~",
            [pasted("red \ufffd \ufffd.")],
        ),
        (b"\x1b[200~\x1b[201~x", [typed("x")]),
    ],
)
def test_keys_pastes_and_garbage_are_told_apart_at_once_and_byte_by_byte(data: bytes, tokens: list[Token]) -> None:
    assert read(data) == tokens
    assert data == b"\x1b\x1b" or read(*(data[index : index + 1] for index in range(len(data)))) == tokens


def test_a_lone_escape_is_the_key_after_its_delay_and_not_before() -> None:
    source = InputFilter(ESCAPE_SECONDS)
    assert source.feed(b"\x1b", 1.0) == []
    assert source.deadline == 1.0 + ESCAPE_SECONDS
    assert source.tick(1.004) == []
    assert source.tick(1.005) == [ESCAPE]
    assert source.deadline is None


@pytest.mark.parametrize(
    "sequence",
    ["\x1b[A", "\x1b[1;5C", "\x1bOP", "\x1b[3~", "\x1b[97;5u", "\x1b[97;;97u", "\x1b[<35;10;20M", "\x1b[[A", "\x1b[Z"],
)
def test_a_sequence_is_found_however_it_is_split(sequence: str) -> None:
    data = b"x" + sequence.encode() + b"y"
    for cut in range(1, len(data)):
        assert read(data[:cut], data[cut:]) == [typed("x"), escaped(sequence), typed("y")]
    assert read(*(data[index : index + 1] for index in range(len(data)))) == [typed("x"), escaped(sequence), typed("y")]


@pytest.mark.parametrize("key", ["\x1bO", "\x1b]", "\x1bP", "\x1b_"])
def test_a_possible_string_start_is_an_alt_key_when_nothing_follows(key: str) -> None:
    source = InputFilter(ESCAPE_SECONDS)
    assert source.feed(key.encode(), 0.0) == []
    assert source.tick(AMBIGUOUS_SECONDS) == [escaped(key)]


@pytest.mark.parametrize(
    "half",
    [b"\x1b[", b"\x1b[1;", b"\x1b[<35;1", b"\x1b[?2026;2$", b"\x1b]11;rgb:00", b"\x1bP1$r", b"\x1b[M a", b"\x1b_G"],
)
def test_an_incomplete_sequence_is_waited_for_and_then_dropped(half: bytes) -> None:
    source = InputFilter(ESCAPE_SECONDS)
    assert source.feed(half, 0.0) == []
    assert source.deadline == SEQUENCE_SECONDS
    assert source.tick(SEQUENCE_SECONDS) == []
    assert source.feed(b"ok", 1.0) == [typed("ok")]


def test_the_late_rest_of_a_sequence_is_no_text() -> None:
    source = InputFilter(ESCAPE_SECONDS)
    source.feed(b"\x1b", 0.0)
    assert source.tick(ESCAPE_SECONDS) == [ESCAPE]
    assert source.feed(b"[A", 0.03) == [escaped("\x1b[A")]
    source.feed(b"\x1b", 1.0)
    source.tick(1.1)
    assert source.feed(b"[A", 2.0) == [typed("[A")]


@pytest.mark.parametrize(
    "reply",
    [
        "\x1b]11;rgb:ffff/8080/0000\x07",
        "\x1b]11;rgb:1/2/f\x1b\\",
        "\x1b]11;rgba:0000/0000/0000/ffff\x07",
        "\x1b[?2026;2$y",
        "\x1b[48;24;80;480;1280t",
        "\x1b[?997;1n",
        "\x1b[24;80R",
        "\x1b[?62;22c",
        "\x1b[>1;10;0c",
        "\x1b[?25u",
        "\x1b[0n",
    ],
)
def test_replies_of_the_terminal_are_recognised(reply: str) -> None:
    data = reply.encode()
    for cut in range(1, len(data)):
        assert read(data[:cut], data[cut:]) == [Token("reply", reply)]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x1b]10;rgb:ff/ff/ff\x07",
        b"\x1b]52;c;aGVsbG8=\x07",
        b"\x1bP>|xterm(380)\x1b\\",
        b"\x1b_Gi=1;OK\x1b\\",
        b"\x1b[M !!",
        b"\x1b[M\xff\xfe\xfd",
        b"\x1b[" + b"1;" * 3000 + b"m",
        b"\x1b]11;" + b"x" * 20_000 + b"\x07",
    ],
)
def test_unrequested_terminal_answers_are_never_typed(garbage: bytes) -> None:
    assert read(b"a" + garbage + b"b") == [typed("ab")]
    assert read(b"a", *(garbage[start : start + 7] for start in range(0, len(garbage), 7)), b"b") == [typed("ab")]


def test_the_end_of_a_paste_is_found_however_it_is_split() -> None:
    data = "\x1b[200~日本\x1b[201~y".encode()
    for cut in range(1, len(data)):
        assert read(data[:cut], data[cut:]) == [pasted("日本"), typed("y")]
    assert read(*(data[index : index + 1] for index in range(len(data)))) == [pasted("日本"), typed("y")]


def test_a_paste_that_never_ends_is_delivered_after_a_pause() -> None:
    source = InputFilter(ESCAPE_SECONDS)
    assert source.feed(b"\x1b[200~hello\rworld", 0.0) == []
    assert source.tick(PASTE_SECONDS) == [pasted("hello\nworld")]
    assert source.feed(b"\x03", 2.0) == [typed("\x03")]
    assert source.feed(b"\r", 3.0) == [typed("\r")]


def test_the_rest_of_a_paused_paste_is_not_treated_as_typing() -> None:
    source = InputFilter(ESCAPE_SECONDS)
    source.feed(b"\x1b[200~rm ", 0.0)
    source.tick(PASTE_SECONDS)
    assert source.feed(b"-rf everything\rand more\r\x1b[201~\r", 2.0) == [
        pasted("-rf everything\nand more\n"),
        typed("\r"),
    ]


def test_a_marker_split_by_a_pause_still_ends_the_paste() -> None:
    source = InputFilter(ESCAPE_SECONDS)
    source.feed(b"\x1b[200~text\x1b[20", 0.0)
    assert source.tick(PASTE_SECONDS) == [pasted("text")]
    assert source.feed(b"1~x", 2.0) == [typed("x")]


def test_a_megabyte_is_pasted_at_once() -> None:
    line = "the quick brown fox \x1b[31m jumps over 日本\r\n"
    data = b"\x1b[200~" + (line * (1_000_000 // len(line.encode()))).encode() + b"\x1b[201~"
    source = InputFilter(ESCAPE_SECONDS)
    began = time.process_time()
    found = [token for start in range(0, len(data), 256) for token in source.feed(data[start : start + 256], 0.0)]
    spent = time.process_time() - began
    assert [token.kind for token in found] == ["pasted"]
    assert spent < 0.75  # 0.1 on an idle machine, and 1.4 if each chunk made it look at all that came before


@given(st.binary(max_size=300), st.randoms(use_true_random=False))
def test_no_input_raises_or_leaves_anything_waiting_for_ever(data: bytes, chance: random.Random) -> None:
    source, now, position = InputFilter(ESCAPE_SECONDS), 0.0, 0
    found: list[Token] = []
    while position < len(data):
        size = chance.randint(1, 9)
        found += source.feed(data[position : position + size], now)
        position += size
        now += 0.001
    for _ in range(5):
        if source.deadline is not None:
            found += source.tick(source.deadline)
    source.feed(b"\x1b[201~", 100.0)
    assert source.feed(b"ok", 200.0) == [typed("ok")]
    assert all("\x1b" not in token.text for token in found if token.kind in ("typed", "pasted"))
