"""The rights that a command or skill brings along: its `allowed-tools`, while it is in use."""

from __future__ import annotations

from agentcli.agent.live_permissions import LivePermissions
from agentcli.definitions.files import CommandFile, SkillFile


def lend_rights(definition: CommandFile | SkillFile, permissions: LivePermissions) -> list[str]:
    """Allow what the file allows until `permissions.take_back`, if the user trusts it. Returns notices."""
    if notice := rights_notice(definition):
        return [notice]
    label = definition.origin.label
    return [f"{label}: {problem}" for problem in permissions.lend(definition.allowed_tools, label)]


def rights_notice(definition: CommandFile | SkillFile) -> str:
    """Why the rights of a file do not apply; "" if they do, or if there are none."""
    if not definition.allowed_tools or definition.origin.approved:
        return ""
    problem = f"The allowed-tools of {definition.origin.label} do not apply: it changed since you trusted it."
    return f"{problem} /trust or `agentcli trust` applies them."
