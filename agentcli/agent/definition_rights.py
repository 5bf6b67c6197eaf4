"""The rights that a command or skill brings along: its `allowed-tools`, while it is in use."""

from __future__ import annotations

from agentcli.agent.live_permissions import LivePermissions
from agentcli.definitions.files import CommandFile, SkillFile


def lend_rights(definition: CommandFile | SkillFile, permissions: LivePermissions) -> list[str]:
    """Allow what the file allows until `permissions.take_back`, if the user trusts it. Returns notices."""
    label, texts = definition.origin.label, definition.allowed_tools
    if not texts:
        return []
    if not definition.origin.approved:
        return [f"The allowed-tools of {label} do not apply: it changed since you trusted it. Run agentcli trust."]
    return [f"{label}: {problem}" for problem in permissions.lend(texts, label)]
