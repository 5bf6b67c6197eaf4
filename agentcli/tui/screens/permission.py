"""The dialog that asks whether a call may run. Shows all that would happen, and what "always" would save and where."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from agentcli.core.events import PermissionRequested
from agentcli.core.permission import Answer, PermissionMode
from agentcli.core.shell import shown_command
from agentcli.interactive.wording import question_of
from agentcli.tui.blocks.base import Line
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.hunks import REVIEWABLE
from agentcli.tui.screens.choices import Choice
from agentcli.tui.screens.panel import LONG, PAINTED, Panel
from agentcli.tui.screens.subject import BLANK, paragraph, subject_lines
from agentcli.tui.theme.palette import Palette

Place = Literal["session", "local", "user"]
_PLACES: tuple[tuple[Place, str, str], ...] = (
    ("session", "this session", "until this session ends"),
    ("local", "this project", "in .agentcli/settings.local.json of this project, for you alone"),
    ("user", "all projects", "in your own settings, for every project"),
)
_SHORT_RULE = 60
"""Characters up to which a rule stands in the choice and not in the body."""
_LONG_PART = 60
"""Characters of a part of a command that are said again with what was found about it."""
_BECAUSE = re.compile(r": (?:asks|allowed) because ")
_SAYS_NOTHING = re.compile(r"(?:writing .*|fetching .*|this tool) needs your approval", re.DOTALL)
_EDITS = (*REVIEWABLE, "NotebookEdit")


class PermissionDialog(Panel[Answer | None]):
    BODY_VARIES = True

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
        self._rules_at: tuple[int, int] | None = None
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
        place = " · Tab where to save" if self.event.suggestions else ""
        return f"Enter confirms · Esc stops the work{place} · ↑↓ choose"

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
        lines = [*self._subject[width]]
        reasons = self._reasons(width)
        lines += [BLANK, *reasons] if reasons else []
        self._rules_at = None
        if self.event.suggestions and not self._rule_in_choice:
            first = len(lines) + 1
            where = _PLACES[self._place][2]
            lines += [BLANK, *wrap([(f"“Always” would save, {where}:", palette.muted)], width)]
            for rule in self.event.suggestions:
                lines += paragraph(rule, width, palette.code, mark=[("  + ", palette.success)])
            self._rules_at = (first, len(lines) - 1)
        return lines

    def _reasons(self, width: int) -> list[Line]:
        """Each of them once: what is said about a part of a command is not said about the whole, too."""
        palette, event = self.palette, self.event
        reason = event.reason.removeprefix("asked because ")
        told = any(reason.startswith(_clause(detail)) for detail in event.details)
        because = "Asked because " if reason.startswith("of ") else "Asked because: "
        if len(event.details) == 1 and told:
            return paragraph(reason, width, palette.text, mark=[(because, palette.muted)])
        if told:
            lines = wrap([("Asked because:", palette.muted)], width)
        elif _SAYS_NOTHING.fullmatch(reason):
            lines = []
        else:
            lines = paragraph(reason, width, palette.text, mark=[(because, palette.muted)])
        for detail in event.details:
            lines += paragraph(_shortened(detail), width, palette.muted, mark=[("  · ", palette.faint)])
        return lines

    @property
    def _rule_in_choice(self) -> bool:
        rules = self.event.suggestions
        # A body that is laid out in a thread does not know how much room the choices will have.
        return len(rules) == 1 and len(rules[0]) <= _SHORT_RULE and not self.compact and self.size_of_body <= LONG

    def choices(self) -> Sequence[Choice]:
        if self.event.display.get("kind") == "loop":
            return _GOING_ON
        rules = self.event.suggestions
        _, place, where = _PLACES[self._place]
        if not rules:
            always = Choice("always", "Always", "a", refused="no rule can cover this; it is asked each time")
        elif self._rule_in_choice:
            label, detail = f"Always allow {shown_command(rules[0])}", f"saved {where}" if self._place else ""
            always = Choice("always", label, "a", "Always allow", detail, turn=place)
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
        if name == "always" and self._rules_at is not None:
            self.scrolled.reveal(*self._rules_at)

    def entered(self, text: str) -> None:
        self.dismiss(Answer("deny", message=text.strip()))

    def left(self, text: str) -> None:
        self._reason = text

    def _review(self) -> None:
        from agentcli.tui.screens.hunks import HunkReview

        sheet = self.query_one("#sheet")

        def reviewed(answer: Answer | None) -> None:
            sheet.display = True
            if answer is not None:
                self.dismiss(answer)

        # Two questions one above the other would be read as two.
        sheet.display = False
        self.app.push_screen(HunkReview(self.event, self.palette, cwd=self._cwd), reviewed)


_GOING_ON = (
    Choice("once", "Yes, let it go on", "y", "Yes"),
    Choice("deny", "No, end this task here", "n", "No"),
    Choice("why", "No, and say what to do instead", "w", "No, and say why"),
)
"""Whether a model that repeats itself may go on: no rule is about that, and nothing is allowed by it."""


def _clause(detail: str) -> str:
    """Why, of what was found about a part of a command."""
    found = _BECAUSE.search(detail)
    return detail[found.end() :] if found else detail


def _shortened(detail: str) -> str:
    """Without most of the part that it is about, which stands above in full. What is said about it stays whole, also
    when a part only looks as if it said something about itself."""
    found = _BECAUSE.search(detail)
    part, rest = (detail[: found.start()], detail[found.start() :]) if found else ("", detail)
    first = part.split("\n", 1)[0]
    if first != part or len(first) > _LONG_PART:
        part = first[:_LONG_PART].rstrip() + " …"
    head, *more = rest.split("\n")
    return f"{part}{head}" + (f" … {more[-1]}" if more else "")
