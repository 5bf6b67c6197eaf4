"""A session's private folder is removed with it or by the next start; other folders are left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentcli.core.processes import exit_cleanup
from agentcli.core.processes.installation import package_root
from agentcli.sandbox.session_folder import SessionFolder, TempFolder, UnsandboxedLauncher, remove_leftovers
from tests.sandbox.box import Box

KILLED = """
import os, sys
from pathlib import Path
from agentcli.sandbox.session_folder import SessionFolder
folder = SessionFolder(Path(sys.argv[1]))
(folder.path / "tmp").mkdir()
(folder.path / "tmp" / "file").write_text("x")
print(folder.path, flush=True)
os.kill(os.getpid(), 9)
"""


def killed_session(root: Path) -> Path:
    done = subprocess.run([sys.executable, "-c", KILLED, str(root)], capture_output=True, text=True, check=False)
    folder = Path(done.stdout.strip())
    assert folder.is_dir()
    return folder


def test_leftovers_of_a_killed_session_are_removed_by_the_next(tmp_path: Path) -> None:
    folder = killed_session(tmp_path)
    assert remove_leftovers(tmp_path) == 1
    assert not folder.exists()


def test_the_folder_of_a_running_session_is_left_alone(tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    assert remove_leftovers(tmp_path) == 0
    assert folder.path.is_dir()
    folder.remove()
    folder.remove()
    assert not folder.path.exists()


def test_a_link_a_foreign_folder_and_one_without_a_lock_are_left_alone(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    target = killed_session(elsewhere)
    (root / "agentcli-link").symlink_to(target)
    (root / "agentcli-plain").mkdir(0o700)
    (root / "agentcli-shared").mkdir()
    (root / "agentcli-shared" / "lock").touch()
    (root / "agentcli-shared").chmod(0o777)
    (root / "agentcli-pipe").mkdir(0o700)
    os.mkfifo(root / "agentcli-pipe" / "lock")
    (root / "agentcli-linked-lock").mkdir(0o700)
    (root / "agentcli-linked-lock" / "lock").symlink_to(target / "lock")
    assert remove_leftovers(root) == 0
    assert len(list(root.iterdir())) == 5
    assert target.is_dir()


def test_files_that_commands_made_hard_to_remove_are_removed(tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    closed = folder.path / "tmp" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    (closed / "link").symlink_to(outside)
    closed.chmod(0o000)
    descriptor = os.open(folder.path / "tmp", os.O_RDONLY)
    for _level in range(600):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    folder.remove()
    assert not folder.path.exists()
    assert (outside / "kept").exists()


def test_a_folder_without_its_temp_folder_is_removed_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = Path.mkdir, list[Path]()

    def fail(folder: Path, mode: int = 0o777) -> None:
        made.append(folder)
        raise OSError(28, f"No space left on device ({mode:o})")

    launcher, temp = UnsandboxedLauncher(tmp_path), TempFolder(tmp_path)
    monkeypatch.setattr(Path, "mkdir", fail)
    assert [launcher.temp_folder for _command in range(3)] == [None, None, None]
    assert len(made) == 1
    with pytest.raises(OSError, match="No space left"):
        temp.path  # noqa: B018 - making it fails
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(Path, "mkdir", make)
    assert launcher.temp_folder is None
    assert temp.path.is_dir()
    temp.close()


def test_clean_up_runs_once_and_survives_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exit_cleanup, "_callbacks", [])
    done: list[str] = []
    exit_cleanup.on_exit(lambda: done.append("first"))
    exit_cleanup.on_exit(lambda: 1 // 0)
    forget = exit_cleanup.on_exit(lambda: done.append("forgotten"))
    forget()
    exit_cleanup.run_exit_cleanup()
    exit_cleanup.run_exit_cleanup()
    assert done == ["first"]


def test_an_exit_that_bypasses_the_interpreter_cleans_up_first() -> None:
    exits = 0
    for file in (package_root() / "agentcli").rglob("*.py"):
        before = ""
        for line in file.read_text().splitlines():
            if "os._exit(" in line:
                exits += 1
                assert "run_exit_cleanup()" in before, file
            before = (before + line)[-400:]
    assert exits >= 4


@pytest.mark.anyio
async def test_a_closed_launcher_leaves_nothing_and_can_be_used_again(box: Box) -> None:
    launcher = box.launcher()
    await box.run("touch $TMPDIR/x", context=box.context(launcher))
    assert list(box.root.glob("agentcli-*"))
    launcher.close()
    assert not list(box.root.glob("agentcli-*"))
    assert not (await box.run("touch $TMPDIR/x", context=box.context(launcher))).is_error
    launcher.close()
