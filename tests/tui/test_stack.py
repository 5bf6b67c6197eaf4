"""The stack of blocks: order, gaps, rows, and positions that survive changes."""

from __future__ import annotations

import random

from agentcli.tui.blocks.base import Block, BlockLine, gap
from agentcli.tui.model import AnswerItem, Item, NoticeItem, OutputItem, PromptItem, ToolItem
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.stack import Stack, StackEntry, place


class Bare(Block):
    def layout(self, width: int, palette: Palette) -> list[BlockLine]:
        return []


def tool(id: str) -> ToolItem:
    return ToolItem(id=id, name="Read", title="Read x", status="done")


def answer(id: str) -> AnswerItem:
    return AnswerItem(id=id)


def stacked(*items: Item, rows: int = 2) -> Stack:
    stack = Stack()
    for item in items:
        stack.add(Bare(item), rows=rows)
    return stack


def ids(stack: Stack) -> list[str]:
    return [entry.block.item.id for entry in stack]


def known(stack: Stack, id: str) -> StackEntry:
    entry = stack.get(id)
    assert entry is not None
    return entry


def test_blocks_are_separated_by_a_blank_row_except_tools_and_notices() -> None:
    notice = NoticeItem(id="n", text="x")
    assert gap(answer("a"), answer("b")) == 1
    assert gap(tool("a"), tool("b")) == 0
    assert gap(notice, notice) == 0
    assert gap(tool("a"), notice) == 1
    assert gap(PromptItem(id="p", text="/cost"), OutputItem(id="o", text="$1")) == 0


def test_rows_are_mapped_to_blocks_and_back() -> None:
    stack = stacked(answer("a"), answer("b"), tool("c"), tool("d"))
    assert stack.height == 2 + 3 + 3 + 2
    first, second, third, fourth = stack.entries
    assert [stack.first_row(entry) for entry in stack] == [0, 3, 6, 8]
    assert stack.at(0) == (first, 0)
    assert stack.at(2) == (second, -1)
    assert stack.at(4) == (second, 1)
    assert stack.at(7) == (third, 1)
    assert stack.at(9) == (fourth, 1)
    assert stack.at(99) == (fourth, 91)
    assert Stack().at(0) is None


def test_removing_a_block_closes_the_gap() -> None:
    stack = stacked(answer("one"), tool("two"))
    first = known(stack, "one")
    assert stack.remove("nobody") is None
    assert stack.remove("one") is first
    assert not first.alive
    assert ids(stack) == ["two"]
    assert stack.entries[0].gap == 0
    assert stack.height == 2
    assert stack.get("one") is None


def test_a_block_without_rows_leaves_no_trace() -> None:
    stack = stacked(answer("a"), answer("empty"), answer("b"))
    stack.set_rows(known(stack, "empty"), 0)
    assert stack.height == 5
    stack.set_rows(known(stack, "a"), 0)
    assert stack.height == 2
    assert known(stack, "b").gap == 0
    stack.set_rows(known(stack, "a"), 1)
    assert stack.height == 4


def test_positions_increase_down_the_conversation_and_stay_when_blocks_are_inserted() -> None:
    stack = stacked(tool("one"), answer("two"))
    before = place(known(stack, "two"), 1)
    stack.put_above([(Bare(tool(f"above {number}")), 3) for number in range(5)])
    stack.add(Bare(tool("below")), rows=3)
    places = [place(entry, row) for entry in stack for row in range(-entry.gap, entry.rows)]
    assert places == sorted(set(places))
    assert place(known(stack, "two"), 1) == before


def test_positions_are_correct_after_any_changes() -> None:
    rng = random.Random(3)
    stack = Stack()
    for number in range(300):
        action = rng.random()
        if action < 0.5 or not len(stack):
            block = Bare(rng.choice((tool, answer))(f"i{number}"))
            if rng.random() < 0.3:
                stack.put_above([(block, rng.randrange(4))])
            else:
                stack.add(block, rows=rng.randrange(4))
        elif action < 0.9:
            stack.set_rows(rng.choice(stack.entries), rng.randrange(4))
        else:
            stack.remove(rng.choice(ids(stack)))
        row = 0
        for entry in stack:
            row += entry.space
            assert stack.first_row(entry) == row
            for inner in range(entry.rows):
                assert stack.at(row + inner) == (entry, inner)
            row += entry.rows
        assert stack.height == row
