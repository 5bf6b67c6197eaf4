"""Dialog that asks whether a tool call may run. Shows the whole call, and the rule that "always" would save."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from agentcli.core.errors import UsageError
from agentcli.core.permission import Answer
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import show_command
from agentcli.interactive.questions.model import AnswerChoice
from agentcli.interactive.questions.permission import AlwaysChoice, PermissionQuestion, edit_rules
from agentcli.permissions.rules import show_rule
from agentcli.tui.blocks.base import BlockLine, wrap
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.hunks import REVIEWABLE, has_several
from agentcli.tui.screens.question import QuestionDialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import BLANK, paragraph

MAX_SHORT_RULE = 60
"""Maximum length of a rule shown in the choice; a longer one is shown in the body."""


class PermissionDialog(QuestionDialog):
    folds = True

    def __init__(self, asked: PermissionQuestion, waiting: int = 0, cwd: Path | None = None) -> None:
        super().__init__(asked)
        self._request = event = asked.event
        self._waiting = waiting
        self._cwd = cwd
        self._places = asked.places
        self._place = 0
        self._offered = asked.offered
        self._rule_number = 0
        self._entry: Literal["", "rule", "confirm"] = ""
        """Purpose of the entry line; "" if it is for the words of a choice."""
        self._typed_rules: list[str] = []
        """Rules already entered while several are being edited."""
        # If the diff was truncated, its remaining hunks are unknown.
        has_hunks = event.display.get("truncated") or has_several(str(event.display.get("diff", "")))
        self._is_reviewable = event.name in REVIEWABLE and bool(has_hunks)

    def asides(self) -> Sequence[str]:
        agent, count = self.asked.agent, self._waiting
        more = f"{counted(count, 'more question')} after this"
        if not agent:
            return (more, f"+{count}") if count else ()
        whose = f"asked by {agent}"
        return (f"{whose} · {more}", f"{agent} · +{count}", agent) if count else (whose, agent)

    def keys(self) -> Keys:
        if not self._offered:
            return super().keys()
        which = [("←→", "rule")] if len(self._offered) > 1 else []
        rules = [("r", "edit rule"), ("Tab", "where to save"), *which]
        return [("↑↓", "choose"), *rules, ("Enter", "confirm"), ("Esc", "stop")]

    @property
    def content_key(self) -> object:
        return self._rules

    @property
    def _always(self) -> AlwaysChoice | None:
        return self._offered[self._rule_number] if self._offered else None

    @property
    def _rules(self) -> tuple[str, ...]:
        return self._always.rules if self._always is not None else ()

    def body_lines(self) -> list[BlockLine]:
        """The call, which does not change, and the rules that "always" would save."""
        lines = super().body_lines()
        if self._always is not None and not self._rule_in_choice:
            return [*lines, BLANK, *self._rule_lines(self._always, self.body_width)]
        return lines

    def _reveal_rules(self) -> None:
        """Scroll to the rules at the end of the body."""
        if self._always is not None and not self._rule_in_choice:
            last = self.scroller.row_count - 1
            first = last + 1 - len(self._rule_lines(self._always, self.body_width))
            # With few rows the rules are more important than the line that introduces them.
            self.scroller.reveal(max(0, first + (last - first >= self.scroller.shown)), last)

    def _rule_lines(self, always: AlwaysChoice, width: int) -> list[BlockLine]:
        palette = self.palette
        place = self._places[self._place]
        what = f"“Always” would save ({place.label}):" if self.compact else f"“Always” would save, {place.where}:"
        lines = wrap([(what, palette.muted)], width)
        for rule in always.rules:
            lines += paragraph(show_rule(rule), width, palette.code, mark=[("  + ", palette.success)])
        lines += paragraph(always.covers, width, palette.text, mark=[("    covers ", palette.muted)])
        if always.note:
            lines += paragraph(always.note, width, palette.muted, indent="    ")
        if always.risk:
            lines += paragraph(always.risk, width, palette.warning, mark=[("  ! ", palette.warning)])
        return lines

    @property
    def _rule_in_choice(self) -> bool:
        always = self._always
        if always is None or len(always.rules) != 1 or always.risk or (always.edited and always.note):
            return False
        return len(always.rules[0]) <= MAX_SHORT_RULE and not self.compact

    def choices(self) -> Sequence[SheetChoice]:
        found = super().choices()
        return [*found, SheetChoice("hunks", "Review hunk by hunk", "h")] if self._is_reviewable else found

    def show_choice(self, choice: AnswerChoice) -> SheetChoice:
        if choice.name == "always" and self._always is not None:
            return self._always_choice(self._always)
        return super().show_choice(choice)

    def _always_choice(self, always: AlwaysChoice) -> SheetChoice:
        place = self._places[self._place]
        count = len(self._offered)
        which = f"{self._rule_number + 1} of {count}" if count > 1 else ""
        if self._rule_in_choice:
            label = f"Always allow {show_command(show_rule(always.rules[0]))}"
            detail = f"covers {show_command(always.covers)}{'; saved' if self._place else ','} {place.where}"
            detail = f"{detail}. {always.note}" if always.note else detail
        else:
            label = (
                f"Always allow these {len(always.rules)} rules" if len(always.rules) > 1 else "Always allow this rule"
            )
            detail = ""
        return SheetChoice(
            "always", label, "a", "Always allow", detail, turn=place.label, turn_more=which, locked=self.locked
        )

    def choose(self, name: str) -> None:
        self._entry = ""
        if name == "always":
            self._save()
        elif name == "hunks":
            self._review()
        else:
            super().choose(name)

    def show_waiting(self, count: int) -> None:
        self._waiting = count
        self.settle()

    def turn(self, step: int, *, by_arrow: bool) -> None:
        if by_arrow:
            self._show_choice((self._rule_number + step) % len(self._offered))
        else:
            self._place = (self._place + step) % len(self._places)
            self.settle()

    def follow_mark(self, name: str) -> None:
        if name == "always":
            self._reveal_rules()

    def press_own(self, key: str, character: str | None) -> bool:
        if character != "r" or self.asking or self._always is None:
            return False
        self._typed_rules = []
        self._ask_rule()
        return True

    def submit(self, text: str) -> None:
        if not self._entry:
            super().submit(text)
        elif self._entry == "rule":
            self._rule_entered(text)
        elif text.strip().lower() == "yes":
            self._save(confirmed=True)
        else:
            self.stop_asking()

    def _show_choice(self, number: int) -> None:
        """Switch to another rule choice and scroll to its rules. The call does not have to be read again."""
        was_read = not self.locked
        self._rule_number = number
        self.settle()
        if was_read:
            self._reveal_rules()

    def _ask_rule(self, problem: str = "", text: str | None = None) -> None:
        self._entry = "rule"
        place = len(self._typed_rules)
        count = f" {place + 1} of {len(self._rules)}" if len(self._rules) > 1 else ""
        what = f"Rule{count} to save, for example Bash(npm test *):"
        self.ask(f"{problem} {what}" if problem else what, self._rules[place] if text is None else text)

    def _rule_entered(self, text: str) -> None:
        always, offered = self._always, tuple(choice for choice in self._offered if not choice.edited)
        assert always is not None
        try:
            if text.strip():
                edit_rules(always, [text], offered)
            self._typed_rules.append(text)
            if len(self._typed_rules) < len(self._rules):
                self._ask_rule()
                return
            made = edit_rules(always, self._typed_rules, offered)
        except UsageError as error:
            self._typed_rules = self._typed_rules[: len(self._rules) - 1]
            self._ask_rule(str(error), text)
            return
        self.stop_asking()
        if made.rules == always.rules:
            return
        self._offered = (*offered, made)
        self.index = next(place for place, choice in enumerate(self.choices()) if choice.name == "always")
        self._show_choice(len(offered))

    def _save(self, *, confirmed: bool = False) -> None:
        always = self._always
        assert always is not None
        if always.risk and not confirmed:
            self._entry = "confirm"
            self.ask(f"{always.risk} Type yes to save it:", "", "anything else does not save it")
            return
        self.dismiss(always.answer(self._places[self._place]))

    def _review(self) -> None:
        from agentcli.tui.screens.hunks import HunkReview

        sheet = self.query_one("#sheet")

        def reviewed(answer: Answer | None) -> None:
            sheet.display = True
            if answer is not None:
                self.dismiss(answer)

        # Two dialogs on top of each other would look like two questions.
        sheet.display = False
        self.app.push_screen(HunkReview(self._request, cwd=self._cwd), reviewed)
