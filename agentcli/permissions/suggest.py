"""Allow rules that would make a permission question go away, the narrowest one for each part.

Suggestions only; nothing is applied here. A command is offered exactly as it was asked about, never with a star: nearly
every program has an option by which later arguments choose what runs (`git fetch --upload-pack=…`, `make test -f …`,
`cargo build --config …`, `pytest -p …`, `npm test --script-shell=…`), and an answer must not allow more than its
question showed. Whoever wants a star writes that rule into the settings.
"""

from __future__ import annotations

from agentcli.core.globs import escape_glob
from agentcli.core.permission import Need
from agentcli.permissions.commands import Part
from agentcli.permissions.hosts import host_of, is_private_host
from agentcli.permissions.rules import rule_text


def for_need(tool_name: str, need: Need) -> list[str]:
    if need.kind in ("read", "write"):
        return [rule_text("Read" if need.kind == "read" else "Edit", f"/{escape_glob(need.target)}")]
    if need.kind == "fetch":
        host = host_of(need.target)
        if not host:
            return [tool_name]
        return [rule_text(tool_name, f"{'private' if is_private_host(host) else 'domain'}:{host}")]
    # Of these each name is something else to allow.
    named = tool_name in ("Task", "Agent", "Skill") and need.target
    return [rule_text(tool_name, need.target) if named else tool_name]


def for_part(tool_name: str, part: Part) -> list[str]:
    """Empty when no rule could cover the part."""
    text = part.inner_text if not part.extended else part.command.text
    # A star would be a wildcard in the rule.
    if "*" in text or "\n" in text:
        return []
    return [rule_text(tool_name, text)]
