"""Deltas that arrive together are joined, and nothing else changes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from agentcli.providers.transports.sse import MAX_JOINED, merge_deltas
from tests.support.examples import points
from tests.support.tables import each_row

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


def test_no_events_stay_no_events() -> None:
    assert merge_deltas([]) == []
