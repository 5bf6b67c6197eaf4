"""`agentcli mcp`: adding, listing, showing, testing and removing servers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentcli.cli import mcp_login
from agentcli.cli.app import command_tree, run_app
from agentcli.cli.complete import FileNamesWanted, offers
from agentcli.config.trust import TrustStore
from agentcli.core.aio import in_thread
from agentcli.core.errors import AgentError, UsageError
from agentcli.mcp.configuration import ServerConfig, show_fields, show_target
from tests.mcp.oauth.signing_in import SignInBench, on_bench
from tests.support.authorization_server import browse

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("home")]


def output(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run_app(["mcp", *arguments]) == code
    return capfd.readouterr().out


def written(path: Path) -> dict[str, object]:
    servers: dict[str, object] = json.loads(path.read_text()).get("mcpServers", {})
    return servers


def user_file(home: Path) -> Path:
    return home / ".config/agentcli/settings.json"


def test_a_command_goes_to_the_local_settings_of_the_project(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = output(capfd, "add", "db", "-e", "URL=${DB}", "-e", "A=b=c", "--", "npx", "-y", "pkg", "--flag")
    path = home / "project/.agentcli/settings.local.json"
    assert f"Added db to {path}" in said
    assert "agentcli mcp test db" in said
    entry = {"command": "npx", "args": ["-y", "pkg", "--flag"], "env": {"URL": "${DB}", "A": "b=c"}}
    assert written(path) == {"db": entry}
    assert "settings.local.json" in (home / "project/.agentcli/.gitignore").read_text()
    assert "db  not started" in output(capfd, "list", "--no-connect")


def test_an_address_goes_to_the_user_settings_and_the_rest_of_the_file_stays(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = user_file(home)
    path.parent.mkdir(parents=True)
    path.write_text('{\n    "model": "opus",\n    "mcpServers": {"a": {"command": "x"}}\n}\n')
    output(capfd, "add", "api", "https://h/mcp", "-H", "Authorization: Bearer ${K}", "-s", "user")
    output(capfd, "add", "old", "https://h/sse", "--transport", "sse", "--scope", "user")
    document = json.loads(path.read_text())
    assert document["model"] == "opus"
    assert document["mcpServers"] == {
        "a": {"command": "x"},
        "api": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${K}"}},
        "old": {"type": "sse", "url": "https://h/sse"},
    }
    assert path.read_text().startswith('{\n    "model"')


def test_a_shared_server_goes_to_the_projects_file_and_stays_trusted(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output(capfd, "add", "shared", "--scope", "project", "--", "run")
    path = home / "project/.mcp.json"
    assert written(path) == {"shared": {"command": "run", "args": []}}
    assert "shared  not started  from .mcp.json" in output(capfd, "list", "--no-connect")
    path.write_text(json.dumps({"mcpServers": {"shared": {"command": "other"}}}))
    assert "shared  not approved  from .mcp.json" in output(capfd, "list")


def test_adding_to_an_untrusted_project_does_not_trust_the_rest(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (home / "project/.mcp.json").write_text(json.dumps({"mcpServers": {"theirs": {"command": "evil"}}}))
    assert "run `agentcli trust`" in output(capfd, "add", "mine", "--scope", "project", "--", "run")
    state = TrustStore(home / ".local/state/agentcli", home).state(home / "project")
    assert not state.usable
    listed = output(capfd, "list")
    assert "theirs  not approved" in listed
    assert "mine    not approved" in listed


def test_a_link_to_the_users_settings_is_not_written_through(home: Path) -> None:
    user_file(home).parent.mkdir(parents=True)
    user_file(home).write_text("{}")
    (home / "project/.mcp.json").symlink_to(user_file(home))
    with pytest.raises(AgentError, match="is a link to"):
        run_app(["mcp", "add", "x", "--scope", "project", "--", "run"])
    assert user_file(home).read_text() == "{}"


def test_json_is_added_as_it_is(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    entry = {"type": "http", "url": "https://h", "timeout": 1000}
    output(capfd, "add-json", "x", json.dumps(entry), "-s", "user")
    assert written(user_file(home)) == {"x": entry}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "x"], "Give an address"),
        (["add", "a b", "--", "run"], "a name has"),
        (["add", "x", "--transport", "ws", "https://h"], "--transport must be one of stdio, http, sse"),
        (["add", "x", "--scope", "all", "--", "run"], "--scope must be one of local, user, project"),
        (["add", "x", "-e", "A", "--", "run"], "Expected --env NAME=VALUE"),
        (["add", "x", "-e", "A=b", "https://h"], "--env is for a command"),
        (["add", "x", "-H", "A: b", "--", "run"], "--header is for an address"),
        (["add", "x", "--transport", "http", "ftp://h"], "'url' must be an http:// or https:// address"),
        (["add-json", "x", "{"], "is not valid JSON"),
        (["add-json", "x", '{"mcpServers": {}}'], "Give one server's entry"),
        (["add-json", "x", '{"command": 1}'], "'command' must be a string. Nothing was saved."),
        (["get", "x"], "There is no MCP server 'x'"),
        (["test", "x"], "There is no MCP server 'x'"),
        (["remove", "x"], "There is no MCP server 'x'"),
    ],
)
def test_wrong_arguments_are_refused_and_nothing_is_written(home: Path, arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        run_app(["mcp", *arguments])
    assert said in str(error.value)
    assert not user_file(home).exists()
    assert not (home / "project/.agentcli").exists()


def test_a_server_is_not_overwritten_and_a_broken_file_is_left_alone(home: Path) -> None:
    run_app(["mcp", "add", "x", "-s", "user", "--", "run"])
    with pytest.raises(AgentError, match="already has an MCP server x"):
        run_app(["mcp", "add", "x", "-s", "user", "--", "other"])
    user_file(home).write_text("{broken")
    with pytest.raises(AgentError, match="fix the file first"):
        run_app(["mcp", "add", "y", "-s", "user", "--", "run"])
    assert user_file(home).read_text() == "{broken"


def test_a_server_in_two_places_is_removed_from_the_named_one(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for scope in ("user", "local"):
        output(capfd, "add", "x", "-s", scope, "--", scope)
    assert "hides the one in ~/.config/agentcli/settings.json" in output(capfd, "get", "x")
    with pytest.raises(UsageError, match="is in several scopes: local, user"):
        run_app(["mcp", "remove", "x"])
    output(capfd, "remove", "x", "--scope", "local")
    assert f"Removed x from {user_file(home)}" in output(capfd, "remove", "x")
    assert written(user_file(home)) == {}


def test_secrets_are_masked(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "very-secret")
    output(capfd, "add", "a", "-e", "TOKEN=abc123", "-e", "REF=${KEY}", "--", "run", "--api-key", "abc123", "${KEY}")
    output(capfd, "add", "b", "https://me:abc123@h/mcp?token=abc123", "-H", "X-Key: abc123", "-H", "Y: Bearer ${KEY}")
    for said in (output(capfd, "list", "--no-connect"), output(capfd, "get", "a"), output(capfd, "get", "b", "--json")):
        assert "abc123" not in said
        assert "very-secret" not in said
    assert "env TOKEN: …\n  env REF: ${KEY}\n  reads: KEY" in output(capfd, "get", "a")
    assert "header Y: Bearer ${KEY}" in output(capfd, "get", "b")


def test_without_servers_the_list_says_how_to_add_one(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_app(["mcp", "list"]) == 0
    assert "agentcli mcp add NAME" in capfd.readouterr().err
    assert json.loads(output(capfd, "list", "--json")) == []


def test_a_failing_server_ends_with_an_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    output(capfd, "add", "gone", "--", "no-such-program-here")
    assert "gone: failed" in output(capfd, "test", "gone", code=1)


def test_an_unapproved_server_is_not_tested(home: Path) -> None:
    (home / "project/.mcp.json").write_text(json.dumps({"mcpServers": {"theirs": {"command": "evil"}}}))
    with pytest.raises(AgentError, match="not approved"):
        run_app(["mcp", "test", "theirs"])


def test_choices_can_be_forgotten(capfd: pytest.CaptureFixture[str]) -> None:
    assert "There were none." in output(capfd, "reset-project-choices")


def test_names_and_values_are_completed(home: Path) -> None:
    run_app(["mcp", "add", "small", "-s", "user", "--", "run"])
    environ = {"HOME": str(home)}

    def offered(*words: str) -> list[str]:
        return [offer.value for offer in offers(words, environ, home / "project")]

    assert offered("mcp", "te") == ["test"]
    assert offered("mcp", "test", "sm") == ["small"]
    assert offered("mcp", "add", "x", "--scope", "") == ["local", "user", "project"]
    assert offered("mcp", "add", "x", "--transport", "s") == ["stdio", "sse"]
    with pytest.raises(FileNamesWanted):
        offered("--mcp-config", "")


def test_the_description_of_a_callers_server() -> None:
    config = ServerConfig("x", "http", "caller", url="https://u:p@h/", headers={"A": "b"}, timeout=2)
    assert list(show_fields(config)) == [("url", "https://h/"), ("header A", "…"), ("timeout", "2 s")]
    assert show_target(ServerConfig("x", "stdio", command="a b", args=("c", "--token=d"))) == "'a b' c '--token=…'"


def test_ignored_servers_of_an_untrusted_folder_are_reported(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = home / "project/.agentcli"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps({"mcpServers": {"theirs": {"command": "run"}}}))
    said = "Servers in .agentcli/settings.json are ignored because this folder is not trusted."
    with pytest.raises(UsageError) as error:
        run_app(["mcp", "get", "theirs"])
    assert said in str(error.value)
    run_app(["mcp", "list", "--no-connect"])
    assert said in capfd.readouterr().err
    run_app(["mcp", "list", "--no-connect", "--trust"])
    result = capfd.readouterr()
    assert "theirs" in result.out
    assert said not in result.err


def test_the_last_server_leaves_nothing_that_would_be_asked_about(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output(capfd, "add", "x", "-s", "project", "--", "run")
    output(capfd, "remove", "x")
    assert json.loads((home / "project/.mcp.json").read_text()) == {}
    assert not TrustStore.of(os.environ).state(home / "project").needs_answer
    output(capfd, "add", "y", "-s", "project", "--", "run")
    assert TrustStore.of(os.environ).state(home / "project").usable, "as after the first one"


class Terminal:
    """The command's output, and what the user types."""

    def __init__(self) -> None:
        self.text = ""
        self.changed = threading.Event()
        self.input, self._typed = os.pipe()

    def echo(self, text: str = "", *, err: bool = False) -> None:
        self.text += f"{text}\n"
        self.changed.set()

    def type(self, line: str) -> None:
        os.write(self._typed, line.encode())

    async def wait_for(self, pattern: str) -> str:
        while (found := re.search(pattern, self.text)) is None:
            await in_thread(self.changed.wait, 20)
            self.changed.clear()
        return found.group()

    def close(self) -> None:
        os.close(self.input)
        os.close(self._typed)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal()
    stdin = os.fdopen(os.dup(made.input))
    monkeypatch.setattr(mcp_login, "echo", made.echo)
    monkeypatch.setattr(mcp_login, "notice", made.echo)
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.chdir(tmp_path)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENTCLI_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AGENTCLI_CONFIG_DIR", str(tmp_path / "config"))
    yield made
    stdin.close()
    made.close()


