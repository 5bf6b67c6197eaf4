"""A sandbox that is started before its command is known: used when nothing has changed, refused in every other case."""

from __future__ import annotations

import asyncio
import functools
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.core.permission import Grant
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.process import Child
from agentcli.tools.shell import running_command, spare_shell
from agentcli.tools.shell.background import Shells
from agentcli.tools.shell.spare_shell import SpareShell
from tests.sandbox.box import SECRET, Box, ability_or_skip

pytestmark = pytest.mark.anyio


class Session:
    """Commands of one session, and how many of them had to start a sandbox of their own."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.shells = Shells()
        self.context = replace(box.context(), shells=self.shells)
        self.fresh = 0

    async def run(self, command: str, context: ToolContext | None = None) -> Output:
        return await self.box.run(command, context=context or self.context)

    async def spare(self) -> SpareShell:
        """Run a command, after which there is a spare."""
        await self.run("true")
        return await self.prepared()

    async def prepared(self) -> SpareShell:
        async with asyncio.timeout(10):
            while self.shells.spare._spare is None:
                await asyncio.sleep(0)
            return self.shells.spare._spare

    async def nothing_is_prepared(self) -> None:
        async with asyncio.timeout(10):
            while self.shells.spare._timer is not None or self.shells.spare._work is not None:
                await asyncio.sleep(0)
        assert self.shells.spare._spare is None


@pytest.fixture
def box() -> Iterator[Box]:
    """Not in /tmp: there a command sees what lies beside its project, which other tests change all the time."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as root:
        yield Box.make(Path(root).resolve(), ability_or_skip())


@pytest.fixture
async def session(box: Box, monkeypatch: pytest.MonkeyPatch) -> Session:
    made = Session(box)

    class Counted(Child):
        @classmethod
        def start(cls, *arguments: Any, **rest: Any) -> Child:
            made.fresh += 1
            return Child.start(*arguments, **rest)

    monkeypatch.setattr(running_command, "Child", Counted)
    monkeypatch.setattr(spare_shell, "START_SECONDS", 0.0)
    monkeypatch.setattr(spare_shell, "READY_SECONDS", 60.0)  # the machine may be busy
    return made


