"""Permissions granted by a command or skill file while it is in use: its `allowed-tools`."""

from __future__ import annotations

from agentcli.agent.live_permissions import LivePermissions
from agentcli.definitions.files import CommandFile, SkillFile


def lend_rights(definition: CommandFile | SkillFile, permissions: LivePermissions) -> list[str]:
    """Allow the tools that the file lists until `permissions.take_back`, if the user trusts it. Returns notices."""
    if notice := rights_notice(definition):
        return [notice]
    label = definition.origin.label
    return [f"{label}: {problem}" for problem in permissions.lend(definition.allowed_tools, label)]


def rights_notice(definition: CommandFile | SkillFile) -> str:
    """Why a file's permissions do not apply; "" if they do, or if it has none."""
    if not definition.allowed_tools or definition.origin.approved:
        return ""
    problem = f"The allowed-tools of {definition.origin.label} do not apply"
    if definition.origin.scope == "user":
        return f"{problem}: it is a link to a file of the project."
    return f"{problem}: it changed since you trusted it. /trust or `agentcli trust` applies them."
