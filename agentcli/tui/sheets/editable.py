"""A dialog about a text that the person may change before they answer: in place, or in their own editor (Ctrl+G)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from textual import events, work
from textual.app import ComposeResult
from textual.widgets import TextArea

from agentcli.core.permission import Answer
from agentcli.core.plaintext import plain_text
from agentcli.tui.sheets.panel import Panel
from agentcli.tui.theme.palette import Palette


class EditablePanel(Panel[Answer | None]):
    DEFAULT_CSS = """
    EditablePanel #editor {
        display: none; height: 1; border: none; padding: 0 1; background: $background; scrollbar-size-vertical: 1;
    }
    """

    def __init__(
        self,
        text: str,
        palette: Palette,
        *,
        clock: Callable[[], float] = time.monotonic,
        typed: Callable[[], float] | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        super().__init__(palette, clock=clock, typed=typed)
        self.text = plain_text(text)
        self.editing = False
        self._original = self.text
        self._environ = environ
        self._cwd = cwd
        self._is_outside = False

    @property
    def edited(self) -> bool:
        return self.text != self._original

    @property
    def asides(self) -> tuple[str, ...]:
        return ("edited by you", "edited") if self.edited and not self.editing else ()

    def changed(self) -> None:
        """The person has come back from the editor with another text."""

    def edit(self) -> None:
        """Open the text for editing in place of body and choices."""
        self.editing = True
        editor = self.query_one(TextArea)
        editor.load_text(self.text)
        self.update()
        self.set_focus(editor)

    def take_back_edits(self) -> None:
        self.text = self._original
        self.index = 0
        self.update()

    # ------------------------------------------------------------------------------------------------ as a panel

    def own_widgets(self) -> ComposeResult:
        yield TextArea(id="editor", compact=True, tab_behavior="focus", soft_wrap=True)

    @property
    def typing(self) -> bool:
        return self.editing or super().typing

    def occupied(self, rows: int) -> bool:
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

    def pressed(self, event: events.Key) -> bool:
        if event.key == "ctrl+g" and not self.asking:
            if not self._is_outside:
                self._is_outside = True
                self._outside()
            return True
        return False

    def overtaken(self, event: events.Key) -> bool:
        if not self.editing:
            return super().overtaken(event)
        text = "\n" if event.key == "enter" else event.character if event.is_printable else ""
        if text:
            self.query_one(TextArea).insert(text)
        return bool(text)

    @work(group="editor")
    async def _outside(self) -> None:
        from agentcli.interactive.editor import Written
        from agentcli.tui.prompt.external import edit_outside

        editor = self.query_one(TextArea)
        text = editor.text if self.editing else self.text
        environ = os.environ if self._environ is None else self._environ
        try:
            outcome = await edit_outside(self.app, text, environ, self._cwd or Path.cwd())
        finally:
            self._is_outside = False
        if isinstance(outcome, Written):
            self.text = plain_text(outcome.text)
            editor.load_text(self.text)
            self.update()
        else:
            self.notify(outcome.reason, severity="warning", markup=False)
