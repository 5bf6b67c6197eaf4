"""A hook: deny forced pushes."""

from typing import Any

from agentcli import Plugin

plugin = Plugin()


@plugin.hook("PreToolUse", matcher="Bash")
def deny_forced_pushes(event: dict[str, Any]) -> dict[str, Any] | None:
    if "push --force" not in event["tool_input"]["command"]:
        return None
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "Forced pushes are not allowed here.",
        }
    }
