"""What a decision needs is imported by the first one, or ahead of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agentcli.permissions.policy import EVALUATORS

_CODE = f"""
import asyncio, sys
from pathlib import Path
from agentcli.agent.live_permissions import LivePermissions
from agentcli.core.permission import Need
from agentcli.permissions.policy import Policy
policy = Policy().with_allowed(["Bash(ls *)"], "test")
permissions = LivePermissions(policy)
permissions.learn(["Bash(make)"], "session")
assert not policy.refuses_always("Bash") and not policy.hides_anything
assert {EVALUATORS!r} not in sys.modules and permissions.is_late
if sys.argv[1] == "warm":
    asyncio.run(permissions.warm())
else:
    assert policy.decide("Bash", {{}}, [Need("execute", "ls")], Path("/"), [Path("/")]).behavior == "allow"
assert {EVALUATORS!r} in sys.modules and not permissions.is_late
"""


def test_evaluators_are_imported_by_the_first_decision_or_ahead_of_it_and_not_before() -> None:
    for way in ("decide", "warm"):
        subprocess.run([sys.executable, "-c", _CODE, way], check=True, cwd=Path(__file__).parents[2], timeout=60)
