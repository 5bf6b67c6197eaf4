"""All permission rules by scope, with search, add, edit and remove, and the last decision of each in this session.

The page changes nothing itself: it closes with arguments for the `/permissions` command.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from agentcli.agent.live_permissions import BEHAVIORS, EDITABLE, RuleEntry
from agentcli.commands.permissions import SCOPES, describe_use
from agentcli.core.errors import UsageError
from agentcli.core.permission import Behavior, SaveTo
from agentcli.permissions.rules import check_rule, describe_cover, risk_of
from agentcli.tui.blocks.rows import Runs
from agentcli.tui.screens.picker import Action, ListSheet
from agentcli.tui.screens.row_list import Row, entries_of, find
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.text import safe, wrap_rows

_TITLES: Mapping[str, str] = {
    "session": "This session",
    "local": "This project, for you only",
    "project": "This project",
    "user": "All your projects",
    "flags": "Command line",
    "managed": "Managed",
    "agentcli": "Built in",
}
_SIGNS: Mapping[str, str] = {"allow": "✓", "ask": "?", "deny": "✗"}
_VERBS: Mapping[Behavior, str] = {"allow": "Allow", "ask": "Ask before", "deny": "Deny"}


class PermissionsPage(ListSheet[RuleEntry, str]):
    """Closes with arguments for `/permissions`."""

    letters = True
    share = 0.9
    empty = "There are no rules yet. a adds one."

    def __init__(self, entries: Sequence[RuleEntry], mode: str) -> None:
        self._removing: RuleEntry | None = None
        super().__init__(f"Permission rules · mode {mode}", rule_rows(entries))

    def about(self, row: Row[RuleEntry] | None, width: int) -> list[Runs]:
        if row is None:
            return []
        entry = row.value
        covers = f"{_VERBS[entry.behavior]}: {describe_cover([entry.text])}"
        return [
            *wrap_rows([(safe(covers), self.palette.text)], width, 2),
            *wrap_rows([(safe(f"{entry.source} · {describe_use(entry)}"), self.palette.muted)], width, 2),
        ]

    def follow_cursor(self, row: Row[RuleEntry] | None) -> None:
        self._removing = None

    def choose(self, row: Row[RuleEntry]) -> None:
        entry = row.value
        if not entry.editable:
            self.say(f"It comes from {safe(entry.source)}: change it there.")
        else:
            self.open(RuleEditor(entry), self.dismiss)

    def actions(self) -> Sequence[Action]:
        add: Action = ("a", "add", lambda: self.open(RuleEditor(None), self.dismiss))
        if self.row is None:
            return [add]
        entry = self.row.value
        return [add, ("d", "remove" if entry.editable else "", lambda: self._remove(entry))]

    def enter_word(self) -> str:
        return "edit" if self.row is not None and self.row.value.editable else ""

    def _remove(self, entry: RuleEntry) -> None:
        if not entry.editable:
            self.say(f"It comes from {safe(entry.source)}: remove it there.")
        elif self._removing is entry:
            self.dismiss(f"remove {entry.behavior} {shlex.quote(entry.text)} --scope {entry.scope}")
        else:
            self.say(f"Press d again to remove {safe(entry.text)}.")
            self._removing = entry


class RuleEditor(ListSheet[Behavior, str]):
    """Editor for one rule and its effect; Tab changes the scope. Closes with arguments for `/permissions`."""

    verb = "save"
    max_query = 4000
    placeholder = "type a rule, for example Bash(npm test *)"
    empty = "Type a rule: Tool or Tool(what), for example Bash(npm test *), Read(.env), WebFetch(domain:example.org)"

    def __init__(self, entry: RuleEntry | None) -> None:
        self._entry = entry
        self._scope: SaveTo = "session"
        self._confirming = ""
        super().__init__("Edit this rule" if entry is not None else "New rule", [])

    def on_mount(self) -> None:
        # Textual calls the `on_mount` of the base classes after this one.
        if self._entry is not None:
            self.call_after_refresh(self._fill, self._entry.text)

    def _fill(self, text: str) -> None:
        if self.is_open:
            self.entry.line.insert(text)
            self._filter()
            self.settle()

    def _filter(self, keep: Behavior | None = None) -> None:
        """Instead of searching, list what can be done with the typed rule."""
        self._entries = entries_of(self._rows(self.query_text))
        self.listing.measure(self._entries, self.label_cells)
        self._confirming = ""
        self._show(find(self._entries, ""), 0, grouped=True)
        self.settle()

    def _rows(self, text: str) -> list[Row[Behavior]]:
        if not text.strip():
            return []
        behaviors = [self._entry.behavior] if self._entry is not None else list(reversed(BEHAVIORS))
        try:
            rule = check_rule(text)
        except UsageError as error:
            return [Row(behavior, text, disabled=str(error)) for behavior in behaviors[:1]]
        covers = describe_cover([rule.text])
        return [Row(behavior, f"{_VERBS[behavior]} {rule.text}", f"covers {covers}") for behavior in behaviors]

    def about(self, row: Row[Behavior] | None, width: int) -> list[Runs]:
        palette = self.palette
        scope = self._entry.scope if self._entry is not None else self._scope
        turn = "  (Tab to change)" if self._entry is None else ""
        lines = wrap_rows([(f"Saved for: {_TITLES[scope]}{turn}", palette.muted)], width, 2)
        if row is not None and (risk := self._risk(row)):
            lines += wrap_rows([(f"! {safe(risk)}", palette.warning)], width, 2)
        return lines

    def _risk(self, row: Row[Behavior]) -> str:
        return risk_of(check_rule(self.query_text)) if row.value == "allow" and not row.disabled else ""

    def press(self, key: str, character: str | None) -> bool:
        if key not in ("tab", "shift+tab"):
            return super().press(key, character)
        if self._entry is None:
            step = 1 if key == "tab" else -1
            self._scope = EDITABLE[(EDITABLE.index(self._scope) + step) % len(EDITABLE)]
            self.settle()
        return True

    def choose(self, row: Row[Behavior]) -> None:
        text = check_rule(self.query_text).text
        risk = self._risk(row)
        if risk and self._confirming != text:
            self.say(f"{safe(risk)} Press Enter again to save it.")
            self._confirming = text
            return
        yes = " --yes" if risk else ""
        if self._entry is None:
            self.dismiss(f"add {row.value} {shlex.quote(text)} --scope {self._scope}{yes}")
        elif text == self._entry.text:
            self.dismiss(None)
        else:
            old, scope = shlex.quote(self._entry.text), self._entry.scope
            self.dismiss(f"edit {row.value} {old} {shlex.quote(text)} --scope {scope}{yes}")

    def keys(self) -> Keys:
        tab = [("Tab", "where")] if self._entry is None else []
        return [("↑↓", "move"), *tab, ("Enter", self.verb), ("Esc", "back")]


def rule_rows(entries: Sequence[RuleEntry]) -> list[Row[RuleEntry]]:
    rows = []
    for entry in sorted(entries, key=lambda each: SCOPES.index(each.scope)):
        shows_use = entry.last is not None or entry.inactive
        detail = f"{entry.behavior:<5}  {describe_use(entry) if shows_use else ''}".rstrip()
        rows.append(Row(entry, entry.text, detail, _SIGNS[entry.behavior], _TITLES[entry.scope]))
    return rows
