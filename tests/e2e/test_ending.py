"""SIGTERM and SIGHUP while the program works or asks: it saves, ends its children and reports no bug. Even SIGKILL
leaves a session that says what ran."""

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
    assert "agentcli was closed before this was done." in shown
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


async def test_after_a_kill_at_a_question_the_resumed_session_says_that_the_call_never_ran(tmp_path: Path) -> None:
    asking, behind = call("Bash", command="touch asked"), call("Bash", command="touch behind")
    async with app_with(tmp_path, reply(asking, behind), arguments=["--", "go"]) as (app, _server):
        await app.wait_for("once")
        app.signal(signal.SIGKILL)
        await app.end()
        assert list(app.work.iterdir()) == []
    _shown, sent = await resumed(tmp_path)
    assert "The session ended while this call waited for the user's answer; it never ran." in sent
    assert "The session ended before this call began; it never ran." in sent


async def test_after_a_kill_of_an_approved_call_its_result_is_not_known(tmp_path: Path) -> None:
    command = "touch started; sleep 100"
    async with app_with(tmp_path, reply(call("Bash", command=command)), arguments=["--", "go"]) as (app, _server):
        await app.wait_for("once")
        await app.answer("y")
        await app.wait_for(lambda: (app.work / "started").exists())
        app.signal(signal.SIGKILL)
        await app.end()
    _shown, sent = await resumed(tmp_path)
    assert "The session ended before this call was done; its result is not known." in sent
    assert "never ran" not in sent


async def test_after_a_kill_the_requests_of_the_open_submission_are_still_charged(tmp_path: Path) -> None:
    asking = reply(call("Bash", command="touch asked"), usage={"input_tokens": 50_000, "output_tokens": 100})
    async with app_with(tmp_path, asking, arguments=["--", "go"]) as (app, _server):
        await app.wait_for("once")
        app.signal(signal.SIGKILL)
        await app.end()
    async with app_with(tmp_path, arguments=["--continue"]) as (app, _server):
        await app.ready()
        await app.submit("/cost")
        await app.wait_for("the session had cost")
