from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from agentcli.providers.requests.encode import BodyEncoder, to_bytes


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
