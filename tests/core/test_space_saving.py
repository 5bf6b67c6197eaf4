from __future__ import annotations

import sys
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.messages import (
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_to_wire,
    compress_block,
)
from agentcli.core.space_saving import AppendOnly, RunningValue, compress, latest
from tests.support.tables import each_row


@given(st.lists(st.integers(-9, 9)), st.lists(st.integers(-9, 9)), st.integers(-12, 12), st.integers(-12, 12))
def test_a_growing_sequence_is_like_a_tuple(first: list[int], more: list[int], start: int, stop: int) -> None:
    made, like = AppendOnly(first).adding(*more), (*first, *more)
    assert made == like
    assert like == made
    assert (len(made), tuple(made), tuple(reversed(made))) == (len(like), like, like[::-1])
    assert made[start:stop] == like[start:stop]
    assert made[start:stop:-2] == like[start:stop:-2]
    assert [made[place] for place in range(-len(like), len(like))] == [*like, *like]


def test_two_that_grow_from_one_do_not_disturb_each_other() -> None:
    base = AppendOnly("ab")
    one, other = base.adding("c"), base.adding("x", "y")
    assert (one, other) == (("a", "b", "c"), ("a", "b", "x", "y"))
    assert one.count_shared(other) == 2
    assert base.begins(one)
    assert base.begins(other)
    assert not one.begins(other)


def test_each_item_is_read_once_and_all_again_in_another_sequence() -> None:
    read: list[str] = []

    def add(before: str, item: str) -> str:
        read.append(item)
        return before + item

    gathered = RunningValue(str, add)
    log = AppendOnly("ab")
    assert gathered.of(log) == "ab"
    assert gathered.of(log.adding("c")) == "abc"
    assert read == ["a", "b", "c"]
    assert gathered.of(AppendOnly("xb")) == "xb"
    assert gathered.of(AppendOnly("x")) == "x"


def test_the_latest_of_a_kind_is_kept() -> None:
    found = latest(lambda text: text if text.isupper() else None)
    log = AppendOnly(["a", "B", "c"])
    assert found.of(log) == "B"
    assert found.of(log.adding("d", "E")) == "E"
    assert found.of(AppendOnly(["a"])) is None


LONG = "".join(f"line {number} of a result, with a lone surrogate \ud800 and ✓\n" for number in range(400))


def _blocks() -> dict[str, Block]:
    return {
        "a text": TextBlock(LONG, ({"cited": 1},)),
        "thinking": ThinkingBlock(LONG, "signature"),
        "a call": ToolUseBlock("c1", "Write", {"file_path": "x", "content": LONG, "more": [1, 2.0, None, True]}),
        "a result": ToolResultBlock("c1", (TextBlock(LONG), ImageBlock({"data": "abc"})), is_error=True),
    }


@each_row("name", list(_blocks()))
def test_a_packed_block_equals_what_it_was(name: str) -> None:
    block, as_it_was = _blocks()[name], _blocks()[name]

    assert compress_block(block) > len(LONG)

    assert block == as_it_was
    assert as_it_was == block
    assert repr(block) == repr(as_it_was)
    assert block_to_wire(block) == block_to_wire(as_it_was)
    assert replace(block) == as_it_was
    assert compress_block(block) == 0, "packed twice"


def test_a_packed_text_takes_a_fraction_of_its_memory() -> None:
    packed, _size = compress(LONG)

    assert packed is not None
    assert sys.getsizeof(packed._data) < len(LONG) / 4


@each_row("similar", ["", LONG, LONG[5:500], "✓" * 40_000, LONG * 20])
def test_a_value_packed_beside_a_similar_text_reads_as_before(similar: str) -> None:
    block = TextBlock(similar)
    packed, _size = compress({"shown": LONG, "lines": 400}, block)

    compress_block(block)

    assert packed is not None
    assert packed.value == {"shown": LONG, "lines": 400}


@each_row("value", ["short", {"of": "kinds", "that": object()}, ["x" * 5_000, {1, 2}, lambda: 0]])
def test_what_is_small_or_cannot_be_packed_stays(value: object) -> None:
    assert compress(value)[0] is None
