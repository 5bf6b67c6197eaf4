"""What is not among a folder's names is missing; where that is not certain, they are not known."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from agentcli.core.files.local_folders import SETTLED_NS, ListedNames
from tests.support.tables import each_row

NOW = 1_800_000_000_123_456_789
FOLDER = "/home/me"


class Folder:
    """A folder and the clock, for `os` and `time`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.device = os.makedev(8, 1)
        self.inode = 7
        self.changed = NOW - SETTLED_NS
        self.size = 4_096
        self.names = [".SSH", "notes.txt"]
        self.listings = 0
        monkeypatch.setattr("agentcli.core.files.local_folders.time", SimpleNamespace(time_ns=lambda: NOW))
        monkeypatch.setattr("agentcli.core.files.local_folders.os", self)
        monkeypatch.setattr("agentcli.core.files.local_folders.is_disk", lambda device: os.major(device) != 0)

    def stat(self, path: str) -> SimpleNamespace:
        if path != FOLDER:
            raise FileNotFoundError(path)
        return SimpleNamespace(st_dev=self.device, st_ino=self.inode, st_ctime_ns=self.changed, st_size=self.size)

    def listdir(self, path: str) -> list[str]:
        self.listings += 1
        return self.names


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Folder:
    return Folder(monkeypatch)


def test_names_are_known_until_the_folder_changes(folder: Folder) -> None:
    names = ListedNames()
    assert names.of(FOLDER) is None, "not listed yet"
    names.learn([FOLDER, "/missing"])
    names.learn([FOLDER])
    assert names.of(FOLDER) == {".ssh", "notes.txt"}
    assert names.of("/missing") is None
    assert folder.listings == 1
    folder.changed += 1
    assert names.of(FOLDER) is None
    folder.changed -= 1
    folder.inode += 1
    assert names.of(FOLDER) is None, "another folder in its place"


def test_a_changed_folder_is_listed_again(folder: Folder) -> None:
    names = ListedNames()
    names.learn([FOLDER])
    folder.changed -= 5
    folder.names = ["new"]
    names.learn([FOLDER])
    assert names.of(FOLDER) == {"new"}


def changed_just_now(folder: Folder) -> None:
    folder.changed = NOW - SETTLED_NS + 1


def changed_in_the_future(folder: Folder) -> None:
    folder.changed = NOW + 10 * SETTLED_NS


def with_times_in_seconds(folder: Folder) -> None:
    folder.changed = NOW // 10**9 * 10**9 - 10**9


def not_on_a_disk(folder: Folder) -> None:
    folder.device = os.makedev(0, 50)


def very_large(folder: Folder) -> None:
    folder.size = 1_000_000


def with_a_name_that_some_file_systems_take_for_another(folder: Folder) -> None:
    folder.names.append(".ss\u200bh")


@each_row(
    "make",
    [
        changed_just_now,
        changed_in_the_future,
        with_times_in_seconds,
        not_on_a_disk,
        very_large,
        with_a_name_that_some_file_systems_take_for_another,
    ],
)
def test_names_are_not_known_where_one_could_be_missed(
    make: Callable[[Folder], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, names = Folder(monkeypatch), ListedNames()
    names.learn([FOLDER])
    make(folder)
    folder.inode += 1
    names.learn([FOLDER])
    assert names.of(FOLDER) is None
