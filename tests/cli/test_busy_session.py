"""Which command lines are refused before the first frame, because their session is in use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcli.cli.front_ends import will_be_refused
from agentcli.session import find
from agentcli.session.journal import FileLock
from agentcli.session.paths import session_path

ID = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        ("-c", True),
        ("--continue", True),
        (f"-r {ID}", True),
        (f"--resume={ID}", True),
        (f"-r {OTHER}", False),
        (f"-r {ID[:8]}", True),
        ("-r Parser", True),
        ("-r parse", True),
        ("-r Lexer", False),
        ("-r er", False),
        ("-c --fork-session", False),
        ("-c --no-session-persistence", False),
        ("-r", False),
        ("", False),
        ("--no-such-flag -c", True),
    ],
)
def test_only_a_session_that_would_be_written_by_two_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, refused: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"AGENTCLI_STATE_DIR": str(tmp_path)}
    path = session_path(tmp_path, tmp_path, ID)
    path.parent.mkdir(parents=True)
    path.write_text('{"type": "session"}\n{"type": "custom-title", "customTitle": "Parser"}\n')
    other = session_path(tmp_path, tmp_path, OTHER)
    other.write_text('{"type": "session"}\n{"type": "custom-title", "customTitle": "Lexer"}\n')
    os.utime(other, (1, 1))
    lock = FileLock(path.with_suffix(".lock"))
    lock.acquire()
    try:
        assert will_be_refused(arguments.split(), environ) is refused
    finally:
        lock.release()
    assert will_be_refused(arguments.split(), environ) is arguments.startswith("--no-such-flag")


def test_the_lock_of_a_process_that_was_killed_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = session_path(tmp_path, tmp_path, ID)
    path.parent.mkdir(parents=True)
    path.write_text('{"type": "session"}\n')
    path.with_suffix(".lock").touch()
    assert not will_be_refused(["-c"], {"AGENTCLI_STATE_DIR": str(tmp_path)})
    monkeypatch.setattr(find, "list_sessions", lambda *_arguments: pytest.fail("no session is open"))
    assert not will_be_refused(["-r", "name"], {"AGENTCLI_STATE_DIR": str(tmp_path)})
