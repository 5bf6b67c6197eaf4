"""Tables that line up on a screen of any width, and what /cost and /status say about the prompt cache."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.costs.cache_watch import SHORT_TTL
from agentcli.agent.costs.costs import Spending
from agentcli.commands.cost import details
from agentcli.commands.line import run_command
from agentcli.commands.table import table, width_of
from agentcli.core import events as ev
from agentcli.core.messages import Origin, user_message
from agentcli.core.text.columns import cell_count, cut
from agentcli.core.text.format import money, token_count
from agentcli.core.usage import Usage
from tests.support.curating import cached_bench, looking
from tests.support.fakes import Bench, collect, result_of
from tests.support.scripts import call, reply

pytestmark = pytest.mark.virtual

LONG = "a prompt that goes on and on, with 日本語 in it, and then some more words until it is long"


@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=60), st.integers(0, 40))
def test_truncated_text_fits_and_is_marked(text: str, width: int) -> None:
    shown = cut(text, width)
    assert cell_count(shown) <= width
    assert shown == text or not width or shown.endswith("…")


def test_wide_characters_take_two_columns_and_marks_none() -> None:
    assert [cell_count(text) for text in ("abc", "日本", "e\u0301", "\u200b", "ｗ")] == [3, 4, 1, 0, 2]
    assert cut("日本語", 4) == "日…"
    rows = table([("name", "n"), ("日本", "1"), ("a", "22")]).splitlines()
    assert len({cell_count(row) for row in rows}) == 1


def spent(*titles: str) -> Spending:
    spending = Spending(lambda _model, usage: usage.prompt_tokens / 1e6)
    for number, title in enumerate(titles):
        spending.take(ev.SessionStarted(session_id="s", cwd="/", model="m", tools=[], permission_mode="default"))
        spending.take(ev.MessageAppended(message=user_message(title, f"p{number}", Origin.PROMPT)))
        for purpose in ("turn", "summary"):
            usage = Usage(1_234_567, 2_345_678, 123_456_789, 98_765_432)
            spending.take(ev.UsageReported(model="m", usage=usage, cost_usd=1.5, purpose=purpose))
    return spending


@pytest.mark.parametrize("width", [38, 50, 60, 78, 100, 118])
def test_no_table_of_costs_is_wider_than_the_screen(width: int) -> None:
    for part in details(spent(LONG, "short", LONG * 3), width):
        assert width_of(part) <= width, part


def test_a_long_prompt_is_cut_and_a_wide_screen_shows_more_of_it() -> None:
    narrow, wide = (details(spent(LONG, LONG), width)[-1].splitlines() for width in (60, 110))
    assert narrow[1].endswith("…")
    assert len(narrow) == len(wide) == 3
    assert cell_count(narrow[1]) < cell_count(wide[1])


# ---------------------------------------------------------------------------------------------------- the prompt cache


async def said(b: Bench, name: str) -> str:
    return result_of(await collect(run_command(b.engine, name, ""))).text


async def test_cost_and_status_count_tokens_that_missed_the_cache() -> None:
    b, _cache = cached_bench(reply(call("Look", what="a")), "Read.", "Low.", "Later.", tools=[looking()])
    async with b.engine:
        assert "cache     nothing is cached yet" in await said(b, "status")
        default = b.engine.session.catalog.get(b.engine.profile.model).default_effort
        assert default is not None
        assert f"effort    auto: {default}\n" in await said(b, "status")
        await b.run("go")
        assert "The prompt cache" not in await said(b, "cost")
        assert "warm for 5 min more" in await said(b, "status")
        await asyncio.sleep(SHORT_TTL - 40)
        assert "warm for 40 s more" in await said(b, "status")
        b.engine.set_effort("low")
        await b.run("x")
        [sentence] = [line for line in (await said(b, "cost")).splitlines() if line.startswith("The prompt cache")]
        tokens, usd = b.engine.costs.cache_losses.tokens, b.engine.costs.cache_losses_usd
        assert sentence == (
            f"The prompt cache broke once: {token_count(tokens)} tokens were billed again, which cost "
            f"{money(usd)} more than reading it."
        )
        assert tokens > 5_000
        await asyncio.sleep(SHORT_TTL + 1)
        assert "cold: the next request is billed in full" in await said(b, "status")
        assert "The cache is cold." in await said(b, "cost")
        await b.run("y")
        assert "broke once and expired once: " in await said(b, "status")
