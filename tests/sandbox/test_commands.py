"""Everyday commands in a real sandbox: they work, and refusals are explained."""

from __future__ import annotations

import asyncio
import os
import resource
import shlex
import signal
import sys
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.core.aio import AbortController, AbortReason
from agentcli.core.permission import Grant
from agentcli.core.processes.launch import Launcher
from agentcli.tools.base import Output
from agentcli.tools.shell.bash import Bash
from tests.sandbox.box import SECRET, Box
from tests.tools.running import text_of

pytestmark = pytest.mark.anyio


async def test_the_working_directory_is_writable_and_cd_is_kept(box: Box) -> None:
    (box.project / "sub").mkdir()
    output = await box.run("echo x > made && cd sub && pwd")
    assert (box.project / "made").read_text() == "x\n"
    assert output.new_cwd == box.project / "sub"
    assert str(output.content).splitlines()[0] == str(box.project / "sub")


async def test_a_command_that_was_taken_for_read_only_changes_nothing_and_has_no_network(box: Box) -> None:
    context = replace(box.context(), grant=Grant(reads_only=True, network="none"))
    (box.project / "kept.txt").write_text("kept\n")
    output = await box.run(
        "rm kept.txt; echo x > made; echo y > /tmp/note; cat /tmp/note kept.txt; grep -c : /proc/net/dev",
        context=context,
    )
    said = text_of(output).splitlines()
    assert {"y", "kept", "1"} <= {*said}, "one network interface, the loopback"
    assert [path.name for path in box.project.iterdir()] == ["kept.txt"]


async def test_nothing_is_left_in_the_folders_after_a_command(box: Box) -> None:
    launcher = box.launcher()
    context = box.context(launcher)
    await box.run("true", context=context)
    await box.run("false", context=context)
    assert list(box.project.iterdir()) == []
    (session,) = box.root.glob("agentcli-*")
    assert session.stat().st_mode & 0o777 == 0o700
    launcher.close()
    assert list(box.root.glob("agentcli-*")) == []


async def test_the_temporary_folder_persists_between_commands_and_has_two_names(box: Box) -> None:
    context = box.context()
    await box.run("echo kept > /tmp/note; echo two > $TMPDIR/other", context=context)
    output = await box.run('cat $TMPDIR/note /tmp/other; mktemp | grep -c "$TMPDIR"', context=context)
    assert output.content == "kept\ntwo\n1"


async def test_parallel_commands_stay_protected_until_they_end(box: Box) -> None:
    context = box.context()
    go = box.project / "go"
    slow = asyncio.ensure_future(
        box.run("until [ -e go ]; do sleep 0.01; done; echo evil > .envrc; mkdir .vscode/x", context=context)
    )
    for _turn in range(3):
        await box.run("true", context=context)
    go.touch()
    assert "quarantine restore" in str((await slow).content)
    go.unlink()
    assert list(box.project.iterdir()) == []


async def test_a_refused_write_is_explained_to_the_model(box: Box) -> None:
    text = await box.text(f"touch {box.outside}/new")
    assert "Exit code 1" in text
    assert "Sandbox: " in text
    assert "sandbox.allowWrite" in text


async def test_a_refusal_that_the_exit_code_hides_is_explained(box: Box) -> None:
    for command in (f"mkdir {box.outside}/new; true", f"mkdir {box.outside}/new 2>&1 | tail"):
        output = await box.run(command)
        assert not output.is_error
        assert "sandbox.allowWrite" in str(output.content)


_COMMIT = "git -c user.name=t -c user.email=t@example.org commit -q"


