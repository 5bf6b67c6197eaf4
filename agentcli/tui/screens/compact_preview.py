"""Preview of a compaction before it is applied: what is kept and dropped, the editable summary, tokens and prices. Esc
keeps the conversation unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentcli.core.events import CompactionProposed
from agentcli.core.permission import Answer
from agentcli.core.text.format import money, token_count
from agentcli.core.text.plaintext import plain_line
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.editable import EDITING_KEYS, EditableDialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import field_lines, markdown_lines

_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_EDGE = re.compile(r"(?<![\w\\])_+(?=\w)|(?<=[^\W_])_+(?!\w)")
_MOST_LINES = 12
"""Maximum number of kept and of dropped items that are listed, one per line; files may be many."""


class CompactPreview(EditableDialog):
    """Answers `allow`, with the summary if it was edited, or `deny`."""

    declined = Answer("deny")

    def __init__(self, event: CompactionProposed) -> None:
        super().__init__(event.summary)
        self.event = event

    @property
    def question(self) -> str:
        return "Edit the summary" if self.editing else "Replace the conversation with this summary?"

    def asides(self) -> Sequence[str]:
        if self.editing:
            return ()
        change = f"{token_count(self.event.tokens_before)} → {token_count(self.event.tokens_after)} tokens"
        return (f"{change}, edited by you", "edited by you", "edited") if self.edited else (change,)

    def keys(self) -> Keys:
        if self.editing:
            return EDITING_KEYS
        scroll = ("PgUp PgDn", "scroll")
        return [("Ctrl+G", "own editor"), scroll, ("e", "edit"), ("Enter", "accept"), ("n or Esc", "cancel")]

    def body(self, width: int) -> list[BlockLine]:
        palette, event = self.palette, self.event
        fields = [("Tokens", self._tokens()), ("Price", self._prices())]
        for label, listed in (("Stays", event.kept), ("Goes", event.dropped), ("New", event.added)):
            if label == "New" and not listed:
                continue
            fields += [(label if not number else "", line) for number, line in enumerate(_capped(listed))]
        lines = [line for label, text in fields for line in field_lines(f"{label:<6}", text, width, palette)]
        lines += wrap([("", palette.text)], width)
        if not self.text.strip():
            return [*lines, *wrap([("The summary is empty.", palette.warning)], width)]
        return [*lines, *markdown_lines(_literal_underscores(self.text), width, palette)]

    def choices(self) -> Sequence[SheetChoice]:
        empty = "" if self.text.strip() else "the summary is empty"
        found = [
            SheetChoice("accept", "Yes, continue with the summary", "y", "Yes", refused=empty),
            SheetChoice("edit", "Edit the summary", "e"),
            SheetChoice("cancel", "No, keep the conversation as it is", "n", "No"),
        ]
        return [*found, SheetChoice("original", "Discard your edits", "u")] if self.edited else found

    def choose(self, name: str) -> None:
        match name:
            case "accept":
                changed = {"summary": self.text} if self.edited else None
                self.dismiss(Answer("allow", updated_input=changed))
            case "edit":
                self.edit()
            case "cancel":
                self.leave()
            case "original":
                self.take_back_edits()

    def changed(self) -> None:
        self.index = 0 if self.text.strip() else 1

    def _tokens(self) -> str:
        event = self.event
        freed = event.tokens_before - event.tokens_after
        change = f"{freed:,} fewer" if freed >= 0 else f"{-freed:,} more"
        about = " (before your edits)" if self.edited else ""
        return f"about {event.tokens_before:,} become {event.tokens_after:,}, {change}{about}"

    def _prices(self) -> str:
        event = self.event
        if event.cost_usd is None:
            made = "the price of the summary is unknown"
        else:
            made = f"the summary has cost {money(event.cost_usd)}"
        if event.turn_usd_before is None or event.turn_usd_after is None:
            return made
        return f"{money(event.turn_usd_before)} a turn becomes {money(event.turn_usd_after)}; {made}"


def _literal_underscores(text: str) -> str:
    """Escape underscores at the edges of words outside code: in a summary, `__init__` is a name, not emphasis."""
    lines, fenced = text.split("\n"), False
    for place, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", "\t")):
            parts = line.split("`")
            parts[::2] = [_EDGE.sub(lambda found: "\\_" * len(found[0]), part) for part in parts[::2]]
            lines[place] = "`".join(parts)
    return "\n".join(lines)


def _capped(lines: Sequence[str]) -> list[str]:
    shown = [plain_line(line, 300) for line in lines[:_MOST_LINES]] or ["nothing"]
    return [*shown, f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else shown
