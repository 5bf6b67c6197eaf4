"""An answer that arrives at once is shown bit by bit, so that nothing else waits, and completely in the end."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from agentcli.tui.blocks.answer import AT_ONCE, AnswerBlock, warm_up
from agentcli.tui.blocks.items import make_block
from agentcli.tui.model import Add, AnswerItem, Grow, NoticeItem, Replace
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.widget import Transcript

pytestmark = pytest.mark.anyio

PART = """## Part {number}

Some prose with **bold** words, `code` and 日本語, as long as it takes to be wrapped at the width that is there.

- one
- two

```python
def part() -> int:
    return {number}  # of many
```

"""
LONG = "".join(PART.format(number=number) for number in range(60))
PALETTE = Palette()


def shown(block: AnswerBlock) -> list[str]:
    return [line.strip.text for line in block.layout(60, PALETTE)]


@pytest.mark.parametrize("size", [AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, len(LONG)])
def test_the_final_layout_equals_laying_out_at_once(size: int) -> None:
    warm_up()
    text = LONG[:size]
    whole = AnswerBlock(AnswerItem(id="a", text=text, done=True))
    block = AnswerBlock(AnswerItem(id="a"))
    block.layout(60, PALETTE)
    block.grow(text)
    block.replace(AnswerItem(id="a", text=text, done=True))
    looks = 0
    lines = shown(block)
    while block.behind:
        looks += 1
        assert len(lines) <= len(whole.layout(60, PALETTE)) + 2
        lines = shown(block)
    assert lines == shown(whole)
    assert looks == max(0, (size - 1) // AT_ONCE)
    assert block.source == text.strip("\n")


def test_a_new_width_or_a_dropped_layout_includes_all_pending_text() -> None:
    block = AnswerBlock(AnswerItem(id="a"))
    block.layout(60, PALETTE)
    block.grow(LONG)
    block.layout(60, PALETTE)
    assert block.behind
    block.layout(50, PALETTE)
    assert not block.behind
    block.grow(LONG)
    block.layout(50, PALETTE)
    block.forget()
    block.layout(50, PALETTE)
    assert not block.behind


class Host(App[None]):
    def compose(self) -> ComposeResult:
        self.transcript = Transcript(make_block, PALETTE)
        yield self.transcript


async def test_the_transcript_continues_until_everything_is_shown() -> None:
    app = Host()
    async with app.run_test(size=(60, 12)) as pilot:
        transcript = app.transcript
        transcript.apply([Add(AnswerItem(id="a"))])
        transcript.frame()
        transcript.apply([Grow("a", LONG), Replace(AnswerItem(id="a", text=LONG, done=True))])
        transcript.apply([Add(NoticeItem(id="n", text="behind it"))])
        transcript.frame()
        for _ in range(40):
            await pilot.pause()
        assert not transcript.blocks()[0].behind
        rows = transcript.shown_rows()
        assert any("return 59" in row for row in rows)
        assert any("behind it" in row for row in rows)
