from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.files import access as module
from agentcli.core.files.access import (
    DEEPEST,
    JsonLimitError,
    Reason,
    Unread,
    is_too_deep,
    open_regular,
    parse_json,
    read_bounded,
    read_start,
    real_path,
    resolve_existing,
)
from tests.support.tables import each_row


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


def _nested(levels: int, opening: str = "[", closing: str = "]") -> str:
    return opening * levels + closing * levels


@each_row("levels", [DEEPEST + 1, 600, 100_000])
@each_row("inside", ["lists", "objects", "both"])
def test_json_beyond_the_limit_of_depth_is_refused(levels: int, inside: str) -> None:
    match inside:
        case "lists":
            text = _nested(levels)
        case "objects":
            text = '{"a":' * levels + "1" + "}" * levels
        case _:
            text = '[{"a":' * (levels // 2 + 1) + "1" + "}]" * (levels // 2 + 1)
    with pytest.raises(JsonLimitError, match="nested more than"):
        parse_json(text)
    with pytest.raises(JsonLimitError):
        parse_json(text.encode())


def test_json_at_the_limit_of_depth_is_read() -> None:
    text = _nested(DEEPEST)
    assert json.dumps(parse_json(text)) == text


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    text = json.dumps({"code": "[{" * 1_000})
    assert parse_json(text) == {"code": "[{" * 1_000}


@each_row("text", ["NaN", "-Infinity", "1e999", "-1e400", "9" * 400, "9" * 5_000])
def test_numbers_that_json_cannot_give_back_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"number"):
        parse_json(f'{{"a": {text}}}')


def test_invalid_json_is_a_decode_error() -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_json("{")


_VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
def test_ordinary_json_is_read_as_json_reads_it(value: Any) -> None:
    text = json.dumps(value)
    assert parse_json(text) == json.loads(text)
    assert not is_too_deep(value)


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
    assert resolve_existing(f"{tmp_path}/missing") is None
    assert resolve_existing(f"{tmp_path}/dangling") is None
    with pytest.raises(ValueError, match="null"):
        real_path("a\0b")


def test_a_link_that_only_another_user_may_read_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: str) -> str:
        raise PermissionError

    monkeypatch.setattr(os.path, "realpath", refuse)
    assert real_path("/proc/1/root/../x") == "/proc/1/x"
