"""The dialog that shows a plan for approval. The person may change the plan first; what they approve is what counts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from textual import events, work
from textual.app import ComposeResult
from textual.widgets import TextArea

from agentcli.core.events import PermissionRequested
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from agentcli.core.plaintext import plain_text
from agentcli.tui.blocks.base import Line
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.palette import Palette
from agentcli.tui.screens.choices import Choice
from agentcli.tui.screens.panel import PAINTED, Panel
from agentcli.tui.screens.subject import markdown_lines


class PlanDialog(Panel[Answer | None]):
    DEFAULT_CSS = """
    PlanDialog #editor {
        display: none; height: 1; border: none; padding: 0 1; background: $background; scrollbar-size-vertical: 1;
    }
    """

    def __init__(
        self,
        event: PermissionRequested,
        palette: Palette,
        *,
        clock: Callable[[], float] = time.monotonic,
        typed: Callable[[], float] | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        super().__init__(palette, clock=clock, typed=typed)
        self.event = event
        self.plan = plain_text(str(event.input.get("plan", "")))
        self.editing = False
        self._original = self.plan
        self._environ = environ
        self._cwd = cwd
        self._wishes = ""
        self._is_outside = False

    @property
    def question(self) -> str:
        return "Edit the plan" if self.editing else "Go ahead with this plan?"

    @property
    def asides(self) -> tuple[str, ...]:
        return ("edited by you", "edited") if self.edited and not self.editing else ()

    @property
    def hints(self) -> str:
        if self.editing:
            return "Esc back to the choices · Ctrl+G your own editor"
        return "Enter confirms · Esc stops the work · ↑↓ or a number choose · Ctrl+G your own editor"

    @property
    def edited(self) -> bool:
        return self.plan != self._original

    @property
    def size_of_body(self) -> int:
        return PAINTED * len(self.plan)

    def body(self, width: int) -> list[Line]:
        if not self.plan.strip():
            return wrap([("The plan is empty.", self.palette.warning)], width)
        return markdown_lines(self.plan, width, self.palette)

    def choices(self) -> Sequence[Choice]:
        empty = "" if self.plan.strip() else "the plan is empty"
        found = [
            Choice("edits", "Yes, and accept edits by themselves", "a", "Yes, accept edits", refused=empty),
            Choice("ask", "Yes, and ask before each edit", "y", "Yes, ask for edits", refused=empty),
            Choice("edit", "Edit the plan", "e"),
            Choice("keep", "No, keep planning: say what to change", "n", "No, keep planning"),
        ]
        return [*found, Choice("original", "Take back your edits", "u")] if self.edited else found

    def choose(self, name: str) -> None:
        match name:
            case "edits":
                self.dismiss(Answer("allow", updated_input=self._input(), mode=PermissionMode.ACCEPT_EDITS))
            case "ask":
                self.dismiss(Answer("allow", updated_input=self._input(), mode=PermissionMode.DEFAULT))
            case "edit":
                self._edit()
            case "original":
                self.plan = self._original
                self.index = 0
                self.update()
            case "keep":
                self.ask("What should the plan be like instead?", self._wishes, "empty: just no")

    def entered(self, text: str) -> None:
        self.dismiss(Answer("deny", message=text.strip()))

    def left(self, text: str) -> None:
        self._wishes = text

    # ------------------------------------------------------------------------------------------------ editing

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
        before, self.plan = self.plan, self.query_one(TextArea).text
        self.editing = False
        self.set_focus(None)
        if self.plan != before:
            self.index = 1 if self.plan.strip() else 2
        self.update()

    def pressed(self, event: events.Key) -> bool:
        if event.key == "ctrl+g" and not self.asking:
            if not self._is_outside:
                self._is_outside = True
                self._outside()
            return True
        return False

    def _edit(self) -> None:
        self.editing = True
        editor = self.query_one(TextArea)
        editor.load_text(self.plan)
        self.update()
        self.set_focus(editor)

    def overtaken(self, event: events.Key) -> bool:
        if not self.editing:
            return super().overtaken(event)
        text = "\n" if event.key == "enter" else event.character if event.is_printable else ""
        if text:
            self.query_one(TextArea).insert(text)
        return bool(text)

    @work(group="editor")
    async def _outside(self) -> None:
        from agentcli.tui.prompt.external import Written, edit_outside

        editor = self.query_one(TextArea)
        text = editor.text if self.editing else self.plan
        environ = os.environ if self._environ is None else self._environ
        try:
            outcome = await edit_outside(self.app, text, environ, self._cwd or Path.cwd())
        finally:
            self._is_outside = False
        if isinstance(outcome, Written):
            self.plan = plain_text(outcome.text)
            editor.load_text(self.plan)
            self.update()
        else:
            self.notify(outcome.reason, severity="warning", markup=False)

    def _input(self) -> Json | None:
        return {**self.event.input, "plan": self.plan} if self.edited else None
