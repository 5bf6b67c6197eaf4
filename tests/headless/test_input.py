from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from agentcli.core.errors import UsageError
from agentcli.core.messages import ImageBlock, TextBlock, UnknownBlock
from agentcli.headless import input as reading
from agentcli.headless.input import BadLine, ControlLine, UserLine, chunks, lines, parse_line, piped_text
from tests.support.tables import each_row

pytestmark = pytest.mark.anyio


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def user(content: object) -> bytes:
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}).encode()


async def test_a_pipe_is_read_to_its_end(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"\xef\xbb\xbfgr\xc3\xbc\xc3\x9f \xff")
    os.close(pipe[1])
    assert await piped_text(pipe[0], None) == "grüß \ufffd"


async def test_a_pipe_that_stays_silent_is_not_waited_for(pipe: tuple[int, int]) -> None:
    assert await piped_text(pipe[0], 0.01) is None


async def test_a_file_and_the_null_device_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"text" * 50_000)
    for name, length in ((tmp_path / "f", 200_000), (Path(os.devnull), 0)):
        with name.open("rb") as file:
            assert len(await piped_text(file.fileno(), None) or "") == length


async def test_text_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "TEXT_LIMIT", 100_000)
    (tmp_path / "f").write_bytes(b"x" * 100_001)
    with (tmp_path / "f").open("rb") as file, pytest.raises(UsageError, match="Save it to a file"):
        await piped_text(file.fileno(), None)


async def test_lines_arrive_as_they_are_written_even_without_a_final_newline(pipe: tuple[int, int]) -> None:
    async with aclosing(lines(pipe[0])) as source:
        os.write(pipe[1], b"one\ntw")
        assert await anext(source) == b"one"
        os.write(pipe[1], b"o\n\nthree")
        assert await anext(source) == b"two"
        assert await anext(source) == b""
        os.close(pipe[1])
        assert [line async for line in source] == [b"three"]


async def test_a_line_that_is_too_long_is_skipped_and_the_next_is_read(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LINE_LIMIT", 10)
    async with aclosing(lines(pipe[0])) as source:
        os.write(pipe[1], b"x" * 11)
        assert await anext(source) is None
        os.write(pipe[1], b"x" * 30 + b"\nok\n")
        os.close(pipe[1])
        assert [line async for line in source] == [b"ok"]


async def test_a_closed_descriptor_reads_as_end_of_input() -> None:
    read, write = os.pipe()
    os.close(write)
    async with aclosing(chunks(read)) as source:
        assert [data async for data in source] == []
    os.close(read)


def test_a_user_line_is_a_prompt() -> None:
    assert parse_line(user("hi\x00")) == UserLine("hi\ufffd")


def test_a_user_line_may_hold_blocks() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    document = {"type": "document", "source": {}}
    found = parse_line(user([{"type": "text", "text": "see"}, image, document, {"type": "text", "text": " "}]))
    assert found == UserLine((TextBlock("see"), ImageBlock(image["source"]), UnknownBlock(document)))  # type: ignore[arg-type]


def test_a_control_request_is_known_by_id_and_subtype() -> None:
    line = json.dumps({"type": "control_request", "request_id": "r1", "request": {"subtype": "interrupt"}}).encode()
    assert parse_line(line) == ControlLine("r1", "interrupt")


@pytest.mark.parametrize("line", [b"", b"  \r", b'{"type":"keep_alive"}', b'{"type":"control_response"}', b'{"x":1}'])
def test_empty_lines_and_unknown_types_are_ignored(line: bytes) -> None:
    assert parse_line(line) is None


@each_row(
    "line",
    [
        None,
        b"hello",
        b"[1]",
        b'"x"',
        b"\xff\xfe",
        b"[" * 100_000,
        user(""),
        user([]),
        user([1]),
        user(None),
        user([{"type": "tool_result", "tool_use_id": "t", "content": "x"}]),
        b'{"type":"user"}',
        b'{"type":"user","message":3}',
    ],
)
def test_an_invalid_line_is_reported_and_skipped(line: bytes | None) -> None:
    found = parse_line(line)
    assert isinstance(found, BadLine)
    assert "skipped" in found.message