def command(*arguments: str, url: str = "https://example.com/mcp") -> Callable[[], None]:
    servers = {
        "files": {"type": "http", "url": url},
        "own": {"type": "http", "url": url, "headers": {"Authorization": "Bearer x"}},
        "program": {"command": "/bin/true"},
    }
    flag = ["--mcp-config", json.dumps({"mcpServers": servers})]
    return lambda: command_tree().main(["mcp", *arguments, *flag], standalone_mode=False)


@on_bench
async def test_the_user_signs_in_in_a_browser_and_out_again(bench: SignInBench, terminal: Terminal) -> None:
    work = asyncio.ensure_future(in_thread(command("login", "files", url=bench.protected.endpoint)))
    await browse(await terminal.wait_for(r"http://\S+/authorize\S+"))
    await work
    assert terminal.text.endswith("Signed in to files: 2 tools.\n")
    assert "secret" in (bench.state_dir / "mcp-tokens.json").read_text()
    assert "secret" not in terminal.text

    await in_thread(command("logout", "files", url=bench.protected.endpoint))
    assert terminal.text.endswith("Signed out of files.\n")
    assert bench.authorization.access == {}
    assert "secret" not in (bench.state_dir / "mcp-tokens.json").read_text()


@on_bench
async def test_without_a_browser_the_user_pastes_the_address(bench: SignInBench, terminal: Terminal) -> None:
    work = asyncio.ensure_future(in_thread(command("login", "files", "--no-browser", url=bench.protected.endpoint)))
    address = await terminal.wait_for(r"http://\S+/authorize\S+")
    redirect = (await browse(address, follows=False)).headers["location"]
    terminal.type("what now?\n\n")
    await terminal.wait_for("neither an address nor a code")
    terminal.type(redirect[:20])
    terminal.type(f"{redirect[20:]}\n")
    await work
    assert terminal.text.endswith("Signed in to files: 2 tools.\n")


