"""Settings, hooks and MCP servers of an open session follow their files, within what trust allows."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.live_files import Reloaded
from agentcli.assemble.reload import SessionConfiguration
from agentcli.commands.line import run_command
from agentcli.commands.settings import with_inactive
from agentcli.config.schema import KEYS
from agentcli.config.trust import TrustStore
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.messages import Json
from tests.support.assembled import Assembled
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio
UNTRUSTED: dict[str, Any] = {"trust": False}


def hook(command: str, event: str = "PreToolUse") -> Json:
    return {"hooks": {event: [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]}}


def bash(command: str = "true") -> Json:
    return reply(call("Bash", command=command))


class Home:
    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        (self.project / ".agentcli").mkdir(parents=True)
        self.shared = self.project / ".agentcli/settings.json"
        self.own = folder / "home/.config/agentcli/settings.json"
        self.own.parent.mkdir(parents=True)
        self.log = folder / "log"

    def session(self, *replies: Any, **options: Any) -> Assembled:
        return Assembled(self.project, list(replies), options=options)

    def trust(self) -> None:
        store = TrustStore(self.project.parent / "home/.local/state/agentcli")
        store.trust(store.state(self.project))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def write(path: Path, value: Json) -> None:
    path.write_text(json.dumps(value))


def notices(events: list[ev.Event]) -> list[str]:
    return [event.text for event in only(events, ev.NoticeRaised)]


async def said(a: Assembled, line: str) -> str:
    return result_of(await collect(run_command(a.engine, line, ""))).text


async def test_a_saved_hook_runs_with_the_next_prompt_and_a_removed_one_does_not(home: Home) -> None:
    async with home.session(bash(), "One.", bash(), "Two.", bash(), "Three.") as a:
        await a.run()
        write(home.own, hook(f"echo ran >> {home.log}"))
        assert notices(await a.run()) == ["Hooks reloaded: +1 PreToolUse."]
        assert home.log.read_text() == "ran\n"
        home.own.unlink()
        assert notices(await a.run()) == ["Hooks reloaded: −1 PreToolUse."]
        assert home.log.read_text() == "ran\n"
        assert (
            await said(a, "hooks") == 'No hooks are configured. Add "hooks" to your settings; the guide has an example.'
        )


async def test_a_changed_file_of_the_project_only_restricts_until_it_is_trusted(home: Home) -> None:
    write(home.shared, {})
    async with home.session(bash(), "One.", bash(), "Two.", **UNTRUSTED) as a:
        write(
            home.shared,
            {
                **hook(f"echo ran >> {home.log}"),
                "permissions": {"allow": ["Bash(make)"], "deny": ["Read(secret)"]},
                "effort": "low",
            },
        )
        first = notices(await a.run())
        assert first[0] == (
            "Not trusted: .agentcli/settings.json. Until you have reviewed it with /trust or `agentcli trust`, only "
            "the deny and ask rules of this project apply, its hooks and MCP servers are off."
        )
        assert first[1] == f"Permission rules reloaded: +1 deny from {home.shared}."
        assert not home.log.exists()
        off = "not active: this folder is not trusted; /trust reviews it"
        assert (await said(a, "hooks")).endswith(off)
        listed = (await said(a, "permissions")).splitlines()
        assert "  deny   Read(secret)" in listed
        assert f"  allow  Bash(make)  ({off})" in listed
        rows = with_inactive([], await a.engine.live_files.inactive())
        assert [
            (row.key, row.value, row.source) for row in rows if row.inactive == off.removeprefix("not active: ")
        ] == [
            ("permissions.allow", "Bash(make)", ".agentcli/settings.json"),
            ("effort", "low", ".agentcli/settings.json"),
        ]
        assert "inactive  PreToolUse hook, permissions.allow, effort: this folder is not trusted" in await said(
            a, "status"
        )
        home.trust()
        second = notices(await a.run())
        assert second[0] == "Hooks reloaded: +1 PreToolUse."
        assert "Changed settings that apply in the next session, for example after /clear: effort." in second
        assert f"Permission rules reloaded: +1 allow from {home.shared}." in second
        assert home.log.read_text() == "ran\n"


async def test_a_file_that_breaks_keeps_its_last_rules_and_hooks_and_is_reported_with_its_position(home: Home) -> None:
    rules = {"permissions": {"deny": ["Bash(rm *)"], "allow": ["Bash(touch *)"]}}
    write(home.own, {**rules, **hook(f"echo ran >> {home.log}")})
    replies = reply(call("Bash", command="rm x"), call("Bash", command="touch x"))
    async with home.session(replies, "One.", replies, "Two.") as a:
        home.own.write_text('{"permissions": {\n  "deny": oops}}')
        events = await a.run()
        (text,) = notices(events)
        assert text == (
            f"{home.own}, line 2, column 11, is not valid JSON: expecting value. Its last valid content stays active "
            "until it is fixed."
        )
        assert [event.behavior for event in only(events, ev.PermissionDecided)] == ["deny", "allow"]
        assert home.log.read_text() == "ran\nran\n"
        assert a.asked == []
        write(home.own, rules)
        assert notices(await a.run()) == ["Hooks reloaded: −1 PreToolUse."]


async def test_variables_and_limits_of_the_users_file_apply_to_the_next_prompt(home: Home) -> None:
    async with home.session(bash("echo [$FLAVOUR]"), bash("echo [$FLAVOUR]"), "One.") as a:
        write(home.own, {"env": {"FLAVOUR": "plum"}, "maxTurns": 1, "model": "claude-opus-5-5", "keymap": {"a": "b"}})
        events = await a.run()
    assert notices(events) == [
        "Settings reloaded: maxTurns, env.",
        "Changed settings that apply after a restart of agentcli: keymap.",
    ], "the model was chosen with a flag"
    assert "[plum]" in a.results[0]
    assert len(a.requests) == 1


async def test_settings_do_not_change_while_a_prompt_is_answered(home: Home) -> None:
    async with home.session(
        bash(f"printf x > {home.log}; cp {home.log}.new {home.own}"), bash(), "One.", bash(), "Two."
    ) as a:
        write(Path(f"{home.log}.new"), hook(f"echo ran >> {home.log}"))
        await a.run()
        assert home.log.read_text() == "x", "the prompt goes on with the hooks that it began with"
        await a.run()
        assert home.log.read_text() == "xran\n"


async def test_changes_that_were_being_read_when_a_prompt_was_stopped_apply_to_the_next_one(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released, read = threading.Event(), threading.Event(), SessionConfiguration.read

    def read_slowly(configuration: SessionConfiguration) -> Reloaded:
        begun.set()
        released.wait(20)
        return read(configuration)

    async with home.session("One.", bash(), "Two.") as a:
        await a.run()
        write(home.own, hook(f"echo ran >> {home.log}"))
        monkeypatch.setattr(SessionConfiguration, "read", read_slowly)
        stopped = asyncio.ensure_future(a.run())
        await asyncio.to_thread(begun.wait, 20)
        a.engine.abort(AbortReason.USER_CANCEL)
        released.set()
        await stopped
        await a.run()
        assert home.log.read_text() == "ran\n"


async def test_files_that_do_not_change_are_not_read_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with home.session("One.", "Two.") as a:
        await a.run()
        monkeypatch.setattr("agentcli.assemble.reload.SessionConfiguration.read", None)
        await a.run()


def test_every_setting_says_when_a_change_applies() -> None:
    assert {key.applies for key in KEYS} == {"now", "session", "restart"}
    later = {key.name for key in KEYS if key.applies != "now"}
    assert {"model", "outputStyle", "sandbox.mode", "permissions.defaultMode"} <= later, "what a session begins with"
