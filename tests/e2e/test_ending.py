"""SIGTERM and SIGHUP while the program works or asks: it saves, ends its children and reports no bug."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.scripts import call, fault, reply, say
from tests.support.terminal import TerminalProgram, app_with

pytestmark = pytest.mark.anyio

FRONT_ENDS = {"app": (), "plain": ("--plain",), "headless": ("-p",)}


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def number(request: pytest.FixtureRequest) -> signal.Signals:
    return request.param  # type: ignore[no-any-return]


def reports(app: TerminalProgram) -> list[str]:
    """The texts of all crash reports."""
    return [path.read_text() for path in app.home.rglob("*crash*.txt")]


async def end_with(app: TerminalProgram, number: signal.Signals) -> None:
    app.signal(number)
    assert await app.end() == 128 + number
    assert reports(app) == []
    assert "failed" not in app.text


async def resumed(folder: Path) -> tuple[str, str]:
    """What a resumed session shows of the earlier one, and what it sends to the model."""
    async with app_with(folder, "Resumed.", arguments=["--continue"]) as (app, server):
        await app.ready()
        await app.wait_for("❯ go")
        shown = app.text
        await app.submit("and now")
        await app.wait_for("Resumed.")
        assert await app.leave() == 0
        return shown, json.dumps(server.bodies[-1]["messages"])


@pytest.mark.parametrize("front_end", FRONT_ENDS)
async def test_a_signal_during_a_reply_keeps_its_beginning(
    tmp_path: Path, front_end: str, number: signal.Signals
) -> None:
    arguments = [*FRONT_ENDS[front_end], "--", "go"]
    async with app_with(tmp_path, reply(say("It begins.\n\n"), fault("stall")), arguments=arguments) as (app, server):
        # Nothing is painted in headless mode before the answer is complete.
        await app.wait_for("It begins." if front_end != "headless" else lambda: server.bodies)
        await end_with(app, number)
    shown, sent = await resumed(tmp_path)
    assert "agentcli was closed before this was done." in shown
    assert "did not stop" not in shown
    assert "[agentcli was closed before this was done]" in sent


@pytest.mark.parametrize("front_end", FRONT_ENDS)
async def test_a_signal_ends_even_a_command_that_ignores_it_and_keeps_its_output(
    tmp_path: Path, front_end: str, number: signal.Signals
) -> None:
    command = "trap '' TERM; echo begun; touch started; sleep 100; sleep 100"
    arguments = [*FRONT_ENDS[front_end], "--allowedTools", "Bash", "--", "go"]
    async with app_with(tmp_path, reply(call("Bash", command=command)), arguments=arguments) as (app, _server):
        await app.wait_for(lambda: (app.work / "started").exists())
        await end_with(app, number)
    shown, sent = await resumed(tmp_path)
    assert "agentcli was closed before this was done. Partial output is kept." in shown
    assert "did not stop" not in shown
    assert "This command was stopped because agentcli was closed" in sent
    assert "begun" in sent


@pytest.mark.parametrize("front_end", ["app", "plain"])
async def test_a_signal_during_a_question_leaves_the_call_undone(
    tmp_path: Path, front_end: str, number: signal.Signals
) -> None:
    arguments = [*FRONT_ENDS[front_end], "--", "go"]
    async with app_with(tmp_path, reply(call("Bash", command="touch started")), arguments=arguments) as (app, _server):
        await app.wait_for("once")
        await end_with(app, number)
        assert not (app.work / "started").exists()
    shown, sent = await resumed(tmp_path)
    assert "agentcli was closed before this was done." in shown
    assert "did not stop" not in shown
    assert "agentcli was closed before this call ran." in sent
