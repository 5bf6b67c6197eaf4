"""Form requested by an MCP server: one row per field, which is typed (line or editor), picked from a list, or toggled.

All text in it comes from the server and is untrusted. Closing the form cancels the request, but not the running work.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.widgets import TextArea

from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.interactive.questions.kinds import FormQuestion
from agentcli.mcp.user_input import FieldValue, FormField, ValueRefused
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.rows import Runs
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.edited_text import EDITING_KEYS, EditableDialog
from agentcli.tui.screens.picker import ListSheet, Picker
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import detail_lines, paragraph
from agentcli.tui.screens.text import one_line

_TYPED = ("text", "integer", "number")


class ServerFormDialog(EditableDialog):
    asked: FormQuestion

    def __init__(self, asked: FormQuestion) -> None:
        super().__init__(asked)
        self._form = asked.form
        self._texts: dict[str, str] = {}
        """Typed text of text and number fields, including invalid text."""
        self._picked: dict[str, FieldValue] = {}
        self._problems: dict[str, str] = {}
        for field in self._form.fields:
            value = self._form.defaults().get(field.name)
            if field.kind in _TYPED:
                self._texts[field.name] = "" if value is None else plain_text(str(value))
            elif field.kind == "boolean":
                self._picked[field.name] = value is True
            elif value is not None:
                self._picked[field.name] = value

    # --------------------------------------------------------------------------------------------------------- drawing

    def keys(self) -> Keys:
        if self.editing:
            return EDITING_KEYS
        field = self._field
        does = "confirm" if field is None else "switch" if field.kind == "boolean" else "edit"
        editor = [("Ctrl+G", "editor")] if field is not None and field.kind == "text" else []
        turn = [("←→", "change")] if field is not None and field.kind == "choice" else []
        return [*editor, *turn, ("Tab", "next"), ("Enter", does), ("Esc", "cancel")]

    def entry_keys(self) -> Keys:
        return [("Enter", "next"), ("Esc", "back")]

    def body(self, width: int) -> list[BlockLine]:
        lines, palette = detail_lines(self.asked.details, width, self.palette), self.palette
        for field in self._form.fields:
            if field.asks_for_secret:
                text = f"“{_label(field)}” seems to ask for a secret. A server must not do that with a form."
                lines += paragraph(text, width, palette.warning)
        return lines

    def choices(self) -> Sequence[SheetChoice]:
        fields = [self._row(number, field) for number, field in enumerate(self._form.fields)]
        ends = [SheetChoice(end.name, end.label, short=end.short, numbered=False) for end in self.asked.choices]
        return [*fields, *ends]

    def _foot(self, width: int) -> list[Runs]:
        """Show only some of many fields, so that the message keeps its room."""
        rows, most = super()._foot(width), max(4, self.area.height - 6)
        return rows if self.asking or not self.compact or len(rows) <= most else self._fitting(rows, most)

    def _row(self, number: int, field: FormField) -> SheetChoice:
        label, mark = f"{_label(field)}{'*' if field.required else ''}", ""
        if field.kind == "boolean":
            mark = "[x]" if self._picked.get(field.name) else "[ ]"
        else:
            label = f"{label}: {self._show_value(field)}"
        about = [one_line(plain_line(field.description, 1_000)), one_line(plain_line(field.hint, 300))]
        return SheetChoice(
            str(number),
            label,
            detail=" · ".join(filter(None, about)),
            mark=mark,
            problem=self._problems.get(field.name, ""),
            numbered=False,
        )

    def _show_value(self, field: FormField) -> str:
        if field.kind in _TYPED:
            text = self._texts[field.name]
            more = counted(text.count("\n") + 1, "line") if "\n" in text else ""
            return f"{one_line(plain_line(text))}{f' ({more})' if more else ''}" if text else "…"
        value = self._picked.get(field.name)
        picked = value if isinstance(value, list) else [] if value is None else [value]
        labels = [one_line(option.label) for option in field.options if option.value in picked]
        if len(labels) > 3:
            return f"{len(labels):,} chosen"
        return ", ".join(labels) or "…"

    # ------------------------------------------------------------------------------------------------------------ keys

    @property
    def _field(self) -> FormField | None:
        """The selected field."""
        return self._form.fields[self.index] if self.index < len(self._form.fields) else None

    def press_own(self, key: str, character: str | None) -> bool:
        field = self._field
        if self.asking or self.editing:
            return super().press_own(key, character)
        if key in ("tab", "shift+tab"):
            self._move(1 if key == "tab" else -1)
        elif field is None:
            return False
        elif field.kind in _TYPED and key == "backspace":
            self._texts[field.name] = self._texts[field.name][:-1]
            self._open(field)
        elif field.kind in _TYPED and character:
            self._open(field, character)
        elif field.kind == "text" and key == "ctrl+g":
            self._edit_long(self._texts[field.name])
        elif field.kind == "choice" and key in ("left", "right"):
            self._turn(field, 1 if key == "right" else -1)
        elif key == "space":
            self.choose(str(self.index))
        else:
            return False
        return True

    def _move(self, step: int) -> None:
        self._highlight(self._next(self.index, step))

    def choose(self, name: str) -> None:
        if name == "accept":
            self._send()
        elif name == "decline":
            super().choose(name)
        else:
            self._open(self._form.fields[int(name)])

    def _open(self, field: FormField, typed: str = "") -> None:
        if field.kind == "boolean":
            self._pick(field, not self._picked[field.name])
        elif field.options:
            self._open_list(field)
        elif field.is_long or "\n" in self._texts[field.name]:
            self._edit_long(self._texts[field.name] + typed)
        else:
            self._ask(field, self._texts[field.name] + typed)

    def _ask(self, field: FormField, text: str) -> None:
        problem = self._problems.get(field.name, "")
        about = problem or one_line(plain_line(field.description or field.hint, 300))
        self.ask(f"{_label(field)}: {about}" if about else _label(field), text, one_line(plain_line(field.hint, 80)))

    # ----------------------------------------------------------------------------------------------- texts and numbers

    def submit(self, text: str) -> None:
        field = self._field
        if field is None:
            return
        self._store(field, text)
        if field.name in self._problems:
            self._ask(field, text)
        else:
            self.stop_asking()
            self._move(1)

    def keep_unsent(self, text: str) -> None:
        if (field := self._field) is not None:
            self._store(field, text)

    def _store(self, field: FormField, text: str) -> None:
        self._texts[field.name] = text
        self._problems.pop(field.name, None)
        try:
            # An empty field is checked only when the form is sent.
            if text:
                field.parse(text)
        except ValueRefused as refused:
            self._problems[field.name] = str(refused)
        self.update()

    def _edit_long(self, text: str) -> None:
        self.text = text
        self.edit()
        editor = self.query_one(TextArea)
        editor.move_cursor(editor.document.end)

    def back(self) -> None:
        was_editing = self.editing
        super().back()
        if was_editing and (field := self._field) is not None:
            self._store(field, plain_text(self.text))

    # ------------------------------------------------------------------------------------------------------- choices

    def _turn(self, field: FormField, step: int) -> None:
        values = [option.value for option in field.options]
        here = self._picked.get(field.name)
        place = values.index(here) + step if isinstance(here, str) and here in values else 0 if step > 0 else -1
        self._pick(field, values[place % len(values)])

    def _pick(self, field: FormField, value: FieldValue) -> None:
        self._picked[field.name] = value
        self._problems.pop(field.name, None)
        self.update()

    def _open_list(self, field: FormField) -> None:
        def picked(value: str | list[str]) -> None:
            self._pick(field, value)
            if isinstance(value, str):
                self._move(1)

        rows = [Row(option.value, option.label) for option in field.options]
        value = self._picked.get(field.name)
        if field.kind == "choices":
            self.open(CheckList(_label(field), rows, value if isinstance(value, list) else []), picked)
        else:
            self.open(Picker(_label(field), rows, value if isinstance(value, str) else None), picked)

    # ----------------------------------------------------------------------------------------------------- the answer

    def _send(self) -> None:
        content, self._problems = self._answers()
        if not self._problems:
            self.dismiss(self.asked.answer(content))
            return
        names = [field.name for field in self._form.fields]
        self.index = min(names.index(name) for name in self._problems)
        self.update()
        self.show_notice(f"{counted(len(self._problems), 'field')} to correct")

    def _answers(self) -> tuple[dict[str, FieldValue], dict[str, str]]:
        content: dict[str, FieldValue] = {}
        problems: dict[str, str] = {}
        for field in self._form.fields:
            value = self._picked.get(field.name)
            try:
                if field.kind in _TYPED:
                    value = field.parse(self._texts[field.name])
            except ValueRefused as refused:
                problems[field.name] = str(refused)
                continue
            if value is not None:
                content[field.name] = value
        return content, {**self._form.problems(content), **problems}


class CheckList(ListSheet[str, list[str]]):
    """List with several selectable rows: Enter toggles one, Esc keeps the selection and closes."""

    verb = "switch"

    def __init__(self, title: str, rows: Sequence[Row[str]], picked: Sequence[str]) -> None:
        self._options = [(row.value, row.label) for row in rows]
        self._checked = dict.fromkeys(picked)
        super().__init__(title, self._list_marked())

    def _list_marked(self) -> list[Row[str]]:
        return [Row(value, label, mark="[x]" if value in self._checked else "[ ]") for value, label in self._options]

    def keys(self) -> Keys:
        return [("↑↓", "move"), ("Enter", self.verb), ("Esc", "done")]

    def choose(self, row: Row[str]) -> None:
        if row.value in self._checked:
            del self._checked[row.value]
        else:
            self._checked[row.value] = None
        self.set_rows(self._list_marked())

    def back(self) -> None:
        self.dismiss([value for value, _label in self._options if value in self._checked])


def _label(field: FormField) -> str:
    return one_line(plain_line(field.label, 80))
