from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core.processes.own_programs import find_program


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    make_program(folder / ".venv" / "bin" / "tool")
    return folder


def make_program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("entry", ["{project}/.venv/bin", "{project}/../project/.venv/bin", "{link}", ".venv/bin", ""])
def test_a_program_in_a_working_directory_is_skipped(
    entry: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(project / ".venv" / "bin")
    monkeypatch.chdir(project)
    path = entry.format(project=project, link=tmp_path / "link")
    assert find_program("tool", path, [project]) is None
    real = make_program(tmp_path / "system" / "tool")
    assert find_program("tool", f"{path}:{real.parent}", [project]) == str(real)


def test_a_link_into_a_working_directory_is_skipped(project: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").symlink_to(project / ".venv" / "bin" / "tool")
    assert find_program("tool", str(tmp_path / "bin"), [project]) is None


def test_a_working_directory_given_as_a_link_is_resolved(project: Path, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(project)
    assert find_program("tool", str(project / ".venv" / "bin"), [tmp_path / "other"]) is None


@pytest.mark.parametrize("name", ["to\0ol", "\ud800"])
def test_a_name_that_no_file_can_have_is_not_found(name: str) -> None:
    assert find_program(name, "/usr/bin:/bin", ()) is None