@pytest.mark.parametrize(
    "command", [f"{_COMMIT}am work", f"git add -A; {_COMMIT}m work", f"git add .; {_COMMIT}m work"]
)
@pytest.mark.parametrize("kept", ["a denied file", "a denied folder", "most of a denied folder", "settings at home"])
async def test_git_never_records_an_unreadable_file_as_empty_or_deleted(box: Box, command: str, kept: str) -> None:
    home = box.project / "home"
    conf = box.project / "conf"
    for path in (conf / "secret.yml", conf / "public", home / ".npmrc", box.project / "notes"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(SECRET)
    box.git("init", "-q")
    box.git("add", "-A")
    box.git("commit", "-qm", "one")
    (box.project / "notes").write_text("changed")
    # One at a time: where git stops at one of them, it does not come to the others.
    covered = {
        "a denied file": box.with_rules(denied_files=lambda: (conf / "secret.yml",)),
        "a denied folder": box.with_rules(denied_files=lambda: (conf,)),
        "most of a denied folder": box.with_rules(denied_files=lambda: (conf,), allow_read=(conf / "public",)),
        "settings at home": box.with_rules(home=home),
    }[kept]
    await covered.run(command)
    for name in ("conf/secret.yml", "conf/public", "home/.npmrc"):
        assert box.git("show", f"HEAD:{name}") == SECRET
        assert box.git("show", f":{name}") == SECRET, "nor is it waiting for the next commit"


async def test_git_can_commit_files_beside_one_that_it_may_not_read(box: Box) -> None:
    for name in (".env", "notes"):
        (box.project / name).write_text(SECRET)
    box.git("init", "-q")
    box.git("add", "-A")
    box.git("commit", "-qm", "one")
    (box.project / "notes").write_text("changed")
    covered = box.with_rules(denied_files=lambda: (box.project / ".env",))
    assert "Name the paths to add" in await covered.text("git add -A")
    output = await covered.run(f"git add notes && {_COMMIT}m two")
    assert not output.is_error, output.content
    assert box.git("show", "HEAD:notes") == "changed"
    assert box.git("show", "HEAD:.env") == SECRET


async def test_reading_a_covered_file_fails_for_root_too(box: Box) -> None:
    (box.home / ".git-credentials").write_text(SECRET)
    (box.project / ".env").write_text(SECRET)
    covered = box.with_rules(denied_files=lambda: (box.project / ".env",))
    for path in (box.home / ".git-credentials", box.project / ".env"):
        output = await covered.run(f"cat {path}")
        assert output.is_error
        assert "Permission denied" in str(output.content)
        assert "sandbox.allowRead" in str(output.content)


async def test_paths_that_the_user_allows_can_be_written_and_read(box: Box) -> None:
    opened = box.with_rules(allow_write=(box.outside,), allow_read=(box.home / ".ssh",))
    output = await opened.run(f"echo mine > {box.outside}/file.txt && cat {box.home}/.ssh/id_ed25519")
    assert output.content == SECRET
    assert (box.outside / "file.txt").read_text() == "mine\n"


async def test_results_of_the_session_can_be_read_though_the_rest_of_the_state_cannot(box: Box) -> None:
    state = box.home / "state"
    for name in ("mine", "theirs"):
        (state / name).mkdir(parents=True)
        (state / name / "out.txt").write_text(f"{name} {SECRET}")
    shared = box.with_rules(own_folders=(state,), readable=(state / "mine",))
    text = await shared.text(f"cat {state}/mine/out.txt; cat {state}/theirs/out.txt; ls {state}")
    assert f"mine {SECRET}" in text
    assert "theirs " not in text


async def test_a_repository_can_be_created_and_cloned(box: Box) -> None:
    identity = "git -c user.name=t -c user.email=t@example.org"
    output = await box.run(f"git init -q && touch a && git add a && {identity} commit -qm x && git clone -q . sub/copy")
    assert not output.is_error, output.content
    assert (box.project / "sub" / "copy" / ".git" / "HEAD").exists()


async def test_git_works_in_a_worktree(box: Box) -> None:
    box.git("init", "-q")
    box.git("commit", "-q", "--allow-empty", "-m", "one")
    linked = box.root / "linked"
    box.git("worktree", "add", "-q", str(linked))
    there = box.with_rules(working_dirs=(linked,))
    context = replace(there.context(), cwd=linked, working_dirs=(linked,))
    identity = "git -c user.name=t -c user.email=t@example.org"
    output = await there.run(f"touch new && git add new && {identity} commit -qm two", context=context)
    assert not output.is_error, output.content
    assert "two" in box.git("log", "--all", "--oneline")


async def test_git_does_not_see_placeholder_files(box: Box) -> None:
    box.git("init", "-q")
    assert await box.text("git status --porcelain --ignored; git add -A && git status --porcelain") == (
        "(no output, exit code 0)"
    )


async def test_caches_of_package_tools_are_the_projects_own(box: Box) -> None:
    text = await box.text('mkdir -p "$PIP_CACHE_DIR" && echo $PIP_CACHE_DIR && touch "$npm_config_cache" && echo done')
    assert text.endswith("done")
    assert str(box.caches) in text


async def test_a_virtual_environment_can_be_created_and_its_scripts_are_then_protected(box: Box) -> None:
    output = await box.run(f"{shlex.quote(sys.executable)} -m venv --without-pip .venv")
    assert not output.is_error, output.content
    assert "quarantine restore" in await box.text("echo evil >> .venv/bin/activate")
    assert "evil" not in (box.project / ".venv/bin/activate").read_text()
    assert not (await box.run("rm -rf .venv")).is_error, "what a command made it can remove"
    assert not (box.project / ".venv").exists()


SLOW_CLEANUP = """trap 'sleep 0.3; echo cleaned > cleaned; exit 1' TERM
until grep -q '^State:.S' /proc/$PPID/status; do :; done  # `timeout` forwards no signal before it waits
echo ready > ready
while :; do sleep 0.01; done"""


@pytest.mark.parametrize(
    "command",
    [
        "trap 'echo cleaned > cleaned; exit 1' TERM; echo ready > ready; while :; do sleep 0.01; done",
        "bash run.sh; touch continued",
        "bash run.sh & wait; touch continued",
        "trap 'sleep 0.3; echo cleaned > cleaned' EXIT; (sleep 0.2; echo ready > ready) & sleep 100",
        "timeout 100 bash run.sh; touch continued",
    ],
)
@pytest.mark.parametrize("sandboxed", [True, False])
async def test_an_abort_lets_a_command_and_its_children_clean_up(box: Box, command: str, sandboxed: bool) -> None:
    controller = AbortController()
    (box.project / "run.sh").write_text(SLOW_CLEANUP)
    context = box.context()
    if not sandboxed:
        context = replace(context, launcher=Launcher())

    async def abort_when_ready() -> None:
        async with asyncio.timeout(10):
            while not (box.project / "ready").exists():
                await asyncio.sleep(0.005)
        controller.abort(AbortReason.USER_CANCEL)

    aborting = asyncio.ensure_future(abort_when_ready())
    async with aclosing(Bash().run({"command": command}, context, controller.signal)) as steps:
        outputs = [step async for step in steps if isinstance(step, Output)]
    await aborting
    assert outputs[-1].is_error
    assert (box.project / "cleaned").exists()
    assert not (box.project / "continued").exists()


async def test_a_command_that_ignores_signals_ends_with_its_sandbox(box: Box) -> None:
    launch = box.launcher().launch(["/bin/sh", "-c", "trap '' TERM; sleep 100 & sleep 100"], box.project, os.environ)
    process = await asyncio.create_subprocess_exec(
        *launch.arguments,
        env=dict(launch.environ),
        pass_fds=launch.pass_descriptors,
        start_new_session=True,
        stdout=asyncio.subprocess.PIPE,
    )
    assert launch.terminate is not None
    async with asyncio.timeout(10):
        while not launch.terminate():
            await asyncio.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    await process.communicate()
    launch.close()
    launch.close()
    assert list(box.project.iterdir()) == []


async def test_it_dies_with_the_program_that_started_it(box: Box, tmp_path: Path) -> None:
    """kill -9 of the parent leaves nothing running."""
    launch = box.launcher().launch(["/bin/sh", "-c", "echo up; exec sleep 1000"], box.project, os.environ)
    starter = (
        "import os, subprocess, sys\n"
        "fds = tuple(map(int, os.environ['KEEP'].split()))\n"
        "process = subprocess.Popen(sys.argv[1:], pass_fds=fds, start_new_session=True)\n"
        "process.wait()\n"
    )
    keep = launch.pass_descriptors
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", starter, *launch.arguments),
        env={**launch.environ, "KEEP": " ".join(map(str, keep))},
        pass_fds=keep,
        stdout=asyncio.subprocess.PIPE,
    )
    assert parent.stdout is not None
    assert await parent.stdout.readline() == b"up\n"
    parent.kill()
    await parent.wait()
    async with asyncio.timeout(10):
        assert await parent.stdout.read() == b"", "the pipe closes when the last process is gone"
    launch.close()


async def test_a_command_ends_where_more_than_a_thousand_files_are_open(box: Box) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2_048, hard), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _file in range(1_100)]
    try:
        assert await box.text("echo done") == "done"
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
