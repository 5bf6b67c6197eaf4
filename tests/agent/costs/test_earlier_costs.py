"""Costs from before a resume are shown, and the current budget does not count them."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.costs.costs import totals_from
from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.commands.line import run_command
from agentcli.core import events as ev
from agentcli.core.text.format import money
from agentcli.core.usage import Totals, Usage
from agentcli.session.load import load_session
from tests.support.fakes import collect, result_of
from tests.support.scripts import call, provider_on, reply, say, transport_for

pytestmark = pytest.mark.anyio

USED = {"input_tokens": 1_000, "output_tokens": 100}


def engine_in(folder: Path, **options: Any) -> Engine:
    (folder / "work").mkdir(exist_ok=True)
    environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    provider = provider_on(transport_for(*[reply(say("yes"), usage=USED)] * 3))
    made = {"cwd": folder / "work", "environ": environ, "provider": provider, "sandbox": "off"}
    return build_engine(Options(**{**made, **options}))


async def prompts(engine: Engine, count: int) -> ev.Result:
    result = None
    for _number in range(count):
        result = result_of(await collect(engine.submit("go")))
    assert result is not None
    return result


async def test_each_process_that_worked_on_a_session_counts_once(tmp_path: Path) -> None:
    async with engine_in(tmp_path) as engine:
        first = await prompts(engine, 2)
    async with engine_in(tmp_path, resume=first.session_id) as engine:
        assert engine.costs.totals.cost_usd == 0
        assert engine.costs.earlier.cost_usd == pytest.approx(first.total_cost_usd)
        second = await prompts(engine, 1)
        assert engine.costs.session_totals.cost_usd == pytest.approx(first.total_cost_usd + second.total_cost_usd)
    async with engine_in(tmp_path, resume=first.session_id) as engine:
        assert engine.costs.earlier.cost_usd == pytest.approx(first.total_cost_usd + second.total_cost_usd)
        assert engine.costs.earlier.usage.prompt_tokens == 3_000
        said = result_of(await collect(run_command(engine, "cost", "")))
        assert said.text.startswith("Nothing has been used since the session was resumed. Before it was resumed ")
        assert f"had cost {money(engine.costs.earlier.cost_usd)}, with " in said.text


async def test_requests_of_an_unfinished_submission_and_of_its_agents_are_in_the_file(tmp_path: Path) -> None:
    task = {"description": "look", "prompt": "look", "subagent_type": "general"}
    script = (reply(call("Task", **task), usage=USED), reply(say("found"), usage=USED), reply(say("yes"), usage=USED))
    provider = provider_on(transport_for(*script))
    stored = Totals()
    async with engine_in(tmp_path, provider=provider) as engine, aclosing(engine.submit("go")) as events:
        async for event in events:
            if isinstance(event, ev.LoopEnded) and not event.agent:
                [file] = (path for path in tmp_path.rglob(f"{engine.session_id}.jsonl") if path.parent.name != "drafts")
                stored = totals_from(load_session(file).spent)
        assert stored.usage.prompt_tokens == 3_000
        assert stored.cost_usd == pytest.approx(engine.costs.totals.cost_usd)


async def test_a_budget_counts_from_now_on(tmp_path: Path) -> None:
    async with engine_in(tmp_path) as engine:
        first = await prompts(engine, 3)
    async with engine_in(tmp_path, resume=first.session_id, max_budget_usd=first.total_cost_usd / 2) as engine:
        assert not (await prompts(engine, 1)).is_error


def test_an_invalid_record_counts_as_unpriced_and_breaks_nothing() -> None:
    totals = totals_from([{"a": {"inputTokens": "many", "costUSD": "x"}, "b": 3}, {"a": {"inputTokens": -4}}])
    assert (totals.cost_usd, totals.fully_priced, totals.usage) == (0.0, False, Usage())
