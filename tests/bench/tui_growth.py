"""What the transcript costs as it grows: `python -m tests.bench.tui_growth 100 10000` for these numbers of blocks.

Blocks are real ones, ten rows each: answers and tool calls. For each size the processor time of a frame while a reply
streams, of a key below, of a page, a wheel step, and of a new width until the screen is right; the longest gap of the
event loop while the rest is measured; memory of what has scrolled away. Sizes are compared with the smallest one.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from textual.app import App, ComposeResult
from textual.geometry import Size
from textual.pilot import Pilot
from textual.widgets import Input

from agentcli.tui.blocks.make import make_block
from agentcli.tui.model import Add, AnswerItem, Grow, Item, ToolItem
from agentcli.tui.startup import garbage_collection
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.widget import Transcript
from tests.bench.loop_gaps import LoopGaps, resident_megabytes
from tests.bench.measure import Measure, Report, quantile

SIZES = (100, 1_000, 10_000)
SIZE, OTHER_SIZE = Size(120, 40), Size(90, 40)
ROWS_A_BLOCK = 10
_ANSWER = "\n\n".join(f"Paragraph {number} of an answer, with **some** words and `code` in it." for number in range(5))
_OUTPUT = "\n".join(f"a line of output that a tool gave, number {number}" for number in range(9))


class Host(App[None]):
    def compose(self) -> ComposeResult:
        self.transcript = Transcript(make_block, Palette())
        yield self.transcript
        yield Input()


def tui_growth(runs: int, sizes: Sequence[int] = SIZES) -> Report:
    measures: list[Measure] = []
    for size in sizes:
        for name, (values, unit, budget) in asyncio.run(_measured(runs, size)).items():
            baseline = f"{sizes[0]:,} blocks: {name}" if size != sizes[0] and unit != "MB" else None
            measures.append(Measure(f"{size:,} blocks: {name}", tuple(values), unit, budget, "median", baseline))
    return Report("tui-growth: the transcript as it grows", tuple(measures))


Row = tuple[list[float], str, float | None]


async def _measured(runs: int, blocks: int) -> dict[str, Row]:
    app = Host()
    with settled_collection():
        async with app.run_test(size=(SIZE.width, SIZE.height)) as pilot:
            return await _measured_in(app, pilot, runs, blocks)


@contextmanager
def settled_collection() -> Iterator[None]:
    """Garbage collection as in the app. What a test run has frozen before stays frozen."""
    before, callbacks, frozen = gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()
    garbage_collection.settle()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks[:] = callbacks
        if not frozen:
            gc.unfreeze()


async def _measured_in(app: Host, pilot: Pilot[None], runs: int, blocks: int) -> dict[str, Row]:
    transcript = app.transcript
    before = _megabytes()
    filling = await _filled(transcript, blocks)
    await pilot.pause()
    memory = _megabytes() - before
    rows: dict[str, Row] = {
        "a block added, first tenth": ([filling[0]], "ms", None),
        "a block added, last tenth": ([filling[1]], "ms", None),
        "memory of a block": ([memory * 1024 / blocks], "KB", None),
    }
    transcript.apply([Add(AnswerItem(id="growing"))])
    words = "words that come in a stream, and more of them; "
    rows["a frame while a reply streams"] = _times(transcript, lambda: _grow(transcript, words), runs * 20)
    rows["a key below"] = ([await _key(app, runs * 20)], "ms", None)
    rows["a page up"] = _times(transcript, transcript.page_up, runs * 10)
    rows["a wheel step up"] = _times(transcript, lambda: transcript.scroll_rows(-3), runs * 20)
    transcript.follow()
    right, gaps = await _resized(app, runs)
    rows["a new width until the screen is right"] = (right, "ms", None)
    rows["a new width, longest gap of the loop"] = (gaps, "ms", 50.0)
    return rows


def _megabytes() -> float:
    gc.collect()
    return resident_megabytes()


async def _filled(transcript: Transcript, blocks: int) -> tuple[float, float]:
    """Milliseconds of processor time of one block, in the first and in the last tenth."""
    tenths: list[float] = []
    for tenth in range(10):
        count = blocks // 10
        began = time.thread_time()
        for number in range(tenth * count, (tenth + 1) * count):
            transcript.apply([Add(_item(number))])
            transcript.frame()
        tenths.append((time.thread_time() - began) * 1000 / max(1, count))
        await asyncio.sleep(0)
    while transcript.has_deferred_work:
        transcript.do_deferred_work()
    return tenths[0], tenths[-1]


def _item(number: int) -> Item:
    if number % 2:
        return AnswerItem(id=f"m{number}", text=f"{_ANSWER} That was answer {number}.", done=True)
    display = {"kind": "text", "text": f"{_OUTPUT}\nthe end of {number}"}
    return ToolItem(id=f"m{number}", name="Bash", title=f"run {number}", status="done", display=display)


def _grow(transcript: Transcript, text: str) -> None:
    transcript.apply([Grow("growing", text)])
    transcript.frame()


def _times(transcript: Transcript, action: Callable[[], None], count: int) -> Row:
    values = []
    for _each in range(count):
        began = time.thread_time()
        action()
        _paint(transcript)
        values.append((time.thread_time() - began) * 1000)
    return values, "ms", None


def _paint(transcript: Transcript) -> None:
    compositor = transcript.screen._compositor
    compositor.update_widgets({transcript, transcript.vertical_scrollbar})
    update = compositor.render_update()
    if update is not None:
        update.render_segments(transcript.app.console)  # type: ignore[attr-defined]


async def _key(app: Host, count: int) -> float:
    """Milliseconds of processor time of a key in the box below, with the screen's own work."""
    box = app.query_one(Input)
    values = []
    for _each in range(count):
        began = time.thread_time()
        box.insert_text_at_cursor("x")
        app.screen._compositor.update_widgets({box})
        update = app.screen._compositor.render_update()
        if update is not None:
            update.render_segments(app.console)  # type: ignore[attr-defined]
        values.append((time.thread_time() - began) * 1000)
        await asyncio.sleep(0)
    return quantile(values, 0.5)


async def _resized(app: Host, runs: int) -> tuple[list[float], list[float]]:
    right, gaps = [], []
    for size in (OTHER_SIZE, SIZE) * runs:
        async with LoopGaps() as loop:
            await asyncio.sleep(0.01)
            began = time.thread_time()
            app.screen._refresh_layout(size)
            app.transcript.frame()
            _paint(app.transcript)
            right.append((time.thread_time() - began) * 1000)
            while app.transcript.has_deferred_work:
                await asyncio.sleep(0.005)
        gaps.append(loop.longest)
    return right, gaps


if __name__ == "__main__":
    print(tui_growth(2, [int(size) for size in sys.argv[1:]] or SIZES))
