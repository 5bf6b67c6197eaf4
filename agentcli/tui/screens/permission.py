"""Dialog that asks whether a tool call may run. Shows the whole call, and the rule that "always" would save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from agentcli.core.errors import UsageError
from agentcli.core.events import PermissionRequested
from agentcli.core.permission import Answer, PartFinding, PermissionMode
from agentcli.core.processes.shell import shown_command
from agentcli.core.text.plural import counted
from agentcli.interactive.rule_choices import AlwaysChoice, edited, rule_choices
from agentcli.interactive.wording import approval_findings, approval_reason, question_of
from agentcli.permissions.rules.rule import shown_rule
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.screens.change_hunks import REVIEWABLE, has_several
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.dialog import LONG, PAINTED, RequestDialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import BLANK, paragraph, subject_lines
from agentcli.tui.theme.palette import Palette

Place = Literal["session", "local", "user"]
_PLACES: tuple[tuple[Place, str, str], ...] = (
    ("session", "this session", "until agentcli is closed"),
    ("local", "this project", "in .agentcli/settings.local.json of this project, for you only"),
    ("user", "all projects", "in your own settings, for every project"),
)
_SHORT_RULE = 60
"""Maximum length of a rule shown in the choice; a longer one is shown in the body."""
_LONG_PART = 60
"""Characters of a command part that are repeated with the finding about it."""
_EDITS = (*REVIEWABLE, "NotebookEdit")
_Entry = Literal["why", "tell", "rule", "confirm"]


class PermissionDialog(RequestDialog):
    body_varies = True
    folds = True

    def __init__(self, event: PermissionRequested, waiting: int = 0, cwd: Path | None = None) -> None:
        super().__init__(event)
        self._waiting = waiting
        self._cwd = cwd
        self._place = 0
        self._words: dict[_Entry, str] = {}
        """Unsent text of the entry lines."""
        self._offered = rule_choices(event)
        self._rule_number = 0
        self._entry: _Entry = "why"
        self._typed_rules: list[str] = []
        """Rules already entered while several are being edited."""
        self._subject: dict[int, list[BlockLine]] = {}
        # If the diff was truncated, its remaining hunks are unknown.
        has_hunks = event.display.get("truncated") or has_several(str(event.display.get("diff", "")))
        self._is_reviewable = event.name in REVIEWABLE and bool(has_hunks)

    @property
    def question(self) -> str:
        return question_of(self.event)

    def asides(self) -> Sequence[str]:
        agent, count = self.event.agent, self._waiting
        more = f"{counted(count, 'more question')} after this"
        if not agent:
            return (more, f"+{count}") if count else ()
        whose = f"asked by {agent}"
        return (f"{whose} · {more}", f"{agent} · +{count}", agent) if count else (whose, agent)

    def keys(self) -> Keys:
        if not self._offered:
            return [("↑↓", "choose"), ("Enter", "confirm"), ("Esc", "stop the work")]
        which = [("←→", "rule")] if len(self._offered) > 1 else []
        rules = [("r", "edit rule"), ("Tab", "where to save"), *which]
        return [("↑↓", "choose"), *rules, ("Enter", "confirm"), ("Esc", "stop")]

    @property
    def gated(self) -> bool:
        return self.event.display.get("kind") != "loop"

    @property
    def content_key(self) -> object:
        return self._rules

    @property
    def _always(self) -> AlwaysChoice | None:
        return self._offered[self._rule_number] if self._offered else None

    @property
    def _rules(self) -> tuple[str, ...]:
        return self._always.rules if self._always is not None else ()

    @property
    def size_of_body(self) -> int:
        display, whole = self.event.display, sum(len(str(value)) for value in self.event.input.values())
        if display.get("kind") == "diff":
            return PAINTED * len(str(display.get("diff", ""))) + (whole if display.get("truncated") else 0)
        return whole * (PAINTED if display.get("kind") in ("markdown", "plan") else 1)

    def set_palette(self, palette: Palette) -> None:
        # In this order, because a thread may be laying out the body.
        self.palette, self._subject = palette, {}
        super().set_palette(palette)

    def body(self, width: int) -> list[BlockLine]:
        subject = self._subject
        if width not in subject:
            subject[width] = subject_lines(self.event, width, self.palette)
        lines = [*subject[width]]
        reasons = self._reasons(width)
        lines += [BLANK, *reasons] if reasons else []
        if self._always is not None and not self._rule_in_choice:
            lines += [BLANK, *self._rule_lines(self._always, width)]
        return lines

    def _reveal_rules(self) -> None:
        """Scroll to the rules at the end of the body."""
        if self._always is not None and not self._rule_in_choice:
            last = self.scroller.row_count - 1
            first = last + 1 - len(self._rule_lines(self._always, self.body_width))
            # With few rows the rules are more important than the line that introduces them.
            self.scroller.reveal(max(0, first + (last - first >= self.scroller.shown)), last)

    @property
    def _places(self) -> list[tuple[Place, str, str]]:
        everywhere = all(choice.fits_project for choice in self._offered)
        return [place for place in _PLACES if everywhere or place[0] != "local"]

    def _rule_lines(self, always: AlwaysChoice, width: int) -> list[BlockLine]:
        palette = self.palette
        _, place, where = self._places[self._place]
        what = f"“Always” would save ({place}):" if self.compact else f"“Always” would save, {where}:"
        lines = wrap([(what, palette.muted)], width)
        for rule in always.rules:
            lines += paragraph(shown_rule(rule), width, palette.code, mark=[("  + ", palette.success)])
        lines += paragraph(always.covers, width, palette.text, mark=[("    covers ", palette.muted)])
        if always.note:
            lines += paragraph(always.note, width, palette.muted, indent="    ")
        if always.risk:
            lines += paragraph(always.risk, width, palette.warning, mark=[("  ! ", palette.warning)])
        return lines

    def _reasons(self, width: int) -> list[BlockLine]:
        palette, reason, findings = self.palette, approval_reason(self.event), approval_findings(self.event)
        lines = paragraph(reason, width, palette.text) if reason else []
        if findings and not reason:
            lines = wrap([("Parts of the command:", palette.muted)], width)
        for finding in findings:
            lines += paragraph(_shortened(finding), width, palette.muted, mark=[("  · ", palette.faint)])
        return lines

    @property
    def _rule_in_choice(self) -> bool:
        always = self._always
        if always is None or len(always.rules) != 1 or always.risk or (always.edited and always.note):
            return False
        # A body that is laid out in a thread does not know how much room the choices will get.
        return len(always.rules[0]) <= _SHORT_RULE and not self.compact and self.size_of_body <= LONG

    def choices(self) -> Sequence[SheetChoice]:
        if self.event.display.get("kind") == "loop":
            return _LOOP_CHOICES
        locked = self.locked
        tell = SheetChoice("tell", "Allow once and say what to do next", "t", "Allow and say more", locked=locked)
        alone = "" if self._always is not None else "no rule can cover this call; you are asked each time"
        # 1 and 2 always allow, 3 and 4 always deny: a digit must not allow one call and deny the next.
        found = [
            SheetChoice("once", "Allow once", "y", detail=alone, locked=locked),
            tell if self._always is None else self._always_choice(self._always),
            SheetChoice("deny", "Deny", "n"),
            SheetChoice("why", "Deny and say what to do instead", "w", "Deny and say why"),
        ]
        if self._always is not None:
            found.append(tell)
        if self.event.name in _EDITS and self.event.self_evident:  # another reason applies in that mode too
            label = "Allow all edits from now on (switches to accept edits mode)"
            found.append(SheetChoice("edits", label, "e", "Allow all edits", locked=locked))
        if self._is_reviewable:
            found.append(SheetChoice("hunks", "Review hunk by hunk", "h"))
        return found

    def _always_choice(self, always: AlwaysChoice) -> SheetChoice:
        _, place, where = self._places[self._place]
        count = len(self._offered)
        which = f"{self._rule_number + 1} of {count}" if count > 1 else ""
        if self._rule_in_choice:
            label = f"Always allow {shown_command(shown_rule(always.rules[0]))}"
            detail = f"covers {shown_command(always.covers)}{'; saved' if self._place else ','} {where}"
            detail = f"{detail}. {always.note}" if always.note else detail
        else:
            label = (
                f"Always allow these {len(always.rules)} rules" if len(always.rules) > 1 else "Always allow this rule"
            )
            detail = ""
        return SheetChoice(
            "always", label, "a", "Always allow", detail, turn=place, turn_more=which, locked=self.locked
        )

    def choose(self, name: str) -> None:
        match name:
            case "once":
                self.dismiss(Answer("allow"))
            case "always":
                self._save()
            case "edits":
                self.dismiss(Answer("allow", mode=PermissionMode.ACCEPT_EDITS))
            case "hunks":
                self._review()
            case "deny":
                self.dismiss(Answer("deny"))
            case "why":
                self._ask_words("why", "What should the agent do instead?", "empty: deny without a reason")
            case "tell":
                self._ask_words("tell", "What should the agent do next?", "empty: only allow")

    def _ask_words(self, entry: _Entry, what: str, placeholder: str) -> None:
        self._entry = entry
        self.ask(what, self._words.get(entry, ""), placeholder)

    def show_waiting(self, count: int) -> None:
        self._waiting = count
        self.update()

    def turned(self, name: str, step: int) -> None:
        self._place = (self._place + step) % len(self._places)
        self.update()

    def turned_more(self, name: str, step: int) -> None:
        self._show_choice((self._rule_number + step) % len(self._offered))

    def highlighted(self, name: str) -> None:
        if name == "always":
            self._reveal_rules()

    def pressed(self, key: str, character: str | None) -> bool:
        if character != "r" or self.asking or self._always is None:
            return False
        self._typed_rules = []
        self._ask_rule()
        return True

    def entered(self, text: str) -> None:
        match self._entry:
            case "why":
                self.dismiss(Answer("deny", message=text.strip()))
            case "tell":
                self.dismiss(Answer("allow", message=text.strip()))
            case "rule":
                self._rule_entered(text)
            case "confirm" if text.strip().lower() == "yes":
                self._save(confirmed=True)
            case "confirm":
                self.stop_asking()

    def left(self, text: str) -> None:
        if self._entry in ("why", "tell"):
            self._words[self._entry] = text

    def _show_choice(self, number: int) -> None:
        """Switch to another rule choice and scroll to its rules. The call does not have to be read again."""
        was_read = not self.locked
        self._rule_number = number
        self.update()
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
                edited(always, [text], offered)
            self._typed_rules.append(text)
            if len(self._typed_rules) < len(self._rules):
                self._ask_rule()
                return
            made = edited(always, self._typed_rules, offered)
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
        self.dismiss(Answer("allow", rules=always.rules, save_to=self._places[self._place][0]))

    def _review(self) -> None:
        from agentcli.tui.screens.hunks import HunkReview

        sheet = self.query_one("#sheet")

        def reviewed(answer: Answer | None) -> None:
            sheet.display = True
            if answer is not None:
                self.dismiss(answer)

        # Two dialogs on top of each other would look like two questions.
        sheet.display = False
        self.open(HunkReview(self.event, cwd=self._cwd), reviewed)


_LOOP_CHOICES = (
    SheetChoice("once", "Yes, continue", "y", "Yes"),
    SheetChoice("deny", "No, stop this task", "n", "No"),
    SheetChoice("why", "No, and say what to do instead", "w", "No, and say why"),
)
"""Choices when a model repeats itself. No rule covers this, and "yes" grants no permission."""


def _shortened(finding: PartFinding) -> str:
    """The finding with its command part shortened; the part is shown above in full."""
    part, *more = finding.part.split("\n")
    if more or len(part) > _LONG_PART:
        finding = replace(finding, part=f"{part[:_LONG_PART].rstrip()} …")
    first, *rest = finding.line.split("\n")
    return f"{first} … {rest[-1]}" if rest else first
