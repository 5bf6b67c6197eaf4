"""Digests of requests: equal for equal requests however they were made, and different for any difference."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.costs.cache_watch import RequestDigests
from agentcli.core.messages import Json
from agentcli.core.space_saving import AppendOnly
from agentcli.providers.base import Request, Thinking

edits = st.lists(st.tuples(st.integers(0, 3), st.text(max_size=4)), min_size=1, max_size=12)


def message(text: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


@given(edits)
def test_a_digest_depends_on_the_request_alone_not_on_those_before_it(steps: list[tuple[int, str]]) -> None:
    """Each step drops some of the last messages and adds one, as edits of the context and new turns do."""
    one_by_one, messages = RequestDigests(), AppendOnly[Json]()
    for dropped, text in steps:
        kept = messages.to_tuple()[: max(0, len(messages) - dropped)]
        messages = (AppendOnly(kept) if dropped else messages).adding(message(text))
        request = Request("m", messages.to_tuple(), sequence=messages)
        read_again = json.loads(json.dumps(messages.to_tuple()))
        assert one_by_one.digest(request) == RequestDigests().digest(Request("m", tuple(read_again)))


BASE = Request(
    "claude-sonnet-5-5", (message("a"), message("b")), ("Be good.",), ({"name": "Read", "description": "r"},)
)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"model": "claude-opus-5"}, "front"),
        ({"system": ("Be bad.",)}, "front"),
        ({"tools": ({"name": "Read", "description": "s"},)}, "front"),
        ({"max_tokens": 9}, "front"),
        ({"thinking": Thinking("disabled")}, "front"),
        ({"effort": "high"}, "front"),
        ({"forbid_tools": True}, "front"),
        ({"messages": (message("a"), message("c"))}, "messages"),
        ({"messages": (message("a b"),)}, "messages"),
        ({"messages": (message("b"), message("a"))}, "messages"),
        ({"messages": (message("a"),)}, "messages"),
    ],
)
def test_a_digest_says_in_which_part_requests_differ(change: Json, where: str) -> None:
    front, messages = RequestDigests().digest(BASE).split("-")
    other_front, other_messages = RequestDigests().digest(replace(BASE, **change)).split("-")
    assert (front == other_front, messages == other_messages) == (where != "front", where != "messages")
