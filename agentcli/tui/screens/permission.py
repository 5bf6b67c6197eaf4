"""The dialog that asks whether a call may run. Shows all that would happen, and what "always" would save and where."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from agentcli.core.events import PermissionRequested
from agentcli.core.permission import Answer, PermissionMode
from agentcli.core.shell import shown_command
from agentcli.tui.blocks.base import Line
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.hunks import REVIEWABLE
from agentcli.tui.palette import Palette
from agentcli.tui.screens.choices import Choice
from agentcli.tui.screens.panel import PAINTED, Panel
from agentcli.tui.screens.subject import BLANK, paragraph, question_of, subject_lines

Place = Literal["session", "local", "user"]
_PLACES: tuple[tuple[Place, str, str], ...] = (
    ("session", "this session", "until this session ends"),
    ("local", "this project", "in .agentcli/settings.local.json of this project, for you alone"),
    ("user", "all projects", "in your own settings, for every project"),
)
_SHORT_RULE = 60
"""Characters up to which a rule is in the choice, too; in the body it is in any case."""
_EDITS = (*REVIEWABLE, "NotebookEdit")


class PermissionDialog(Panel[Answer | None]):
    def __init__(
        self,
        event: PermissionRequested,
        palette: Palette,
        waiting: int = 0,
        *,
        cwd: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        typed: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(palette, clock=clock, typed=typed)
        self.event = event
        self._waiting = waiting
        self._cwd = cwd
        self._place = 0
        self._reason = ""
        self._rules_at = (0, 0)
        self._subject: dict[int, list[Line]] = {}

    @property
    def question(self) -> str:
        return question_of(self.event)

    @property
    def asides(self) -> tuple[str, ...]:
        whose = f"asked by {self.event.agent}" if self.event.agent else ""
        if not self._waiting:
            return (whose,)
        more = f"{self._waiting} more question{'s' if self._waiting != 1 else ''} after this"
        return (f"{whose} · {more}" if whose else more, more, f"+{self._waiting}")

    @property
    def hints(self) -> str:
        place = " · Tab changes where it is saved" if self.event.suggestions else ""
        return f"Enter confirms · Esc stops the work · ↑↓ or a number choose{place}"

    @property
    def size_of_body(self) -> int:
        display, whole = self.event.display, sum(len(str(value)) for value in self.event.input.values())
        if display.get("kind") == "diff":
            return PAINTED * len(str(display.get("diff", ""))) + (whole if display.get("truncated") else 0)
        return whole * (PAINTED if display.get("kind") in ("markdown", "plan") else 1)

    def body(self, width: int) -> list[Line]:
        palette = self.palette
        if width not in self._subject:
            self._subject[width] = subject_lines(self.event, width, palette)
        lines = [*self._subject[width], BLANK]
        lines += paragraph(self.event.reason, width, palette.text, mark=[("Asked because: ", palette.muted)])
        for detail in self.event.details:
            lines += paragraph(detail, width, palette.muted, mark=[("  · ", palette.faint)])
        first = len(lines) + 1
        if self.event.suggestions:
            where = _PLACES[self._place][2]
            lines += [BLANK, *wrap([(f"“Always” would save, {where}:", palette.muted)], width)]
            for rule in self.event.suggestions:
                lines += paragraph(rule, width, palette.code, mark=[("  + ", palette.success)])
        self._rules_at = (first, len(lines) - 1)
        return lines

    def choices(self) -> Sequence[Choice]:
        rules = self.event.suggestions
        place = _PLACES[self._place][1]
        if not rules:
            always = Choice("always", "Always", "a", refused="no rule can cover this; it is asked each time")
        elif len(rules) == 1 and len(rules[0]) <= _SHORT_RULE:
            always = Choice("always", f"Always allow {shown_command(rules[0])}", "a", "Always allow", turn=place)
        else:
            what = f"these {len(rules)} rules" if len(rules) > 1 else "this rule"
            always = Choice("always", f"Always allow {what}", "a", "Always allow", turn=place)
        edits = self.event.name in _EDITS
        found = [Choice("once", "Allow once", "y"), always]
        if edits:
            found.append(Choice("edits", "Allow all edits from now on", "e", "Allow all edits"))
        if self.event.name in REVIEWABLE:
            found.append(Choice("hunks", "Review hunk by hunk", "h"))
        found.append(Choice("deny", "Deny", "n"))
        found.append(Choice("why", "Deny and say what to do instead", "w", "Deny and say why"))
        return found

    def choose(self, name: str) -> None:
        place = _PLACES[self._place][0]
        match name:
            case "once":
                self.dismiss(Answer("allow"))
            case "always":
                self.dismiss(Answer("allow", rules=tuple(self.event.suggestions), save_to=place))
            case "edits":
                self.dismiss(Answer("allow", mode=PermissionMode.ACCEPT_EDITS))
            case "hunks":
                self._review()
            case "deny":
                self.dismiss(Answer("deny"))
            case "why":
                self.ask("What should the agent do instead?", self._reason, "empty: just no")

    def show_waiting(self, count: int) -> None:
        """So many more questions wait now."""
        self._waiting = count
        self.update()

    def turned(self, name: str, step: int) -> None:
        self._place = (self._place + step) % len(_PLACES)
        self.update()

    def highlighted(self, name: str) -> None:
        if name == "always":
            self.scrolled.reveal(*self._rules_at)

    def entered(self, text: str) -> None:
        self.dismiss(Answer("deny", message=text.strip()))

    def left(self, text: str) -> None:
        self._reason = text

    def _review(self) -> None:
        from agentcli.tui.screens.hunks import HunkReview

        def reviewed(answer: Answer | None) -> None:
            if answer is not None:
                self.dismiss(answer)

        self.app.push_screen(HunkReview(self.event, self.palette, cwd=self._cwd), reviewed)
