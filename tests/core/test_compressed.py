"""Values that are kept compressed read as before."""

from __future__ import annotations

import sys
from dataclasses import replace

from agentcli.core.compressed import compress
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
from tests.support.tables import each_row

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
