"""/trace in the app: the steps of a prompt, the exact request, continuing from there, and a prompt that still runs."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot

from agentcli.tui.app import AgentApp
from agentcli.tui.screens.scrubber import Scrubber
from tests.support.scripts import call, pause, reply
from tests.tui.test_app import Desk, idle, rows, sends, shown, until


async def open_trace(pilot: Pilot[int], app: AgentApp, arguments: str = "") -> None:
    await sends(pilot, app, f"/trace {arguments}".strip())
    await until(pilot, lambda: isinstance(app.screen, Scrubber) and "prompt" in rows(app)[0])


def test_a_step_opens_its_request_and_the_conversation_continues_from_there(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        for prompt in ("look around", "and now?"):
            await sends(pilot, app, prompt)
            await idle(pilot, app)
        await sends(pilot, app, "/trace 9")
        await until(pilot, lambda: "This session has 2 prompts." in shown(app))
        await open_trace(pilot, app, "1.1")
        await until(pilot, lambda: "until the first token" in shown(app))
        assert "1 the prompt" in shown(app)
        await pilot.press("tab")
        await until(pilot, lambda: "Proven: the digest of this request" in shown(app))
        await pilot.press("down", "down", "tab", "tab")
        await until(pilot, lambda: "2 new messages after" in shown(app))
        await pilot.press("b")
        await until(pilot, lambda: "Continue after it" in shown(app))
        assert "re-bills" in shown(app), "the price is shown first"
        await pilot.press("enter")
        await until(pilot, lambda: "The conversation continues after “look around”" in shown(app))
        engine = app.chat.session.engine
        assert engine is not None
        prompts = [message.text for message in await engine.all_messages() if message.is_prompt]
        assert prompts == ["look around"]

    desk = Desk(tmp_path, reply(call("Read", file_path="parser.py")), "A parser.", "Nothing.")
    desk.play(script, size=(120, 40))


def test_a_running_prompt_is_shown_as_far_as_it_came(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "look around")
        await until(pilot, lambda: "Read" in shown(app) and "A parser" in shown(app))
        await open_trace(pilot, app)
        await until(pilot, lambda: "cut off, or still running" in shown(app))
        assert "Read parser.py" in shown(app)
        await pilot.press("b")
        await until(pilot, lambda: "A prompt is still running" in shown(app))
        await pilot.press("escape")
        await idle(pilot, app)

    desk = Desk(tmp_path, reply(call("Read", file_path="parser.py")), reply("A parser", pause(60)))
    desk.play(script, size=(120, 40))


def test_the_page_shows_what_a_running_prompt_adds_and_keeps_the_cursor(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "look around")
        await until(pilot, lambda: "A parser" in shown(app))
        await open_trace(pilot, app, "1.2")
        await until(pilot, lambda: "cut off, or still running" in shown(app))
        steps = [row for row in rows(app) if "results of the calls" in row]
        await until(pilot, lambda: "completed" in shown(app))
        assert isinstance(app.screen, Scrubber)
        assert app.screen.step is not None
        assert app.screen.step.id == "1.2"
        assert len([row for row in rows(app) if "results of the calls" in row]) > len(steps)

    desk = Desk(tmp_path, reply(call("Read", file_path="parser.py")), reply("A parser", pause(2), " that adds."))
    desk.play(script, size=(120, 40))


def test_a_collector_that_is_gone_costs_the_app_one_notice(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        for prompt in ("one", "two"):
            await sends(pilot, app, prompt)
            await idle(pilot, app)
            await until(pilot, lambda: "Traces could not be sent to http://127.0.0.1:1/v1/traces" in shown(app))
        assert shown(app).count("Traces could not be sent") == 1

    settings = '{"sandbox": {"mode": "off"}, "otlpEndpoint": "http://127.0.0.1:1"}'
    Desk(tmp_path, "One.", "Two.", settings=settings).play(script, size=(120, 40))