@on_bench
async def test_a_refused_sign_in_is_reported(bench: SignInBench, terminal: Terminal) -> None:
    bench.authorization.redirect = {"code": None, "error": "access_denied"}
    work = asyncio.ensure_future(in_thread(command("login", "files", url=bench.protected.endpoint)))
    await browse(await terminal.wait_for(r"http://\S+/authorize\S+"))
    with pytest.raises(AgentError, match=r"Not signed in to files\. The authorization server refused: access_denied\."):
        await work


@pytest.mark.parametrize("verb", ["login", "logout"])
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("other", "There is no MCP server 'other'. There are: files, own, program."),
        ("own", "own has no sign-in. It has credentials in its configuration."),
        ("program", "program has no sign-in."),
    ],
)
async def test_a_server_without_a_sign_in_is_named(terminal: Terminal, verb: str, name: str, problem: str) -> None:
    with pytest.raises((AgentError, UsageError)) as caught:
        await in_thread(command(verb, name))
    assert str(caught.value) == problem


@pytest.mark.parametrize("verb", ["login", "logout"])
async def test_a_server_of_a_repository_needs_approval(tmp_path: Path, terminal: Terminal, verb: str) -> None:
    entry = {"mcpServers": {"theirs": {"type": "http", "url": "https://example.com/mcp"}}}
    (tmp_path / ".mcp.json").write_text(json.dumps(entry))
    with pytest.raises(AgentError, match="not approved"):
        await in_thread(command(verb, "theirs"))
