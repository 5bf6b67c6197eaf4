"""`agentcli mcp`: adding, listing, showing, testing and removing servers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agentcli.cli.app import run_app
from agentcli.cli.complete import FileNamesWanted, offers
from agentcli.config.trust import TrustStore
from agentcli.core.errors import AgentError, UsageError
from agentcli.mcp.configuration import ServerConfig, shown_fields, shown_target


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "AGENTCLI_CONFIG_DIR", "AGENTCLI_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


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
    assert list(shown_fields(config)) == [("url", "https://h/"), ("header A", "…"), ("timeout", "2 s")]
    assert shown_target(ServerConfig("x", "stdio", command="a b", args=("c", "--token=d"))) == "'a b' c '--token=…'"


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
