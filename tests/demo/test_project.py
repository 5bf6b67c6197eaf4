"""The temporary project: its test fails for the right reason, passes with the fix, and is removed afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcli.demo.project import BROKEN, CODE, FIXED, TESTS, Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Project() as made:
        yield made


def fix(project: Project) -> None:
    code = project.folder / CODE
    code.write_text(code.read_text().replace(BROKEN, FIXED))


def test_the_test_fails_at_first_and_passes_with_the_fix(project: Project) -> None:
    assert not project.fixed
    assert "failures=1" in project.problem()
    fix(project)
    assert project.fixed
    assert project.problem() == ""


def test_a_removed_test_does_not_pass(project: Project) -> None:
    fix(project)
    (project.folder / TESTS).write_text("")
    assert project.problem()
    (project.folder / TESTS).unlink()
    assert project.problem()


@pytest.mark.parametrize("found", ["nowhere", "home"])
def test_without_a_usable_system_python_our_own_interpreter_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    """As with the shims of a version manager, which look for their files in a home that is not there."""
    shims = tmp_path / "home" / "shims"
    shims.mkdir(parents=True)
    (shims / "python3").write_text("#!/bin/sh\nexit 1\n")
    (shims / "python3").chmod(0o755)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(shims if found == "home" else tmp_path))
    with Project() as project:
        environ = project.environment(os.environ)
        words = [f"{project.folder}/.venv/bin/python3", "-c", "import sys; print(sys.version)"]
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == sys.version.strip()
        assert environ["PATH"].startswith(f"{project.folder}/.venv/bin:")


def test_a_system_python_is_used_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python3").write_text("#!/bin/sh\n")
    (tmp_path / "python3").chmod(0o755)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", "/home/nobody")
    monkeypatch.setenv("PATH", str(tmp_path))
    with Project() as project:
        assert project.environment(os.environ)["PATH"] == str(tmp_path)


def test_the_project_is_a_clean_repository(project: Project) -> None:
    if shutil.which("git") is None:
        pytest.skip("no git here")
    project.make_repository()
    shown = subprocess.run(
        ["git", "status", "--porcelain", "--branch"], cwd=project.folder, capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["##", "main"]


def test_only_terminal_variables_of_the_environment_are_passed_on(project: Project) -> None:
    given = {
        "PATH": "/bin",
        "TERM": "xterm",
        "LC_ALL": "C",
        "HOME": "/home/me",
        "ANTHROPIC_API_KEY": "sk-mine",
        "ANTHROPIC_AUTH_TOKEN": "mine",
        "AGENTCLI_CONFIG_DIR": "/home/me/config",
        "XDG_STATE_HOME": "/home/me/state",
        "HTTPS_PROXY": "http://proxy",
        "GITHUB_TOKEN": "mine",
    }
    seen = project.environment(given)
    assert seen["PATH"].endswith("/bin")
    assert seen["TERM"] == "xterm"
    assert seen["LC_ALL"] == "C"
    assert not [name for name, value in seen.items() if "mine" in value or "/home/me" in value or "proxy" in value]
    assert all(seen[f"AGENTCLI_{name}_DIR"].startswith(str(project.root)) for name in ("CONFIG", "STATE", "CACHE"))


def test_the_folder_is_removed_unless_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Project() as gone:
        assert gone.root.parent == tmp_path
    assert not gone.root.exists()
    with Project(keep=True) as kept:
        pass
    assert (kept.folder / CODE).is_file()