def ends_it(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """End the session before it is checked that the test leaves no task and no process behind."""

    @functools.wraps(test)
    async def run(session: Session, **rest: Any) -> None:
        try:
            await test(session=session, **rest)
        finally:
            await session.shells.aclose()

    return run


def is_running(child: Child) -> bool:
    return Path(f"/proc/{child._process.pid}").exists()


@ends_it
async def test_the_second_command_runs_in_the_spare_of_the_first(session: Session) -> None:
    assert await session.shells.spare.take() is None
    await session.spare()
    output = await session.run("echo again")
    assert (output.content, session.fresh) == ("again", 1)
    await session.prepared()
    assert ((await session.run("false")).is_error, session.fresh) == (True, 1)


COMMANDS = (
    "echo out; echo err >&2; exit 3",
    "cd sub && pwd",
    "echo $0 $# $SECONDS ${_agentcli_command-none}; echo one\n\nnot-a-program",
    "if",
    "sleep 100 & echo left",
    "cat <<'END'\na \"b\" 'c' \\n $HOME\nEND",
    "kill -9 $$",
    "trap 'echo mine' EXIT",
    "ls /proc/self/fd | wc -l; umask; ulimit -a; pwd; ls -A /tmp",
    "env | grep -v AGENTCLI_CALL | sort; mount | wc -l; cat /proc/self/status | grep -E 'Cap|Seccomp|NoNewPrivs'",
    "cat ~/.ssh/id_ed25519 ~/.netrc; ls ~/.config/agentcli; echo x > ~/new; echo y > sub/new && cat sub/new",
)


@pytest.mark.parametrize("command", COMMANDS)
@ends_it
async def test_a_command_behaves_in_a_spare_as_in_a_sandbox_of_its_own(session: Session, command: str) -> None:
    (session.box.project / "sub").mkdir()
    own = await session.run(command)
    await session.prepared()
    again = await session.run(command)
    assert session.fresh == 1
    assert replace(again, structured=None) == replace(own, structured=None)
    assert SECRET not in str(again.content)


def replaced(path: Path) -> None:
    new = path.with_name("new-one")
    new.write_text(SECRET)
    new.replace(path)


def written_again(path: Path) -> None:
    """Many file systems give the new file the inode number of the one that was removed."""
    path.unlink()
    path.write_text(SECRET)


def linked_again(path: Path) -> None:
    other = path.with_name("other-name")
    other.hardlink_to(path)
    path.unlink()
    path.hardlink_to(other)
    other.unlink()


def folder_made_again(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()
    (path / "id_ed25519").write_text(SECRET)


def folder_replaced(path: Path) -> None:
    path.rename(path.with_name("old-one"))
    path.mkdir()
    (path / "note").write_text("of the new folder")


def link_made(box: Box) -> None:
    (box.home / ".ssh").rename(box.home / "keys")
    (box.home / ".ssh").symlink_to(box.home / "keys")


def secret_made(box: Box) -> None:
    (box.home / ".aws").mkdir()
    (box.home / ".aws" / "credentials").write_text(SECRET)


CHANGES: dict[str, tuple[Callable[[Box], object], str, str]] = {
    "a denied file is replaced": (lambda box: replaced(box.project / "key.pem"), "cat key.pem", "ermission denied"),
    "a denied file is written again": (
        lambda box: written_again(box.project / "key.pem"),
        "cat key.pem",
        "ermission denied",
    ),
    "a denied file is linked again": (
        lambda box: linked_again(box.project / "key.pem"),
        "cat key.pem",
        "ermission denied",
    ),
    "a masked folder is made again": (
        lambda box: folder_made_again(box.home / ".ssh"),
        "cat ~/.ssh/id_ed25519",
        "",
    ),
    "an emptied file is replaced": (lambda box: replaced(box.home / ".netrc"), "cat ~/.netrc", "(no output"),
    "a secret appears": (secret_made, "cat ~/.aws/credentials", ""),
    "the project is another folder": (lambda box: folder_replaced(box.project), "cat note", "of the new folder"),
    "git's settings are replaced": (lambda box: box.git("config", "a.b", "new"), "git config a.b", "new"),
    "a protected file appears": (lambda box: (box.project / ".envrc").touch(), "echo x >> .envrc; cat .envrc", ""),
    "a masked folder is a link": (link_made, "cat ~/.ssh/id_ed25519 ~/keys/id_ed25519", ""),
}


@pytest.mark.parametrize("change", CHANGES)
@ends_it
async def test_a_spare_is_refused_after_a_change_outside_of_it(session: Session, change: str) -> None:
    box = session.box
    box.git("init", "-q")
    (box.project / "key.pem").write_text(SECRET)
    launcher = box.with_rules(deny_read=(box.project / "key.pem",)).launcher()
    session.context = replace(session.context, launcher=launcher)
    waiting = await session.spare()
    make, command, expected = CHANGES[change]
    make(box)
    output = await session.run(command)
    assert session.fresh == 2
    assert SECRET not in str(output.content)
    assert expected in str(output.content)
    assert not is_running(waiting.child)
    if change == "a protected file appears":
        assert (box.project / ".envrc").read_text() == ""


@ends_it
async def test_a_spare_is_refused_for_another_environment_folder_or_grant(session: Session) -> None:
    (session.box.project / "sub").mkdir()
    context = replace(session.context, launcher=session.box.with_rules(network=False).launcher())
    session.context = context
    others = (
        replace(context, environ={**context.environ, "CI": "yes"}),
        replace(context, cwd=session.box.project / "sub"),
        replace(context, grant=Grant(network="all")),
        replace(context, grant=Grant(write=(session.box.outside,))),
    )
    for number, other in enumerate(others):
        await session.spare()
        before = session.fresh
        output = await session.run("echo $CI; pwd; touch ~/other/made && echo written", other)
        assert session.fresh == before + 1
        assert ("yes" in str(output.content), "/sub" in str(output.content)) == (number == 0, number == 1)
        assert ("written" in str(output.content)) == (number == 3)


@ends_it
async def test_a_spare_is_refused_when_another_command_has_run_since(session: Session) -> None:
    await session.spare()
    await session.run("true", replace(session.context, shells=None))
    await session.run("true")
    assert session.fresh == 3


@ends_it
async def test_a_spare_is_refused_for_a_long_or_unusual_text(session: Session) -> None:
    for text in ("echo é", f"echo {'x' * spare_shell.MAX_TEXT_LENGTH}"):
        await session.spare()
        before = session.fresh
        assert str((await session.run(text)).content) == text.removeprefix("echo ")
        assert session.fresh == before + 1


@ends_it
async def test_a_spare_that_died_is_not_used(session: Session) -> None:
    waiting = await session.spare()
    waiting.child.signal_group(signal.SIGKILL)
    await waiting.child.wait()
    assert (await session.run("echo on")).content == "on"
    assert session.fresh == 2


@ends_it
async def test_a_spare_that_has_just_died_is_not_used(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = await session.spare()
    is_ready = waiting._is_ready

    async def is_ready_and_dies() -> bool:
        ready = await is_ready()
        waiting.child.signal_group(signal.SIGKILL)
        while not is_abandoned(waiting._feed):
            pass
        return ready

    monkeypatch.setattr(waiting, "_is_ready", is_ready_and_dies)
    assert (await session.run("echo on")).content == "on"
    assert session.fresh == 2


def is_abandoned(pipe: int) -> bool:
    """Whether nobody reads from it any more."""
    errors = select.poll()
    errors.register(pipe, 0)
    return bool(errors.poll(0))


@ends_it
async def test_there_is_no_spare_beside_a_background_command(session: Session) -> None:
    command = await running_command.ShellCommand.start("sleep 100", session.context, _output())
    session.shells.add(command)
    await session.run("true")
    await session.nothing_is_prepared()


@ends_it
async def test_a_background_command_that_starts_later_uses_up_the_spare(session: Session) -> None:
    await session.spare()
    command = await running_command.ShellCommand.start("sleep 100", session.context, _output())
    session.shells.add(command)
    assert session.fresh == 1
    await session.run("true")
    assert session.fresh == 2


def _output() -> Any:
    from agentcli.tools.shell.output import CollectedOutput

    return CollectedOutput(None, "none")


@ends_it
async def test_a_spare_ends_with_the_session_and_when_nothing_uses_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await session.spare()
    monkeypatch.setattr(spare_shell, "IDLE_SECONDS", 0.0)
    second = await session.shells.spare.take()
    assert second is first
    await second.aclose()
    assert not is_running(first.child)
    await session.run("true")
    await session.nothing_is_prepared()
    monkeypatch.undo()
    third = await session.spare()
    assert is_running(third.child)
    await session.shells.aclose()
    assert not is_running(third.child)
    await session.run("true")
    await session.nothing_is_prepared()


_KILLED = """
import asyncio, sys
from pathlib import Path
from tests.sandbox.box import Box, ability_or_skip
from tests.sandbox.test_spare import Session

async def main():
    session = Session(Box(Path(sys.argv[1]), ability_or_skip()))
    waiting = await session.spare()
    print(waiting.child._process.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_spare_ends_when_the_session_is_killed(box: Box) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(box.root)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    with process:
        assert process.stdout is not None
        descriptor = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        try:
            assert select.select([descriptor], [], [], 10)[0]
        finally:
            os.close(descriptor)
