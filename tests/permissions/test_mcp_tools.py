"""Tools of MCP servers: asked about until a rule allows them, also in plan mode, and which rules are offered."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core.permission import Need, PermissionMode
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import parse_rules

TOOL = "mcp__git-hub__get_issue"


def behavior(policy: Policy, *, reads: bool = False) -> str:
    needs = [Need("other", TOOL, is_declared_read_only=reads)]
    return policy.decide(TOOL, {}, needs, Path("/work"), [Path("/work")]).behavior


@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.AUTO])
@pytest.mark.parametrize("reads", [True, False])
def test_a_tool_asks_in_every_ordinary_mode_whatever_its_server_declares(mode: PermissionMode, reads: bool) -> None:
    assert behavior(Policy(mode=mode), reads=reads) == "ask"


def test_plan_mode_asks_about_tools_that_are_declared_read_only_and_refuses_the_others() -> None:
    planning = Policy(mode=PermissionMode.PLAN)
    assert behavior(planning, reads=True) == "ask"
    assert behavior(planning, reads=False) == "deny"
    allowed = planning.with_rules(allow=parse_rules([TOOL]))
    assert behavior(allowed, reads=True) == "allow"
    assert behavior(allowed, reads=False) == "deny"


def test_the_tool_and_the_whole_server_are_offered_as_rules() -> None:
    found = Policy().suggest(TOOL, [Need("other", TOOL)], Path("/work"), [Path("/work")]).choices()
    assert [choice.rules for choice in found] == [(TOOL,), ("mcp__git-hub",)]
    assert [choice.covers for choice in found] == [f"every use of {TOOL}", "all tools of the MCP server git-hub"]
    assert found[1].note == "It includes tools that the server adds or changes later."


def test_a_server_with_an_asking_rule_is_not_offered() -> None:
    policy = Policy(ask=parse_rules(["mcp__git-hub"]))
    assert policy.suggest(TOOL, [Need("other", TOOL)], Path("/work"), [Path("/work")]).choices() == []


def test_other_tools_have_no_server_to_offer() -> None:
    for name in ("mcp_like", "Weather", "mcp__alone"):
        found = Policy().suggest(name, [Need("other", name)], Path("/work"), [Path("/work")]).choices()
        assert [choice.rules for choice in found] == [(name,)]
