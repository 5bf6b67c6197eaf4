"""Costs per prompt, agent and tool, unknown prices, and the budget that stops the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.costs.costs import Budget
from agentcli.agent.costs.spending import Spending
from agentcli.agent.engine import Engine
from agentcli.agent.profile import Bounds, Profile
from agentcli.assemble import Options, build_engine
from agentcli.commands.line import CommandLine, parse_line, run_command
from agentcli.context import report
from agentcli.context.edits import edit_from_dict
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.append_only import AppendOnly
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


def after(*events: ev.Event, known: Iterable[str] = (), **measures: Callable[[], Any]) -> Spending:
    """The spending of a conversation with these events; messages and edits are shown as requests would."""
    log, view = [AppendOnly[Message]()], ContextView()
    spending = Spending(price, lambda: view.messages(log[-1]), known=known, **measures)
    for event in events:
        if isinstance(event, ev.MessageAppended):
            log.append(log[-1].adding(event.message))
        if isinstance(event, ev.ContextEdited):
            view.edit(map(edit_from_dict, event.edits), after=log[-1][-1].id)
        spending.take(event)
    return spending


RESULT = "a line of text\n" * 400


def test_sizes_of_results_follow_what_requests_measure() -> None:
    size = after(*called("1", "Read", RESULT)).tools["Read"].result_tokens
    row = after(*called("1", "Read", RESULT), used(Usage(input_tokens=50_000)), density=lambda: 0.5).tools["Read"]
    assert row.result_tokens == row.in_context == row.sent_tokens == round(size / 2)
    requests = used(Usage(input_tokens=2 * size)), used(Usage(input_tokens=5 * size))
    row = after(*called("1", "Read", RESULT), *requests, request_tokens=lambda: 4 * size).tools["Read"]
    assert row.sent_tokens == pytest.approx(size / 2 + size, abs=2), "the first request measured half of the estimate"
    assert row.result_tokens == row.in_context == size


def test_a_tool_never_costs_more_than_the_requests_that_carried_its_results() -> None:
    requests = [used(Usage(input_tokens=600)), used(Usage(cache_read_input_tokens=600))]
    spending = after(*called("1", "Read", RESULT), *requests)
    row = spending.tools["Read"]
    assert row.result_tokens == row.in_context == 600
    assert row.sent_tokens == 1_200
    assert row.cost_usd <= sum(event.cost_usd or 0.0 for event in requests) + 1e-9


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


def test_costs_between_prompts_are_not_attributed_to_the_last_one() -> None:
    started = ev.SessionStarted(session_id="s", cwd="/", model="m", tools=[], permission_mode="default")
    spending = after(prompt("x"), used(Usage(input_tokens=1)), started, used(Usage(input_tokens=2), purpose="compact"))
    assert [one.title for one in spending.submissions] == ["x", "(compaction)"]


def test_a_result_is_billed_once_as_new_input_and_then_as_cached_input() -> None:
    """10,000 tokens of results: written at 12.5 dollars a million, then read twice at one."""
    big = "word " * 10_000
    spending = after(
        prompt("x"),
        used(Usage(cache_write_5m_tokens=5_000)),
        *called("1", "Read", big),
        used(Usage(cache_read_input_tokens=5_000, cache_write_5m_tokens=12_000)),
        used(Usage(cache_read_input_tokens=17_000)),
        used(Usage(cache_read_input_tokens=17_000)),
    )
    row = spending.tools["Read"]
    size = row.result_tokens
    assert (row.calls, row.in_context, row.sent_tokens) == (1, size, 3 * size)
    assert row.cost_usd == pytest.approx(size * (12.5 + 2 * 1.0) / 1_000_000, rel=0.01)


def test_a_cold_cache_bills_old_results_again() -> None:
    warm = [
        prompt("x"),
        used(Usage(cache_write_5m_tokens=5_000)),
        *called("1", "Read", "word " * 10_000),
        used(Usage(cache_read_input_tokens=5_000, cache_write_5m_tokens=12_000)),
    ]
    read = after(*warm, used(Usage(cache_read_input_tokens=17_000))).tools["Read"]
    cold = after(*warm, used(Usage(cache_write_5m_tokens=17_000))).tools["Read"]
    assert cold.cost_usd - read.cost_usd == pytest.approx(read.result_tokens * 11.5 / 1_000_000, rel=0.01)


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


async def test_content_repeated_by_a_compaction_is_no_new_prompt_or_result() -> None:
    tool = FakeTool(output=Output("what was seen " * 200))
    story = "Part of a long story. " * 400
    long = {"input_tokens": 9_000}
    told, after = reply(story, usage=long), reply("After.", usage=long)
    looked, seen = reply(call("Look"), usage=long), reply("Seen.", usage=long)
    b = bench(told, looked, seen, "A summary.", after, "Undone.", tools=[tool])
    async with b.engine:
        await b.run("tell")
        await b.run("look")
        [whole] = [row.in_context for row in b.engine.costs.spending.tools.values()]
        await collect(b.engine.compact())
        assert [m.text for m in b.engine.messages if m.is_copy and m.origin is Origin.PROMPT] == ["look"]
        [kept] = [row.in_context for row in b.engine.costs.spending.tools.values()]
        await b.run("go on")
        await collect(b.engine.perform(b.engine.context.undo_compaction()))
        [back] = [row.in_context for row in b.engine.costs.spending.tools.values()]
    assert [one.title for one in b.engine.costs.spending.submissions] == ["tell", "look", "(compaction)", "go on"]
    assert (kept, back) == (whole, whole)


def test_an_unknown_price_is_shown_and_not_counted_as_free() -> None:
    row = after(prompt("x"), *called("1", "Read", "word"), used(Usage(input_tokens=9), model="unknown")).tools["Read"]
    assert row.unpriced


async def test_results_from_before_a_resume_count_as_sent_but_not_as_called() -> None:
    log = tuple(event.message for event in only(called("1", "Read", "word " * 1_000), ev.MessageAppended))
    b = bench(reply("On.", usage={"cache_read_input_tokens": 5_000}), log=log)
    async with b.engine:
        await b.run("go on")
        row = b.engine.costs.spending.tools["Read"]
    assert (row.calls, row.result_tokens) == (0, 0), "it was called in another process"
    assert row.sent_tokens == row.in_context > 900


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
async def test_cost_is_a_table_of_models_prompts_and_tools(tmp_path: Path) -> None:
    replies = [
        reply(call("Bash", command="echo hi"), usage={"input_tokens": 500, "cache_read_input_tokens": 1_500}),
        reply("Done.", usage={"input_tokens": 500}),
        reply("Nothing.", usage={"input_tokens": 500}),
    ]
    async with engine_on(tmp_path, *replies, max_budget_usd=2.0) as engine:
        for prompt_text in ("run it", "and then?"):
            await collect(engine.submit(prompt_text))
        text = (await outcome(engine, "/cost")).text
    blocks = text.split("\n\n")
    assert blocks[0].splitlines()[0].endswith("so far; 50% of the input was read from the cache.")
    assert blocks[0].splitlines()[1] == "The budget is $2.00 (<1% spent)."
    assert [block.splitlines()[0].split()[0] for block in blocks[1:]] == ["model", "prompt", "results"]
    for block in blocks[1:]:
        header, *rows = block.splitlines()
        assert rows
        if not header.startswith("prompt"):
            assert len({len(row) for row in (header, *rows)}) == 1, "the last column ends at one edge"
    assert "claude-sonnet-5-5         3  1,500" in text
    assert "run it" in blocks[2]
    assert blocks[3].splitlines()[1].startswith("Bash            1")


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
