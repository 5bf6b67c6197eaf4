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


def why(command: str, project: Path, search_path: str = "") -> str:
    parts = analyse(command, replace(CommandContext.of(project, (project,)), search_path=search_path, contained=True))
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
        ("find . -name '*.py' -exec wc -l {} +", "wc"),
    ],
)
def test_a_program_of_the_project_that_a_listed_one_would_start_makes_it_ask(
    command: str, started: str, tree: Path
) -> None:
    outside = tree.parent / "bin"
    for name in (command.split()[0], "grep", "gzip", "xz", "zstd", "node", "wc"):
        program(outside, name)
    own = tree / "tools"
    own.mkdir()
    path = f"{own}:{outside}"
    assert why(command, tree, path) == ""
    program(own, started)
    assert "is a file in a working directory" in why(command, tree, path)


def test_pip_asks_where_python_would_load_code_of_the_project(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("HOME", str(tree.parent / "home"))
    prefix = tree.parent / "python"
    program(prefix / "bin", "python3")
    program(prefix / "bin", "pip", f"#!{prefix}/bin/python3\n")
    site = prefix / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    path = str(prefix / "bin")
    assert why("pip list", tree, path) == ""
    monkeypatch.setenv("PYTHONPATH", str(tree / "src"))
    assert "PYTHONPATH" in why("pip list", tree, path)
    monkeypatch.setenv("PYTHONPATH", "")
    (site / "editable.pth").write_text(f"{tree}\n")
    assert "editable.pth" in why("pip freeze", tree, path)
    assert why("pip --version", tree, path) == ""
    program(tree / ".venv" / "bin", "pip", f"#!{tree}/.venv/bin/python3\n")
    assert why("pip list", tree, f"{tree}/.venv/bin:{path}") != ""


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("package-lock=false\n", False),
        ("# a note\n; another\nsave-exact = true\n@me:registry=https://example.org/\n", False),
        ("//example.org/:_authToken=${TOKEN}\n", False),
        ("script-shell=./evil\n", True),
        ("node-options=--require ./evil.js\n", True),
        ("prefix=.\n", True),
        ('"script-shell"=./evil\n', True),
        ("package-lock=false\n[x]\nshell=./evil\n", True),
    ],
)
def test_npmrc_makes_node_ask_only_for_keys_that_choose_a_program(text: str, asks: bool, tree: Path) -> None:
    outside = tree.parent / "bin"
    for name in ("node", "npm"):
        program(outside, name)
    (tree / ".npmrc").write_text(text)
    for command in ("node --version", "npm --version", "cd src && node --version"):
        assert bool(why(command, tree, str(outside))) == asks


def test_version_files_count_only_with_a_version_manager(tree: Path) -> None:
    real, shims = tree.parent / "bin", tree.parent / ".pyenv" / "shims"
    program(real, "python3")
    program(shims, "python3")
    (tree / ".python-version").write_text("3.12")
    assert why("python3 --version", tree, str(real)) == ""
    assert ".python-version" in why("python3 --version", tree, f"{shims}:{real}")
    rustup = program(tree.parent / "rust", "rustup")
    (real / "cargo").symlink_to(rustup)
    (tree / "rust-toolchain.toml").write_text("[toolchain]")
    assert "rust-toolchain.toml" in why("cargo --version", tree, str(real))


def test_a_search_configured_by_a_file_of_the_project_asks(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tree / "rgrc"))
    assert "rgrc" in why("rg foo", tree)
    assert why("rg --no-config foo", tree) == ""
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", os.devnull)
    assert why("rg foo", tree) == ""
