"""The model continues when a background task has ended: what it is told, who is in the way, and where a chain ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.background import MAX_WAKES
from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from agentcli.core.messages import Json, Origin
from agentcli.core.permission import PermissionMode
from agentcli.interactive.drafts import Draft
from agentcli.interactive.driver import SessionDriver
from tests.interactive.test_driver import Record
from tests.support.scripts import call, pause, provider_for, reply

pytestmark = pytest.mark.anyio

START = reply(call("Bash", command="until [ -e go ]; do sleep 0.01; done; echo built", run_in_background=True))
QUICK = reply(call("Bash", command="echo built", run_in_background=True))


def engine_in(folder: Path, *replies: Json | str, **options: Any) -> Engine:
    return build_engine(
        Options(
            cwd=folder,
            environ={"PATH": os.environ["PATH"], "HOME": str(folder)},
            provider=provider_for(*replies),
            permission_mode=PermissionMode.BYPASS,
            persist=False,
            **options,
        )
    )


async def collected(engine: Engine, prompt: str = "") -> list[ev.Event]:
    async with aclosing(engine.submit(prompt) if prompt else engine.wake()) as events:
        return [event async for event in events]


async def background_ended(engine: Engine) -> None:
    while engine.background.any_runs:
        await engine.background.wait_for_changes()


async def test_a_woken_model_gets_short_output_with_the_report_and_no_prompt(tmp_path: Path) -> None:
    async with engine_in(tmp_path, QUICK, "Started.", "It is built.") as engine:
        await collected(engine, "go")
        await background_ended(engine)
        assert [task.id for task in engine.wakes.due()] == ["bash_1"]
        events = await collected(engine)
        [notice] = [event.text for event in events if isinstance(event, ev.NoticeRaised)]
        assert notice == "Continuing because bash_1 ended. Esc stops."
        assert engine.messages[-1].text == "It is built."
        added = [message for message in engine.messages[-3:] if message.origin is Origin.ATTACHMENT]
        assert "bash_1 (echo built): exit code 0; its output:\n    built\n]" in added[-1].text
        assert not engine.wakes.due()


async def test_long_output_stays_for_the_tool_that_reads_it(tmp_path: Path) -> None:
    long = reply(call("Bash", command="printf %3000d 1", run_in_background=True))
    async with engine_in(tmp_path, long, "Started.", "Done.") as engine:
        await collected(engine, "go")
        await background_ended(engine)
        await collected(engine)
        assert "3,000 characters of output not read yet, see BashOutput" in engine.messages[-2].text


async def test_a_chain_of_wakes_ends_until_the_next_prompt(tmp_path: Path) -> None:
    async with engine_in(tmp_path, *[QUICK, "Started."] * (MAX_WAKES + 2)) as engine:
        await collected(engine, "go")
        woken = 0
        last: list[ev.Event] = []
        await background_ended(engine)
        while engine.wakes.due():
            woken += 1
            last = await collected(engine)
            await background_ended(engine)
        assert woken == MAX_WAKES
        assert any("waits for your prompt" in event.text for event in last if isinstance(event, ev.NoticeRaised))
        await collected(engine, "and now")
        await background_ended(engine)
        assert engine.wakes.due()


async def test_turns_count_from_the_prompt_on(tmp_path: Path) -> None:
    async with engine_in(tmp_path, QUICK, "Started.", QUICK, "Again.", max_turns=3) as engine:
        await collected(engine, "go")
        await background_ended(engine)
        result = (await collected(engine))[-1]
        assert isinstance(result, ev.Result)
        assert (result.terminal, result.turns) == ("max_turns", 1)
        await background_ended(engine)
        assert not engine.wakes.due()


async def test_a_task_that_was_stopped_wakes_nobody(tmp_path: Path) -> None:
    async with engine_in(tmp_path, START, "Started.") as engine:
        await collected(engine, "go")
        assert await engine.background.stop("bash_1")
        assert not engine.wakes.due()


# ---------------------------------------------------------------------------------------------------- in the driver


class Waiting(Record):
    """A view that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def show(self, event: ev.Event) -> None:
        super().show(event)
        if isinstance(event, ev.NoticeRaised):
            self.log.append(event.text)
        self._changed.set()

    def show_settled(self) -> None:
        super().show_settled()
        self._changed.set()

    async def until(self, holds: Callable[[list[str]], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds(self.log):
                self._changed.clear()
                await self._changed.wait()


async def driven(engine: Engine) -> tuple[SessionDriver, Waiting]:
    view = Waiting()
    driver = SessionDriver(view, wakes=True)
    driver.open(engine)
    driver.send(Draft("go"))
    await view.until(lambda log: "Started." in log and "settled" in log)
    return driver, view


async def test_a_prompt_sent_when_the_task_ends_is_answered_once_and_alone(tmp_path: Path) -> None:
    engine = engine_in(tmp_path, START, "Started.", "Yes, built.")
    driver, view = await driven(engine)
    (tmp_path / "go").touch()
    while engine.background.any_runs:
        await asyncio.sleep(0)
    driver.send(Draft("built?"))
    await view.until(lambda log: log.count("settled") == 2)
    assert view.log.count("started") == 2
    assert "Yes, built." in view.log
    assert not engine.wakes.due()
    await driver.close()


async def test_a_prompt_sent_to_a_woken_model_waits_for_it(tmp_path: Path) -> None:
    engine = engine_in(tmp_path, START, "Started.", reply(pause(0.05), call("Bash", command="true")), "Both done.")
    driver, view = await driven(engine)
    (tmp_path / "go").touch()
    await view.until(lambda log: any(line.startswith("Continuing because") for line in log))
    driver.send(Draft("and this"))
    await view.until(lambda log: "Both done." in log and log.count("settled") == 2)
    assert view.log.count("started") == 2
    assert [m.text for m in engine.messages if m.origin is Origin.QUEUED] == ["and this"]
    await driver.close()


async def test_after_an_interruption_only_a_prompt_continues(tmp_path: Path) -> None:
    engine = engine_in(tmp_path, START, "Started.", reply(QUICK["steps"][0], pause(60)), "Never.")
    driver, view = await driven(engine)
    (tmp_path / "go").touch()
    await view.until(lambda log: any(line.startswith("Continuing because") for line in log))
    assert driver.interrupt()
    await view.until(lambda log: log.count("settled") == 2)
    await background_ended(engine)
    driver._wake()
    assert not driver.busy
    await driver.close()


async def test_the_setting_turns_it_off(tmp_path: Path) -> None:
    engine = engine_in(tmp_path, START, "Started.", "Never.", settings='{"wakeOnBackground": false}')
    driver, _view = await driven(engine)
    (tmp_path / "go").touch()
    while engine.background.any_runs:
        await asyncio.sleep(0)
    driver._wake()
    assert engine.wakes.due()
    assert not driver.busy
    await driver.close()
