"""Permission rules whose tool does not exist: a typing mistake that would silently allow or forbid nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentcli.permissions.granting import CREDENTIALS, NETWORK
from agentcli.permissions.rules.rule import Rule
from agentcli.tools.registry import BUILTIN_NAMES

_OTHERS = frozenset({"Task", "Agent", "Skill", "StructuredOutput", NETWORK, CREDENTIALS})
"""Names that rules may use although the session may have no such tool."""


def unknown_tools(rules: Iterable[Rule], custom: Iterable[str]) -> Iterator[str]:
    """One sentence for each rule that can match no tool. `custom`: tools besides the built-in ones.

    Tools of MCP servers are not known before their server runs, so rules about them pass."""
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
