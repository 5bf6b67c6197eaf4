"""What has scrolled away takes little memory, and is shown, searched and copied as before."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import tracemalloc
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.core.messages import Json, Message, TextBlock, ToolResultBlock, compress_block
from agentcli.core.space_saving import Compressed
from agentcli.tui.blocks.base import Block
from agentcli.tui.blocks.items import make_block
from agentcli.tui.model import (
    Above,
    Add,
    AnswerItem,
    Grow,
    Item,
    NoticeItem,
    OutputItem,
    Replace,
    ThinkingItem,
    ToolItem,
    pack_item,
)
from agentcli.tui.presenter import Presenter
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.items import UNPACKED, TranscriptItems
from tests.support.assembled import engine_on
from tests.support.scripts import call, reply, say

LINES = [f"    some_name_{number} = another_name(argument_{number % 7}, {number * 31})" for number in range(300)]
COUNT = 300


def _text(number: int) -> str:
    return f"file {number}\n" + "\n".join(LINES)


def _read(number: int) -> ToolItem:
    display = {"kind": "code", "text": _text(number), "path": f"file-{number}.py", "start": 1}
    return ToolItem(id=f"t{number}", name="Read", title=f"Read file-{number}.py", status="done", display=display)


def _filled(count: int) -> TranscriptItems:
    items = TranscriptItems(make_block, Palette())
    items.set_width(100)
    for number in range(count):
        items.apply([Add(ToolItem(id=f"t{number}", name="Read", title="Read", status="running"))])
        items.apply([Replace(_read(number))])
    return items


def test_items_above_take_a_third_of_their_text() -> None:
    _filled(2 * UNPACKED)  # what is made once
    tracemalloc.start()
    items = _filled(UNPACKED + COUNT)
    held = tracemalloc.get_traced_memory()[0] / 1024
    tracemalloc.stop()

    size = len(_text(0)) / 1024
    assert len(items.stack) == UNPACKED + COUNT
    assert held < UNPACKED * (size + 4) + COUNT * (size / 3 + 4), f"{held:,.0f} KB"


def test_items_above_read_as_before() -> None:
    items = _filled(UNPACKED + 20)

    for number, entry in enumerate(items.stack):
        assert entry.block.item == _read(number)
        assert _text(number) in entry.block.source
    oldest = items.stack.entries[0]
    items.expand(oldest, True)
    assert "some_name_299" in "".join(line.text for line in items.lines(oldest))


def test_laying_out_a_packed_item_reads_its_display_once(monkeypatch: pytest.MonkeyPatch) -> None:
    items = _filled(UNPACKED + 1)
    unpack, unpacked = Compressed.value, []

    def counted(packed: Compressed) -> Any:
        unpacked.append(packed)
        return unpack.__get__(packed)

    monkeypatch.setattr(Compressed, "value", property(counted))

    oldest = items.stack.entries[0]
    items.expand(oldest, True)
    assert items.lines(oldest)

    assert len(unpacked) == 1


def test_a_display_that_repeats_its_result_takes_a_fraction_of_what_it_takes_alone() -> None:
    numbers = random.Random(1)
    lines = [f"    name_{numbers.random()} = call({number}, {numbers.random()})" for number in range(150)]
    numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
    result = ToolResultBlock("c1", (TextBlock(numbered),))
    display: Json = {"kind": "code", "text": "\n".join(lines)}
    alone = ToolItem(id="t", name="Read", title="Read", status="done", display=display)
    beside = replace(alone, result=result)

    pack_item(alone)
    pack_item(beside)
    compress_block(result)

    assert _packed_bytes(beside) < _packed_bytes(alone) / 4
    assert beside.display == alone.display == display


def _packed_bytes(item: ToolItem) -> int:
    return sys.getsizeof(ToolItem.__dict__["display"]._slot.__get__(item)._data)


def test_a_result_above_is_kept_once_in_the_log_and_in_the_transcript(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(_text(0))
    items, messages = asyncio.run(_work(tmp_path, call("Read", file_path="a.py")))

    [read] = [entry.block.item for entry in items.stack if isinstance(entry.block.item, ToolItem)]
    [logged] = [block for message in messages for block in message.tool_results]
    assert read.result is logged


async def _work(project: Path, *calls: Json) -> tuple[TranscriptItems, Sequence[Message]]:
    """What the transcript and the log have after a submission with these calls."""
    items = TranscriptItems(make_block, Palette())
    async with engine_on(project, reply(*calls), reply(say("Done."))) as engine:
        presenter = Presenter(engine.title_of)
        async with aclosing(engine.submit("Go")) as events:
            async for event in events:
                items.apply(presenter.show(event, 0.0))
        return items, engine.messages


def test_what_was_before_a_resumed_session_is_compressed_at_once() -> None:
    items = TranscriptItems(make_block, Palette())
    texts = [OutputItem(id=f"o{number}", text=_text(number)) for number in range(COUNT)]
    older: list[Item] = [_read(number) for number in range(COUNT)]
    tracemalloc.start()
    items.apply([Above((*older, *texts))])
    grown = tracemalloc.get_traced_memory()[0] / 1024
    tracemalloc.stop()

    assert grown < COUNT * 2 * (len(_text(0)) / 1024 / 3 + 3)
    assert [entry.block.item for entry in items.stack] == [*older, *texts]


def test_an_answer_and_thoughts_above_are_kept_once_and_compressed() -> None:
    items = TranscriptItems(make_block, Palette())
    items.set_width(100)
    _say(items, 0)
    _say(items, 1)
    for number in range(4, UNPACKED):
        items.apply([Add(NoticeItem(id=f"n{number}", text=""))])
    held = [item for entry in items.stack for item in _long_texts(entry.block)]
    for number in range(UNPACKED, UNPACKED + 4):
        items.apply([Add(NoticeItem(id=f"n{number}", text=""))])

    above = list(items.stack)[:4]
    assert len(held) >= 4
    assert not [text for entry in above for text in _long_texts(entry.block)]
    assert [entry.block.source for entry in above] == [_text(0), _text(0), _text(1), _text(1)]
    assert "some_name_299" in "".join(line.text for line in items.lines(above[1]))
    items.expand(above[0], True)
    assert "some_name_9 " in "".join(line.text for line in items.lines(above[0]))


def _say(items: TranscriptItems, number: int) -> None:
    """Thoughts and an answer as they come: in pieces that are looked at, then whole."""
    thoughts, answer = ThinkingItem(id=f"t{number}"), AnswerItem(id=f"a{number}")
    items.apply([Add(thoughts), Add(answer)])
    for piece in _text(number).splitlines(keepends=True):
        items.apply([Grow(thoughts.id, piece), Grow(answer.id, piece)])
    items.apply([Replace(replace(thoughts, text=_text(number), seconds=2.0))])
    items.apply([Replace(replace(answer, text=_text(number), done=True))])
    for entry in list(items.stack)[-2:]:
        items.whole_lines(entry)


def _long_texts(block: Block) -> list[str]:
    """Texts that a block, its item and what they hold keep uncompressed."""
    seen: dict[int, object] = {id(block): block}
    held = [block]
    while held:
        one: object = held.pop()
        if type(one).__module__.startswith("agentcli.tui") or isinstance(one, list | dict | tuple):
            parts = [part for part in gc.get_referents(one) if not isinstance(part, type) and id(part) not in seen]
            seen |= {id(part): part for part in parts}
            held += parts
    return [one for one in seen.values() if isinstance(one, str) and len(one) > len(_text(0)) / 2]


def test_an_answer_above_that_is_replaced_without_text_keeps_its_text() -> None:
    items = TranscriptItems(make_block, Palette())
    items.set_width(100)
    items.apply(
        [Above((AnswerItem(id="a", text=_text(1), done=True), ThinkingItem(id="t", text=_text(2), seconds=1.0)))]
    )

    items.apply([Replace(AnswerItem(id="a", done=True)), Replace(ThinkingItem(id="t", seconds=2.0))])

    assert [entry.block.source for entry in items.stack] == [_text(1), _text(2)]
