"""Events of a stream: decoded from any pieces, and deltas that arrive together joined."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.providers.transports.sse import MAX_JOINED, EventDecoder, GarbageError, merge_deltas
from tests.support.examples import points
from tests.support.tables import each_row


def decode(*chunks: bytes) -> list[dict[str, Any]]:
    decoder = EventDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.finish()


EVENTS = [{"type": "a", "text": "grüße 🎉"}, {"type": "b", "text": "zwei\u2028drei"}]


@given(st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 200), max_size=12), st.booleans())
def test_any_line_ending_cut_anywhere_gives_the_same_events(end: str, cuts: list[int], comments: bool) -> None:
    lines: list[str] = []
    for event in EVENTS:
        if comments:
            lines += [": comment", ""]
        lines += [f"event: {event['type']}", f"data: {json.dumps(event, ensure_ascii=False)}", ""]
    raw = end.join([*lines, ""]).encode()
    places = sorted({min(cut, len(raw)) for cut in cuts})
    chunks = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
    assert decode(*chunks) == EVENTS


def test_data_on_several_lines_is_one_event() -> None:
    assert decode(b'data: {"type":\ndata: "a"}\n\n') == [{"type": "a"}]


def test_a_byte_order_mark_is_skipped() -> None:
    assert decode(b'\xef\xbb\xbfdata: {"type": "a"}\n\n') == [{"type": "a"}]


def test_a_last_event_without_its_empty_line_counts_if_complete() -> None:
    assert decode(b'data: {"type": "a"}\n') == [{"type": "a"}]
    assert decode(b'data: {"type": "a"}') == [{"type": "a"}]
    assert decode(b'data: {"type": "a') == []


def test_the_events_name_is_its_type_when_the_data_has_none() -> None:
    assert decode(b"event: ping\ndata: {}\n\n") == [{"type": "ping"}]


def test_end_markers_of_other_apis_are_ignored() -> None:
    assert decode(b"data: [DONE]\n\n") == []


@each_row(
    "line",
    [
        b"<html>",
        b"data: {broken",
        b"data: [1]",
        b"data: \xff\xfe",
        b"what: ever",
        b'data: "text"',
        b"data: " + b"[" * 100_000,
    ],
)
def test_an_invalid_line_is_garbage(line: bytes) -> None:
    with pytest.raises(GarbageError) as caught:
        decode(line + b"\n\n")
    assert len(str(caught.value)) <= 200


Json = dict[str, Any]


def delta(kind: str, field: str, text: str, index: int = 0) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: text}}


@pytest.mark.parametrize(
    ("kind", "field"), [("text_delta", "text"), ("thinking_delta", "thinking"), ("input_json_delta", "partial_json")]
)
def test_neighbouring_deltas_of_one_block_become_one(kind: str, field: str) -> None:
    events = [delta(kind, field, text) for text in ("a", "日", "")]
    before = [dict(event) for event in events]
    assert merge_deltas(events) == [delta(kind, field, "a日")]
    assert events == before


@each_row(
    "between",
    [
        {"type": "ping"},
        {"type": "content_block_stop", "index": 0},
        delta("text_delta", "text", "x", index=1),
        delta("thinking_delta", "thinking", "x"),
        delta("signature_delta", "signature", "x"),
        {**delta("text_delta", "text", "x"), "new_field": 1},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x", "citations": []}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 1}},
        {"type": "content_block_delta", "index": 0, "delta": None},
    ],
)
def test_nothing_is_joined_across_another_event(between: Json) -> None:
    events = [delta("text_delta", "text", "a"), between, delta("text_delta", "text", "b")]
    assert merge_deltas(events) == events


def characters(events: list[Json]) -> list[object]:
    """Every character with the block and the kind of delta that it is in; other events as they are."""
    found: list[object] = []
    for event in events:
        if event["type"] == "content_block_delta":
            kind, text = event["delta"].values()
            found += [(event["index"], kind, character) for character in text]
        else:
            found.append(event)
    return found


def test_joined_deltas_have_the_same_characters_in_the_same_order() -> None:
    kinds = (("text_delta", "text"), ("thinking_delta", "thinking"))
    for number in points(10_000):
        chance = random.Random(number)
        events: list[Json] = [
            delta(*chance.choice(kinds), "".join(chance.choices("ab日", k=chance.randint(1, 3))), chance.randint(0, 1))
            if chance.random() < 0.9
            else {"type": "ping"}
            for _event in range(chance.randint(0, 30))
        ]
        merged = merge_deltas(events)
        assert characters(merged) == characters(events)
        assert len(merged) <= len(events)
        assert merge_deltas(merged) == merged


def test_a_joined_delta_does_not_get_too_long_to_be_shown_at_once() -> None:
    events = [delta("text_delta", "text", "x" * (MAX_JOINED // 4)) for _event in range(10)]
    sizes = [len(event["delta"]["text"]) for event in merge_deltas(events)]
    assert sizes == [MAX_JOINED, MAX_JOINED, MAX_JOINED // 2]
    longer = [delta("text_delta", "text", "x" * (MAX_JOINED + 1)), delta("text_delta", "text", "y")]
    assert merge_deltas(longer) == longer
