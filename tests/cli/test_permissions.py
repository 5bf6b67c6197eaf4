"""`agentcli permissions`, without a key and without a model."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agentcli.cli.main import main


@pytest.fixture
def work(place: Path) -> Path:
    folder = place / "work"
    (folder / "src").mkdir()
    settings = place / "home" / ".config" / "agentcli" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash(npm test *)"], "deny": ["Bash(git push *)"]}}))
    return folder


@pytest.mark.parametrize(
    ("command", "code", "first"),
    [
        ("ls -la", 0, "allow: allowed because it is read-only"),
        ("npm publish", 3, "ask: Needs approval: npm publish may change files or run code"),
        ("ls && git push", 4, "deny: denied by rule Bash(git push *) from "),
        ("echo x > out.txt", 3, "ask: Needs approval: it redirects output to out.txt"),
        ("ls \x1b[2J", 4, "deny: the command contains control characters"),
    ],
)
def test_the_exit_code_and_the_first_line_give_the_decision(
    command: str, code: int, first: str, work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["permissions", "test", command], os.environ) == code
    shown = capfd.readouterr().out
    assert shown.startswith(first)
    assert "\x1b" not in shown


def test_each_part_is_explained_with_the_file_of_its_rule(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "test", "cd src && npm test | tail -5 && make"], os.environ) == 3
    lines = capfd.readouterr().out.splitlines()
    file = work.parent / "home" / ".config" / "agentcli" / "settings.json"
    assert lines == [
        "ask: Needs approval: make may change files or run code",
        "  cd src: allowed because it is read-only",
        f"  npm test: allowed because it matches rule Bash(npm test *) from {file}",
        "  tail -5: allowed because it is read-only",
        "  make: needs approval because make may change files or run code",
        "Rule to allow it: Bash(make)",
    ]


def test_programs_get_json(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "test", "--json", "--mode", "acceptEdits", "--tool", "Edit", "a.py"], os.environ) == 0
    record = json.loads(capfd.readouterr().out)
    assert record["behavior"] == "allow"
    assert record["reason"] == "allowed because edits in the working directories are accepted"
    assert (record["tool"], record["mode"], record["cwd"]) == ("Edit", "acceptEdits", str(work))


@pytest.mark.parametrize("flag", ["--permission-mode", "--mode"])
def test_the_mode_is_given_as_on_the_program_s_own_command_line(
    work: Path, capfd: pytest.CaptureFixture[str], flag: str
) -> None:
    for mode, code, behavior in (("default", 3, "ask"), ("acceptEdits", 0, "allow"), ("plan", 4, "deny")):
        assert main(["permissions", "test", "--json", f"{flag}={mode}", "--tool", "Edit", "a.py"], os.environ) == code
        record = json.loads(capfd.readouterr().out)
        assert (record["behavior"], record["mode"]) == (behavior, mode)


def test_other_tools_can_be_tried(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "test", "--tool", "WebFetch", "https://docs.example.com/x"], os.environ) == 3
    assert "WebFetch(domain:docs.example.com)" in capfd.readouterr().out
    assert main(["permissions", "test", "--tool", "mcp__server__tool", "x"], os.environ) == 3
    assert main(["permissions", "test", "--tool", "Read", "../elsewhere.txt"], os.environ) == 3


def test_an_unknown_mode_is_wrong_usage(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "test", "--mode", "yolo", "ls"], os.environ) == 2
    assert "acceptEdits" in capfd.readouterr().err


def test_rules_are_listed_with_their_files(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "list"], os.environ) == 0
    shown = capfd.readouterr().out
    assert "mode: default" in shown
    assert "deny   Bash(git push *)  # " in shown
    assert "settings.json" in shown
    assert main(["permissions", "list", "--json"], os.environ) == 0
    assert [row["behavior"] for row in json.loads(capfd.readouterr().out)["rules"]] == ["deny", "allow"]
