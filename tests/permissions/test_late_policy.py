"""A policy whose evaluators are not imported yet decides as one that has them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from agentcli.agent.live_permissions import LivePermissions
from agentcli.core.permission import Need, PermissionMode
from agentcli.permissions.late_policy import EVALUATORS, LatePolicy
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import parse_rules

REPOSITORY = Path(__file__).parents[2]
CALLS = (
    ("Read", Need("read", "/work/a.txt")),
    ("Read", Need("read", "/etc/hosts")),
    ("Read", Need("read", "/work/.env")),
    ("Write", Need("write", "/work/a.txt")),
    ("Bash", Need("execute", "ls -l | wc -l")),
    ("Bash", Need("execute", "npm test -- --watch")),
    ("Bash", Need("execute", "rm -rf /")),
)
PLACE = (Path("/work"), [Path("/work")])


def policies(mode: PermissionMode) -> tuple[LatePolicy, Policy]:
    rules = {"allow": tuple(parse_rules(["Bash(npm test *)"])), "deny": tuple(parse_rules(["Read(.env)"]))}
    return LatePolicy(mode=mode, **rules), Policy(mode=mode, **rules)


@pytest.mark.parametrize("mode", PermissionMode)
def test_a_late_policy_answers_as_the_policy_does(mode: PermissionMode) -> None:
    late, policy = policies(mode)
    for tool, need in CALLS:
        assert late.decide(tool, {}, [need], *PLACE) == policy.decide(tool, {}, [need], *PLACE)
        assert late.suggest(tool, [need], *PLACE).choices() == policy.suggest(tool, [need], *PLACE).choices()
        assert late.grant([need], *PLACE, approved="answer") == policy.grant([need], *PLACE, approved="answer")
        assert late.credential_rules([need], *PLACE) == policy.credential_rules([need], *PLACE)
        assert late.hides(need.target, *PLACE) == policy.hides(need.target, *PLACE)


def test_a_late_policy_becomes_ready_with_all_its_fields() -> None:
    late = LatePolicy(mode=PermissionMode.PLAN, credentials=frozenset({"GH_TOKEN"}), trusted=False)
    ready = late.ready()
    assert type(ready) is Policy
    assert ready.ready() is ready
    for each in fields(late):
        assert getattr(ready, each.name) is getattr(late, each.name)


def test_changes_of_the_mode_and_the_rules_survive_that_a_policy_becomes_ready() -> None:
    permissions = LivePermissions(LatePolicy())
    permissions.set_mode(PermissionMode.ACCEPT_EDITS)
    permissions.learn(["Bash(make)"], "session")
    assert permissions.is_late
    asyncio.run(permissions.warm())
    assert not permissions.is_late
    assert permissions.mode is PermissionMode.ACCEPT_EDITS
    assert [rule.text for rule in permissions.policy.allow] == ["Bash(make)"]
    permissions.set_mode(PermissionMode.DEFAULT)
    assert not permissions.is_late


def test_evaluators_are_imported_by_the_first_decision_and_not_before() -> None:
    code = f"""
import sys
from pathlib import Path
from agentcli.core.permission import Need
from agentcli.permissions.late_policy import LatePolicy
policy = LatePolicy().with_allowed(["Bash(ls *)"], "test")
assert not policy.refuses_always("Bash") and not policy.hides_anything
assert {EVALUATORS!r} not in sys.modules
assert policy.decide("Bash", {{}}, [Need("execute", "ls")], Path("/"), [Path("/")]).behavior == "allow"
assert {EVALUATORS!r} in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY, timeout=60)
