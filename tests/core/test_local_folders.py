"""A folder counts as local only if it is known to be on a disk."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentcli.core.files.local_folders import LocalFolders


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="only Linux tells")
def test_folders_are_local_where_there_is_a_block_device(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = {"/": os.makedev(8, 1), "/home": os.makedev(0, 50), "/work": os.makedev(259, 2)}

    def stat(path: str) -> SimpleNamespace:
        if path not in devices:
            raise FileNotFoundError(path)
        return SimpleNamespace(st_dev=devices[path])

    folders = LocalFolders()
    assert not folders.has(["/work"]), "not known yet"
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        folders.learn(["/", "/home", "/home/me/missing", "/work/missing/too", "/work", "relative", ""])
    assert folders.has(["/", "/work", "/work/missing/too"])
    assert not folders.has(["/work", "/home"])
    assert not any(folders.has([folder]) for folder in ("/home/me/missing", "relative", "", "/other"))
    assert folders.has([])


def test_a_folder_that_cannot_be_looked_at_is_not_local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stat(path: str) -> None:
        raise PermissionError(path)

    folders = LocalFolders()
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        folders.learn([str(tmp_path)])
    assert not folders.has([str(tmp_path)])
