"""/permissions on the assembled program: rules are listed, added, edited, removed, tested, and follow their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcli.agent.engine import Engine
from agentcli.commands.line import run_command
from agentcli.core import events as ev
from agentcli.core.permission import PermissionMode
from tests.commands.test_commands import engine_on, refused, said
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio


def interactive(tmp_path: Path, *replies: object, **rest: object) -> Engine:
    rest = {"permission_mode": PermissionMode.DEFAULT, "interactive": True, "trust": True, **rest}
    return engine_on(tmp_path, *replies, **rest)  # type: ignore[arg-type]


def rules_in(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(path.read_text())["permissions"]
    return found


async def test_a_rule_is_added_edited_and_removed_in_each_scope(tmp_path: Path) -> None:
    files = {
        "local": tmp_path / "project/.agentcli/settings.local.json",
        "project": tmp_path / "project/.agentcli/settings.json",
        "user": tmp_path / ".config/agentcli/settings.json",
    }
    async with interactive(tmp_path) as engine:
        for scope, path in files.items():
            text = await said(engine, f"/permissions add deny 'Bash(make {scope} *)' --scope {scope}")
            assert text.startswith(
                f"Added: deny Bash(make {scope} *) (covers make {scope} with any arguments), saved in"
            )
            assert rules_in(path) == {"deny": [f"Bash(make {scope} *)"]}
            assert (await said(engine, f"/permissions test make {scope} x")).startswith("deny: ")
            await said(engine, f"/permissions edit deny 'Bash(make {scope} *)' 'Bash(make {scope})'")
            assert rules_in(path) == {"deny": [f"Bash(make {scope})"]}
            assert not (await said(engine, f"/permissions test make other{scope}")).startswith("deny: ")
            await said(engine, f"/permissions remove 'Bash(make {scope})'")
            assert rules_in(path) == {"deny": []}
            assert (await said(engine, f"/permissions test make {scope}")).startswith("ask: ")
        await said(engine, "/permissions add allow 'Bash(make *)'")
        assert (await said(engine, "/permissions test make x")).startswith("allow: ")
        await said(engine, "/permissions remove allow 'Bash(make *)' --scope session")
        assert (await said(engine, "/permissions test make x")).startswith("ask: ")


async def test_the_list_names_scopes_and_when_a_rule_last_decided_and_no_raw_data(tmp_path: Path) -> None:
    replies = [reply(call("Bash", command="touch x")), reply(call("Bash", command="make")), "Done."]
    async with interactive(tmp_path, *replies, allowed_tools=("Bash(touch x)",), interactive=False) as engine:
        assert {entry.last for entry in engine.permissions.entries()} == {None}
        await collect(engine.submit("go"))
        text = await said(engine, "/permissions")
        assert "\nflags\n  allow  Bash(touch x)  (once, at " in text
        assert "Refused in this session:\n  " in text
        assert "{" not in text
        await said(engine, "/permissions test touch x")
        assert sum(entry.count for entry in engine.permissions.entries()) == 1, "a test decides nothing"


async def test_a_denied_call_names_a_rule_that_was_added_for_the_session(tmp_path: Path) -> None:
    async with interactive(tmp_path, reply(call("Bash", command="make")), "Done.") as engine:
        await said(engine, "/permissions add deny 'Bash(make *)'")
        results = only(await collect(engine.submit("go")), ev.ToolFinished)
    assert "Denied by rule Bash(make *) from this session." in results[0].result.text


async def test_an_invalid_rule_is_explained_and_changes_nothing(tmp_path: Path) -> None:
    async with interactive(tmp_path, allowed_tools=("Bash(ls)",)) as engine:
        assert "Not a permission rule" in await refused(engine, "/permissions add allow 'Bash(x'")
        assert "Repeat the line with --yes" in await refused(engine, "/permissions add allow Bash")
        assert "Repeat the line with --yes" in await refused(engine, "/permissions add allow 'Bash(python3 *)'")
        assert "There is no scope here" in await refused(engine, "/permissions add allow 'Bash(x)' --scope here")
        assert "comes from --allowedTools" in await refused(engine, "/permissions remove 'Bash(ls)'")
        assert "There is no rule Bash(no)" in await refused(engine, "/permissions remove 'Bash(no)'")
        assert "A quote is not closed" in await refused(engine, "/permissions add allow 'Bash")
        assert "Use /permissions add" in await refused(engine, "/permissions frob")
        before = engine.permissions.policy
        assert [entry.text for entry in engine.permissions.entries() if entry.editable] == []
        assert engine.permissions.policy is before


async def test_a_prompt_of_a_program_cannot_change_rules(tmp_path: Path) -> None:
    async with interactive(tmp_path, interactive=False) as engine:
        assert "interactive session" in await refused(engine, "/permissions add allow 'Bash(make)' --scope user")
    assert not (tmp_path / ".config/agentcli/settings.json").exists()


async def test_a_broken_settings_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / ".config/agentcli/settings.json"
    async with interactive(tmp_path) as engine:
        path.parent.mkdir(parents=True)
        path.write_text('{"permissions": ')
        assert "fix the file first" in await refused(engine, "/permissions add deny 'Bash(make)' --scope user")
        assert path.read_text() == '{"permissions": '
        assert (await said(engine, "/permissions test ls")).startswith("ask: "), "it may have forbidden something"


async def test_the_users_own_file_takes_effect_at_once_and_a_notice_counts_the_rules(tmp_path: Path) -> None:
    path = tmp_path / ".config/agentcli/settings.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"permissions": {"deny": ["Bash(make)"]}}')
    async with interactive(tmp_path, trust=False) as engine:
        assert (await said(engine, "/permissions test make")).startswith("deny: ")
        path.write_text('{"permissions": {"allow": ["Bash(make)", "Bash(true)"]}}')
        events = await collect(run_command(engine, "permissions", "test make"))
        assert result_of(events).text.startswith("allow: ")
        notices = [each.text for each in only(events, ev.NoticeRaised) if each.code == "permissions"]
        assert notices == [f"Permission rules reloaded: +2 allow, −1 deny from {path}."]
        path.unlink()
        (notice,) = (await engine.live_files.wait_for_changes()).notices
        assert notice.text == f"Permission rules reloaded: −2 allow from {path}."
        assert (await said(engine, "/permissions test make")).startswith("ask: ")


async def test_a_changed_project_file_allows_nothing_but_still_denies(tmp_path: Path) -> None:
    folder = tmp_path / "project/.agentcli"
    folder.mkdir(parents=True)
    path = folder / "settings.json"
    path.write_text('{"permissions": {"allow": ["Bash(make)"]}}')
    async with interactive(tmp_path, trust=False) as engine:
        assert (await said(engine, "/permissions test make")).startswith("ask: ")
        path.write_text('{"permissions": {"allow": ["Bash(make)"], "deny": ["Bash(true)"]}}')
        assert (await said(engine, "/permissions test make")).startswith("ask: ")
        assert (await said(engine, "/permissions test true")).startswith("deny: ")


async def test_rules_of_this_session_survive_a_changed_file(tmp_path: Path) -> None:
    path = tmp_path / ".config/agentcli/settings.json"
    async with interactive(tmp_path) as engine:
        await said(engine, "/permissions add allow 'Bash(make *)'")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"permissions": {"deny": ["Bash(true)"]}}')
        assert (await said(engine, "/permissions test true")).startswith("deny: ")
        assert (await said(engine, "/permissions test make x")).startswith("allow: ")
