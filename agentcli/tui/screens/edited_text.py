"""Dialog about a text that may be edited before it is accepted: a plan, a summary."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentcli.interactive.questions.kinds import TextQuestion
from agentcli.interactive.questions.model import AnswerChoice
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.editable import EDITING_KEYS, EditableDialog
from agentcli.tui.screens.question import sheet_choice
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import BLANK, detail_lines, markdown_lines

_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_EDGE = re.compile(r"(?<![\w\\])_+(?=\w)|(?<=[^\W_])_+(?!\w)")


class TextDialog(EditableDialog):
    def __init__(self, asked: TextQuestion) -> None:
        super().__init__(asked.text)
        self.asked = asked
        self._unsent = ""

    @property
    def question(self) -> str:
        return f"Edit the {self.asked.subject}" if self.editing else self.asked.title

    def asides(self) -> Sequence[str]:
        aside = self.asked.aside
        if self.editing or not aside:
            return super().asides()
        return (f"{aside}, edited by you", *super().asides()) if self.edited else (aside,)

    def keys(self) -> Keys:
        if self.editing:
            return EDITING_KEYS
        own = ("Ctrl+G", "your own editor")
        return [own, ("↑↓ or a number", "choose"), ("Enter", "confirm"), ("Esc", self.asked.closing)]

    def body(self, width: int) -> list[BlockLine]:
        lines = detail_lines(self.asked.summary, width, self.palette)
        lines += [BLANK] if lines else []
        if not self.text.strip():
            return [*lines, *wrap([(f"The {self.asked.subject} is empty.", self.palette.warning)], width)]
        return [*lines, *markdown_lines(_literal_underscores(self.text), width, self.palette)]

    def choices(self) -> Sequence[SheetChoice]:
        return [sheet_choice(choice) for choice in self._choices]

    @property
    def _choices(self) -> list[AnswerChoice]:
        return self.asked.choices_for(self.text)

    def choose(self, name: str) -> None:
        choice = next(choice for choice in self._choices if choice.name == name)
        if name == "edit":
            self.edit()
        elif name == "original":
            self.take_back_edits()
        elif choice.words is not None:
            self.ask(choice.words.question, self._unsent, f"empty: {choice.words.if_empty}")
        else:
            self.dismiss(self.asked.answer(choice, self.text))

    def changed(self) -> None:
        self.index = next(place for place, choice in enumerate(self._choices) if not choice.refused)

    def entered(self, text: str) -> None:
        choice = next(choice for choice in self._choices if choice.words is not None)
        self.dismiss(self.asked.answer(choice, self.text, text))

    def left(self, text: str) -> None:
        self._unsent = text

    def leave(self) -> None:
        self.dismiss(self.asked.closed)


def _literal_underscores(text: str) -> str:
    """Escape underscores at the edges of words outside code: in a summary, `__init__` is a name, not emphasis."""
    lines, fenced = text.split("\n"), False
    for place, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", "\t")):
            parts = line.split("`")
            parts[::2] = [_EDGE.sub(lambda found: "\\_" * len(found[0]), part) for part in parts[::2]]
            lines[place] = "`".join(parts)
    return "\n".join(lines)
