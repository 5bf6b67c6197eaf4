from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.providers.transports.sse import EventDecoder, GarbageError
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
