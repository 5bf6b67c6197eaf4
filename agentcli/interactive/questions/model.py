"""The parts of a question: details to show, choices, and the answer that each choice means."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.core.text.plaintext import plain_text

Tone = Literal["text", "muted", "code", "quoted", "item", "title", "warning"]
"""`quoted`: text of a server or model, which must not look like the program's own. `item`: one of a list."""


@frozen
class Paragraph:
    text: str
    tone: Tone = "text"


@frozen
class Heading:
    text: str
    note: str = ""
    """Short remark beside it."""


@frozen
class Labelled:
    label: str
    text: str


@frozen
class LabelTable:
    """Labelled rows; following rows may have the same label."""

    rows: tuple[tuple[str, str], ...]


@frozen
class Verbatim:
    """Text whose lines are shown exactly. `mark` precedes them in front ends that do not number them."""

    text: str
    mark: str = ""


@frozen
class CommandText:
    text: str


@frozen
class MarkdownText:
    text: str


@frozen
class DiffText:
    diff: str
    path: str


@frozen
class InputFields:
    """The whole input of a call, field by field."""

    input: Json


@frozen
class AddressText:
    """A URL whose host must be easy to see."""

    before: str
    host: str
    after: str


@frozen
class Spacer:
    """An empty line, where there is room for it."""


Detail = (
    Paragraph
    | Heading
    | Labelled
    | LabelTable
    | Verbatim
    | CommandText
    | MarkdownText
    | DiffText
    | InputFields
    | AddressText
    | Spacer
)


@frozen
class Words:
    """A text that is asked for when a choice is made. It becomes the message of the answer."""

    question: str
    if_empty: str
    """What an empty text means: "only allow"."""


@frozen
class AnswerChoice:
    name: str
    label: str
    key: str = ""
    """Letter that selects it in the app."""
    answer: Answer | None = None
    """Its meaning. None: the front end does something first, such as opening an editor."""
    short: str = ""
    """Label for small screens; "": the same label."""
    line: str = ""
    """Label in plain mode, if it is another one."""
    letter: str = ""
    """Letter in plain mode; "": the key."""
    detail: str = ""
    words: Words | None = None
    takes_words: bool = False
    """Whether text may follow the letter in plain mode."""
    refused: str = ""
    """Why it cannot be chosen; "" if it can."""

    @property
    def typed_label(self) -> str:
        """Label in plain mode. Its first word may be typed instead of the letter."""
        return self.line or f"{self.label[:1].lower()}{self.label[1:]}"

    @property
    def allows(self) -> bool:
        return self.answer is not None and self.answer.behavior == "allow"


@frozen(kw_only=True)
class Question:
    title: str
    choices: tuple[AnswerChoice, ...] = ()
    summary: tuple[Detail, ...] = ()
    """What matters most. It is shown where no scrolling is needed to see it: first in a dialog, last on paper."""
    details: tuple[Detail, ...] = ()
    agent: str = ""
    """The sub-agent that asks; "" is the main one."""
    closed: Answer | None = None
    """Meaning of closing the question without an answer. None: the work is stopped."""
    closing: str = "stop the work"
    """Words for closing it."""
    must_be_read: bool = False
    """Whether nothing may be allowed before all details have been on the screen."""
    first: int = 0
    """Index of the choice that is selected at first."""

    def choice(self, name: str) -> AnswerChoice:
        return next(choice for choice in self.choices if choice.name == name)


def answer_of(choice: AnswerChoice, words: str = "") -> Answer:
    """The answer that a choice means, with the user's words for the model."""
    assert choice.answer is not None
    message = plain_text(words).strip()
    return replace(choice.answer, message=message) if message else choice.answer
