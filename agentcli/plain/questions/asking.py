"""Ask a question in plain mode: a choice by letter, digit or word, or a line of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line
from agentcli.plain.output.pieces import Gap, Piece, TextLine, TextRuns, prose


class Asking(Protocol):
    """What a question needs from the front end."""

    def show(self, pieces: Iterable[Piece]) -> None: ...

    async def ask(self, question: str) -> str | None:
        """Read one line. None: Esc or Ctrl+C."""

    async def edit(self, text: str) -> str:
        """Open the text in the user's editor and return it. Raises `AgentError`."""


@frozen
class LetterChoice:
    letter: str
    label: str
    """Shown text. Its first word may be typed instead of the letter."""
    words: bool = False
    """Whether text may follow the letter."""

    def is_meant(self, word: str, place: int, rest: str) -> bool:
        """Whether a typed line means this choice, which is listed with the digit `place`."""
        first = self.label.split(" ")[0].strip(",:")
        return word.lower() in (self.letter, str(place), first) and (self.words or not rest)


class QuestionClosed(Exception):
    """Esc or Ctrl+C."""


async def choose(choices: Sequence[LetterChoice], asking: Asking, prompt: str = "Answer: ") -> tuple[str, str]:
    """The letter that was chosen, directly or by its number, and the text typed after it. Raises `QuestionClosed`."""
    for place, choice in enumerate(choices, 1):
        runs: TextRuns = ((f"  {place} ", "quiet"), (choice.letter, "mark"), ("  ", "text"), (choice.label, "text"))
        asking.show([TextLine(runs, prose=True)])
    while True:
        word, _blank, rest = (await ask_line(asking, prompt)).strip().partition(" ")
        for place, choice in enumerate(choices, 1):
            if choice.is_meant(word, place, rest):
                return choice.letter, rest.strip()
        letters = ", ".join(choice.letter for choice in choices)
        hint = f"Type one of {letters}, or its digit, and Enter. Esc stops the work."
        asking.show([prose(hint, "warning", "! ", "warning")])


async def ask_line(asking: Asking, prompt: str) -> str:
    text = await asking.ask(prompt)
    if text is None:
        raise QuestionClosed
    return text


def head(text: str, agent: str = "") -> list[Piece]:
    whose = f" (asked by {plain_line(agent)})" if agent else ""
    return [Gap(), prose(f"{text}{whose}", "warning", "? ", "warning")]
