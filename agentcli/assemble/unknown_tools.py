"""Find permission rules whose tool does not exist, such as a typo that would silently match nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentcli.permissions.granting import CREDENTIALS, NETWORK
from agentcli.permissions.rules.rule import Rule
from agentcli.tools.registry import BUILTIN_NAMES

_OTHERS = frozenset({"Task", "Agent", "Skill", "StructuredOutput", NETWORK, CREDENTIALS})
"""Names that rules may use although the session may have no such tool."""


def unknown_tools(rules: Iterable[Rule], custom: Iterable[str]) -> Iterator[str]:
    """One message for each rule that matches no tool. `custom`: names of tools that are not built in.

    Rules for MCP tools pass: their names are unknown until the server runs."""
    known = _OTHERS.union(BUILTIN_NAMES, custom)
    for rule in dict.fromkeys(rules):
        if rule.tool.startswith("mcp__") or any(map(rule.names, known)):
            continue
        from difflib import get_close_matches  # only a mistake pays for it

        folded = {name.casefold(): name for name in known}
        near = get_close_matches(rule.tool.casefold().rstrip("*"), folded, n=1, cutoff=0.6)
        hint = f" Did you mean {folded[near[0]]}?" if near else ""
        where = f"{rule.source}: " if rule.source else ""
        yield f"{where}There is no tool named {rule.tool}, so the rule {rule.text} has no effect.{hint}"
