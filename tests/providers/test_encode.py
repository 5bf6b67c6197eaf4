from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.append_only import AppendOnly
from agentcli.core.messages import Json
from agentcli.providers.base import Request
from agentcli.providers.catalog import Catalog
from agentcli.providers.requests import encode
from agentcli.providers.requests.body import build_body
from agentcli.providers.requests.encode import LARGE_PIECE, BodyEncoder, to_bytes


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
    assert len(encoder._known) <= 66


def _bodies(log: AppendOnly[dict[str, object]], more: int) -> list[dict[str, object]]:
    """The bodies of requests in a conversation that grows by two messages a turn."""
    made = []
    for number in range(more):
        call = {"role": "assistant", "content": [{"type": "text", "text": f"é {number} " + "x" * 9_000}]}
        log = log.adding(call, {"role": "user", "content": [{"type": "text", "text": f"{number}"}]})
        request = Request("m", log.to_tuple(), ("Be good.",), sequence=log)
        made.append(build_body(request, Catalog().get("m"))[0])
    return made


def test_a_long_conversation_gives_the_same_bytes_in_a_few_pieces() -> None:
    encoder = BodyEncoder()
    first = AppendOnly([{"role": "user", "content": [{"type": "text", "text": "Hello"}]}])
    for number, body in enumerate(_bodies(first, 120)):
        pieces = encoder.pieces(body)
        assert number % 17 or b"".join(pieces) == to_bytes(body)
        assert len(pieces) <= 6
    assert sum(map(len, pieces)) > 4 * LARGE_PIECE
    for body in _bodies(AppendOnly([{"role": "user", "content": "another"}]), 3):
        assert encoder.encode(body) == to_bytes(body)


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


def test_tools_and_system_prompt_are_encoded_once_and_again_when_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []

    def noted(value: Any) -> bytes:
        encoded.append(value)
        return to_bytes(value)

    monkeypatch.setattr(encode, "to_bytes", noted)
    encoder, tool = BodyEncoder(), {"name": "Read", "input_schema": {"minimum": 1}}

    def body(text: str, *tools: Json) -> Json:
        mark = {"type": "ephemeral"}
        return {"system": [{"type": "text", "text": text, "cache_control": mark}], "tools": list(tools), "messages": []}

    first = encoder.encode(body("Be good.", tool))
    encoded.clear()
    assert encoder.encode(body("Be good.", tool)) == first
    assert encoded == []
    for other in (
        body("Be brief.", tool),
        body("Be good.", {"name": "Read", "input_schema": {"minimum": 1.0}}),
        body("Be good.", {"input_schema": {"minimum": 1}, "name": "Read"}),
        {**body("Be good.", tool), "system": [{"text": "Be good.", "type": "text"}]},
    ):
        assert encoder.encode(other) == BodyEncoder().encode(other) != first
    assert encoder.encode(body("Be good.", tool)) == first
