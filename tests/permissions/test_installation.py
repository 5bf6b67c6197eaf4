"""Writing to agentcli's own installation needs approval in every mode and despite any rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core.permission import Decision, Need, PermissionMode
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import parse_rules
from agentcli.sandbox.plan import SandboxRules
from agentcli.sandbox.quarantine.protected import protection
from agentcli.sandbox.seatbelt import profile
from tests.support.tables import each_row


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/.venv/lib").mkdir(parents=True)
    (tmp_path / "project/link").symlink_to(".venv/lib")
    return (tmp_path / "project").resolve()


def policy(project: Path, mode: PermissionMode) -> Policy:
    allow = parse_rules(["Write", "Edit(.venv/**)", "Bash(touch *)"], "settings")
    return Policy(mode=mode, allow=allow, installation=(project / ".venv",))


def decide(project: Path, mode: PermissionMode, need: Need, tool: str = "Write") -> Decision:
    return policy(project, mode).decide(tool, {}, [need], project, [project])


@each_row("mode", [mode for mode in PermissionMode if mode is not PermissionMode.PLAN])
@each_row("name", [".venv/lib/zz.pth", ".venv/bin/agentcli", ".venv", "link/zz.pth", ".VENV/lib/x.py"])
def test_a_write_asks_in_every_mode_despite_any_rule(project: Path, mode: PermissionMode, name: str) -> None:
    need = Need("write", str(project / name))
    found = decide(project, mode, need)
    assert found.behavior == ("deny" if mode is PermissionMode.DONT_ASK else "ask")
    assert "installation that runs agentcli" in found.reason
    assert policy(project, mode).suggest("Write", [need], project, [project]).exact() == []


def test_plan_mode_refuses_such_a_write(project: Path) -> None:
    assert decide(project, PermissionMode.PLAN, Need("write", str(project / ".venv/x"))).behavior == "deny"


def test_a_neighbour_with_a_similar_name_is_not_part_of_it(project: Path) -> None:
    for name in (".venv2/x.py", "src/.venv.py"):
        assert decide(project, PermissionMode.BYPASS, Need("write", str(project / name))).behavior == "allow"


def test_accepted_edits_do_not_cover_commands_that_write_there(project: Path) -> None:
    plain = Policy(mode=PermissionMode.ACCEPT_EDITS, installation=(project / ".venv",))
    for command in ("touch .venv/lib/zz.pth", "echo x > .venv/lib/zz.pth", "cp a link/zz.pth", "mkdir .venv/new"):
        need = Need("execute", command)
        assert plain.decide("Bash", {}, [need], project, [project]).behavior == "ask", command
    assert plain.decide("Bash", {}, [Need("execute", "touch a")], project, [project]).behavior == "allow"


def test_the_installation_may_be_read_and_run(project: Path) -> None:
    need = Need("read", str(project / ".venv/lib/module.py"))
    assert decide(project, PermissionMode.DEFAULT, need, "Read").behavior == "allow"
    allow = parse_rules(["Bash(.venv/bin/pytest *)"], "settings")
    running = Policy(allow=allow, installation=(project / ".venv",))
    command = Need("execute", ".venv/bin/pytest -q")
    assert running.decide("Bash", {}, [command], project, [project]).behavior == "allow"


def test_the_folders_around_it_cannot_be_moved_away_in_the_sandbox(tmp_path: Path) -> None:
    installed = tmp_path / "tools/python/env"
    installed.mkdir(parents=True)
    found = protection([tmp_path], None, ["true"], [installed])
    assert installed in found.read_only
    assert {tmp_path / "tools", tmp_path / "tools/python"} <= set(found.writable)


def test_the_macos_profile_denies_writing_it(project: Path) -> None:
    rules = SandboxRules(working_dirs=(project,), installation=(project / ".venv",))
    text = profile(rules, project.parent / "temporary")
    denied = f'(deny file-write* (subpath "{project}/.venv"))'
    assert text.index(denied) > text.index("(allow file-write* (subpath")
