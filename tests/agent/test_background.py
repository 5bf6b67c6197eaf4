"""Background commands in a conversation: real processes, a scripted model, the whole engine."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from pathlib import Path

import pytest

from agentcli.agent.attachments.state_notes import Composite
from agentcli.agent.engine import Engine
from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments
from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from agentcli.core.messages import Json, Message, Origin
from agentcli.core.permission import PermissionMode
from tests.support.scripts import call, call_with_id, provider_for, reply

pytestmark = pytest.mark.anyio


def engine_in(folder: Path, *replies: Json | str) -> Engine:
    return build_engine(
        Options(
            cwd=folder,
            environ={"PATH": os.environ["PATH"], "HOME": str(folder)},
            provider=provider_for(*replies),
            permission_mode=PermissionMode.BYPASS,
            persist=False,
        )
    )


async def submit(engine: Engine, prompt: str = "go") -> list[ev.Event]:
    async with aclosing(engine.submit(prompt)) as events:
        return [event async for event in events]


def changes(events: list[ev.Event]) -> list[tuple[str, str]]:
    return [(event.task_id, event.status) for event in events if isinstance(event, ev.BackgroundChanged)]


def attached(events: list[ev.Event]) -> list[str]:
    appended = [event.message for event in events if isinstance(event, ev.MessageAppended)]
    return [message.text for message in appended if message.origin is Origin.ATTACHMENT]


async def test_the_model_is_notified_once_when_a_background_command_ends(tmp_path: Path) -> None:
    start = call("Bash", command="echo built", run_in_background=True)
    wait = call("Bash", command="sleep 0.5")
    engine = engine_in(tmp_path, reply(start), reply(wait), reply(wait), "Done.", "Done again.")
    async with engine:
        events = await submit(engine)
        told = attached(events)
        assert len(told) == 1
        assert "bash_1 (echo built): exit code 0; its output:\n    built\n]" in told[0]
        assert changes(events) == [("bash_1", "running"), ("bash_1", "completed")]
        assert attached(await submit(engine)) == []
        assert [task.status for task in engine.background.tasks] == ["completed"]


async def test_a_notice_lost_to_an_abort_is_sent_with_the_next_prompt(tmp_path: Path) -> None:
    class AbortsOnce(Attachments):
        """Collected after the report of background commands, as a slow look at the disk is."""

        waits = True
        wanted = False

        async def collect(self, state: LoopState) -> list[Message]:
            if self.wanted:
                self.wanted = False
                engine.abort()
                await asyncio.Event().wait()
            return []

    others = AbortsOnce()
    command = "while ! [ -e go ]; do sleep 0.01; done; exit 4"
    start = reply(call("Bash", command=command, run_in_background=True))
    engine = engine_in(tmp_path, start, "Started.", "I see.", "Yes.")
    engine.session.attachments = Composite(engine.session.attachments, others)
    async with engine:
        await submit(engine)
        (tmp_path / "go").touch()
        async with asyncio.timeout(10):
            while engine.background.tasks[0].status == "running":
                await asyncio.sleep(0.005)
        others.wanted = True
        assert attached(await submit(engine)) == []
        assert "exit code 4" in attached(await submit(engine))[0]
        assert attached(await submit(engine)) == []


async def test_between_submissions_a_front_end_can_wait_for_changes(tmp_path: Path) -> None:
    command = "while ! [ -e go ]; do sleep 0.01; done"
    engine = engine_in(tmp_path, reply(call("Bash", command=command, run_in_background=True)), "Started.")
    async with engine:
        await submit(engine)
        waiting = asyncio.ensure_future(engine.background.wait_for_changes())
        await asyncio.sleep(0)
        assert not waiting.done()
        (tmp_path / "go").touch()
        async with asyncio.timeout(10):
            assert [(event.task_id, event.status) for event in await waiting] == [("bash_1", "completed")]


async def test_an_end_that_the_model_has_already_seen_is_not_reported(tmp_path: Path) -> None:
    calls = [call("Bash", command="true", run_in_background=True), call("Bash", command="sleep 0.5")]
    look = call("BashOutput", bash_id="bash_1")
    engine = engine_in(tmp_path, reply(*calls, look), "Done.")
    async with engine:
        assert attached(await submit(engine)) == []


async def test_a_foreground_command_moves_to_the_background_on_request(tmp_path: Path) -> None:
    waiting = call_with_id("toolu_1", "Bash", command="echo $$ > pid; sleep 100")
    engine = engine_in(tmp_path, reply(waiting), "Going on.")
    async with engine:
        task = asyncio.ensure_future(submit(engine))
        async with asyncio.timeout(10):
            while not ((tmp_path / "pid").exists() and engine.background.detach("toolu_1")):
                await asyncio.sleep(0.005)
        events = await task
        assert changes(events) == [("bash_1", "running")]
        assert isinstance(events[-1], ev.Result)
        assert not engine.background.detach("toolu_1")
        assert await engine.background.stop("bash_1")
        assert not await engine.background.stop("bash_2")
        assert engine.background.tasks[0].status == "killed"


async def test_killing_a_command_ends_stubborn_and_detached_processes(tmp_path: Path) -> None:
    """In the sandbox, where there is one."""
    stubborn = "trap '' TERM; sleep 1234.25 & wait; sleep 1234.25"
    command = f'setsid bash -c "{stubborn}" & touch started; {stubborn}'
    started = call("Bash", command="while ! [ -e started ]; do sleep 0.01; done")
    engine = engine_in(
        tmp_path,
        reply(call("Bash", command=command, run_in_background=True), started),
        reply(call("KillShell", bash_id="bash_1")),
        "Done.",
    )
    async with engine:
        events = await submit(engine)
        assert changes(events) == [("bash_1", "running"), ("bash_1", "killed")]
        assert _sleeping("1234.25") == []
        assert attached(events) == []


async def test_closing_the_engine_ends_the_background(tmp_path: Path) -> None:
    command = "setsid sleep 1234.5 & sleep 1234.5"
    engine = engine_in(tmp_path, reply(call("Bash", command=command, run_in_background=True)), "Started.")
    async with engine:
        await submit(engine)
    assert _sleeping("1234.5") == []


def _sleeping(argument: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", argument.encode()]:
                found.append(entry.name)
    return found
