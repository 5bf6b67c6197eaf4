"""The standard streams: what is read from them, how they are written, and the form of a line."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.core.errors import UsageError
from agentcli.core.messages import ImageBlock, TextBlock, UnknownBlock
from agentcli.core.processes.exit_cleanup import kill_descendants
from agentcli.headless import input as reading
from agentcli.headless.encode import LINE_LIMIT, encode_line
from agentcli.headless.input import BadLine, ControlLine, UserLine, chunks, lines, parse_line, read_pipe
from agentcli.headless.streams import OutputLost, StreamWriter, complain, is_terminal
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
    assert await read_pipe(pipe[0], None) == "grüß \ufffd"


async def test_a_pipe_that_stays_silent_is_not_waited_for(pipe: tuple[int, int]) -> None:
    assert await read_pipe(pipe[0], 0.01) is None


async def test_a_file_and_the_null_device_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"text" * 50_000)
    for name, length in ((tmp_path / "f", 200_000), (Path(os.devnull), 0)):
        with name.open("rb") as file:
            assert len(await read_pipe(file.fileno(), None) or "") == length


async def test_text_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "TEXT_LIMIT", 100_000)
    (tmp_path / "f").write_bytes(b"x" * 100_001)
    with (tmp_path / "f").open("rb") as file, pytest.raises(UsageError, match="Save it to a file"):
        await read_pipe(file.fileno(), None)


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


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
DOCUMENT = {"type": "document", "source": {}}
BLOCKS = [{"type": "text", "text": "see"}, IMAGE, DOCUMENT, {"type": "text", "text": " "}]


@each_row(
    "line, expected",
    [
        (user("hi\x00"), UserLine("hi\ufffd")),
        (user(BLOCKS), UserLine((TextBlock("see"), ImageBlock(IMAGE["source"]), UnknownBlock(DOCUMENT)))),
        (
            b'{"type":"control_request","request_id":"r1","request":{"subtype":"interrupt"}}',
            ControlLine("r1", "interrupt"),
        ),
        *(
            (line, None)
            for line in (b"", b"  \r", b'{"type":"keep_alive"}', b'{"type":"control_response"}', b'{"x":1}')
        ),
    ],
)
def test_a_line_is_a_prompt_a_request_or_ignored(line: bytes, expected: object) -> None:
    assert parse_line(line) == expected


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


async def read_exactly(descriptor: int, size: int) -> bytes:
    os.set_blocking(descriptor, False)
    received = b""
    while len(received) < size:
        try:
            received += os.read(descriptor, 1 << 16)
        except BlockingIOError:
            await asyncio.sleep(0)
    return received


async def test_a_slow_reader_slows_the_writer_and_nothing_else() -> None:
    read, write = os.pipe()
    data = bytes(range(256)) * 4096
    task = asyncio.create_task(StreamWriter(write).write(data))
    for _turn in range(50):
        await asyncio.sleep(0)
    assert not task.done()
    assert await read_exactly(read, len(data)) == data
    await task
    os.close(read)
    os.close(write)


async def test_pieces_of_two_writers_do_not_mix() -> None:
    read, write = os.pipe()
    writer = StreamWriter(write)
    lines = [letter * 200_000 + b"\n" for letter in (b"a", b"b", b"c")]
    tasks = [asyncio.create_task(writer.write(line)) for line in lines]
    assert await read_exactly(read, sum(map(len, lines))) == b"".join(lines)
    await asyncio.gather(*tasks)
    os.close(read)
    os.close(write)


async def test_a_closed_reader_is_ignored_and_a_full_disk_is_an_error() -> None:
    read, write = os.pipe()
    os.close(read)
    with pytest.raises(OutputLost) as gone:
        await StreamWriter(write).write(b"x")
    os.close(write)
    assert gone.value.quiet
    if Path("/dev/full").exists():
        with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OutputLost, match="No space") as lost:
            await StreamWriter(full.fileno()).write(b"x")
        assert not lost.value.quiet


async def test_error_messages_are_plain_and_never_raise(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        complain(file.fileno(), "bad \x1b]0;title\x07news\ud800")
    assert (tmp_path / "f").read_bytes() == b"bad news<U+D800>\n"
    complain(9999, "nobody hears this")
    assert not is_terminal(9999)
    assert not is_terminal(None)


def test_children_in_sessions_of_their_own_are_killed_with_their_children() -> None:
    inner = "import os, time; os.fork(); os.fork(); time.sleep(60)"
    code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {inner!r}]); print(p.pid, flush=True)"
    # The middle process ends, so that its children have no parent of ours any more, only its session.
    outer = subprocess.Popen(
        [sys.executable, "-c", f"{code}; import time; time.sleep(60)"], stdout=subprocess.PIPE, start_new_session=True
    )
    assert outer.stdout is not None
    grandchild = int(outer.stdout.readline())
    kill_descendants()
    assert outer.wait(5) == -9
    outer.stdout.close()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and _alive(grandchild):
        time.sleep(0.01)
    assert not _alive(grandchild)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


BIG = "x" * (3 * 1024 * 1024)


@each_row(
    "text, line",
    [
        ("grüß\n", '{"a":"grüß\\n"}\n'),
        ("x\ud800y", '{"a":"x\ufffdy"}\n'),
        ("\x1b]0;t\x07\x9b\x7f\u2028\x85", '{"a":"\\u001b]0;t\\u0007\\u009b\\u007f\\u2028\\u0085"}\n'),
    ],
)
def test_a_line_is_readable_text_without_control_characters(text: str, line: str) -> None:
    assert encode_line({"a": text}).decode() == line


def test_a_long_tool_result_loses_its_copy_for_programs_first() -> None:
    text = "y" * 700_000
    frame = {"type": "user", "message": {"content": [{"content": text}]}, "tool_use_result": {"stdout": text}}
    line = encode_line(frame)
    assert len(line) <= LINE_LIMIT
    assert json.loads(line)["message"]["content"][0]["content"] == text
    assert json.loads(line)["tool_use_result"]["truncated"] is True


def test_a_long_text_is_cut_with_a_note() -> None:
    line = encode_line({"type": "user", "message": {"content": [{"type": "text", "text": BIG}]}})
    assert len(line) <= LINE_LIMIT
    found = json.loads(line)
    assert "characters left out" in found["message"]["content"][0]["text"]
    assert found["truncated"] is True


def test_a_large_image_becomes_a_note() -> None:
    frame = {"content": [{"type": "image", "source": {"data": BIG}}, {"type": "text", "text": "kept"}]}
    content = json.loads(encode_line(frame))["content"]
    assert [part["type"] for part in content] == ["text", "text"]
    assert content[1]["text"] == "kept"


def test_even_many_short_strings_fit() -> None:
    line = encode_line({"type": "result", "uuid": "u", "errors": [["é" * 60] * 60] * 160})
    assert len(line) <= LINE_LIMIT
    assert json.loads(line)["uuid"] == "u"


words = st.text(st.sampled_from('a"\\\n\r\x00\x1b\x7f\x85\x9b\u2028\u2029\ud800\udfffé\U0001f600'), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(words, json_values, max_size=4))
def test_any_frame_is_one_line_of_json_in_utf8(frame: dict[str, object]) -> None:
    line = encode_line(frame)
    assert line.count(b"\n") == 1
    assert len(line.decode().splitlines()) == 1
    assert isinstance(json.loads(line), dict)
