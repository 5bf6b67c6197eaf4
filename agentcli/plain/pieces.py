"""Output pieces as values: the printer makes them from events, the writer writes them to the terminal.

The text of a piece has no control sequences; line breaks and tabs are allowed.
"""

from __future__ import annotations

from typing import Literal

from agentcli.core.frozen import frozen

TextStyle = Literal["text", "strong", "quiet", "mark", "added", "removed", "warning", "error"]

TextRuns = tuple[tuple[str, TextStyle | str], ...]
"""Text with its style: one of `TextStyle`, or the look of a colour span in the output of a program."""


@frozen
class TextLine:
    """One or more whole lines. A line break in a run begins another line."""

    runs: TextRuns
    prose: bool = False
    """Whether the last run is sentences, which wrap between words with a hanging indent. Commands, output and paths are
    not prose."""
    ends_answer: bool = True
    """False: printed between two lines of an answer that goes on."""


@frozen
class Gap:
    """An empty line, unless the last line is empty already."""


@frozen
class AnswerText:
    """The next part of the model's Markdown answer."""

    text: str


@frozen
class AnswerEnd:
    """End of the answer, complete or not."""


Piece = TextLine | Gap | AnswerText | AnswerEnd


def line(text: str, look: TextStyle = "text", mark: str = "", mark_look: TextStyle = "quiet") -> TextLine:
    return TextLine(((mark, mark_look), (text, look)) if mark else ((text, look),))


def prose(text: str, look: TextStyle = "text", mark: str = "", mark_look: TextStyle = "quiet") -> TextLine:
    return TextLine(line(text, look, mark, mark_look).runs, prose=True)
