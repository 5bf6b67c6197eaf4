from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from agentcli.core.files.bounded_read import Reason, Unread, open_regular, read_bounded, read_start


def _make(folder: Path, kind: str) -> Path:
    path = folder / "file"
    match kind:
        case "a FIFO":
            os.mkfifo(path)
        case "a link to a FIFO":
            os.mkfifo(folder / "pipe")
            path.symlink_to(folder / "pipe")
        case "a link to /dev/zero":
            path.symlink_to("/dev/zero")
        case "a link to /dev/tty":
            path.symlink_to("/dev/tty")
        case "a folder":
            path.mkdir()
        case "a socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path))
        case "a link to itself":
            path.symlink_to(path)
        case "a dangling link":
            path.symlink_to(folder / "nothing")
    return path


@pytest.mark.parametrize(
    "kind",
    [
        *("a FIFO", "a link to a FIFO", "a link to /dev/zero", "a link to /dev/tty", "a folder", "a socket"),
        *("a link to itself", "a dangling link", "missing"),
    ],
)
def test_anything_but_a_regular_file_is_refused_at_once(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's name has little room
    path = _make(Path(), kind)
    found = read_bounded(path, 100)
    assert isinstance(found, Unread)
    assert not found
    assert read_start(path) == ""
    with pytest.raises(OSError):
        open_regular(path)


def test_a_file_is_read_up_to_its_limit_and_not_beyond(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert read_bounded(path, 100) == b"x" * 100
    assert read_bounded(path, 99) == Unread(Reason.TOO_LARGE)
    assert read_bounded(path, 99, beginning=True) == b"x" * 99
    with open_regular(path) as file:
        assert file.read() == b"x" * 100


def test_a_file_larger_than_the_disk_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert read_bounded(path, 1_000) == Unread(Reason.TOO_LARGE)
    assert read_bounded(path, 1_000, beginning=True) == bytes(1_000)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_a_file_that_claims_to_be_empty_and_is_not_has_the_same_limit() -> None:
    assert Path("/proc/self/maps").stat().st_size == 0
    assert read_bounded("/proc/self/maps", 100) == Unread(Reason.TOO_LARGE)
    assert len(read_bounded("/proc/self/maps", 100, beginning=True) or b"") == 100


def test_a_name_that_no_file_can_have_is_missing() -> None:
    assert isinstance(read_bounded("a\0b", 10), Unread)
    assert isinstance(read_bounded("a" * 100_000, 10), Unread)
    assert read_start("\udcff\ud800") == ""
