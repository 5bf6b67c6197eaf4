"""What is printed, as values: the printer makes these out of events, the writer puts them on the terminal.

All text in a piece is already free of control sequences; line breaks and tabs stay.
"""

from __future__ import annotations

from typing import Literal

from agentcli.core.frozen import frozen

TextStyle = Literal["text", "strong", "quiet", "mark", "added", "removed", "warning", "error"]

TextRuns = tuple[tuple[str, TextStyle], ...]


@frozen
class TextLine:
    """Whole lines of their own. A line break in a run begins another line."""

    runs: TextRuns
    prose: bool = False
    """Whether the last run is sentences, which wrap between words, below where they began. Commands, output and paths
    are not prose."""


@frozen
class Gap:
    """An empty line, unless there is one already."""


@frozen
class AnswerText:
    """More of the Markdown that the model writes."""

    text: str


@frozen
class AnswerEnd:
    """What was written of it is all there is."""


Piece = TextLine | Gap | AnswerText | AnswerEnd


def line(text: str, look: TextStyle = "text", mark: str = "", mark_look: TextStyle = "quiet") -> TextLine:
    return TextLine(((mark, mark_look), (text, look)) if mark else ((text, look),))


def prose(text: str, look: TextStyle = "text", mark: str = "", mark_look: TextStyle = "quiet") -> TextLine:
    return TextLine(line(text, look, mark, mark_look).runs, prose=True)
