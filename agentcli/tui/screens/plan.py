"""The dialog that shows a plan for approval. The person may change the plan first; what they approve is what counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from textual import events
from textual.app import ComposeResult, SuspendNotSupported
from textual.widgets import TextArea

from agentcli.core.events import PermissionRequested
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from agentcli.core.plaintext import plain_text
from agentcli.tui.blocks.base import Line
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.palette import Palette
from agentcli.tui.screens.panel import Choice, Panel, Typed
from agentcli.tui.screens.subject import markdown_lines

EditOutside = Callable[[str], str | None]
"""Opens a text in the person's own editor and returns what they made of it; None if that did not work. Blocking, and
called while the app is suspended."""


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
        typed: Typed | None = None,
        edit_outside: EditOutside | None = None,
    ) -> None:
        super().__init__(palette, clock=clock, typed=typed)
        self.event = event
        self.plan = plain_text(str(event.input.get("plan", "")))
        self.editing = False
        self._original = self.plan
        self._edit_outside = edit_outside
        self._wishes = ""

    @property
    def question(self) -> str:
        return "Edit the plan" if self.editing else "Go ahead with this plan?"

    @property
    def aside(self) -> str:
        return "edited by you" if self.edited and not self.editing else ""

    @property
    def hints(self) -> str:
        if self.editing:
            return "Esc back to the plan" + (" · Ctrl+G your own editor" if self._edit_outside else "")
        return "Enter confirms · Esc stops the work · ↑↓ or a number choose"

    @property
    def edited(self) -> bool:
        return self.plan != self._original

    @property
    def size_of_body(self) -> int:
        return len(self.plan)

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

    def stop_asking(self) -> None:
        self._wishes = self.typed_text
        super().stop_asking()

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
        self.plan = self.query_one(TextArea).text
        self.editing = False
        self.set_focus(None)
        self.index = min(self.index, 1) if self.plan.strip() else 2
        self.update()

    def pressed(self, event: events.Key) -> bool:
        if event.key == "ctrl+g" and self._edit_outside is not None and not self.asking:
            self._outside(self._edit_outside)
            return True
        return False

    def _edit(self) -> None:
        self.editing = True
        editor = self.query_one(TextArea)
        editor.load_text(self.plan)
        self.update()
        editor.focus()

    def _outside(self, edit: EditOutside) -> None:
        text = self.query_one(TextArea).text if self.editing else self.plan
        try:
            with self.app.suspend():
                changed = edit(text)
        except SuspendNotSupported:
            self.notify("This terminal cannot be handed to another editor.", severity="warning", markup=False)
            return
        if changed is not None:
            self.plan = plain_text(changed)
            self.query_one(TextArea).load_text(self.plan)
            self.update()

    def _input(self) -> Json | None:
        return {**self.event.input, "plan": self.plan} if self.edited else None
