"""Dialog that asks whether a folder's own settings may take effect. Shows all of them; does not save the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from agentcli.config.trust import UNREADABLE, TrustedContent, TrustState
from agentcli.config.trust_effects import effects_of
from agentcli.core.processes.shell import shown_name
from agentcli.core.text.plural import counted
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.dialog import Dialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import BLANK, code_lines, paragraph

Verdict = Literal["trust", "restricted", "exit"]


class TrustDialog(Dialog[Verdict | None]):
    # Preselected choice: Enter alone must not allow programs of an unknown repository to run.
    first = 1

    def __init__(self, state: TrustState) -> None:
        super().__init__()
        self.state = state

    @property
    def question(self) -> str:
        return "Changed settings: still trust it?" if self.state.known else "Trust this folder?"

    def keys(self) -> Keys:
        return [("↑↓ or a number", "choose"), ("Enter", "confirm"), ("Esc", "close")]

    @property
    def size_of_body(self) -> int:
        return sum(len(part.text) for part in self.state.parts)

    def body(self, width: int) -> list[BlockLine]:
        palette, state = self.palette, self.state
        lines = [*paragraph(shown_name(str(state.root)), width, palette.tool), BLANK]
        count = len(state.changed)
        files = counted(count, "file")
        said = f"{files} changed since you trusted it" if state.known else f"It brings {files}"
        risk = "Such files can make agentcli run programs, or let them run without asking."
        lines += wrap([(f"{said}. {risk}", palette.text)], width)
        for mark, (title, rows) in zip("$@=$", effects_of(state).titled(), strict=True):
            lines += [BLANK, *wrap([(title, palette.warning)], width)] if rows else []
            for text, name in rows:
                lines += paragraph(text, width, palette.code, mark=[(f"  {mark} ", palette.accent)])
                lines += paragraph(f"from {shown_name(name)}", width, palette.muted, "    ")
        for part in sorted(state.parts, key=lambda part: part.name not in state.changed):
            lines += [BLANK, *self._part(part, width)]
        return lines

    def choices(self) -> Sequence[SheetChoice]:
        refused = "a file cannot be shown" if self.state.unshowable else ""
        return [
            SheetChoice("trust", "Trust it: all of this takes effect", "t", "Trust this folder", refused=refused),
            SheetChoice(
                "restricted", "Continue without it: only its deny and ask rules apply", "r", "Continue without it"
            ),
            SheetChoice("exit", "Exit", "x"),
        ]

    def choose(self, name: str) -> None:
        self.dismiss(cast("Verdict", name))

    def _part(self, part: TrustedContent, width: int) -> list[BlockLine]:
        palette = self.palette
        if part.name not in self.state.changed:
            what = "known, unchanged"
        else:
            what = "new or changed" if self.state.known else "new"
        lines = wrap([(shown_name(part.name), palette.tool), (f"  ({what})", palette.muted)], width)
        if part.digest == UNREADABLE:
            text = (
                "It cannot be shown: not a regular file inside the folder, or too large. The folder cannot be trusted "
                "until it is removed."
            )
            return [*lines, *paragraph(text, width, palette.warning, mark=[("! ", palette.warning)])]
        return [*lines, *code_lines(part.text.replace("\r\n", "\n"), width, palette)]


class TrustReview(TrustDialog):
    """The same question during a session, which continues in either case."""

    def choices(self) -> Sequence[SheetChoice]:
        trust, restricted, _exit = super().choices()
        return [trust, restricted]
