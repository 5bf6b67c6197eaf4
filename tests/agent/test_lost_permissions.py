"""A resumed session continues in its permission mode, except bypass, and says what of its rights is not restored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcli.assemble import describe_resumed_rights
from agentcli.core import events as ev
from agentcli.core.permission import Answer, PermissionMode, mode_label
from tests.support.assembled import Assembled
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio


SAVED = Answer("allow", rules=("Bash(mkdir b)",), save_to="local")


def always(event: ev.PermissionRequested) -> Answer:
    if event.name == "Bash":
        return Answer("allow", rules=("Bash(touch a)",), save_to="session")
    return Answer("allow", mode=PermissionMode.ACCEPT_EDITS)


async def resumed(project: Path, **options: object) -> tuple[str, list[str]]:
    """The mode of a resumed session, and what the user reads about its rights."""
    async with Assembled(project, [], options={"permission_mode": None, **options}) as session:
        notices = [notice.text for notice in session.engine.take_notices() if notice.code == "resumed_rights"]
        return session.engine.permissions.mode.value, notices


async def test_the_mode_is_restored_and_lost_rules_are_reported_on_resume(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    steps = [reply(call("Bash", command="touch a")), reply(call("Write", file_path="b", content="x\n")), "Done."]
    async with Assembled(project, steps, always) as session:
        await session.run()
        name = session.engine.session_id
    lost = "Not restored from the earlier session: session rule Bash(touch a)."
    assert await resumed(project, resume=name) == (
        "acceptEdits",
        [f"Permission mode accept edits is restored from the earlier session. {lost}"],
    )
    kept = await resumed(project, resume=name, permission_mode=PermissionMode.ACCEPT_EDITS)
    assert kept == ("acceptEdits", [f"{lost} The mode is now accept edits."])
    assert await resumed(project) == ("default", [])
    assert await resumed(project, resume=name, interactive=False) == ("default", [])


async def test_a_session_rule_that_was_saved_later_is_not_reported_as_lost(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    steps = [reply(call("Bash", command="touch a")), reply(call("Bash", command="mkdir b")), "Done."]
    learned = iter([Answer("allow", rules=("Bash(touch a)", "Bash(make all)")), SAVED])
    async with Assembled(project, steps, lambda _event: next(learned)) as session:
        await session.run()
        name = session.engine.session_id
        session.engine.permissions.change("user", "allow", add=["Bash(make *)"])
    assert await resumed(project, resume=name, trust=True) == (
        "default",
        ["Not restored from the earlier session: session rule Bash(touch a). The mode is now default."],
    )
    async with Assembled(project, [], options={"resume": name}) as session:
        session.engine.permissions.change("local", "allow", add=["Bash(touch a)"])
    assert await resumed(project, resume=name, trust=True) == ("default", [])


def test_up_to_three_lost_rules_are_named() -> None:
    rules = [f"Bash(make {name})" for name in "abcde"]
    assert describe_resumed_rights("", rules[:2], PermissionMode.DEFAULT, is_restored=False) == (
        "Not restored from the earlier session: session rules Bash(make a), Bash(make b). The mode is now default."
    )
    assert "Bash(make b), Bash(make c) and 2 more." in describe_resumed_rights(
        "", rules, PermissionMode.DEFAULT, is_restored=False
    )


@pytest.mark.parametrize("chosen", ["flag", "setting", "key"])
@pytest.mark.parametrize("mode", ["acceptEdits", "plan", "dontAsk", "bypassPermissions"])
async def test_every_way_to_choose_a_mode_is_restored_but_bypass_never(tmp_path: Path, mode: str, chosen: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    options: dict[str, object] = {"permission_mode": PermissionMode(mode) if chosen == "flag" else None}
    if chosen == "setting":
        options["settings"] = json.dumps({"sandbox": {"mode": "off"}, "permissions": {"defaultMode": mode}})
    async with Assembled(project, ["Hello."], options=options) as session:
        await session.run()
        if chosen == "key":
            session.engine.permissions.set_mode(PermissionMode(mode))
        name = session.engine.session_id
    restored = f"Permission mode {mode_label(mode)} is restored from the earlier session."
    if mode == "bypassPermissions":
        lost = f"Not restored from the earlier session: mode {mode_label(mode)}. The mode is now default."
        assert await resumed(project, resume=name) == ("default", [lost])
    else:
        assert await resumed(project, resume=name) == (mode, [restored])
    assert (await resumed(project, resume=name, permission_mode=PermissionMode.DEFAULT))[0] == "default"


@pytest.mark.parametrize(("mode", "restored"), [("acceptEdits", "default"), ("plan", "plan")])
async def test_in_another_folder_no_mode_is_restored_that_allows_more(tmp_path: Path, mode: str, restored: str) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    options = {"permission_mode": PermissionMode(mode)}
    async with Assembled(project, ["Hello."], options=options) as session:
        await session.run()
        name = session.engine.session_id
    assert (await resumed(other, resume=name, fork_session=True))[0] == restored
    assert (await resumed(other, resume=name))[0] == restored
    assert (await resumed(project, resume=name))[0] == mode


async def test_auto_mode_without_a_sandbox_and_a_default_that_was_never_left_are_not_restored(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    async with Assembled(project, ["Hello."], options={"permission_mode": None}) as session:
        await session.run()
        name = session.engine.session_id
    accepts = json.dumps({"sandbox": {"mode": "off"}, "permissions": {"defaultMode": "acceptEdits"}})
    assert await resumed(project, resume=name, settings=accepts) == ("acceptEdits", [])
    async with Assembled(project, ["Hello."], options={"resume": name}) as session:
        session.engine.permissions.set_mode(PermissionMode.AUTO)
        await session.run()
    lost = "Not restored from the earlier session: mode auto. The mode is now default."
    assert await resumed(project, resume=name) == ("default", [lost])


async def test_default_mode_is_restored_where_the_settings_have_another_one(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    accepts = json.dumps({"sandbox": {"mode": "off"}, "permissions": {"defaultMode": "acceptEdits"}})
    options: dict[str, object] = {"settings": accepts, "permission_mode": PermissionMode.DEFAULT}
    async with Assembled(project, ["Hello."], options=options) as session:
        await session.run()
        name = session.engine.session_id
    restored = "Permission mode default is restored from the earlier session."
    assert await resumed(project, resume=name, settings=accepts) == ("default", [restored])
