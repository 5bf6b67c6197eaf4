"""Programs and files that a read-only program starts or loads in turn, and which files choose it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.shell.command_context import CommandContext
from agentcli.shell.commands.command_parts import analyse
from agentcli.shell.parser.strict_parser import NotPlain


def program(folder: Path, name: str, text: str = "#!/bin/sh\n") -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return folder / name


def why(command: str, project: Path, search_path: str = "", *, contained: bool = False) -> str:
    place = CommandContext.of(project, (project,))
    parts = analyse(command, replace(place, search_path=search_path, contained=contained))
    assert not isinstance(parts, NotPlain)
    return "; ".join(part.objection for part in parts if part.objection is not None)


@pytest.mark.parametrize(
    ("command", "started"),
    [
        ("egrep foo a.txt", "grep"),
        ("fgrep foo a.txt", "grep"),
        ("tar tzf a.tgz", "gzip"),
        ("tar -tf a.tar", "xz"),
        ("tar tf a.tar", "zstd"),
        ("zcat a.gz", "gzip"),
        ("npm --version", "node"),
        ("ls", "ls"),
    ],
)
def test_a_program_of_the_project_that_a_listed_one_would_start_makes_it_ask(
    command: str, started: str, tree: Path
) -> None:
    outside = tree.parent / "bin"
    for name in (command.split()[0], "grep", "gzip", "xz", "zstd", "node"):
        program(outside, name)
    own = tree / "tools"
    own.mkdir()
    path = f"{own}:{outside}"
    assert why(command, tree, path) == ""
    program(own, started)
    assert "is a file in a working directory" in why(command, tree, path)
    assert why(command, tree, path, contained=True) == ""


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cargo --version", "rust-toolchain.toml"),
        ("go version", "go.mod"),
        ("python3 --version", ".python-version"),
        ("cd src && node --version", ".nvmrc"),
        ("npm --version", ".npmrc"),
        ("ruby --version", ".tool-versions"),
    ],
)
def test_without_a_sandbox_files_that_choose_the_program_make_it_ask(command: str, name: str, tree: Path) -> None:
    assert why(command, tree) == ""
    (tree / name).touch()
    assert name in why(command, tree)
    assert why(command, tree, contained=True) == ""


def test_without_a_sandbox_pip_asks_because_it_loads_code(tree: Path) -> None:
    assert why("pip --version", tree) == ""
    assert "loads code" in why("pip list", tree)
    assert why("pip list", tree, contained=True) == ""


def test_a_search_configured_by_a_file_of_the_project_asks(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tree / "rgrc"))
    assert "rgrc" in why("rg foo", tree)
    assert why("rg --no-config foo", tree) == ""
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", os.devnull)
    assert why("rg foo", tree) == ""
