"""Rules that "always allow" can save: the choices of a permission question, and rules edited by the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentcli.core.errors import UsageError
from agentcli.core.events import PermissionRequested
from agentcli.core.frozen import frozen
from agentcli.permissions.command_grant import USER_ONLY
from agentcli.permissions.rules.rule import Rule, parse_rule
from agentcli.permissions.rules.text import checked, covered_by, risk_of


@frozen
class AlwaysChoice:
    """Rules that are saved together."""

    rules: tuple[str, ...]
    covers: str
    note: str = ""
    edited: bool = False

    @property
    def fits_project(self) -> bool:
        """Whether the rules may be saved in a file of the project."""
        return not any(parse_rule(rule).tool in USER_ONLY for rule in self.rules)

    @property
    def risk(self) -> str:
        """Why saving needs a confirmation; "" if it does not. Only for edited rules: offered ones are narrow."""
        return next((risk for rule in self.rules if self.edited and (risk := risk_of(parse_rule(rule)))), "")


def rule_choices(event: PermissionRequested) -> tuple[AlwaysChoice, ...]:
    """The rules that "always allow" offers, the most useful first; empty if no rule can cover the call."""
    found = []
    for choice in event.rule_choices:
        rules = tuple(map(str, choice.get("rules") or ()))
        if rules:
            covers = str(choice.get("covers") or "") or covered_by(rules)
            found.append(AlwaysChoice(rules, covers, str(choice.get("note") or "")))
    if not found and event.suggestions:
        found.append(AlwaysChoice(tuple(event.suggestions), covered_by(event.suggestions)))
    return tuple(found)


def edited(choice: AlwaysChoice, rules: Sequence[str], offered: Sequence[AlwaysChoice]) -> AlwaysChoice:
    """Replace the rules of one of the offered choices. Raises `UsageError`."""
    kept = tuple(dict.fromkeys(checked(rule).text for rule in rules if rule.strip()))
    if not kept:
        raise UsageError("At least one rule is needed.")
    made = replace(choice, rules=kept, covers=covered_by(kept), note="", edited=True)
    exact = next((parse_rule(one.rules[0]) for one in offered if len(one.rules) == 1 and "*" not in one.rules[0]), None)
    if exact is not None and len(kept) == 1 and not _covers_rule(parse_rule(kept[0]), exact):
        made = replace(made, note="It does not match this call, so you would be asked again.")
    return made


def _covers_rule(rule: Rule, exact: Rule) -> bool:
    if exact.spec is None or not rule.names(exact.tool):
        return rule.names(exact.tool) and rule.spec is None
    if rule.spec is None or rule.spec == exact.spec:
        return True
    return rule.matches_command(exact.spec) if exact.tool == "Bash" else True
