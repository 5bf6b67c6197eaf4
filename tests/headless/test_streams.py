from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentcli.core.processes.exit_cleanup import kill_descendants
from agentcli.headless.streams import OutputLost, StreamWriter, complain, is_terminal

pytestmark = pytest.mark.anyio


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


async def test_a_file_takes_everything_at_once(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        await StreamWriter(file.fileno()).write(b"x" * 100_000)
    assert (tmp_path / "f").stat().st_size == 100_000


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
