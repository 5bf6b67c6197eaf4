"""agentcli's own questions in the app: confirming a model change, even during work, and raising the budget."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest
from textual.pilot import Pilot

from agentcli.agent.costs.cache_watch import SHORT_TTL
from agentcli.agent.profile import Bounds
from agentcli.core.events import PermissionRequested
from agentcli.core.permission import Answer
from agentcli.tui.app import AgentApp
from agentcli.tui.screens.pickers import ModelPicker
from agentcli.tui.screens.question import QuestionDialog
from tests.support.fakes import MODEL, FakeTool
from tests.support.scripts import call, pause, reply
from tests.tui import test_app
from tests.tui.test_session import Desk

USED = {"input_tokens": 10, "cache_read_input_tokens": 40_000, "output_tokens": 5}


def desk(*more: Any, **rest: Any) -> Desk:
    return Desk(reply("Hello.", usage=USED), *more, interactive=True, **rest)


@pytest.mark.virtual
@pytest.mark.parametrize(
    ("busy", "line", "answer", "model", "effort"),
    [
        (False, "/model opus", "allow", "claude-opus-5-5", None),
        (True, "/model opus", "deny", MODEL, None),
        (True, "/effort low", "allow", MODEL, "low"),
    ],
)
async def test_a_typed_change_waits_for_the_answer_also_during_work(
    busy: bool, line: str, answer: Literal["allow", "deny"], model: str, effort: str | None
) -> None:
    async with desk(reply("Long", pause(60), " answer."), "Next.") as d:
        d.send("hi")
        await d.idle()
        if busy:
            d.send("go on")
            await d.until(lambda: "Long" in str(d.shown.texts()))
        d.send(line)
        await d.until(lambda: len(d.shown.asked) == 1)
        assert d.bench.engine.model == MODEL
        if effort:
            await d.idle()
            assert d.shown.withdrawn == [], "it stays open after the work"
        d.session.answer(d.shown.asked[0].request_id, Answer(answer))
        await d.until(lambda: (d.bench.engine.model, d.bench.engine.profile.effort) == (model, effort))
        await d.idle()
        assert not busy or d.shown.results[-1].text == "Long answer."


@pytest.mark.virtual
async def test_the_status_line_follows_the_cache_as_it_goes_cold() -> None:
    async with desk() as d:
        d.send("hi")
        await d.idle()
        warm = d.shown.facts
        assert not warm.cache_cold
        await asyncio.sleep(SHORT_TTL + 1)
        cold = d.shown.facts
        assert cold.cache_cold, "nothing happened meanwhile, and still it is shown"
        assert warm.next_cost_usd is not None
        assert cold.next_cost_usd is not None
        assert cold.next_cost_usd > 5 * warm.next_cost_usd


@pytest.mark.virtual
async def test_at_the_budget_the_session_asks_and_continues() -> None:
    dear = reply(call("Look"), usage={"input_tokens": 100_000})
    async with Desk(dear, "Done.", tools=[FakeTool()], interactive=True,
                    bounds=Bounds(max_budget_usd=0.15)) as d:  # fmt: skip
        d.send("go")
        await d.until(lambda: len(d.shown.asked) == 1)
        question = d.shown.asked[0]
        assert isinstance(question, PermissionRequested)
        assert question.title == "The budget of $0.15 is spent ($0.20)."
        answers = {question.title: "3"}
        d.session.answer(question.request_id, Answer("allow", updated_input={**question.input, "answers": answers}))
        await d.idle()
        assert "answer: Done." in d.shown.texts()
        assert d.bench.engine.costs.budget.cap == 3.0


# -------------------------------------------------------------------------------------------------- in the whole app


def test_the_app_asks_at_the_budget_and_continues(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await test_app.sends(pilot, app, "look around")
        await test_app.until(pilot, lambda: "The budget of $0.15 is spent ($0.20)." in test_app.shown(app))
        seen = test_app.shown(app)
        assert "Raise it to $0.30 and continue" in seen
        assert "Another amount like $5, or off" in seen
        assert "Stop here" in seen
        await test_app.until(pilot, lambda: app.screen.guard._is_over())  # type: ignore[attr-defined]
        await pilot.press("enter")
        await test_app.idle(pilot, app)
        assert "All done." in test_app.shown(app)
        engine = app.chat.session.engine
        assert engine is not None
        assert engine.costs.budget.cap == 0.3

    dear = reply(call("Glob", pattern="*"), usage={"input_tokens": 100_000})
    test_app.Desk(tmp_path, dear, "All done.", max_budget_usd=0.15).play(script)


def test_the_app_confirms_a_typed_model_and_not_a_picked_one(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await test_app.sends(pilot, app, "hi")
        await test_app.idle(pilot, app)
        engine = app.chat.session.engine
        assert engine is not None
        await test_app.sends(pilot, app, "/model opus")
        await test_app.until(pilot, lambda: isinstance(app.screen, QuestionDialog))
        assert "re-bills 40k tokens, about $0.20, once" in test_app.shown(app)
        await pilot.press("escape")
        await test_app.idle(pilot, app)
        assert "The model is still" in test_app.shown(app)
        assert engine.model == MODEL
        await test_app.sends(pilot, app, "/model")
        await test_app.until(pilot, lambda: isinstance(app.screen, ModelPicker))
        await pilot.press(*"opus-5-5")
        await test_app.until(pilot, lambda: "re-bills 40k tokens, about $0.20" in test_app.shown(app))
        await pilot.press("enter")
        await test_app.until(pilot, lambda: engine.model == "claude-opus-5-5")

    test_app.Desk(tmp_path, reply("Hello.", usage=USED)).play(script, (100, 30))
