"""Bash with real processes. Waits end on what a process does, never on a fixed sleep."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from contextlib import aclosing
from pathlib import Path

import pytest

from agentcli.core.aio import AbortController, AbortReason
from agentcli.tools.base import Output, Progress
from agentcli.tools.shell import output as output_module
from agentcli.tools.shell.bash import Bash
from tests.tools.running import context_in, is_alive, pid_in, run, text_of

pytestmark = pytest.mark.anyio


async def test_no_command_can_prompt_on_the_terminal(tmp_path: Path) -> None:
    output = await run(Bash(), context_in(tmp_path), command="(echo asking > /dev/tty) 2>&1 | grep -c .")
    assert text_of(output) == "1"
    git = "git init -q . && git -c user.name=a -c user.email=a@example.com commit --allow-empty 2>&1"
    assert "empty commit message" in text_of(await run(Bash(), context_in(tmp_path), command=git, timeout=10_000))


async def test_keys_and_loader_variables_are_not_inherited(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "ANTHROPIC_API_KEY": "k",
        "OTHER_API_KEY": "k",
        "ANTHROPIC_AUTH_TOKEN": "t",
        "LD_PRELOAD": "",
        "NODE_ENV": "1",
    }
    context = context_in(tmp_path, environ=environ)
    text = text_of(await run(Bash(), context, command="env"))
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert not names & {"ANTHROPIC_API_KEY", "OTHER_API_KEY", "ANTHROPIC_AUTH_TOKEN", "LD_PRELOAD", "OTHER"}
    assert "NODE_ENV=1" in text
    assert {"GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0"} <= set(text.splitlines())


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("unset -f _agentcli_tell; cd sub; false", ""),
        ("readonly -f _agentcli_tell; cd sub; false", ""),
        ("set -e; readonly -f _agentcli_tell; cd sub; (exit 1)", ""),
        ("_agentcli_tell() { echo mine; }; cd sub; false", ""),
        ("set -x; cd sub; false", "++ cd sub\n++ false"),
        ("trap 'echo bye >&2' EXIT; set -x; cd sub; false", "++ cd sub\n++ false\n+ echo bye\nbye"),
        ("cd sub; eval 'echo \"unclosed' 2>/dev/null; false", ""),
    ],
)
async def test_nothing_is_shown_of_how_a_command_reports_its_folder(command: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    output = await run(Bash(), context_in(tmp_path), command=command)
    assert (output.structured["output"], output.structured["exit_code"]) == (shown, 1)
    assert output.new_cwd == Path(os.path.realpath(tmp_path / "sub"))


async def test_a_working_directory_that_is_gone_is_an_error(tmp_path: Path) -> None:
    context = context_in(tmp_path / "gone")
    assert "is gone" in text_of(await run(Bash(), context, command="ls"))


async def test_long_output_keeps_head_and_tail_and_the_rest_in_a_file(tmp_path: Path) -> None:
    context = context_in(tmp_path, results_dir=tmp_path / "results")
    output = await run(Bash(), context, command="seq 1 100000")
    text = text_of(output)
    assert text.startswith("1\n2\n")
    assert text.endswith("99999\n100000")
    assert len(text) < 31_000
    saved = Path(output.structured["saved_to"])
    assert str(saved) in text
    assert saved.read_text().split() == [str(number) for number in range(1, 100_001)]
    assert saved.stat().st_mode & 0o777 == 0o600


async def test_memory_stays_constant_and_the_file_is_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "FILE_LIMIT", 1_000_000)
    context = context_in(tmp_path, results_dir=tmp_path / "results")
    tracemalloc.start()
    try:
        output = await run(Bash(), context, command="yes 0123456789 | head -c 40000000")
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12_000_000
    assert Path(output.structured["saved_to"]).stat().st_size == 1_000_000
    assert len(text_of(output)) < 31_000


async def test_a_file_that_cannot_be_written_does_not_fail_the_command(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file where the folder should be")
    context = context_in(tmp_path, results_dir=tmp_path / "results")
    output = await run(Bash(), context, command="seq 1 100000")
    assert not output.is_error
    assert output.structured["saved_to"] is None


async def test_a_timeout_ends_the_group_and_keeps_the_output(tmp_path: Path) -> None:
    output = await run(Bash(), context_in(tmp_path), command="echo $$; echo before; sleep 100", timeout=300)
    text = text_of(output)
    assert output.is_error
    assert "before" in text
    assert "after 0.3 s" in text
    assert not is_alive(int(text.split()[0]))


async def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_result(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    output = await run(Bash(), context_in(tmp_path), command="sleep 100 & echo $!")
    assert loop.time() - start < 5
    text = text_of(output)
    assert "left running" in text
    assert not is_alive(int(text.split()[0]))


async def test_an_abort_ends_the_whole_group_at_once(tmp_path: Path) -> None:
    controller = AbortController()
    marker = tmp_path / "pids"
    command = f"(sleep 100 & echo $! > {marker}.child; wait) & echo said; echo $! > {marker}; wait"
    task = asyncio.ensure_future(run(Bash(), context_in(tmp_path), controller.signal, command=command))
    pids = [await pid_in(marker), await pid_in(Path(f"{marker}.child"))]
    loop = asyncio.get_running_loop()
    start = loop.time()
    controller.abort(AbortReason.USER_CANCEL)
    output = await task
    assert loop.time() - start < 1.5
    assert not any(is_alive(pid) for pid in pids)
    assert output.is_error
    assert text_of(output).startswith("said\n")
    assert "stopped" in text_of(output)


@pytest.mark.parametrize("way", ["abort", "cancel"])
async def test_a_command_that_ignores_a_stop_ends_too(way: str, tmp_path: Path) -> None:
    controller = AbortController()
    marker = tmp_path / "pid"
    command = f"trap '' TERM; echo $$ > {marker}; while true; do sleep 100; done"
    task = asyncio.ensure_future(run(Bash(), context_in(tmp_path), controller.signal, command=command))
    pid = await pid_in(marker)
    loop = asyncio.get_running_loop()
    start = loop.time()
    if way == "abort":
        controller.abort()
        await task
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert loop.time() - start < 4
    assert not is_alive(pid)


async def test_an_abort_before_the_start_starts_nothing(tmp_path: Path) -> None:
    controller = AbortController()
    controller.abort()
    output = await run(Bash(), context_in(tmp_path), controller.signal, command=f"touch {tmp_path}/made")
    assert output.is_error
    assert not (tmp_path / "made").exists()


async def test_closing_the_generator_ends_the_group(tmp_path: Path) -> None:
    events = Bash().run({"command": "echo $$; sleep 100"}, context_in(tmp_path), AbortController().signal)
    async with aclosing(events):
        first = await anext(events)
    assert isinstance(first, Progress)
    assert not is_alive(int(first.text))


async def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    context = context_in(tmp_path)
    await run(Bash(), context, command="true")
    before = set(Path("/proc/self/fd").iterdir())
    for command in ("true", "sleep 100 & true", "exit 2"):
        await run(Bash(), context, command=command)
    assert len(set(Path("/proc/self/fd").iterdir())) == len(before)


async def test_live_output_comes_as_progress(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    context, signal = context_in(tmp_path), AbortController().signal
    events = Bash().run({"command": f"echo early; cat {gate}; echo late"}, context, signal)
    async with aclosing(events):
        first = await anext(events)
        assert isinstance(first, Progress)
        assert first.text == "early\n"
        await asyncio.to_thread(gate.write_text, "")
        rest = [event async for event in events]
    assert isinstance(rest[-1], Output)
    assert text_of(rest[-1]) == "early\nlate"


def test_read_only_commands_are_safe(tmp_path: Path) -> None:
    tool = Bash(lambda command: command == "ls -la")
    assert tool.is_safe({"command": "ls -la"})
    assert not tool.is_safe({"command": "rm x"})
    assert not Bash().is_safe({"command": "ls -la"})


def test_control_characters_are_refused_before_the_user_is_asked(tmp_path: Path) -> None:
    assert "control characters" in str(Bash().check({"command": "ls \x1b[A"}, context_in(tmp_path)))
    assert Bash().check({"command": "ls\n\tpwd"}, context_in(tmp_path)) is None
    assert Bash().check({"command": "echo \ud800"}, context_in(tmp_path)) is not None, "no system accepts that"


@pytest.mark.parametrize("turns", range(8))
async def test_cancelling_at_any_point_of_the_start_leaves_nothing(turns: int, tmp_path: Path) -> None:
    task = asyncio.ensure_future(run(Bash(), context_in(tmp_path), command="sleep 100"))
    for _turn in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_end_of_a_command_is_seen_without_descriptors_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_pid: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", refused, raising=False)
    output = await run(Bash(), context_in(tmp_path), command="echo here; exit 3")
    assert text_of(output) == "here\n\nExit code 3"


@pytest.mark.parametrize(
    ("command", "text", "code"),
    [
        ("echo out; echo err >&2", "out\nerr", 0),
        ("echo oops; exit 3", "oops\n\nExit code 3", 3),
        ("true", "(no output, exit code 0)", 0),
        ("(exit 9)", "(no output)\n\nExit code 9", 9),
        ("true | false", "(no output)\n\nExit code 1", 1),
        ("kill -KILL $$", "(no output)\n\nEnded by signal 9 (SIGKILL)", -9),
        ("echo x > /proc/no", "bash: line 1: /proc/no: No such file or directory\n\nExit code 1", 1),
        ("true\n\nif", "bash: eval: line 4: syntax error: unexpected end of file\n\nExit code 2", 2),
        (r"printf '\033[31mred\033[0m\033]0;title\007\000 \200\n'", "red \ufffd", 0),
        (r"for n in 1 2; do printf '\r%s0%%' $n; done; printf '\r\033[Kdone\nnext\r\nlast'", "done\nnext\nlast", 0),
        (r"printf '10%%\r20%%\r30%%\r'; printf '\n'; printf 'x\r'", "30%\nx", 0),
        ("head -c 5000 /dev/urandom; head -c 100 /dev/zero", "[binary output, 5,100 bytes]", 0),
        ("cat; tty; echo $TERM", "not a tty\ndumb", 0),
    ],
)
async def test_a_result_has_the_output_and_how_the_command_ended(
    command: str, text: str, code: int, tmp_path: Path
) -> None:
    output = await run(Bash(), context_in(tmp_path), command=command, timeout=10**9)
    assert (text_of(output), output.structured["exit_code"]) == (text, code)
    assert output.is_error == (code != 0)


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        ("cd sub; exit 7", "sub"),
        ("pushd sub >/dev/null && false", "sub"),
        ("trap 'echo mine' EXIT; cd sub", "sub"),
        ("f() { cd sub; }; f", "sub"),
        ("set -e; cd sub; false; echo unreached", "sub"),
        ("cd sub; exec true", None),
        ("(cd sub); true", None),
        ("mkdir x && cd x && rmdir ../x", None),
        ("cd /", None),
    ],
)
async def test_the_folder_is_kept_if_it_exists_inside_the_working_directories(
    command: str, folder: str | None, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    output = await run(Bash(), context_in(tmp_path), command=command)
    assert output.new_cwd == (Path(os.path.realpath(tmp_path / folder)) if folder else None)
    assert ("outside the working directories" in text_of(output)) == (command == "cd /")


async def test_a_bash_in_a_working_directory_is_never_the_shell(tmp_path: Path) -> None:
    planted = tmp_path / ".venv" / "bin" / "bash"
    planted.parent.mkdir(parents=True)
    planted.write_text("#!/bin/sh\necho planted\n")
    planted.chmod(0o755)
    for path in (f"{planted.parent}:{os.environ['PATH']}", str(planted.parent)):
        context = context_in(tmp_path, environ={"PATH": path})
        assert text_of(await run(Bash(), context, command="echo real")) == "real"


async def test_the_system_bash_is_used_when_the_project_is_the_root_folder(tmp_path: Path) -> None:
    if not any(Path(folder, "bash").exists() for folder in ("/bin", "/usr/bin")):
        pytest.skip("bash is not installed where systems have it")
    context = context_in(tmp_path, working_dirs=(Path("/"),))
    assert text_of(await run(Bash(), context, command="[[ a == a ]] && echo real")) == "real"
