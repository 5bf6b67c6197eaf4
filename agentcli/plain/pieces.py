"""Output pieces as values: the printer makes them from events, the writer writes them to the terminal.

The text of a piece has no control sequences; line breaks and tabs are allowed.
"""

from __future__ import annotations

from typing import Literal

from agentcli.core.frozen import frozen

TextStyle = Literal["text", "strong", "quiet", "mark", "added", "removed", "warning", "error"]

TextRuns = tuple[tuple[str, TextStyle], ...]
"""Text with its style."""


@frozen
class TextLine:
    """One or more whole lines, which may come between two lines of an answer. A line break in a run begins another
    line."""

    runs: TextRuns
    prose: bool = False
    """Whether the last run is sentences, which wrap between words with a hanging indent. Commands, output and paths are
    not prose."""


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
