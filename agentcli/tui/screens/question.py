"""Dialogs for questions: the details above, the choices below. Other questions have dialogs of their own kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentcli.core.permission import Answer
from agentcli.interactive.questions import model as ask
from agentcli.interactive.questions.model import AnswerChoice, Question, answer_of
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.dialog import PAINTED, Dialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import detail_lines

if TYPE_CHECKING:
    from agentcli.tui.blocks.base import BlockLine


class QuestionDialog(Dialog[Answer | None]):
    def __init__(self, asked: Question) -> None:
        super().__init__()
        self.asked = asked
        self.first = asked.first
        self._asked_words: AnswerChoice | None = None
        """Choice whose words are being entered."""
        self._unsent: dict[str, str] = {}
        """Unsent words by the name of their choice."""
        self._cost = sum(map(_layout_cost, (*asked.summary, *asked.details)))

    @property
    def question(self) -> str:
        return self.asked.title

    def asides(self) -> Sequence[str]:
        return (f"asked by {self.asked.agent}",) if self.asked.agent else ()

    def keys(self) -> Keys:
        return [("↑↓", "choose"), ("Enter", "confirm"), ("Esc", self.asked.closing)]

    def locked_keys(self) -> Keys:
        no = next(choice.label.lower() for choice in self.asked.choices if choice.key == "n")
        close = self.asked.closing.partition(" ")[0]
        return [("PgDn Space ↓", "scroll"), ("n", no), ("End", "go to the end"), ("Esc", close)]

    @property
    def size_of_body(self) -> int:
        return self._cost

    @property
    def gated(self) -> bool:
        return self.asked.must_be_read

    def body(self, width: int) -> list[BlockLine]:
        return detail_lines((*self.asked.summary, ask.Spacer(), *self.asked.details), width, self.palette)

    def choices(self) -> Sequence[SheetChoice]:
        return [self.show_choice(choice) for choice in self.asked.choices]

    def show_choice(self, choice: AnswerChoice) -> SheetChoice:
        return sheet_choice(choice, locked=self.locked and choice.allows)

    def choose(self, name: str) -> None:
        choice = self.asked.choice(name)
        if choice.words is None:
            self.dismiss(answer_of(choice))
        else:
            self._asked_words = choice
            self.ask(choice.words.question, self._unsent.get(name, ""), f"empty: {choice.words.if_empty}")

    def entered(self, text: str) -> None:
        if self._asked_words is not None:
            self.dismiss(answer_of(self._asked_words, text))

    def left(self, text: str) -> None:
        if self._asked_words is not None:
            self._unsent[self._asked_words.name] = text
            self._asked_words = None

    def leave(self) -> None:
        self.dismiss(self.asked.closed)


def sheet_choice(choice: AnswerChoice, *, locked: bool = False) -> SheetChoice:
    return SheetChoice(
        choice.name, choice.label, choice.key, choice.short, choice.detail, locked=locked, refused=choice.refused
    )


def _layout_cost(detail: ask.Detail) -> int:
    """In characters of plain text; see `Dialog.size_of_body`."""
    match detail:
        case ask.DiffText(text) | ask.MarkdownText(text):
            return PAINTED * len(text)
        case ask.InputFields(input):
            return sum(len(str(value)) for value in input.values())
        case ask.Paragraph(text) | ask.Verbatim(text) | ask.CommandText(text) | ask.Labelled(_, text):
            return len(text)
    return 0
