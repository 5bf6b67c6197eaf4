"""/permissions on the assembled program: rules are listed, added, edited, removed, tested, and follow their files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.cli.main import main
from agentcli.commands.extensions import NO_HOOKS, HookRow
from agentcli.commands.front_end import FrontEnd
from agentcli.commands.line import run_command
from agentcli.commands.registry import find
from agentcli.config.trust import TrustState
from agentcli.core import events as ev
from agentcli.core.events import NoticeRaised
from agentcli.core.permission import PermissionMode
from agentcli.sandbox.quarantine.store import Quarantine, QuarantinedItem
from tests.commands.test_commands import engine_on, refused, said
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import call, provider_on, reply, transport_for

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


@pytest.fixture
def item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> QuarantinedItem:
    for name in [name for name in os.environ if name.startswith(("AGENTCLI", "XDG"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    planted = tmp_path / "project" / "bad\x1b[31m.envrc"
    planted.parent.mkdir()
    planted.write_text("planted")
    store = Quarantine(tmp_path / ".local" / "state" / "agentcli" / "quarantine")
    store.folder.parent.mkdir(parents=True)
    return store.take(planted, "make\x1b[2J", "other programs obey it")


async def test_items_are_listed_and_restored_from_a_session(tmp_path: Path, item: QuarantinedItem) -> None:
    async with engine_on(tmp_path) as engine:
        text = await said(engine, "/quarantine")
        assert item.id in text
        assert "other programs obey it" in text
        assert "\x1b" not in text
        assert "Restored" in await said(engine, f"/quarantine restore {item.id}")
        assert Path(item.path).read_text() == "planted"
        assert await said(engine, "/quarantine list") == "Quarantine is empty."


async def test_an_existing_file_is_never_overwritten_by_a_restore(tmp_path: Path, item: QuarantinedItem) -> None:
    Path(item.path).write_text("mine")
    async with engine_on(tmp_path) as engine:
        assert "exists. Move it away first." in await refused(engine, f"/quarantine restore {item.id}")
        assert Path(item.path).read_text() == "mine"
        assert "Deleted" in await said(engine, f"/quarantine rm {item.id}")
        assert await said(engine, "/quarantine") == "Quarantine is empty."


@pytest.mark.parametrize("line", ["restore", "rm", "list x", "nonsense", "restore ../../x", "rm nothing"])
async def test_an_invalid_request_is_refused_and_changes_nothing(
    tmp_path: Path, item: QuarantinedItem, line: str
) -> None:
    async with engine_on(tmp_path) as engine:
        assert "quarantine" in await refused(engine, f"/quarantine {line}")
        assert item.id in await said(engine, "/quarantine")


async def test_the_command_line_shows_the_same(item: QuarantinedItem, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", "list"], os.environ) == 0
    shown = capfd.readouterr().out
    assert item.id in shown
    assert "\x1b" not in shown
    assert main(["quarantine", "list", "--json"], os.environ) == 0
    [listed] = json.loads(capfd.readouterr().out)
    assert (listed["id"], listed["path"]) == (item.id, item.path)
    assert main(["quarantine", "restore", item.id], os.environ) == 0
    assert Path(item.path).exists()
    assert main(["quarantine", "rm", item.id], os.environ) == 2
    assert "There is no item" in capfd.readouterr().err


OFF = "not active: this folder is not trusted; /trust reviews it"


class Reviewer(FrontEnd):
    def __init__(self, project: Path, *, trusts: bool = True, pages: bool = False) -> None:
        self.has_pages = pages
        self.shown: list[Any] = []
        self._project = project
        self._trusts = trusts

    async def options(self) -> Options:
        return options(self._project)

    async def page(self, kind: str, *data: Any) -> None:
        self.shown.append((kind, *data))

    async def review_trust(self, state: TrustState) -> bool:
        self.shown += [part.text for part in state.parts]
        return self._trusts


def options(project: Path, *replies: Any) -> Options:
    return Options(
        cwd=project,
        environ={"PATH": os.environ["PATH"], "HOME": str(project.parent)},
        provider=provider_on(transport_for(*replies)),
        model="claude-sonnet-5-5",
        permission_mode=PermissionMode.BYPASS,
        settings='{"sandbox": {"mode": "off"}}',
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / ".agentcli").mkdir(parents=True)
    value = {"PreToolUse": [{"matcher": "Bash|Edit", "hooks": [{"type": "command", "command": "exit 3"}]}]}
    (project / ".agentcli/settings.json").write_text(json.dumps({"hooks": value}))
    return project


async def answers_of(name: str, engine: Engine | None, front_end: FrontEnd, arguments: str = "") -> list[str]:
    command = find(name)
    assert command is not None
    events = await collect(command.load()(engine, arguments, front_end))
    return [event.text for event in events if isinstance(event, NoticeRaised)]


async def hooks(engine: Engine, front_end: FrontEnd, arguments: str = "") -> list[str]:
    return await answers_of("hooks", engine, front_end, arguments)


async def trust(engine: Engine | None, front_end: FrontEnd) -> list[str]:
    return await answers_of("trust", engine, front_end)


async def test_trust_shows_the_files_and_turns_the_hooks_on(project: Path) -> None:
    front_end = Reviewer(project)
    async with build_engine(options(project, reply(call("Bash", command="true")), "Ok.")) as engine:
        head = "PreToolUse Bash|Edit: exit 3"
        assert await hooks(engine, front_end) == [f"{head}\n    from .agentcli/settings.json; {OFF}"]
        assert await trust(engine, front_end) == [
            f"{project} is trusted. Its settings, hooks, MCP servers and definitions apply now."
        ]
        assert front_end.shown == [(project / ".agentcli/settings.json").read_text()]
        assert await hooks(engine, front_end) == [f"{head}\n    from .agentcli/settings.json; has not run yet"]
        await collect(engine.submit("go"))
        (text,) = await hooks(engine, front_end)
        assert "last run: failed, " in text


async def test_what_is_not_trusted_stays_off(project: Path) -> None:
    front_end = Reviewer(project, trusts=False)
    async with build_engine(options(project)) as engine:
        (text,) = await trust(engine, front_end)
        assert text.startswith("Nothing was trusted.")
        (text,) = await hooks(engine, front_end)
        assert text.endswith(OFF)
        (project / ".agentcli/settings.json").unlink()
        assert await hooks(engine, front_end) == [NO_HOOKS]


async def test_the_app_shows_a_page_and_a_search_finds(project: Path) -> None:
    front_end = Reviewer(project, pages=True)
    async with build_engine(options(project)) as engine:
        await trust(engine, front_end)
        front_end.shown.clear()
        assert await hooks(engine, front_end) == []
        row = HookRow("PreToolUse", "Bash|Edit", "exit 3", ".agentcli/settings.json", "")
        assert front_end.shown == [("hooks", [row])]
        assert await hooks(engine, Reviewer(project), "nope") == ["No hook mentions nope."]
        assert len(await hooks(engine, Reviewer(project), "edit")) == 1


async def test_a_project_without_files_has_nothing_to_trust(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (text,) = await trust(None, Reviewer(tmp_path / "empty"))
    assert "has no settings" in text
