"""Policies of a few rules, and what they decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentcli.core.permission import Decision, Need, PermissionMode
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import parse_rules

HOME = Path("/home/somebody")


def policy(mode: str = "default", allow: str = "", ask: str = "", deny: str = "", **fields: Any) -> Policy:
    """`allow`, `ask` and `deny`: rules, one in a line."""
    texts = {"flags": allow, "asking.json": ask, "settings.json": deny}
    rules = [parse_rules(filter(None, text.split("\n")), source) for source, text in texts.items()]
    return Policy(PermissionMode(mode), *rules, **{"home": HOME, **fields})


def need(policy: Policy, tool: str, kind: str, target: Path | str, project: Path) -> Decision:
    return policy.decide(tool, {}, [Need(kind, str(target))], project, [project])  # type: ignore[arg-type]


def bash(policy: Policy, command: str, project: Path, cwd: Path | None = None) -> Decision:
    return policy.decide("Bash", {}, [Need("execute", command)], cwd or project, [project])


def write(policy: Policy, path: Path | str, project: Path) -> Decision:
    return need(policy, "Edit", "write", path, project)


def read(policy: Policy, path: Path | str, project: Path) -> Decision:
    return need(policy, "Read", "read", path, project)
