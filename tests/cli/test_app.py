from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path

import pytest

from agentcli.cli.crash import ReportingHandler
from agentcli.cli.main import main
from agentcli.cli.sessions import session_lines
from agentcli.session.find import SessionInfo


def test_config_shows_each_value_with_where_it_came_from(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place / "home" / ".config" / "agentcli"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps({"model": "haiku\x1b[31m", "nonsense": 1}), encoding="utf-8")
    monkeypatch.setenv("AGENTCLI_EFFORT", "low")
    assert main(["config"], os.environ) == 0
    shown = capfd.readouterr()
    lines = shown.out.splitlines()
    assert any(line.startswith('model = "haiku') and line.endswith(f"# {folder / 'settings.json'}") for line in lines)
    assert 'effort = "low"  # environment variable AGENTCLI_EFFORT' in lines
    assert lines[-1].endswith("# default")
    assert "nonsense" in shown.err
    assert "\x1b" not in shown.out
    assert main(["config", "--json"], os.environ) == 0
    records = {row["key"]: row["source"] for row in json.loads(capfd.readouterr().out)}
    assert records["effort"] == "environment variable AGENTCLI_EFFORT"


def test_sessions_are_listed_and_an_empty_list_is_reported(capfd: pytest.CaptureFixture[str], place: Path) -> None:
    assert main(["sessions"], os.environ) == 0
    assert "No sessions in this folder yet" in capfd.readouterr().err
    assert main(["sessions", "list", "--all", "--json"], os.environ) == 0
    assert json.loads(capfd.readouterr().out) == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["config", "--bla"], "No such option: --bla"),
        (["completion"], "Missing argument"),
        ([], "The app needs a terminal"),
        (["hello there"], "agentcli -p 'PROMPT'"),
        (["--output-format", "json", "hello"], "--output-format needs -p. Use: agentcli -p 'PROMPT'"),
        (["-p", "x", "--max-turns", "0"], "--max-turns must be 1 or more"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    capfd: pytest.CaptureFixture[str], place: Path, argv: list[str], message: str
) -> None:
    assert main(argv, os.environ) == 2
    shown = capfd.readouterr()
    assert message in shown.err
    assert shown.err.startswith("agentcli: ")
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_a_program_gets_a_result_also_for_wrong_usage(capfd: pytest.CaptureFixture[str], place: Path) -> None:
    assert main(["-p", "x", "--output-format", "json", "--add-dir", "nowhere"], os.environ) == 2
    shown = capfd.readouterr()
    frame = json.loads(shown.out)
    assert (frame["type"], frame["is_error"]) == ("result", True)
    assert f"agentcli: {frame['result']}\n" == shown.err


def test_an_interrupt_while_starting_is_quiet(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agentcli.cli.main.parse", interrupted)
    assert main(["-p", "x"], os.environ) == 130
    assert capfd.readouterr() == ("", "")


def test_a_logged_exception_becomes_a_report_and_a_sentence(tmp_path: Path) -> None:
    told: list[str] = []
    logger = logging.Logger("apart")
    logger.addHandler(ReportingHandler({"AGENTCLI_STATE_DIR": str(tmp_path)}, told.append))
    logger.warning("only a warning")
    try:
        raise ZeroDivisionError("oops")
    except ZeroDivisionError:
        logger.exception("the submission failed")
    [report] = (tmp_path / "crashes").iterdir()
    assert len(told) == 1
    assert str(report) in told[0]


def test_a_full_disk_is_not_reported_as_a_bug(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("agentcli.cli.main.parse", full)
    assert main(["config"], os.environ) == 1
    assert capfd.readouterr().err == "agentcli: Cannot write the output: No space left on device.\n"


def test_a_missing_working_directory_is_reported(capfd: pytest.CaptureFixture[str], place: Path) -> None:
    (place / "work").rmdir()
    assert main(["-p", "x"], os.environ) == 2
    assert "The current folder no longer exists" in capfd.readouterr().err


def test_a_bug_is_one_sentence_and_a_file(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("agentcli.cli.main.parse", broken)
    assert main(["-p", "x"], os.environ) == 1
    shown = capfd.readouterr().err
    assert "Traceback" not in shown
    [report] = (place / "home" / ".local" / "state" / "agentcli" / "crashes").iterdir()
    assert str(report) in shown
    assert "ZeroDivisionError: oops" in report.read_text(encoding="utf-8")
    assert report.stat().st_mode & 0o777 == 0o600


def test_neither_a_report_nor_its_message_contains_keys_or_control_characters(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = ("sk-ant-api03-abcdefghijklmnop", "ghp_abcdefghijklmnopqrst", "hunter2")

    def broken(*_arguments: object) -> None:
        key, token, password = secrets
        try:
            raise ValueError(f"Illegal header value b'{key}'")
        except ValueError as error:
            raise RuntimeError(f"\x1b]0;title\x07 http://me:{password}@proxy {token} {'x' * 100_000}") from error

    monkeypatch.setattr("agentcli.cli.main.parse", broken)
    assert main(["-p", "x"], os.environ) == 1
    shown = capfd.readouterr().err
    [report] = (place / "home" / ".local" / "state" / "agentcli" / "crashes").iterdir()
    for secret in secrets:
        assert secret not in shown + report.read_text(encoding="utf-8")
    assert "\x1b" not in shown
    assert len(shown) < 2_000


def test_a_repository_cannot_redirect_a_report(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = place / "target"
    target.mkdir()
    settings = {"env": {"AGENTCLI_STATE_DIR": str(target), "XDG_STATE_HOME": str(target), "TMPDIR": str(target)}}
    (place / "work" / ".agentcli").mkdir()
    (place / "work" / ".agentcli" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")

    def broken(*_arguments: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("agentcli.assemble.sessions.SessionBuilder.__init__", broken)
    assert main(["-p", "x", "--trust"], os.environ) == 1
    assert list(target.iterdir()) == []
    [report] = (place / "home" / ".local" / "state" / "agentcli" / "crashes").iterdir()
    assert report.stat().st_mode & 0o777 == 0o600
    assert report.parent.stat().st_mode & 0o777 == 0o700


def test_on_a_terminal_sessions_fit_its_width_with_unique_short_ids() -> None:
    ids = ("aaaaaaaa-1111-4000-8000-000000000000", "aaaaaaaa-2222-4000-8000-000000000000")
    sessions = [SessionInfo(id, Path(id), "", "word " * 60, "/work", 0.0, 10, 3) for id in ids]
    for width in (60, 80, 120):
        lines = list(session_lines(sessions, width))
        assert max(map(len, lines)) < width
        assert [line.split()[0] for line in lines] == ["aaaaaaaa-1", "aaaaaaaa-2"]
    assert [line.split()[0] for line in session_lines(sessions[:1], 80)] == ["aaaaaaaa"]
    assert [line.split()[0] for line in session_lines(sessions)] == list(ids), "programs get all of it"
