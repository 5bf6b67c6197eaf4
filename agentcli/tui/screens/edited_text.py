"""Dialogs with a text that the user may edit before answering, in place or in their own editor (Ctrl+G)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from textual import work
from textual.app import ComposeResult
from textual.widgets import TextArea

from agentcli.core.errors import AgentError
from agentcli.core.permission import Answer
from agentcli.core.text.plaintext import plain_text
from agentcli.interactive.questions.kinds import TextQuestion
from agentcli.interactive.questions.model import AnswerChoice, Question
from agentcli.tui.blocks.base import BlockLine, wrap
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.dialog import PAINTED
from agentcli.tui.screens.question import QuestionDialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import BLANK, detail_lines, lay_out_markdown

EDITING_KEYS: Keys = [("Ctrl+G", "your own editor"), ("Esc", "back to the choices")]


class EditableDialog(QuestionDialog):
    DEFAULT_CSS = """
    EditableDialog #editor {
        display: none; height: 1; border: none; padding: 0 1; background: $background; scrollbar-size-vertical: 1;
    }
    """

    def __init__(self, asked: Question, text: str = "") -> None:
        super().__init__(asked)
        self.environ: Mapping[str, str] = os.environ
        """Environment for looking up `$EDITOR`."""
        self.cwd: Path | None = None
        """Working directory of the editor; None: that of the process."""
        self.text = plain_text(text)
        self.editing = False
        self._is_outside = False

    def changed(self) -> None:
        """Called after the text was changed in the editor."""

    def edit(self) -> None:
        self.editing = True
        editor = self.query_one(TextArea)
        editor.load_text(self.text)
        self.update()
        self.set_focus(editor)

    def own_widgets(self) -> ComposeResult:
        yield TextArea(id="editor", compact=True, tab_behavior="focus", soft_wrap=True)

    @property
    def typing(self) -> bool:
        return self.editing or super().typing

    def replaces_body(self, rows: int) -> bool:
        editor = self.query_one(TextArea)
        editor.display = self.editing
        editor.styles.height = rows
        return self.editing

    def back(self) -> None:
        if not self.editing:
            super().back()
            return
        before, self.text = self.text, self.query_one(TextArea).text
        self.editing = False
        self.set_focus(None)
        if self.text != before:
            self.changed()
        self.update()

    def press_own(self, key: str, character: str | None) -> bool:
        if key == "ctrl+g" and not self.asking:
            if not self._is_outside:
                self._is_outside = True
                self._outside()
            return True
        # Pressed before the editor got the focus.
        text = "\n" if key == "enter" else character
        if not self.editing or not text:
            return False
        self.query_one(TextArea).insert(text)
        return True

    @property
    def typed_text(self) -> str:
        return self.query_one(TextArea).text if self.editing else super().typed_text

    @work(group="editor")
    async def _outside(self) -> None:
        from agentcli.tui.prompt.external_input import edit_outside

        editor = self.query_one(TextArea)
        text = editor.text if self.editing else self.text
        try:
            edited = await edit_outside(self.app, text, self.environ, self.cwd or Path.cwd())
        except AgentError as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        finally:
            self._is_outside = False
        before, self.text = self.text, plain_text(edited)
        editor.load_text(self.text)
        if self.text != before and not self.editing:
            self.changed()
        self.update()


_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_EDGE = re.compile(r"(?<![\w\\])_+(?=\w)|(?<=[^\W_])_+(?!\w)")


class TextDialog(EditableDialog):
    asked: TextQuestion

    def __init__(self, asked: TextQuestion) -> None:
        super().__init__(asked, asked.text)
        self._original = self.text

    @property
    def question(self) -> str:
        return f"Edit the {self.asked.subject}" if self.editing else self.asked.title

    @property
    def size_of_body(self) -> int:
        return PAINTED * len(self.text)

    def asides(self) -> Sequence[str]:
        aside = self.asked.aside
        if self.editing or self.text == self._original:
            return (aside,) if not self.editing else ()
        return (f"{aside}, edited by you" if aside else "", "edited by you", "edited")

    def keys(self) -> Keys:
        return EDITING_KEYS if self.editing else [("Ctrl+G", "your own editor"), *super().keys()]

    def body(self, width: int) -> list[BlockLine]:
        lines = detail_lines(self.asked.summary, width, self.palette)
        lines += [BLANK] if lines else []
        if not self.text.strip():
            return [*lines, *wrap([(f"The {self.asked.subject} is empty.", self.palette.warning)], width)]
        return [*lines, *lay_out_markdown(_escape_underscores(self.text), width, self.palette)]

    def choices(self) -> Sequence[SheetChoice]:
        return [self.show_choice(choice) for choice in self.asked.choices_for(self.text)]

    def choose(self, name: str) -> None:
        if name == "edit":
            self.edit()
        elif name == "original":
            self.text, self.index = self._original, 0
            self.update()
        else:
            super().choose(name)

    def answer(self, choice: AnswerChoice, words: str = "") -> Answer:
        return self.asked.answer(choice, self.text, words)

    def changed(self) -> None:
        self.index = self._next(-1, 1)


def _escape_underscores(text: str) -> str:
    """Escape underscores at the edges of words outside code: `_private_` in a plan is a name, not emphasis."""
    lines, fenced = text.split("\n"), False
    for place, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", "\t")):
            parts = line.split("`")
            parts[::2] = [_EDGE.sub(lambda found: "\\_" * len(found[0]), part) for part in parts[::2]]
            lines[place] = "`".join(parts)
    return "\n".join(lines)
