"""How questions are asked in plain mode: choices by letter, number or word, and lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from agentcli.core.frozen import frozen
from agentcli.core.plaintext import plain_line
from agentcli.plain.pieces import Gap, Piece, TextLine, prose


class Asking(Protocol):
    """What a question needs of the front end."""

    def show(self, pieces: Iterable[Piece]) -> None: ...

    async def ask(self, question: str) -> str | None:
        """None: Esc or Ctrl+C."""

    async def edit(self, text: str) -> str:
        """Raises `AgentError`."""


@frozen
class LetterChoice:
    letter: str
    label: str
    """Its first word may be typed for the letter."""
    words: bool = False
    """Whether words behind it mean something."""

    def is_meant(self, word: str, number: int, rest: str) -> bool:
        first = self.label.split(" ")[0].strip(",:")
        return word.lower() in (self.letter, str(number), first) and (self.words or not rest)


class QuestionClosed(Exception):
    """Esc or Ctrl+C."""


async def choose(choices: Sequence[LetterChoice], asking: Asking, prompt: str = "Answer: ") -> tuple[str, str]:
    """The letter that was chosen, by itself or by its number, and what was typed behind it. Raises `QuestionClosed`."""
    for number, choice in enumerate(choices, 1):
        asking.show([TextLine(((f"  {number} ", "quiet"), (choice.letter, "mark"), (f"  {choice.label}", "text")))])
    while True:
        word, _blank, rest = (await ask_line(asking, prompt)).strip().partition(" ")
        for number, choice in enumerate(choices, 1):
            if choice.is_meant(word, number, rest):
                return choice.letter, rest.strip()
        letters = ", ".join(choice.letter for choice in choices)
        asking.show([prose(f"Type one of {letters} and Enter. Esc stops the work.", "warning", "! ", "warning")])


async def ask_line(asking: Asking, prompt: str) -> str:
    text = await asking.ask(prompt)
    if text is None:
        raise QuestionClosed
    return text


def head(text: str, agent: str = "") -> list[Piece]:
    whose = f" (asked by {plain_line(agent)})" if agent else ""
    return [Gap(), prose(f"{text}{whose}", "warning", "? ", "warning")]
