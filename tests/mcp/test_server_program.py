"""Which program a stdio server is, and what it gets of the user's environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.mcp.stdio import server_command, server_environment


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def command(name: str, project: Path, *folders: Path) -> str:
    path = ":".join(map(str, folders))
    found = server_command(
        name, ["a"], cwd=project, environ={"PATH": path, "HOME": str(project)}, given={}, working_dirs=[project]
    )
    assert found[1:] == ["a"]
    return found[0]


def test_a_name_is_found_in_the_path_but_not_in_a_working_directory(tmp_path: Path) -> None:
    project, tools = tmp_path / "project", tmp_path / "tools"
    program(project / "bin" / "serve")
    outside = program(tools / "serve")
    assert command("serve", project, project / "bin", tools) == str(outside)
    with pytest.raises(FileNotFoundError, match=r"serve: no such program in PATH\. Install it"):
        command("serve", project, project / "bin", Path("bin"))


@pytest.mark.parametrize("name", ["bin/serve", "./bin/serve", "~/bin/serve"])
def test_a_path_may_lead_into_the_project(tmp_path: Path, name: str) -> None:
    inside = program(tmp_path / "bin" / "serve")
    assert command(name, tmp_path) == str(inside)


@pytest.mark.parametrize("name", ["bin/none", "./bin", "/no/such/program"])
def test_a_path_to_nothing_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "bin").mkdir()
    with pytest.raises(FileNotFoundError, match=f"{tmp_path / name}: no such program"):
        command(name, tmp_path)


def test_a_server_gets_what_programs_need_and_its_own_variables_but_no_secrets(tmp_path: Path) -> None:
    environ = {
        "PATH": f"{tmp_path}/bin:/usr/bin",
        "HOME": "/home/ada",
        "LC_ALL": "C",
        "ANTHROPIC_API_KEY": "sk-ant-x",
        "GITHUB_TOKEN": "x",
        "MY_OWN": "x",
        "NODE_OPTIONS": "--require ./x.js",
        "npm_config_registry": "https://ada:pass@registry.example/",
        "npm_config_auth_token": "x",
        "https_proxy": "http://ada:pass@proxy:1",
    }
    got = server_environment(environ, {"GITHUB_TOKEN": "mine", "A": "1"}, [tmp_path])
    assert got["PATH"] == "/usr/bin"
    assert got["HOME"] == "/home/ada"
    assert (got["GITHUB_TOKEN"], got["A"], got["TERM"]) == ("mine", "1", "dumb")
    assert not {"ANTHROPIC_API_KEY", "MY_OWN", "NODE_OPTIONS", "npm_config_auth_token"} & set(got)
    assert "pass" not in "".join(got.values())
