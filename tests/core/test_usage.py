from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.usage import TOKEN_LIMIT, Price, Totals, Usage

odd = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.integers()))
wires = st.dictionaries(
    st.sampled_from(["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
                     "cache_creation", "server_tool_use"]),
    odd | st.dictionaries(st.sampled_from(["ephemeral_5m_input_tokens", "web_search_requests"]), odd),
)  # fmt: skip


@given(odd | wires)
def test_numbers_stay_finite_for_any_server_response(wire: Any) -> None:
    usage = Usage().updated(wire)
    assert 0 <= usage.context_tokens <= 10 * TOKEN_LIMIT
    assert math.isfinite(Price.of(5, 25).cost(usage))


def test_a_delta_updates_and_does_not_add() -> None:
    start = Usage().updated({"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5})
    end = start.updated({"output_tokens": 40})
    assert (end.input_tokens, end.output_tokens, end.cache_read_input_tokens) == (10, 40, 5)


def test_cache_writes_are_counted_separately_by_lifetime() -> None:
    usage = Usage().updated(
        {
            "cache_creation_input_tokens": 30,
            "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
        }
    )
    assert (usage.cache_write_5m_tokens, usage.cache_write_1h_tokens, usage.cache_creation_input_tokens) == (10, 20, 30)
    assert Usage().updated(usage.to_wire()) == usage


def test_a_price_with_a_threshold_counts_the_whole_prompt() -> None:
    price = Price.of(0.1, 0.5, above_tokens=100_000, above=Price.of(0.5, 2.5))
    million = 1_000_000
    assert price.cost(Usage(input_tokens=100_000)) == pytest.approx(0.01)
    assert price.cost(Usage(input_tokens=100_001)) == pytest.approx(0.5 * 100_001 / million)
    cached = Usage(input_tokens=1, cache_read_input_tokens=200_000, output_tokens=100)
    assert price.cost(cached) == pytest.approx((0.5 + 200_000 * 0.05 + 100 * 2.5) / million)


def test_totals_record_unknown_prices() -> None:
    totals = Totals().adding("a", Usage(input_tokens=1), 0.5).adding("b", Usage(output_tokens=2), None)
    assert totals.usage == Usage(input_tokens=1, output_tokens=2)
    assert totals.cost_usd == 0.5
    assert not totals.fully_priced
    assert totals.by_model["b"].unpriced_requests == 1


ADVISED = {
    "input_tokens": 412,
    "output_tokens": 531,
    "iterations": [
        {"type": "message", "input_tokens": 412, "output_tokens": 89},
        {
            "type": "advisor_message",
            "model": "claude-opus-5-5",
            "input_tokens": 823,
            "output_tokens": 1_612,
            "cache_creation_input_tokens": 7,
            "iterations": [
                {"type": "message", "model": "claude-opus-5-5", "input_tokens": 823, "output_tokens": 1_612},
                {"type": "advisor_message", "model": "claude-fable-5-2", "input_tokens": 5, "output_tokens": 6},
            ],
        },
        {"type": "message", "input_tokens": 1_348, "output_tokens": 442},
        {"type": "compaction", "input_tokens": 3, "output_tokens": 4},
        "garbage",
    ],
}


def test_the_usage_of_consulted_models_is_found_at_any_depth_and_kept_apart() -> None:
    usage = Usage().updated({"input_tokens": 412}).updated(ADVISED)
    assert usage.alone == Usage(412, 531)
    assert usage.consulted == (
        ("claude-opus-5-5", Usage(823, 1_612, cache_write_5m_tokens=7)),
        ("claude-fable-5-2", Usage(5, 6)),
        ("", Usage(3, 4)),
    )
    assert Usage.from_wire(usage.to_wire()) == usage
    assert (usage + Usage(1)).consulted == usage.consulted


def test_endless_iterations_are_cut() -> None:
    nested: dict[str, object] = {"type": "advisor_message", "input_tokens": 1}
    for _level in range(5_000):
        nested = {"type": "advisor_message", "input_tokens": 1, "iterations": [nested]}
    assert len(Usage().updated({"iterations": [nested] * 3}).consulted) == 200
