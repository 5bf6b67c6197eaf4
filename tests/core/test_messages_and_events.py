from __future__ import annotations

import json
import pickle
from copy import deepcopy
from dataclasses import asdict, fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.core import events as ev
from agentcli.core.event_base import event_from_dict, event_to_dict
from agentcli.core.messages import (
    Block,
    ImageBlock,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    block_from_dict,
    block_from_wire,
    block_to_dict,
    block_to_wire,
    clean_text,
    message_from_dict,
    message_to_dict,
)
from agentcli.core.usage import Usage
from tests.support.examples import EXAMPLES

words = st.text(max_size=12)
plain_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(words, plain_json, max_size=3)
unknown = objects.map(lambda data: UnknownBlock({**data, "type": "brand_new"}))
texts = st.builds(TextBlock, words, st.just(()) | st.just(({"type": "page_location"},)))
images = st.builds(ImageBlock, objects)
tool_results = st.builds(
    ToolResultBlock,
    words,
    st.lists(st.one_of(st.builds(TextBlock, words), images, unknown), max_size=3).map(tuple),
    st.booleans(),
)
blocks: st.SearchStrategy[Block] = st.one_of(
    texts,
    images,
    unknown,
    st.builds(ThinkingBlock, words, words),
    st.builds(
        ToolUseBlock, words, words, objects, st.none() | words, st.just({}) | st.just({"caller": {"type": "direct"}})
    ),
    tool_results,
)
usages = st.builds(Usage, *[st.integers(0, 10**6)] * 6)
messages = st.builds(
    Message,
    st.sampled_from(["user", "assistant"]),
    st.lists(blocks, max_size=4).map(tuple),
    words,
    st.sampled_from(Origin),
    words,
    words,
    st.none() | words,
    st.none() | usages,
    objects,
)


@given(blocks)
def test_a_block_survives_the_wire_and_the_disk(block: Block) -> None:
    assert block_from_dict(json.loads(json.dumps(block_to_dict(block)))) == block
    if not (isinstance(block, ToolUseBlock) and block.invalid_json is not None):
        assert block_from_wire(json.loads(json.dumps(block_to_wire(block)))) == block


@given(messages)
def test_a_message_survives_the_disk(message: Message) -> None:
    assert message_from_dict(json.loads(json.dumps(message_to_dict(message)))) == message


@given(objects)
def test_no_object_from_the_wire_is_fatal_and_none_is_lost(data: dict[str, Any]) -> None:
    block = block_from_wire(data)
    if isinstance(block, UnknownBlock):
        assert block_to_wire(block) == data


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b", "\udfff"])
def test_unencodable_characters_are_replaced(text: str) -> None:
    cleaned = clean_text(text)
    assert "\x00" not in cleaned
    cleaned.encode()


_BY_NAME = {"message": messages, "block": blocks, "usage": usages, "result": tool_results}
_BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": words,
    "int": st.integers(0, 9),
    "bool": st.booleans(),
    "float": st.floats(0, 9),
    "Json": objects,
    "Json | None": st.none() | objects,
    "Any": plain_json,
    "list[str]": st.lists(words, max_size=2),
    "list[int]": st.lists(st.integers(0, 9), max_size=2),
    "list[Json]": st.lists(objects, max_size=2),
    "list[list[int]]": st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=2),
    "str | None": st.none() | words,
    "int | None": st.none() | st.integers(0, 9),
    "float | None": st.none() | st.floats(0, 9),
}


def _value(field: Any, data: st.DataObject) -> Any:
    return data.draw(_BY_NAME[field.name] if field.name in _BY_NAME else _BY_TYPE[field.type])


@pytest.mark.parametrize("kind", ev.EVENT_TYPES.values(), ids=lambda kind: kind.__name__)
@settings(max_examples=max(EXAMPLES // 3, 3))
@given(data=st.data())
def test_every_event_makes_the_round_trip_through_json(kind: type[ev.Event], data: st.DataObject) -> None:
    event = kind(**{field.name: _value(field, data) for field in fields(kind)})
    assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


def test_events_of_a_newer_version_lose_only_new_fields() -> None:
    data = {**event_to_dict(ev.NoticeRaised(text="x")), "added_later": 1}
    assert event_from_dict(data) == ev.NoticeRaised(text="x")
    with pytest.raises(ValueError, match="Invented"):
        event_from_dict({"event": "Invented"})


def test_the_empty_dictionary_that_messages_share_cannot_be_changed() -> None:
    """A library user's `extra["x"] = ...` on one call would otherwise be sent with every call."""
    message = Message("assistant", (ToolUseBlock("call", "Read", {}),), "m", Origin.REPLY)
    shared: list[Any] = [message.meta, message.tool_uses[0].extra]
    for empty in shared:
        with pytest.raises(TypeError, match="share"):
            empty["x"] = 1
        with pytest.raises(TypeError, match="share"):
            empty |= {"x": 1}
        with pytest.raises(TypeError, match="share"):
            empty.update(x=1)
        with pytest.raises(TypeError, match="share"):
            empty.setdefault("x", 1)
    assert Message("user", (), "other", Origin.PROMPT).meta == {}


def test_messages_with_the_shared_dictionary_can_be_copied_pickled_and_made_json_of() -> None:
    message = Message("assistant", (ToolUseBlock("call", "Read", {}),), "m", Origin.REPLY)

    copied: Any = deepcopy(message)
    assert copied == message == pickle.loads(pickle.dumps(message))
    assert json.dumps(message.meta) == json.dumps(asdict(message)["meta"]) == "{}"
    copied.meta["x"] = 1
    assert message.meta == {}
