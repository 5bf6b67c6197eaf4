"""Dialog with a text that the user may edit before answering, in place or in their own editor (Ctrl+G)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from textual import work
from textual.app import ComposeResult
from textual.widgets import TextArea

from agentcli.core.permission import Answer
from agentcli.core.text.plaintext import plain_text
from agentcli.tui.screens.dialog import PAINTED, Dialog
from agentcli.tui.screens.sheet import Keys

EDITING_KEYS: Keys = [("Ctrl+G", "your own editor"), ("Esc", "back to the choices")]


class EditableDialog(Dialog[Answer | None]):
    DEFAULT_CSS = """
    EditableDialog #editor {
        display: none; height: 1; border: none; padding: 0 1; background: $background; scrollbar-size-vertical: 1;
    }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.environ: Mapping[str, str] = os.environ
        """Environment for looking up `$EDITOR`."""
        self.cwd: Path | None = None
        """Working directory of the editor; None: that of the process."""
        self.text = plain_text(text)
        self.editing = False
        self._original = self.text
        self._is_outside = False

    @property
    def size_of_body(self) -> int:
        return PAINTED * len(self.text)

    @property
    def edited(self) -> bool:
        return self.text != self._original

    def asides(self) -> Sequence[str]:
        return ("edited by you", "edited") if self.edited and not self.editing else ()

    def changed(self) -> None:
        """Called after the text was changed in the editor."""

    def edit(self) -> None:
        self.editing = True
        editor = self.query_one(TextArea)
        editor.load_text(self.text)
        self.update()
        self.set_focus(editor)

    def take_back_edits(self) -> None:
        self.text = self._original
        self.index = 0
        self.update()

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

    def pressed(self, key: str, character: str | None) -> bool:
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
        from agentcli.interactive.drafts.editor import Written
        from agentcli.tui.prompt.external import edit_outside

        editor = self.query_one(TextArea)
        text = editor.text if self.editing else self.text
        try:
            outcome = await edit_outside(self.app, text, self.environ, self.cwd or Path.cwd())
        finally:
            self._is_outside = False
        if isinstance(outcome, Written):
            before, self.text = self.text, plain_text(outcome.text)
            editor.load_text(self.text)
            if self.text != before and not self.editing:
                self.changed()
            self.update()
        else:
            self.notify(outcome.reason, severity="warning", markup=False)
