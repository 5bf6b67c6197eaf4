"""Resolving links through the kernel: the same answers as `os.path.realpath`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcli.core.files import links as module
from agentcli.core.files.links import existing_path, real_path


def make_tree(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("x")
    (folder / "a" / "b" / "gone (deleted)").write_text("x")
    (folder / "to_folder").symlink_to("a/b")
    (folder / "to_file").symlink_to(folder / "to_folder" / "file")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "pipe")


NAMES = (
    *("", "a", "a/b/file", "a/../a/b/", "to_folder/file", "to_file", "dangling", "circle", "pipe"),
    *("missing", "a/missing/x", "to_folder/missing", "a/b/file/below", "a/b/gone (deleted)"),
)


@pytest.mark.parametrize("can_ask", [True, False])
def test_every_path_resolves_as_the_standard_library_resolves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_ask: bool
) -> None:
    make_tree(tmp_path)
    monkeypatch.setattr(module, "_CAN_ASK", can_ask and module._CAN_ASK)
    paths = [*(f"{tmp_path}/{name}" for name in NAMES), "/", "//", "relative", "/proc/self/fd/0", "/proc/self/status"]
    assert [real_path(path) for path in paths] == [os.path.realpath(path) for path in paths]


def test_a_path_that_does_not_exist_is_none_and_one_that_cannot_is_an_error(tmp_path: Path) -> None:
    make_tree(tmp_path)
    assert existing_path(f"{tmp_path}/missing") is None
    assert existing_path(f"{tmp_path}/dangling") is None
    with pytest.raises(ValueError, match="null"):
        real_path("a\0b")


def test_a_link_that_only_another_user_may_read_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: str) -> str:
        raise PermissionError

    monkeypatch.setattr(os.path, "realpath", refuse)
    assert real_path("/proc/1/root/../x") == "/proc/1/x"
