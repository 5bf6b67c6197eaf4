"""Hooks that are commands or functions: limits of time and size, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import threading
import time
from pathlib import Path

import pytest

from agentcli.core.messages import Json
from agentcli.hooks.answers import HookOutput
from agentcli.hooks.runner import MAX_OUTPUT, run_command, run_function

pytestmark = pytest.mark.anyio

ENVIRON = {"PATH": os.environ["PATH"]}


async def run(command: str, folder: Path, data: bytes = b"{}", seconds: float = 20) -> HookOutput:
    return await run_command(command, data, folder, ENVIRON, seconds)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> bool:
    for _attempt in range(100):
        if not is_alive(pid):
            return True
        await asyncio.sleep(0.02)
    return False


async def test_it_gets_the_data_and_its_output_is_read(tmp_path: Path) -> None:
    output = await run("cat; pwd; echo problem >&2; exit 3", tmp_path, b'{"a": 1}')
    assert output == HookOutput("exited", 3, f'{{"a": 1}}{tmp_path}\n', "problem\n")


async def test_a_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    command = "sleep 100 & echo $! > child; trap '' TERM; while :; do sleep 0.1; done"
    began = time.monotonic()
    output = await run(command, tmp_path, seconds=0.5)
    assert time.monotonic() - began < 5
    assert (output.ending, output.exit_code) == ("timed_out", None)
    assert await gone(int((tmp_path / "child").read_text()))


async def test_a_cancelled_hook_is_gone_at_once(tmp_path: Path) -> None:
    task = asyncio.ensure_future(run("echo $$ > pid; trap '' TERM; sleep 100 & echo $! > child; wait", tmp_path))
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
        await asyncio.sleep(0.01)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 1
    assert await gone(int((tmp_path / "pid").read_text()))
    assert await gone(int((tmp_path / "child").read_text()))


async def test_a_flood_is_read_and_dropped(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output = await run("head -c 120000000 /dev/zero", tmp_path, seconds=60)
    assert output.exit_code == 0
    assert len(output.stdout) == MAX_OUTPUT
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "kB"


async def test_a_process_in_the_background_ends_with_it(tmp_path: Path) -> None:
    began = time.monotonic()
    output = await run("sleep 30 & echo $! > child; echo done", tmp_path)
    assert time.monotonic() - began < 5
    assert output.stdout == "done\n"
    assert await gone(int((tmp_path / "child").read_text()))


async def test_one_that_left_the_group_does_not_hold_it_up(tmp_path: Path) -> None:
    began = time.monotonic()
    await run("setsid sleep 30 & echo $! > child; until [ -s child ]; do :; done", tmp_path)
    assert time.monotonic() - began < 5
    with contextlib.suppress(ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), 9)


@pytest.mark.parametrize(("command", "code"), [("./missing", 127), ("./plain", 126)])
async def test_a_program_that_cannot_run_is_an_exit_code(command: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("echo")
    output = await run(command, tmp_path)
    assert output.exit_code == code
    assert output.stderr


async def test_one_that_a_signal_ends_has_crashed(tmp_path: Path) -> None:
    output = await run("kill -SEGV $$", tmp_path)
    assert output.ending == "crashed"
    assert output.detail == "it was ended by signal 11 (SIGSEGV)"


async def test_a_folder_that_is_gone_is_reported(tmp_path: Path) -> None:
    output = await run("true", tmp_path / "gone")
    assert output.ending == "crashed"
    assert "did not start" in output.detail


async def test_an_async_function_runs_on_the_loop_and_others_in_a_thread() -> None:
    async def here(data: Json) -> str:
        return f"{data['a']} {threading.current_thread() is threading.main_thread()}"

    def there(data: Json) -> str:
        return f"{data['a']} {threading.current_thread() is threading.main_thread()}"

    assert (await run_function(here, {"a": 1}, 10)).returned == "1 True"
    assert (await run_function(there, {"a": 1}, 10)).returned == "1 False"


async def test_a_function_that_hangs_is_left_behind() -> None:
    released = threading.Event()

    def hangs(_data: Json) -> None:
        released.wait(30)

    began = time.monotonic()
    output = await run_function(hangs, {}, 0.1)
    assert (output.ending, time.monotonic() - began < 5) == ("timed_out", True)
    released.set()


async def test_a_bug_in_a_function_is_a_crash_of_the_hook() -> None:
    def broken(_data: Json) -> None:
        raise StopIteration("odd")

    def leaves(_data: Json) -> None:
        raise SystemExit(3)

    assert (await run_function(broken, {}, 5)).detail == "RuntimeError: StopIteration: odd"
    assert (await run_function(leaves, {}, 5)).ending == "crashed"
