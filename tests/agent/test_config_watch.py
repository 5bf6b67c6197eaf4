"""The watch of configuration files: it sees every change of a watched path and sleeps otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcli.agent import live_files as config_watch
from agentcli.agent.live_files import FileWatch

pytestmark = pytest.mark.anyio


def create_in_new_folder(folder: Path) -> None:
    (folder / "new/deep").mkdir(parents=True)


def replace_file(folder: Path) -> None:
    (folder / "other").write_text("2")
    (folder / "other").rename(folder / "file")


CHANGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "written": ("file", lambda folder: (folder / "file").write_text("2")),
    "replaced": ("file", replace_file),
    "removed": ("file", lambda folder: (folder / "file").unlink()),
    "created": ("absent", lambda folder: (folder / "absent").write_text("1")),
    "first folder of a missing path": ("new/deep/file", create_in_new_folder),
    "target of a link": ("link", lambda folder: (folder / "elsewhere/target").write_text("2")),
    "file in a folder": ("elsewhere", lambda folder: (folder / "elsewhere/more").write_text("1")),
    "folder itself": ("empty", lambda folder: (folder / "empty").rmdir()),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("1")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "elsewhere/target").write_text("1")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere/target")
    return tmp_path


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_ends_the_wait(folder: Path, change: str) -> None:
    path, make = CHANGES[change]
    watch = FileWatch()
    await watch.watch([str(folder / path)])
    make(folder)
    async with asyncio.timeout(20):
        await watch.wait()
    await watch.aclose()


async def test_other_files_in_the_same_folder_wake_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_watch, "SETTLE_SECONDS", 0.0)
    watch = FileWatch()
    await watch.watch([str(folder / "file")])
    waiting = asyncio.ensure_future(watch.wait())
    (folder / "unrelated").write_text("1")
    looked = asyncio.Event()
    monkeypatch.setattr(watch, "_concerns", lambda path: looked.set() or FileWatch._concerns(watch, path))
    (folder / "unrelated").write_text("2")
    await asyncio.wait_for(looked.wait(), 20)
    assert not waiting.done()
    (folder / "file").write_text("2")
    await asyncio.wait_for(waiting, 20)
    await watch.aclose()


async def test_without_inotify_the_wait_ends_after_the_polling_interval(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_watch, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(config_watch.FileNotices, "watch", lambda _notices, _folders: False)
    watch = FileWatch()
    await watch.watch([str(folder / "file")])
    await asyncio.wait_for(watch.wait(), 20)
    await watch.aclose()
