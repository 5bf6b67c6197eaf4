"""Background commands, and processes that try to escape from their command. With real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentcli.core.aio import AbortController
from agentcli.core.processes.child import Child
from agentcli.tools.base import ToolContext
from agentcli.tools.shell import background as shells_module
from agentcli.tools.shell import output as output_module
from agentcli.tools.shell import running_command
from agentcli.tools.shell.background import Shells
from agentcli.tools.shell.bash import Bash
from agentcli.tools.shell.bashoutput import BashOutput, KillShell
from tests.tools.running import context_in, is_alive, pid_in, run, text_of, until

pytestmark = pytest.mark.anyio

ON_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="found through /proc")
STUBBORN = "trap '' TERM; echo $$ > {}; while true; do sleep 100; done"


@asynccontextmanager
async def session(folder: Path, **changes: object) -> AsyncIterator[ToolContext]:
    shells = Shells()
    try:
        yield context_in(folder, shells=shells, results_dir=folder / "results", call_id="call", **changes)
    finally:
        await shells.aclose()


async def over(context: ToolContext, shell_id: str = "bash_1") -> None:
    assert context.shells is not None
    shell = context.shells.get(shell_id)
    assert shell is not None
    await until(lambda: shell.status != "running")


def changes(context: ToolContext) -> list[tuple[str, str]]:
    assert context.shells is not None
    return [(task.id, task.status) for task in context.shells.take_changes()]


async def test_a_timeout_moves_a_command_to_the_background(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with session(tmp_path) as context:
        moved = await run(Bash(), context, command=f"echo early; cat {gate}; echo late; exit 3", timeout=200)
        assert not moved.is_error
        assert text_of(moved).startswith(
            "early\n\nThe command is still running after 0.2 s; it continues in the background"
        )
        assert moved.summary == "in the background as bash_1"
        assert "still running" in text_of(await run(BashOutput(), context, bash_id="bash_1"))
        await asyncio.to_thread(gate.write_text, "")
        await over(context)
        ended = await run(BashOutput(), context, bash_id="bash_1")
        assert text_of(ended) == "late\n\nIt has ended: exit code 3."
        assert (ended.structured["status"], ended.structured["exit_code"]) == ("failed", 3)
        assert (
            text_of(await run(BashOutput(), context, bash_id="bash_1")) == "No new output. It has ended: exit code 3."
        )
        assert changes(context) == [("bash_1", "running"), ("bash_1", "failed")]
        assert changes(context) == []


async def test_a_command_can_begin_in_the_background(tmp_path: Path) -> None:
    async with session(tmp_path) as context:
        output = await run(Bash(), context, command="echo hi; sleep 100", run_in_background=True)
        assert output.structured["background_id"] == "bash_1"
        assert output.summary == "as bash_1", "the title says that it is in the background"
        assert not Bash(lambda _command: True).is_safe({"command": "ls", "run_in_background": True})
        await run(Bash(), context, command="true", run_in_background=True)
        await over(context, "bash_2")
        assert changes(context) == [("bash_1", "running"), ("bash_2", "running"), ("bash_2", "completed")]


async def test_the_user_can_move_a_command_to_the_background(tmp_path: Path) -> None:
    async with session(tmp_path) as context:
        assert context.shells is not None
        detach = context.shells.detach
        assert not detach("call")
        task = asyncio.ensure_future(run(Bash(), context, command=f"echo $$ > {tmp_path}/pid; sleep 100"))
        pid = await pid_in(tmp_path / "pid")
        await until(lambda: detach("call"))
        output = await task
        assert "was sent to the background" in text_of(output)
        assert not detach("call")
        assert is_alive(pid)
    assert not is_alive(pid)


async def test_an_abort_ends_the_foreground_command_only(tmp_path: Path) -> None:
    controller = AbortController()
    async with session(tmp_path) as context:
        await run(Bash(), context, controller.signal, command=f"echo $$ > {tmp_path}/a; sleep 100", timeout=100)
        await run(
            Bash(), context, controller.signal, command=f"echo $$ > {tmp_path}/b; sleep 100", run_in_background=True
        )
        pids = [await pid_in(tmp_path / "a"), await pid_in(tmp_path / "b")]
        task = asyncio.ensure_future(
            run(Bash(), context, controller.signal, command=f"echo $$ > {tmp_path}/c; sleep 100")
        )
        in_front = await pid_in(tmp_path / "c")
        controller.abort()
        assert (await task).summary == "stopped"
        assert [is_alive(pid) for pid in (*pids, in_front)] == [True, True, False]


async def test_the_number_of_background_commands_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shells_module, "MAX_RUNNING", 1)
    async with session(tmp_path) as context:
        await run(Bash(), context, command="sleep 100", run_in_background=True)
        refused = await run(Bash(), context, command="sleep 100", run_in_background=True)
        assert refused.is_error
        assert "bash_1" in text_of(refused)
        ended = await run(Bash(), context, command="sleep 100", timeout=100)
        assert (ended.is_error, ended.summary) == (True, "timed out after 0.1 s")


async def test_an_unfinished_line_is_shown_too(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with session(tmp_path) as context:
        await run(Bash(), context, command=f"printf 'Go on? '; cat {gate}; echo yes", run_in_background=True)
        assert context.shells is not None
        shell = context.shells.get("bash_1")
        assert shell is not None
        await until(lambda: shell.command.output.unread > 0)
        assert text_of(await run(BashOutput(), context, bash_id="bash_1")).startswith("Go on? \n\n")
        await asyncio.to_thread(gate.write_text, "")
        await over(context)
        assert text_of(await run(BashOutput(), context, bash_id="bash_1")).startswith("yes\n\n")


@pytest.mark.parametrize(
    ("command", "pattern", "expected"),
    [
        ("echo apple; echo pear; echo 'a b'", "^a", "apple\na b\n\nIt"),
        ("seq 1 3", "ERROR", "3 new lines; nothing matches. It"),
        ("printf 'a%.0s' {1..5000}", "(a+)+b", "1 new line; nothing matches. It"),
        ("seq 1 8000; echo ERROR; seq 8000 16000", "E", "ERROR\n\nIts whole output so far was filtered. It"),
        ("seq 1 16000", "E", "Its whole output so far was filtered; nothing matches. It"),
    ],
)
async def test_output_can_be_filtered(command: str, pattern: str, expected: str, tmp_path: Path) -> None:
    async with session(tmp_path) as context:
        await run(Bash(), context, command=command, run_in_background=True)
        await over(context)
        output = await run(BashOutput(), context, bash_id="bash_1", filter=pattern)
        assert text_of(output) == f"{expected} has ended: exit code 0."


async def test_many_matching_lines_are_bounded(tmp_path: Path) -> None:
    async with session(tmp_path) as context:
        await run(Bash(), context, command="seq 1 16000", run_in_background=True)
        await over(context)
        text = text_of(await run(BashOutput(), context, bash_id="bash_1", filter="[0-9]"))
        assert len(text) < 31_000
        assert "characters left out" in text


async def test_an_invalid_filter_is_explained_and_consumes_no_output(tmp_path: Path) -> None:
    async with session(tmp_path) as context:
        await run(Bash(), context, command="echo apple", run_in_background=True)
        await over(context)
        assert "unclosed group" in text_of(await run(BashOutput(), context, bash_id="bash_1", filter="("))
        assert text_of(await run(BashOutput(), context, bash_id="bash_1")).startswith("apple\n\n")


async def test_a_background_command_is_killed_with_its_children(tmp_path: Path) -> None:
    command = f"({STUBBORN.format(tmp_path / 'child')}) & {STUBBORN.format(tmp_path / 'parent')}"
    async with session(tmp_path) as context:
        await run(Bash(), context, command=command, run_in_background=True)
        pids = [await pid_in(tmp_path / name) for name in ("child", "parent")]
        output = await run(KillShell(), context, bash_id="bash_1")
        assert output.structured == {"status": "killed"}
        assert not any(is_alive(pid) for pid in pids)
        again = await run(KillShell(), context, bash_id="bash_1")
        assert "had ended already" in text_of(again)
        assert "It has ended: killed." in text_of(await run(BashOutput(), context, bash_id="bash_1"))
        assert "bash_1 (killed)" in str(KillShell().check({"bash_id": "bash_7"}, context))


async def test_a_flood_in_the_background_is_bounded_and_all_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_module, "FILE_LIMIT", 2_000_000)
    async with session(tmp_path) as context:
        await run(Bash(), context, command="seq 1 200000; sleep 100", run_in_background=True)
        assert context.shells is not None
        shell = context.shells.get("bash_1")
        assert shell is not None
        await until(lambda: shell.command.output.characters == 1_288_895)
        output = await run(BashOutput(), context, bash_id="bash_1")
        text = text_of(output)
        assert len(text) < 31_000
        assert "(1.2 MB)" in text
        assert Path(output.structured["saved_to"]).read_text().split()[-1] == "200000"
        assert text.startswith("1\n2\n")
        assert "\n200000\n" in text
        assert text_of(await run(BashOutput(), context, bash_id="bash_1")) == "No new output. It is still running."


async def test_old_commands_are_forgotten_beyond_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shells_module, "_MAX_KEPT", 2)
    async with session(tmp_path) as context:
        assert context.shells is not None
        await run(Bash(), context, command="sleep 100", run_in_background=True)
        for number in (2, 3, 4):
            await run(Bash(), context, command="true", run_in_background=True)
            await over(context, f"bash_{number}")
        assert [shell.id for shell in context.shells.known()] == ["bash_1", "bash_4"]


async def test_the_end_of_a_session_ends_everything_at_the_same_time(tmp_path: Path) -> None:
    async with session(tmp_path) as context:
        for number in range(4):
            await run(Bash(), context, command=STUBBORN.format(tmp_path / str(number)), run_in_background=True)
        pids = [await pid_in(tmp_path / str(number)) for number in range(4)]
        loop = asyncio.get_running_loop()
        start = loop.time()
    assert loop.time() - start < 4
    assert not any(is_alive(pid) for pid in pids)


@ON_LINUX
async def test_a_daemon_ends_with_its_command(tmp_path: Path) -> None:
    command = f"setsid bash -c 'echo $$ > {tmp_path}/pid; sleep 100' > /dev/null 2>&1 & cat <(echo said)"
    command += f"; while ! [ -s {tmp_path}/pid ]; do sleep 0.01; done"
    output = await run(Bash(), context_in(tmp_path), command=command)
    assert "left running" in text_of(output)
    pid = await pid_in(tmp_path / "pid")
    # Killed, though perhaps not dead in the same instant.
    await until(lambda: not is_alive(pid))


@ON_LINUX
@pytest.mark.parametrize("way", ["abort", "cancel"])
async def test_a_daemon_ends_when_its_command_is_stopped(way: str, tmp_path: Path) -> None:
    controller = AbortController()
    command = f'setsid bash -c "{STUBBORN.format(tmp_path / "pid")}" & sleep 100'.replace("$$", "\\$\\$")
    task = asyncio.ensure_future(run(Bash(), context_in(tmp_path), controller.signal, command=command))
    pid = await pid_in(tmp_path / "pid")
    if way == "abort":
        controller.abort()
        await task
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    # Killed, though perhaps not dead in the same instant: only a parent can wait for a process.
    await until(lambda: not is_alive(pid))


@ON_LINUX
async def test_a_daemon_ends_when_its_command_is_cancelled_during_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "pid"
    os.mkfifo(written)

    class CancelledStart(Child):
        @classmethod
        def start(cls, *arguments: Any, **rest: Any) -> Child:
            child = Child.start(*arguments, **rest)
            pids.append(int(written.read_text()))
            task.cancel()
            return child

    pids: list[int] = []
    monkeypatch.setattr(running_command, "Child", CancelledStart)
    command = f'setsid bash -c "{STUBBORN.format(written)}" & sleep 100'.replace("$$", "\\$\\$")
    task = asyncio.ensure_future(run(Bash(), context_in(tmp_path), command=command))
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not is_alive(pids[0]))


PROGRAM = """
import asyncio, sys
from pathlib import Path
from typing import Any
from agentcli.core.aio import AbortController
from agentcli.tools.base import ToolContext
from agentcli.tools.shell.bash import Bash
from agentcli.tools.shell.background import Shells

async def main(folder, command):
    context = ToolContext(folder, (folder,), environ={"PATH": "/usr/bin:/bin"}, shells=Shells())
    async for _item in Bash().run({"command": command, "run_in_background": True}, context, AbortController().signal):
        pass
    await asyncio.sleep(100)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@ON_LINUX
async def test_nothing_outlives_a_program_that_is_killed(tmp_path: Path) -> None:
    command = f"setsid bash -c 'echo $$ > {tmp_path}/daemon; sleep 100' & echo $$ > {tmp_path}/pid; sleep 100"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(tmp_path), command, cwd=Path(__file__).parents[3]
    )
    pids = [await pid_in(tmp_path / "pid"), await pid_in(tmp_path / "daemon")]
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await until(lambda: not any(is_alive(pid) for pid in pids))
