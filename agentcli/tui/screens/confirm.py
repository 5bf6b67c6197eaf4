"""Confirmations asked by agentcli itself, not by the model. Closing such a dialog means no and does not stop the
running work.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from agentcli.core.permission import Answer
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.dialog import PAINTED, RequestDialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import BLANK, paragraph


class ConfirmDialog(RequestDialog):
    declined = Answer("deny")

    def keys(self) -> Keys:
        return [("↑↓", "choose"), ("Enter", "confirm"), ("Esc", "cancel")]

    def body(self, width: int) -> list[BlockLine]:
        return paragraph(str(self.event.display.get("text", "") or self.event.reason), width, self.palette.text)

    def choices(self) -> Sequence[SheetChoice]:
        yes, no = (plain_line(str(self.event.display.get(name, ""))) for name in ("yes", "no"))
        return [SheetChoice("yes", yes or "Yes", "y"), SheetChoice("no", no or "No", "n")]

    def choose(self, name: str) -> None:
        self.dismiss(Answer("allow" if name == "yes" else "deny"))


class UndoChoice(RequestDialog):
    """Asks which version to keep of lines that both the user and the undone prompt changed. Closing keeps the file."""

    body_varies = True
    declined = Answer("deny")

    def keys(self) -> Keys:
        return [("↑↓", "choose"), ("Enter", "confirm"), ("Esc", "leave the file")]

    @property
    def size_of_body(self) -> int:
        return PAINTED * sum(len(str(clash)) for clash in self.event.display.get("clashes", ()))

    def body(self, width: int) -> list[BlockLine]:
        display, palette = self.event.display, self.palette
        lines = [] if self.compact else paragraph(str(display.get("text", "")), width, palette.text)
        for clash in display.get("clashes", ()):
            where = f"Line {clash['line']}, " if clash.get("line") else ""
            lines += [BLANK] if lines else []
            lines += self._version_lines(
                f"{where}{display['now_label']}", str(clash["now"]), "- ", palette.error, width
            )
            lines += self._version_lines(str(display["other_label"]), str(clash["other"]), "+ ", palette.success, width)
        return lines

    def _version_lines(self, label: str, text: str, mark: str, style: Style, width: int) -> list[BlockLine]:
        label = plain_line(label)
        lines = paragraph(f"{label[:1].upper()}{label[1:]}:", width, self.palette.muted)
        if not text:
            return lines + paragraph("  (none)", width, self.palette.muted)
        for row in plain_text(text).removesuffix("\n").split("\n"):
            lines += paragraph(row, width, self.palette.code, mark=[(mark, style)])
        return lines

    def choices(self) -> Sequence[SheetChoice]:
        replaces = bool(self.event.display.get("exists"))
        replace = "Replace my lines with the other version" if replaces else "Remove the file"
        return [
            SheetChoice("keep", "Keep my lines", "k"),
            SheetChoice("replace", replace, "r", short="Replace my lines" if replaces else ""),
            SheetChoice("leave", "Leave the whole file as it is", "l", short="Leave the file"),
        ]

    def choose(self, name: str) -> None:
        if name == "leave":
            self.dismiss(Answer("deny"))
        else:
            self.dismiss(Answer("allow", updated_input={"choice": name}))
