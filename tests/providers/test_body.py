"""The body of a request: its parts, its order, and its bytes."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.providers.base import Request, Thinking
from agentcli.providers.body import BodyEncoder, Feature, advisor_tool, build_body, find_blamed_feature, to_bytes
from agentcli.providers.catalog import Catalog
from tests.support.tables import each_row
from tests.support.validate import problems

CATALOG = Catalog()
MARK = {"type": "ephemeral"}


def text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": content}]}


def build(model: str = "claude-opus-5-5", dropped: tuple[Feature, ...] = (), **rest: Any) -> dict[str, Any]:
    request = Request(**{"model": model, "messages": (text("user", "hi"),), **rest})
    body, _betas = build_body(request, CATALOG.get(model), dropped)
    assert problems(body) == []
    return body


def test_the_stable_part_comes_first_and_changing_parts_last() -> None:
    tool = {"name": "Read", "input_schema": {"type": "object"}}
    assert list(build(system=("a",), tools=(tool,), effort="low", forbid_tools=True)) == [
        *("model", "system", "tools", "messages", "tool_choice", "thinking", "output_config", "max_tokens", "stream"),
    ]


def test_breakpoints_follow_the_stable_parts_and_the_two_newest_user_messages() -> None:
    messages = (text("user", "1"), text("assistant", "2"), text("user", "3"), text("assistant", "4"), text("user", "5"))
    before = copy.deepcopy(messages)
    body = build(system=("stable", "session", "today"), messages=messages)
    assert ["cache_control" in part for part in body["system"]] == [True, True, False]
    assert ["cache_control" in message["content"][-1] for message in body["messages"]] == [
        False,
        False,
        True,
        False,
        True,
    ]
    assert messages == before
    assert body["messages"][0] is messages[0]


def test_tools_get_a_breakpoint_only_when_no_system_prompt_covers_them() -> None:
    tools = ({"name": "A", "input_schema": {"type": "object"}}, {"name": "B", "input_schema": {"type": "object"}})
    assert ["cache_control" in tool for tool in build(tools=tools)["tools"]] == [False, True]
    assert ["cache_control" in tool for tool in build(tools=tools, system=("x",))["tools"]] == [False, False]


def test_thinking_and_empty_text_never_carry_a_breakpoint() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    spoken = {"type": "text", "text": "so"}
    body = build(messages=(text("user", "1"), {"role": "assistant", "content": [spoken, thought]}))
    assert body["messages"][1]["content"] == [{**spoken, "cache_control": MARK}, thought]


@each_row(
    ("model", "thinking", "sent"),
    [
        ("claude-opus-5-5", Thinking(), {"type": "adaptive", "display": "summarized"}),
        ("claude-opus-5-5", Thinking("disabled"), None),
        ("claude-opus-5-5", Thinking("enabled", 2000), {"type": "adaptive", "display": "summarized"}),
        ("claude-sonnet-5-5", Thinking("disabled"), {"type": "disabled"}),
        ("claude-haiku-4-5", Thinking(), None),
        ("claude-haiku-4-5", Thinking("enabled", 2000), {"type": "enabled", "budget_tokens": 2000}),
        ("claude-haiku-4-5", Thinking("enabled", 10), {"type": "enabled", "budget_tokens": 1024}),
        ("claude-haiku-4-5", Thinking("enabled", 10**6), {"type": "enabled", "budget_tokens": 64_000 - 8_192}),
        ("claude-haiku-4-5", Thinking("enabled"), {"type": "enabled", "budget_tokens": 4096}),
        ("some-local-model", Thinking(), None),
        ("some-local-model", Thinking("disabled"), None),
    ],
)
def test_thinking_is_adapted_to_the_model(model: str, thinking: Thinking, sent: Any) -> None:
    assert build(model, thinking=thinking).get("thinking") == sent


@each_row(
    ("budget", "answer", "sent"),
    [
        (30_000, 8_192, (30_000, 38_192)),
        (30_000, 64_000, (30_000, 64_000)),
        (10**6, 8_192, (55_808, 64_000)),
        (10**6, 64_000, (55_808, 64_000)),
        (2_000, 1_000, (2_000, 3_000)),
    ],
)
def test_the_answer_has_its_room_beside_the_thinking_budget(budget: int, answer: int, sent: tuple[int, int]) -> None:
    body = build("claude-haiku-4-5", thinking=Thinking("enabled", budget), max_tokens=answer)
    assert (body["thinking"]["budget_tokens"], body["max_tokens"]) == sent


def test_a_thinking_budget_that_cannot_fit_is_left_out() -> None:
    small = replace(CATALOG.get("claude-haiku-4-5"), max_output=1_000)
    body, _betas = build_body(Request("m", (text("user", "x"),), thinking=Thinking("enabled", 2_000)), small)
    assert "thinking" not in body


def test_effort_uses_the_nearest_level_and_only_for_models_that_support_it() -> None:
    assert build(effort="max")["output_config"] == {"effort": "max"}
    assert build("claude-opus-4-5", effort="max")["output_config"] == {"effort": "high"}
    assert "output_config" not in build("claude-haiku-4-5", effort="max")


def test_a_task_budget_names_its_beta() -> None:
    request = Request("claude-opus-5-5", (text("user", "x"),), task_budget_total=50_000, task_budget_remaining=-1)
    body, betas = build_body(request, CATALOG.get("claude-opus-5-5"))
    assert body["output_config"] == {"task_budget": {"type": "tokens", "total": 50_000, "remaining": 0}}
    assert betas == ("task-budgets-2026-03-13",)


def test_dropped_features_are_left_out() -> None:
    tool = {"name": "Read", "input_schema": {"type": "object"}}
    body = build(
        dropped=tuple(Feature), system=("a",), tools=(tool,), effort="low", forbid_tools=True, task_budget_total=9
    )
    assert set(body) == {"model", "system", "tools", "messages", "max_tokens", "stream"}
    assert "cache_control" not in str(body)


def test_only_sent_parameters_can_be_blamed() -> None:
    body = build(effort="low", dropped=(Feature.CACHE_CONTROL, Feature.THINKING))
    assert find_blamed_feature("unknown field output_config", body) is Feature.EFFORT
    assert find_blamed_feature("cache_control is not supported", body) is None
    assert find_blamed_feature("thinking is not supported", body) is None
    assert find_blamed_feature("the weather is bad", body) is None


LOADED = {"name": "mcp__x__late", "description": "Late", "input_schema": {"type": "object"}}
SEARCHED = (
    text("user", "find it"),
    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "ToolSearch", "input": {}}]},
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "1",
                "content": [{"type": "tool_reference", "tool_name": "mcp__x__late"}],
            }
        ],
    },
)


def searched(model: str = "claude-opus-5-5", dropped: tuple[Feature, ...] = (), **rest: Any) -> dict[str, Any]:
    tool = {"name": "ToolSearch", "input_schema": {"type": "object"}}
    given = {"tools": (tool,), "deferred_tools": (LOADED,), "referenced_tools": ("mcp__x__late",), **rest}
    return build(model, dropped, messages=SEARCHED, **given)


def test_loaded_tools_are_deferred_and_have_no_breakpoint() -> None:
    body = searched()
    assert body["tools"][1] == {**LOADED, "defer_loading": True}
    assert ["cache_control" in tool for tool in body["tools"]] == [True, False]
    assert body["messages"][2]["content"][0]["content"] == SEARCHED[2]["content"][0]["content"]


@pytest.mark.parametrize(
    ("model", "dropped"), [("llama-3", ()), ("claude-opus-5-5", (Feature.DEFERRED_TOOLS,)), ("gpt", ())]
)
def test_without_tool_references_the_definitions_are_text_and_the_tools_ordinary(
    model: str, dropped: tuple[Feature, ...]
) -> None:
    body = searched(model, dropped)
    assert body["tools"][1] == LOADED
    (part,) = body["messages"][2]["content"][0]["content"]
    assert part["type"] == "text"
    assert '"name": "mcp__x__late", "description": "Late"' in part["text"]


def test_a_reference_to_a_tool_that_is_gone_is_text() -> None:
    for deferred in ((), ({**LOADED, "name": "mcp__x__other"},)):
        body = searched(deferred_tools=deferred)
        (part,) = body["messages"][2]["content"][0]["content"]
        assert part == {"type": "text", "text": "[The tool mcp__x__late is no longer available.]"}


def test_an_endpoint_may_refuse_deferred_tools() -> None:
    body = searched()
    for detail in (
        "tools.1.custom.defer_loading: Extra inputs are not permitted",
        "Tool reference 'mcp__x__late' not found in available tools",
        "messages.2.content.0.tool_result.content.0: Input tag 'tool_reference' found using 'type' does not match",
    ):
        assert find_blamed_feature(detail, body) is Feature.DEFERRED_TOOLS
    assert find_blamed_feature("defer_loading: Extra inputs are not permitted", build()) is None


@each_row(
    ("model", "dropped", "speed", "betas"),
    [
        ("claude-opus-5-5", (), "fast", ()),
        ("claude-opus-5", (), "fast", ("fast-mode-2026-02-01",)),
        ("claude-opus-4-8", (), "fast", ("fast-mode-2026-02-01",)),
        ("claude-opus-5", (Feature.FAST_MODE,), None, ()),
        ("claude-sonnet-5-5", (), None, ()),
        ("some-local-model", (), None, ()),
    ],
)
def test_fast_mode_is_sent_to_models_that_have_it(model: str, dropped: Any, speed: str | None, betas: Any) -> None:
    request = Request(model, (text("user", "x"),), fast=True)
    body, named = build_body(request, CATALOG.get(model), dropped)
    assert (body.get("speed"), named) == (speed, betas)
    assert "speed" not in build(model)


@each_row(
    ("model", "dropped", "betas"),
    [
        ("claude-sonnet-5-5", (), ("advisor-tool-2026-03-01",)),
        ("claude-sonnet-5-5", (Feature.ADVISOR,), ()),
        ("some-local-model", (), ()),
    ],
)
def test_an_advisor_is_offered_by_known_models_with_its_beta(model: str, dropped: Any, betas: Any) -> None:
    own = {"name": "a", "input_schema": {"type": "object"}}
    request = Request(model, (text("user", "x"),), tools=(own, advisor_tool("claude-opus-5-5")), system=("s",))
    body, named = build_body(request, CATALOG.get(model), dropped)
    assert named == betas
    assert body["tools"] == [own, *([advisor_tool("claude-opus-5-5")] if betas else [])]


def test_the_order_of_keys_is_kept_and_the_bytes_are_the_same_every_time() -> None:
    body = {"b": 1, "a": {"d": 1, "c": 2}, "messages": [{"role": "user", "content": "é"}]}
    encoder = BodyEncoder()
    assert encoder.encode(body) == '{"b":1,"a":{"d":1,"c":2},"messages":[{"role":"user","content":"é"}]}'.encode()
    assert encoder.encode(body) == BodyEncoder().encode(body)


def test_a_message_that_was_encoded_is_not_encoded_again() -> None:
    """Messages are never changed once made; a change here shows that the second encoding came from memory."""
    message = {"role": "user", "content": "first"}
    encoder = BodyEncoder()
    first = encoder.encode({"messages": [message]})
    message["content"] = "second"
    assert encoder.encode({"messages": [message]}) == first


def test_tools_that_come_go_and_change_places_are_encoded_as_they_are() -> None:
    one, two, three = ({"name": name} for name in ("one", "two", "three"))
    encoder = BodyEncoder()
    for tools in ([one, two], [one, two], [two, one], [one, two, three], [three], [], [one, one]):
        assert encoder.encode({"tools": tools}) == to_bytes({"tools": tools})


def test_memory_is_bounded_by_the_current_conversation() -> None:
    encoder = BodyEncoder()
    for number in range(1000):
        encoder.encode({"messages": [{"role": "user", "content": str(number)}]})
    assert len(encoder._known) <= 68


def test_nul_and_lone_surrogates_become_replacement_characters() -> None:
    assert json.loads(to_bytes({"a": "x\x00y", "b": "\ud800", "c": "\\u0000"})) == {
        "a": "x\ufffdy",
        "b": "\ufffd",
        "c": "\\u0000",
    }


@given(
    st.dictionaries(
        st.text(max_size=20),
        st.recursive(st.text(max_size=20) | st.integers(), lambda inner: st.lists(inner, max_size=4), max_leaves=10),
        max_size=6,
    )
)
def test_encoding_and_decoding_gives_the_same_value(value: dict[str, object]) -> None:
    expected = json.loads(json.dumps(value).replace("\\u0000", "\\ufffd"))
    if "\\u0000" not in json.dumps(value):
        assert json.loads(to_bytes(value)) == expected
