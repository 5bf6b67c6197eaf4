"""Normalising (SPEC 3.2): any log becomes a request that the API accepts; pure, idempotent, stable at the front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agentcli.context.view import NormaliseCache, check_pairing, normalise
from agentcli.core.messages import (
    Block,
    ImageBlock,
    Json,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    block_from_wire,
)
from tests.support.validate import problems

PIXEL = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
texts = st.sampled_from(["hello", "", "  \n", "bye ", "nul \x00", "half \ud83d pair"])
call_ids = st.sampled_from(["toolu_1", "toolu_2", "toolu_3"])
results = st.builds(
    ToolResultBlock,
    call_ids,
    st.lists(st.one_of(st.builds(TextBlock, texts), st.just(ImageBlock(PIXEL))), max_size=2).map(tuple),
    st.booleans(),
)
user_blocks: st.SearchStrategy[Block] = st.one_of(st.builds(TextBlock, texts), results, st.just(ImageBlock(PIXEL)))
reply_blocks: st.SearchStrategy[Block] = st.one_of(
    st.builds(TextBlock, texts),
    st.builds(ThinkingBlock, texts, st.just("sig")),
    st.just(UnknownBlock({"type": "redacted_thinking", "data": "x"})),
)


@st.composite
def logs(draw: st.DrawFn) -> list[Message]:
    """Logs as they can be, and some that cannot: results without calls, calls without results, any order of roles.
    Tool ids are unique, as the provider makes sure."""
    log: list[Message] = []
    unused = ["toolu_3", "toolu_2", "toolu_1"]
    for index in range(draw(st.integers(1, 7))):
        if draw(st.booleans()):
            blocks = draw(st.lists(user_blocks, max_size=3))
            origin = draw(st.sampled_from([Origin.PROMPT, Origin.TOOL_RESULTS, Origin.BOUNDARY, Origin.ERROR]))
            log.append(Message("user", tuple(blocks), str(index), origin))
        else:
            blocks = draw(st.lists(reply_blocks, max_size=3))
            if unused and draw(st.booleans()):
                blocks.append(ToolUseBlock(unused.pop(), "Look", {"what": "\ud800" if draw(st.booleans()) else "x"}))
            log.append(Message("assistant", tuple(blocks), str(index), Origin.REPLY))
    return log


def body(messages: Sequence[Json]) -> Json:
    return {"model": "m", "max_tokens": 10, "messages": list(messages), "tools": [
        {"name": "Look", "description": "x", "input_schema": {"type": "object"}}]}  # fmt: skip


@given(logs())
def test_any_log_becomes_messages_that_the_api_accepts(log: list[Message]) -> None:
    wire = normalise(log)
    check_pairing(wire)
    if wire:
        assert problems(body(wire)) == []


@given(logs())
def test_normalising_twice_changes_nothing(log: list[Message]) -> None:
    once = normalise(log)
    again = normalise(
        [
            Message(m["role"], tuple(map(block_from_wire, m["content"])), str(i), Origin.PROMPT)
            for i, m in enumerate(once)
        ]
    )
    assert again == once


@given(logs(), logs())
def test_caching_changes_only_the_amount_of_work(log: list[Message], more: list[Message]) -> None:
    memory = NormaliseCache()
    grown = log + more
    for shown in (log, *(grown[: len(log) + count] for count in range(len(more) + 1)), more, log):
        assert normalise(shown, memory) == normalise(shown)


def test_sent_messages_do_not_change_when_the_log_grows() -> None:
    """The prefix is not only equal but the same objects, so that it encodes to the same bytes for free."""
    memory = NormaliseCache()
    log = [
        Message("user", (TextBlock("go"),), "1", Origin.PROMPT),
        Message("assistant", (TextBlock("ok"), ToolUseBlock("toolu_1", "Look", {})), "2", Origin.REPLY),
        Message("user", (ToolResultBlock("toolu_1", (TextBlock("x"),)),), "3", Origin.TOOL_RESULTS),
    ]
    first = normalise(log, memory)
    log.append(Message("assistant", (TextBlock("done"),), "4", Origin.REPLY))
    second = normalise(log, memory)
    assert all(old is new for old, new in zip(first, second, strict=False))


def test_messages_before_a_change_stay_the_same_objects() -> None:
    memory = NormaliseCache()
    log: list[Message] = []
    for number in range(200):
        log += [
            Message("user", (TextBlock(f"prompt {number}"),), f"p{number}", Origin.PROMPT),
            Message("assistant", (TextBlock(f"reply {number}"),), f"r{number}", Origin.REPLY),
        ]
        before = normalise(log, memory)
    log[300] = replace(log[300], content=(TextBlock("another prompt"),))
    after = normalise(log, memory)
    assert after == normalise(log)
    assert before.count_shared(after) == 300


def test_thinking_is_kept_before_content_and_removed_when_alone() -> None:
    thought = ThinkingBlock("hm", "sig")
    log = [
        Message("user", (TextBlock("go"),), "1", Origin.PROMPT),
        Message("assistant", (thought,), "2", Origin.REPLY),
        Message("user", (TextBlock("well?"),), "3", Origin.PROMPT),
        Message("assistant", (thought, TextBlock("so")), "4", Origin.REPLY),
    ]
    wire = normalise(log)
    assert [m["role"] for m in wire] == ["user", "assistant"]
    assert wire[1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
