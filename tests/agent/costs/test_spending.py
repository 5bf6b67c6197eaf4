"""Costs per prompt, agent and tool, unknown prices, and the budget that stops the work."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.costs.costs import Budget, Spending
from agentcli.agent.engine import Engine
from agentcli.agent.profile import Bounds, Profile
from agentcli.assemble import Options, build_engine
from agentcli.commands.line import CommandLine, parse_line, run_command
from agentcli.context import report
from agentcli.context.edits import edit_from_dict
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.messages import (
    SAID,
    Json,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
)
from agentcli.core.permission import PermissionMode
from agentcli.core.space_saving import AppendOnly
from agentcli.core.usage import Price, Totals, Usage
from agentcli.tools.base import Output
from tests.support.cacheserver import PromptCache, caching_transport
from tests.support.fakes import FakeTool, bench, collect, only, result_of
from tests.support.scripts import call, provider_on, reply, transport_for

pytestmark = pytest.mark.virtual

PRICE = Price.of(10.0, 50.0)


def price(model: str, usage: Usage) -> float | None:
    return None if model == "unknown" else PRICE.cost(usage)


def used(usage: Usage, model: str = "m", agent: str = "", purpose: str = "turn") -> ev.UsageReported:
    return ev.UsageReported(agent=agent, model=model, usage=usage, cost_usd=price(model, usage), purpose=purpose)


def prompt(text: str) -> ev.MessageAppended:
    return ev.MessageAppended(message=user_message(text, f"p-{text}", Origin.PROMPT))


def called(id: str, name: str, result: str, **meta: str) -> list[ev.Event]:
    use = Message("assistant", (ToolUseBlock(id, name, {}),), f"a-{id}", Origin.REPLY, meta=meta)
    answer = Message("user", (ToolResultBlock(id, (TextBlock(result),)),), f"r-{id}", Origin.TOOL_RESULTS, meta=meta)
    return [ev.MessageAppended(message=use), ev.MessageAppended(message=answer)]


def after(*events: ev.Event, **measures: Callable[[], Any]) -> Spending:
    """The spending of a conversation with these events; messages and edits are shown as requests would."""
    log, view = [AppendOnly[Message]()], ContextView()
    spending = Spending(price, lambda: view.messages(log[-1]), **measures)
    for event in events:
        if isinstance(event, ev.MessageAppended):
            log.append(log[-1].adding(event.message))
        if isinstance(event, ev.ContextEdited):
            view.edit(map(edit_from_dict, event.edits), after=log[-1][-1].id)
        spending.take(event)
    return spending


def test_each_prompt_has_its_own_cost() -> None:
    spending = after(
        prompt("first"),
        used(Usage(input_tokens=1_000)),
        used(Usage(input_tokens=2_000), purpose="tool"),
        prompt("second"),
        used(Usage(input_tokens=500), model="unknown"),
    )
    one, two = spending.submissions
    assert (one.title, one.spent.requests, one.spent.cost_usd) == ("first", 2, pytest.approx(0.03))
    assert (two.title, two.spent.requests, two.spent.unpriced_requests) == ("second", 1, 1)
    assert spending.by_purpose.by_model.keys() == {"turn", "tool"}


def test_a_queued_prompt_is_a_prompt_for_costs_and_context_alike() -> None:
    queued = user_message("second", "q", Origin.QUEUED)
    said = user_message("not so", "s", Origin.QUEUED, {SAID: "not so"})
    messages = (user_message("first", "p", Origin.PROMPT), queued, said)
    spending = after(*(ev.MessageAppended(message=message) for message in messages), used(Usage(input_tokens=500)))
    assert [(one.title, one.spent.requests) for one in spending.submissions] == [("first", 0), ("second", 1)]
    assert [item.age for item in report._block_items(messages)] == [1, 0, 0]


def test_each_agent_has_its_own_sum() -> None:
    spending = after(prompt("x"), used(Usage(input_tokens=100)), used(Usage(input_tokens=900), agent="helper"))
    costs = {name: row.cost_usd for name, row in spending.by_agent.by_model.items()}
    assert costs == {"main": pytest.approx(0.001), "helper": pytest.approx(0.009)}
    assert spending.submissions[0].spent.requests == 2, "what a prompt cost includes its helpers"


def test_a_result_takes_its_share_of_the_input_of_each_request() -> None:
    spending = after(
        prompt("x"),
        used(Usage(cache_write_5m_tokens=5_000)),
        *called("1", "Read", "word " * 10_000),
        used(Usage(cache_read_input_tokens=5_000, cache_write_5m_tokens=20_000)),
        used(Usage(cache_read_input_tokens=25_000)),
    )
    row = spending.tools["Read"]
    share = row.result_tokens / 25_000
    assert (row.calls, row.in_context, row.sent_tokens) == (1, row.result_tokens, 2 * row.result_tokens)
    assert row.cost_usd == pytest.approx(share * (5 * 1.0 + 20 * 12.5 + 25 * 1.0) / 1_000, rel=0.01)


def test_a_result_that_is_no_longer_sent_stops_costing() -> None:
    begun = [prompt("x"), *called("1", "Read", "word " * 1_000), *called("2", "Bash", "line " * 1_000)]
    request = used(Usage(input_tokens=3_000))

    def sent(*edits: Json) -> tuple[int, int]:
        before = after(*begun, request).tools
        now = after(*begun, request, ev.ContextEdited(edits=list(edits), step="user"), request).tools
        return now["Read"].sent_tokens - before["Read"].sent_tokens, now["Bash"].sent_tokens - before[
            "Bash"
        ].sent_tokens

    read, bash = sent()
    drop = {"kind": "drop", "target": "r-1:0"}
    collapse = {"kind": "collapse", "target": "a-1", "through": "r-2", "text": "gist"}
    assert sent(drop)[0] < 20
    assert sent({"kind": "replace", "target": "r-2:0", "text": "[cleared]"})[1] < 20
    assert sent(collapse) == (0, 0)
    assert sent(drop, {"kind": "restore", "target": "r-1:0"}, collapse, {"kind": "restore", "target": "a-1"}) == (
        read,
        bash,
    )


def test_an_unknown_price_is_shown_and_not_counted_as_free() -> None:
    row = after(prompt("x"), *called("1", "Read", "word"), used(Usage(input_tokens=9), model="unknown")).tools["Read"]
    assert row.unpriced


usages = st.builds(
    Usage,
    input_tokens=st.integers(0, 10**6),
    output_tokens=st.integers(0, 10**5),
    cache_read_input_tokens=st.integers(0, 10**6),
    cache_write_5m_tokens=st.integers(0, 10**6),
)
steps = st.one_of(
    st.builds(used, usages, st.sampled_from(["m", "unknown"]), st.sampled_from(["", "helper"])).map(lambda one: [one]),
    st.builds(called, st.sampled_from("123"), st.sampled_from(["Read", "Bash"]), st.text(max_size=200)),
    st.text(max_size=5).map(lambda text: [prompt(text)]),
)


@given(st.lists(steps, max_size=20))
def test_the_parts_always_add_up_to_the_total(parts: list[list[ev.Event]]) -> None:
    events = [event for part in parts for event in part]
    spending, totals = after(*events), Totals()
    for event in only(events, ev.UsageReported):
        totals = totals.adding(event.model, event.usage, event.cost_usd)
    assert sum((one.spent.usage for one in spending.submissions), Usage()) == totals.usage
    assert spending.by_agent.usage == totals.usage
    assert sum(one.spent.cost_usd for one in spending.submissions) == pytest.approx(totals.cost_usd)
    assert all(row.cost_usd >= 0 for row in spending.tools.values())


# -------------------------------------------------------------------------------------------------------- the budget


def spent(dollars: float) -> Totals:
    return Totals().adding("m", Usage(input_tokens=1), dollars)


def test_the_budget_warns_once_near_its_end() -> None:
    totals = [spent(0.79)]
    budget = Budget(1.0, lambda: totals[-1])
    assert budget.take_warning() is None
    totals.append(spent(0.80))
    assert budget.take_warning() == "$0.80 of the budget of $1.00 is spent. At the budget the run stops."
    assert budget.take_warning() is None
    budget.set(0.9)
    assert budget.take_warning() == "$0.80 of the budget of $0.90 is spent. At the budget the run stops.", "again"
    asking = Budget(1.0, lambda: spent(0.9), interactive=True)
    assert str(asking.take_warning()).endswith("At the budget you are asked whether to continue.")
    assert Budget(1.0, lambda: spent(1.0)).take_warning() is None, "at the end it is not near the end"
    assert Budget(None, lambda: spent(1e9)).take_warning() is None


def test_an_unknown_cost_exhausts_any_budget() -> None:
    unknown = Totals().adding("m", Usage(input_tokens=1), None)
    assert Budget(100.0, lambda: unknown).is_spent
    assert not Budget(None, lambda: unknown).is_spent


async def test_the_warning_comes_while_there_is_still_something_left() -> None:
    dear = reply(call("Look"), usage={"input_tokens": 100_000})
    b = bench(dear, "Done.", tools=[FakeTool()], bounds=Bounds(max_budget_usd=0.24))
    events = await b.once()
    assert not result_of(events).is_error
    [warned] = [n for n in only(events, ev.NoticeRaised) if n.code == "budget"]
    assert (warned.level, warned.text) == (
        "warning",
        "$0.20 of the budget of $0.24 is spent. At the budget the run stops.",
    )


# ------------------------------------------------------------------------------------------------------- the commands


def engine_on(tmp_path: Path, *replies: Json | str, **rest: Any) -> Engine:
    options: dict[str, Any] = {
        "cwd": tmp_path,
        "environ": {"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        "provider": provider_on(transport_for(*replies)),
        "permission_mode": PermissionMode.BYPASS,
        "model": "claude-sonnet-5-5",
        "settings": '{"sandbox": {"mode": "off"}}',
    }
    return build_engine(Options(**{**options, **rest}))


async def outcome(engine: Engine, line: str) -> ev.Result:
    command = parse_line(line)
    assert isinstance(command, CommandLine)
    return result_of(await collect(run_command(engine, command.name, command.arguments)))


@pytest.mark.anyio
async def test_cost_names_models_without_a_price(tmp_path: Path) -> None:
    async with engine_on(tmp_path, "Hi.", model="somebody-elses") as engine:
        await collect(engine.submit("hi"))
        text = (await outcome(engine, "/cost")).text
    assert text.startswith("$0.00 so far, plus 1 request of unknown price;")
    assert "not known" in text.splitlines()[-1]


@pytest.mark.anyio
async def test_budget_shows_sets_and_lifts(tmp_path: Path) -> None:
    async with engine_on(tmp_path, reply("Hi.", usage={"input_tokens": 100_000})) as engine:
        assert (await outcome(engine, "/budget")).text.startswith("No budget is set; $0.00 spent.")
        assert (await outcome(engine, "/budget $2")).text == "The budget is $2.00; $0.00 spent (0%)."
        await collect(engine.submit("hi"))
        assert engine.costs.budget.cap == 2.0
        text = (await outcome(engine, "/budget 0.10")).text
        assert "(200%)" in text
        assert text.endswith("raise the budget to continue.")
        assert result_of(await collect(engine.submit("more"))).terminal == "max_budget_usd"
        assert (await outcome(engine, "/budget off")).text.startswith("No budget is set; $0.20")
        for wrong in ("x", "-1", "0", "$", "1e9", "inf"):
            assert (await outcome(engine, f"/budget {wrong}")).is_error
        assert engine.costs.budget.cap is None


@pytest.mark.anyio
async def test_a_budget_is_refused_where_prices_are_not_known(tmp_path: Path) -> None:
    async with engine_on(tmp_path, model="somebody-elses") as engine:
        result = await outcome(engine, "/budget 5")
    assert result.is_error
    assert result.errors[0].startswith("The price of somebody-elses is unknown")


async def test_the_sum_over_tools_is_within_the_cost_of_requests() -> None:
    """On an API with a cache the cost attributed to results is less than the whole input cost."""

    cache = PromptCache(clock=lambda: 0.0, least=0)
    tool = FakeTool(output=lambda given: Output("line " * 200 + str(given)))
    replies = [*(reply(call("Look", what=str(turn))) for turn in range(20)), "Done."]
    profile = Profile(model="claude-sonnet-5-5", small_model="claude-haiku-5-5", system=("Be good.",))
    b = bench(transport=caching_transport(*replies, cache=cache), tools=[tool], profile=profile)
    async with b.engine:
        await b.run()
        [row] = b.engine.costs.spending.tools.values()
        output = sum(one.usage.output_tokens for one in b.engine.costs.totals.by_model.values())
        billed = b.engine.costs.totals.cost_usd - output * 10 / 1_000_000
    assert row.calls == 20
    assert 0.5 * billed < row.cost_usd < billed
