"""What an approval opens in the sandbox, in the assembled program: exactly that, for that command."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options
from agentcli.assemble.environment import Environment
from agentcli.commands.line import run_command
from agentcli.config.trust import TrustState, TrustStore
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.errors import UsageError
from agentcli.core.permission import PermissionMode
from agentcli.interactive.wording import question_of
from agentcli.sandbox import host_proxy as host_proxy
from agentcli.sandbox.linux import probe
from tests.support.contained import Project, always, fetching, no, web_server, yes
from tests.support.fakes import collect
from tests.support.scripts import call

pytestmark = pytest.mark.anyio

DEFAULT = PermissionMode.DEFAULT
TOKENS = {"GH_TOKEN": "token-of-gh", "NPM_TOKEN": "token-of-npm"}


async def test_an_approved_write_outside_works_and_nothing_beside_it(contained: Project) -> None:
    other = contained.root / "other"
    other.mkdir()
    commands = (
        f"echo one > {other}/a.txt",
        f"python3 -c \"open('{other}/b.txt', 'w')\" > {other}/c.txt",
        f"touch {other}/empty",
        f"mkdir -p {other}/deep/er",
    )
    async with contained.commands(*commands, permission_mode=DEFAULT) as session:
        results = await session.run(yes)
        assert len(session.asked) == 4
    assert (other / "a.txt").read_text() == "one\n"
    assert "Read-only file system" in results[1]
    assert not (other / "b.txt").exists()
    assert (other / "empty").exists()
    assert (other / "deep" / "er").is_dir()


async def test_a_declined_write_outside_leaves_no_file(contained: Project) -> None:
    async with contained.commands("echo one > ../a.txt") as session:
        await session.run(no)
    assert not (contained.root / "a.txt").exists()


async def test_a_file_that_the_command_did_not_write_is_not_left_behind(contained: Project) -> None:
    async with contained.commands("false && echo one > ../a.txt") as session:
        await session.run(yes)
    assert not (contained.root / "a.txt").exists()


async def test_a_rule_makes_the_paths_it_names_writable(contained: Project) -> None:
    other = contained.root / "other"
    other.mkdir()
    rules = (f"Edit(/{other}/**)", "Bash(echo *)")
    commands = (f"echo one > {other}/a.txt",)
    async with contained.commands(*commands, permission_mode=DEFAULT, allowed_tools=rules) as session:
        await session.run(no)
        assert session.asked == []
    assert (other / "a.txt").read_text() == "one\n"


async def test_a_rule_for_many_commands_opens_no_path_outside(contained: Project) -> None:
    options = {"permission_mode": DEFAULT, "allowed_tools": ("Bash(touch *)",)}
    async with contained.commands(f"touch {contained.root}/made", **options) as session:
        (result,) = await session.run(no)
        assert session.asked == []
    assert "Read-only file system" in result
    assert not (contained.root / "made").exists()


@pytest.mark.parametrize(("rule", "kept"), [("Bash(git config *)", True), ("Bash(git *)", False), ("Bash", False)])
async def test_a_rule_keeps_dangerous_git_settings_only_if_it_names_them(
    contained: Project, rule: str, kept: bool
) -> None:
    options = {"permission_mode": DEFAULT, "allowed_tools": (rule,)}
    async with contained.commands("git config core.pager ./evil", **options) as session:
        await session.run(yes)
    assert ("evil" in (contained.path / ".git" / "config").read_text()) is kept


async def test_a_rule_for_exactly_this_command_opens_its_path(contained: Project) -> None:
    command = f"touch {contained.root}/made"
    async with contained.commands(command, permission_mode=DEFAULT, allowed_tools=(f"Bash({command})",)) as session:
        await session.run(no)
        assert session.asked == []
    assert (contained.root / "made").exists()


@pytest.mark.parametrize("place", [".ssh/authorized_keys", ".config/agentcli/settings.json"])
async def test_credentials_and_own_folders_are_never_opened(contained: Project, place: str) -> None:
    target = contained.home / place
    target.parent.mkdir(parents=True)
    target.write_text("mine\n")
    async with contained.commands(f"echo x > {target}", permission_mode=DEFAULT) as session:
        await session.run(yes)
    assert target.read_text() == "mine\n"


async def test_approved_git_settings_stay_and_others_are_changed_back(contained: Project) -> None:
    inner = contained.root / "inner"
    inner.mkdir()
    commands = (
        "git config user.name someone",
        "git config core.pager less",
        "git remote add origin https://example.org/x.git",
    )
    async with contained.commands(*commands) as session:
        await session.run(yes)
        assert len(session.asked) == 3
    assert contained.git("config", "--local", "user.name") == "someone"
    assert contained.git("config", "--local", "core.pager") == "less"
    assert contained.git("config", "--local", "remote.origin.url") == "https://example.org/x.git"


async def test_git_settings_without_approval_stay_as_they_are(contained: Project) -> None:
    script = "import subprocess; subprocess.run('git branch y; git con'+'fig core.fsmonitor ./evil', shell=True)"
    async with contained.commands(f'git branch x; python3 -c "{script}"') as session:
        (result,) = await session.run(no)
        assert session.asked == []
    assert "Read-only file system" in result
    assert "fsmonitor" not in (contained.path / ".git" / "config").read_text()


async def test_an_approved_submodule_is_added(contained: Project) -> None:
    lib = contained.path / "vendor-source"
    lib.mkdir()
    contained.git("init", "-q", "vendor-source")
    contained.git("-C", "vendor-source", "commit", "-q", "--allow-empty", "-m", "lib")
    command = "git -c protocol.file.allow=always submodule add ./vendor-source lib"
    async with contained.commands(command) as session:
        (result,) = await session.run(yes)
    assert (contained.path / "lib" / ".git").exists(), result
    assert "vendor-source" in contained.git("config", "--local", "submodule.lib.url")


SHOW = "python3 -c 'import os; print(sorted(n for n in os.environ if n.endswith(\"_TOKEN\")))'"


@pytest.fixture
def program(contained: Project) -> str:
    """A program called gh that shows the tokens it gets."""
    folder = contained.root / "bin"
    folder.mkdir()
    (folder / "gh").write_text(f"#!/bin/sh\n{SHOW}\n")
    (folder / "gh").chmod(0o755)
    return str(folder)


async def test_a_rule_gives_a_token_to_its_program_alone(contained: Project, program: str) -> None:
    rules = ("Env(gh:GH_TOKEN)", "Bash(gh *)")
    commands = ("gh pr list", "gh pr list && true", f"gh pr list; {SHOW}", SHOW)
    variables = {**TOKENS, "PATH": f"{program}:{contained.environ['PATH']}"}
    options = {"permission_mode": DEFAULT, "allowed_tools": rules, "variables": variables}
    async with contained.commands(*commands, **options) as session:
        results = await session.run(yes)
    assert results[0] == "['GH_TOKEN']"
    assert "TOKEN" not in "".join(results[1:])


async def test_without_the_rule_an_approved_program_gets_no_token(contained: Project, program: str) -> None:
    variables = {**TOKENS, "PATH": f"{program}:{contained.environ['PATH']}"}
    for mode in (DEFAULT, PermissionMode.AUTO):
        async with contained.commands("gh pr list", permission_mode=mode, variables=variables) as session:
            (result,) = await session.run(yes)
        assert result == "[]"


async def test_the_question_offers_the_token_as_a_rule_of_its_own(contained: Project, program: str) -> None:
    variables = {**TOKENS, "PATH": f"{program}:{contained.environ['PATH']}"}
    async with contained.commands("gh pr list", permission_mode=DEFAULT, variables=variables) as session:
        await session.run(no)
        (question,) = session.asked
    offered = [choice for choice in question.rule_choices if "Env(gh:GH_TOKEN)" in choice["rules"]]
    assert len(offered) == 1
    assert "GH_TOKEN" in offered[0]["covers"]
    assert question.suggestions == ["Bash(gh pr list)"]


async def test_a_host_that_a_rule_denies_stays_closed(contained: Project) -> None:
    settings = json.dumps({"permissions": {"allow": ["Network(*.internal)"], "deny": ["Network(x.internal)"]}})
    command = fetching("http://x.internal/")
    async with contained.commands(command, settings=settings, interactive=False) as session:
        (result,) = await session.run()
    assert "may not reach x.internal" in result


HOST = "machine.internal"


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(host_proxy, "_addresses", lambda _host, _port: ["127.0.0.1"])
    with web_server() as port:
        yield f"http://{HOST}:{port}/x"


async def test_an_allowed_host_is_reached_without_a_question(contained: Project, url: str) -> None:
    async with contained.commands(fetching(url), allowed_tools=(f"Network({HOST})",)) as session:
        (result,) = await session.run()
        assert session.asked == []
    assert "page /x" in result


async def test_a_new_host_is_one_question_and_then_the_command_runs_again(contained: Project, url: str) -> None:
    async with contained.commands(fetching(url), fetching(url)) as session:
        results = await session.run(always)
        (question,) = session.asked
        assert question.reason == f"It tried to reach {HOST}. It would run again with access to that host only."
        assert question.suggestions == [f"Network({HOST})"]
        assert question_of(question) == "Run it again with network?"
    assert all("page /x" in text and "may not reach" not in text for text in results), results
    assert not (contained.path / ".agentcli" / "settings.local.json").exists(), "it applies to this session only"


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
async def test_no_file_of_a_trusted_project_opens_hosts_or_credentials(contained: Project, url: str, name: str) -> None:
    rules = [f"Network({HOST})", "Env(python3:AWS_SECRET_ACCESS_KEY)"]
    (contained.path / ".agentcli").mkdir(exist_ok=True)
    (contained.path / ".agentcli" / name).write_text(json.dumps({"permissions": {"allow": rules}}))
    show = "python3 -c \"import os; print('it is', os.environ.get('AWS_SECRET_ACCESS_KEY'))\""
    environ = {"AWS_SECRET_ACCESS_KEY": "from-the-user"}
    async with contained.commands(fetching(url), show, trust=True, variables=environ) as session:
        results = await session.run(no)
    assert "page /x" not in results[0]
    assert "it is None" in results[1]


async def test_a_host_allowed_once_is_asked_about_again(contained: Project, url: str) -> None:
    async with contained.commands(fetching(url), fetching(url)) as session:
        await session.run(yes)
        assert len(session.asked) == 2


async def test_a_denied_host_keeps_the_first_output_and_a_note(contained: Project, url: str) -> None:
    async with contained.commands(f"echo before; {fetching(url)}") as session:
        (result,) = await session.run(no)
    assert result.startswith("before")
    assert f"may not reach {HOST}" in result
    assert "The user declined to run it again with network." in result


async def test_a_second_host_is_offered_too_and_both_are_then_allowed(contained: Project, url: str) -> None:
    other = url.replace(HOST, "other.internal")
    async with contained.commands(f"{fetching(url)} && {fetching(other)}") as session:
        (result,) = await session.run(yes)
        assert [event.display["network"] for event in session.asked] == [[HOST], ["other.internal"]]
    assert result.count("page /x") == 2


async def test_a_non_interactive_run_reports_the_host_and_the_flag(contained: Project, url: str) -> None:
    async with contained.commands(fetching(url), interactive=False) as session:
        (result,) = await session.run()
        assert session.asked == []
    assert f"may not reach {HOST}" in result
    assert f"--allowedTools 'Network({HOST})'" in result


async def test_stopping_during_the_question_keeps_the_output_of_the_first_run(contained: Project, url: str) -> None:
    async with contained.commands(f"echo before; {fetching(url)}") as session:
        async with aclosing(session.engine.submit("go")) as stream:
            async for event in stream:
                if isinstance(event, ev.PermissionRequested):
                    session.engine.abort(AbortReason.USER_CANCEL)
        (result,) = session.results
    assert "before" in result


async def test_a_background_command_reports_the_host_at_its_end(contained: Project, url: str) -> None:
    calls = (
        call("Bash", command=f"{fetching(url)}; echo over", run_in_background=True),
        call("Bash", command="true"),
    )
    async with contained.session(*calls) as session:
        await session.run()
        shells = session.engine.session.tool_context.shells
        assert shells is not None
        (shell,) = shells.known()
        while not (shell.command.done and shell.ended):
            await asyncio.sleep(0.01)
        assert session.asked == []
        assert f"may not reach {HOST} without the rule Network({HOST})" in shell.ended


async def test_a_refused_loopback_connection_is_explained_and_not_offered(contained: Project) -> None:
    command = "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 9), 5)\""
    async with contained.commands(command) as session:
        (result,) = await session.run()
        assert session.asked == []
    assert "Connection refused" in result


PUBLIC, PRIVATE = "93.184.216.34", "127.0.0.1"


@pytest.mark.parametrize("answers", [(PRIVATE, PUBLIC), (PUBLIC, PRIVATE)])
async def test_a_name_that_changes_its_address_leads_web_fetch_to_no_private_one(
    contained: Project, monkeypatch: pytest.MonkeyPatch, answers: tuple[str, str]
) -> None:
    """The answers alternate, so that looking a name up twice would get both."""
    given, connected = list(answers), []
    connect = socket.socket.connect

    def resolve(host: Any, port: Any, *_rest: Any, **_options: Any) -> list[Any]:
        given.append(address := given.pop(0))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    def record(self: socket.socket, address: Any) -> None:
        connected.append(address[0])
        if address[0] == PUBLIC:
            raise ConnectionRefusedError
        connect(self, address)

    with web_server() as port:
        fetch = call("WebFetch", url=f"http://rebind.example.org:{port}/secret", prompt="Read it")
        async with contained.session(fetch) as session:
            monkeypatch.setattr(socket, "getaddrinfo", resolve)
            monkeypatch.setattr(socket.socket, "connect", record)
            (result,) = await session.run(yes)
    assert PRIVATE not in connected
    assert "page /secret" not in result
    assert ("private address" in result) == (answers[0] == PRIVATE)


async def test_where_bubblewrap_cannot_block_the_network_less_runs_unasked(
    contained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    able = probe.try_out
    monkeypatch.setattr(probe, "try_out", lambda program: replace(able(program), network=False))
    options: dict[str, Any] = {"permission_mode": PermissionMode.DEFAULT}
    contained.git("add", ".")
    async with contained.commands("git ls-files | xargs cat", "cat src/app.py", **options) as session:
        results = await session.run(no)
        assert [event.input["command"] for event in session.asked] == ["git ls-files | xargs cat"]
        assert "x = 1" in results[1]
    with pytest.raises(UsageError, match="cannot block the network"):
        async with contained.commands("true"):
            pass


async def test_a_planted_file_takes_no_folder_of_the_user_out_of_undo(contained: Project) -> None:
    """Folders with a `pyvenv.cfg` are virtual environments, which undo does not cover."""
    (contained.path / ".gitignore").write_text("data/\n")
    data = contained.path / "data" / "a.csv"
    data.parent.mkdir()
    data.write_text("years of work")
    (data.parent / "pyvenv.cfg").touch()
    async with contained.commands("python3 -c \"import shutil; shutil.rmtree('data')\"") as session:
        await session.run(no)
        assert not data.exists()
        await collect(run_command(session.engine, "undo", ""))
    assert data.read_text() == "years of work"


async def test_a_plugin_that_is_swapped_after_the_check_of_trust_does_not_run(
    contained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, ran = contained.path / ".agentcli" / "plugins" / "swapped.py", contained.root / "ran"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("# as it was trusted\n")
    check = TrustStore.state

    def swap(self: TrustStore, cwd: Path) -> TrustState:
        found = check(self, cwd)
        plugin.write_text(f"open({str(ran)!r}, 'w')\n")
        return found

    store = Environment(Options(cwd=contained.path, environ=contained.environ)).trust
    store.trust(store.state(contained.path))
    monkeypatch.setattr(TrustStore, "state", swap)
    async with contained.session(trust=False) as session:
        await session.run(no)
    assert "open" in plugin.read_text()
    assert not ran.exists()
