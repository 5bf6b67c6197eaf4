from __future__ import annotations

import json
from itertools import chain

import pytest

from agentcli.core.files.access import MAX_INPUT_DEPTH
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json, ToolUseBlock
from agentcli.providers import accumulate
from agentcli.providers.accumulate import MAX_BLOCKS, Accumulator, StreamError, parse_input
from agentcli.providers.base import Closed, Opened
from tests.support.tables import each_row


def _nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def _started() -> Accumulator:
    made = Accumulator("model", SequentialIds(), tuple)
    list(made.feed({"type": "message_start", "message": {"id": "msg", "model": "model"}}))
    return made


def _start(index: int, block: Json) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


@pytest.mark.parametrize("levels", [MAX_INPUT_DEPTH + 1, 600, 50_000])
def test_input_nested_too_deeply_is_no_input(levels: int) -> None:
    assert parse_input(_nested(levels)) == ({}, _nested(levels))


@each_row("number", ["1e999", "NaN", "Infinity", "9" * 5_000])
def test_input_with_a_number_that_cannot_be_sent_back_is_no_input(number: str) -> None:
    text = f'{{"limit": {number}}}'
    assert parse_input(text) == ({}, text)


def test_input_at_the_limit_is_accepted() -> None:
    value, invalid = parse_input(_nested(MAX_INPUT_DEPTH))
    assert invalid is None
    assert json.dumps(value, separators=(",", ":")) == _nested(MAX_INPUT_DEPTH)


def test_a_call_whose_input_comes_with_its_start_has_the_same_limit() -> None:
    reply = _started()
    block = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": json.loads(_nested(MAX_INPUT_DEPTH + 1))}
    list(reply.feed(_start(0, block)))
    (closed,) = reply.feed({"type": "content_block_stop", "index": 0})
    assert isinstance(closed, Closed)
    assert isinstance(closed.block, ToolUseBlock)
    assert closed.block.input == {}
    assert closed.block.invalid_json is not None


def test_an_event_nested_too_deeply_is_a_broken_stream() -> None:
    with pytest.raises(StreamError, match="nested"):
        list(_started().feed(_start(0, {"type": "new_kind", "data": json.loads(_nested(200))})))


def test_a_reply_of_very_many_blocks_is_a_broken_stream() -> None:
    reply = _started()
    block = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}
    for index in range(MAX_BLOCKS):
        list(reply.feed(_start(index, block)))
    with pytest.raises(StreamError, match="blocks"):
        list(reply.feed(_start(MAX_BLOCKS, block)))


@pytest.mark.parametrize(
    "delta",
    [
        {"type": "text_delta", "text": "x" * 1_000},
        {"type": "thinking_delta", "thinking": "x" * 1_000},
        {"type": "input_json_delta", "partial_json": "x" * 1_000},
        {"type": "signature_delta", "signature": "x" * 1_000},
        {"type": "new_delta", "data": "x" * 1_000},
    ],
    ids=lambda delta: str(delta["type"]),
)
def test_an_endless_reply_is_a_broken_stream(delta: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulate, "MAX_CHARACTERS", 10_000)
    reply = _started()
    list(reply.feed(_start(0, {"type": "text", "text": ""})))
    event = {"type": "content_block_delta", "index": 0, "delta": delta}
    for _number in range(9):
        list(reply.feed(event))
    with pytest.raises(StreamError, match="characters"):
        list(chain(reply.feed(event), reply.feed(event)))


def test_a_tool_name_is_cut_to_the_length_that_the_api_accepts() -> None:
    (opened,) = _started().feed(_start(0, {"type": "tool_use", "id": "toolu_1", "name": "x" * 1_000_000}))
    assert isinstance(opened, Opened)
    assert len(opened.name) == 200
