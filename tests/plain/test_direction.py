"""Characters that change the direction of text are made visible, however they arrive."""

from __future__ import annotations

import pytest

from agentcli.plain.pieces import AnswerEnd, AnswerText, line
from agentcli.plain.writer import BareWriter, ColourWriter


@pytest.mark.parametrize("text", ["a \u202egpj.exe", "a &#x202e;gpj.exe", "a &#8238;gpj.exe", "`a \u202egpj.exe`"])
def test_an_answer_cannot_change_the_text_direction(text: str) -> None:
    shown: list[str] = []
    ColourWriter(shown.append, lambda: 80).write([AnswerText(text), AnswerEnd()])
    BareWriter(shown.append).write([AnswerText(text), AnswerEnd()])
    assert "\u202e" not in "".join(shown)
    assert "<U+202E>" in shown[0]


def test_a_line_cannot_change_the_direction_and_any_script_is_kept() -> None:
    shown: list[str] = []
    for writer in (ColourWriter(shown.append, lambda: 80), BareWriter(shown.append)):
        writer.write([line("\u2067x\u2069 שלום مرحبا \u200f")])
    assert shown == ["<U+2067>x<U+2069> שלום مرحبا <U+200F>\n"] * 2


def test_an_emoji_split_over_two_deltas_stays_one() -> None:
    shown: list[str] = []
    writer = BareWriter(shown.append)
    for piece in ("x 👨", "\u200d👩\u200d", "👧 ❤", "\ufe0f", "\u202e"):
        writer.write([AnswerText(piece)])
    assert "".join(shown) == "x 👨\u200d👩\u200d👧 ❤\ufe0f<U+202E>"
