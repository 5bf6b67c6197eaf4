from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agentcli.cli.main import main
from agentcli.permissions.sandbox.probe import probe

KEY = "sk-doctor-never-shows-this"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC", "AGENTCLI", "XDG", "CLAUDE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def checks(capfd: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, dict[str, str]], str]:
    code = main(["doctor", "--json", *flags], os.environ)
    shown = capfd.readouterr().out
    return code, {check["name"]: check for check in json.loads(shown)["checks"]}, shown


def test_doctor_proves_the_sandbox_and_never_shows_the_key(capfd: pytest.CaptureFixture[str], place: Path) -> None:
    if not (ability := probe(os.environ, (), None)).works:
        pytest.skip(f"no sandbox to prove: {ability.problem}")
    code, found, shown = checks(capfd)
    assert code == 0
    assert found["sandbox"]["status"] == "ok"
    assert "a write outside is refused; a secret cannot be read" in found["sandbox"]["text"]
    assert found["key"]["text"].startswith("from ANTHROPIC_API_KEY")
    assert KEY not in shown
    assert list((place / "work").iterdir()) == []
    assert not list((place / "home" / ".cache" / "agentcli").glob("doctor-*"))


def test_doctor_proves_that_strict_has_no_network(capfd: pytest.CaptureFixture[str], place: Path) -> None:
    if not (ability := probe(os.environ, (), None)).network:
        pytest.skip(f"no sandbox to prove: {ability.problem}")
    _code, found, _shown = checks(capfd, "--sandbox", "strict")
    assert "there is no network" in found["sandbox"]["text"]


def test_doctor_says_when_there_is_no_sandbox(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _code, found, _shown = checks(capfd, "--sandbox", "off")
    assert found["sandbox"]["status"] == "warn"
    monkeypatch.setenv("PATH", str(place))
    code, found, _shown = checks(capfd)
    assert found["sandbox"]["status"] == "warn"
    assert "apt install bubblewrap" in found["sandbox"]["text"]
    assert found["git"]["status"] == "warn"
    code, found, _shown = checks(capfd, "--sandbox", "strict")
    assert (code, found["sandbox"]["status"]) == (1, "fail")


def test_a_missing_key_fails_and_broken_settings_warn(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    settings = place / "home" / ".config" / "agentcli" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"modle": "x"}')
    code, found, _shown = checks(capfd, "--sandbox", "off")
    assert code == 1
    assert found["key"]["status"] == "fail"
    assert found["settings"]["status"] == "warn"
    assert "modle" in found["settings"]["text"]


def test_the_lines_begin_with_how_it_is(capfd: pytest.CaptureFixture[str], place: Path) -> None:
    assert main(["doctor", "--sandbox", "off"], os.environ) == 0
    lines = capfd.readouterr().out.splitlines()
    assert all(line.split()[0] in ("ok", "warn", "fail") for line in lines if not line.startswith(" "))
    assert "\x1b" not in "".join(lines)


def test_doctor_runs_no_program_of_the_folder_it_looks_at(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = place / "work" / ".venv" / "bin"
    planted.mkdir(parents=True)
    for name in ("git", "rg", "bash"):
        (planted / name).write_text(f"#!/bin/sh\ntouch {place}/sprung\n")
        (planted / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted}:{os.environ['PATH']}")
    _code, found, _shown = checks(capfd, "--sandbox", "off")
    assert not any(str(planted) in found[name]["text"] for name in ("git", "ripgrep", "bash"))
    assert not (place / "sprung").exists()
