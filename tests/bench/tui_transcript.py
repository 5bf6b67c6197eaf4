"""What the transcript costs besides the layout of its blocks: frames, pages, appending, a new width, with and without
two thousand messages above."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.geometry import Size
from textual.strip import Strip
from textual.widgets import Input

from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.model import Add, AnswerItem, Grow, Item, ToolItem
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.widget import Transcript
from tests.bench.measure import Measure, Report

SIZE = (120, 40)
OTHER_SIZE = (90, 40)
STYLES = [Style.parse(text) for text in ("#d8dee9", "bold #9ecbff", "#e6c07b", "italic #8b95a7")]


class PlainBlock(Block):
    """Cuts its text into rows of four styles. Only the last rows are made again, as a real answer does it."""

    layouts = 0.0

    def __init__(self, item: Item) -> None:
        super().__init__(item)
        self.text = str(getattr(item, "text", "") or getattr(item, "title", ""))
        self._width = 0
        self._lines: list[BlockLine] = []

    @property
    def source(self) -> str:
        return self.text

    def grow(self, text: str, colours: object = ()) -> None:
        self.text += text

    def forget(self) -> None:
        self._lines.clear()

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        began = time.thread_time()
        if width != self._width:
            self._width, self._lines = width, []
        del self._lines[-1:]
        for start in range(len(self._lines) * width, max(1, len(self.text)), width):
            row = self.text[start : start + width]
            parts = [row[at : at + 20] for at in range(0, len(row), 20)]
            self._lines.append(
                BlockLine(
                    Strip([Segment(part, STYLES[number % 4]) for number, part in enumerate(parts)], len(row)), row
                )
            )
        PlainBlock.layouts += time.thread_time() - began
        return self._lines


class Host(App[None]):
    def compose(self) -> ComposeResult:
        self.transcript = Transcript(PlainBlock, Palette())
        yield self.transcript
        yield Input()


def tui_transcript(runs: int, messages: int = 2000) -> Report:
    measures = [*asyncio.run(_measure(runs, 0)), *asyncio.run(_measure(runs, messages))]
    return Report("transcript: CPU besides the layout of blocks, headless at 120×40", tuple(measures))


async def _measure(runs: int, above: int) -> list[Measure]:
    app = Host()
    name = f"{above:,} above: " if above else "empty: "
    async with app.run_test(size=SIZE) as pilot:
        transcript = app.transcript
        measures: list[Measure] = []
        if above:
            measures.append(Measure(f"appending {above:,} one by one", (_append(transcript, above),), budget=3000))
            while transcript.has_deferred_work:
                transcript.do_deferred_work()
        await pilot.pause()
        transcript.apply([Add(AnswerItem(id="answer"))])
        grown = [_timed(transcript, lambda: _grow(transcript)) for _ in range(runs * 10)]
        measures.append(Measure(f"{name}a frame of a streaming answer", tuple(grown), budget=2.0))
        in_place = [_timed(transcript, lambda: _grow(transcript, "x")) for _ in range(runs * 10)]
        measures.append(Measure(f"{name}a frame that changes one row", tuple(in_place), budget=2.0))
        if above:
            pages = [_timed(transcript, transcript.page_up) for _ in range(runs * 4)]
            measures.append(Measure(f"{name}a page up", tuple(pages), budget=12.0))
            transcript.follow()
            measures += await _resize(app, name)
            measures += _find(transcript, name)
    return measures


def _append(transcript: Transcript, count: int) -> float:
    text = "some words of a message that is as long as they are, and a bit longer; " * 8
    began = time.process_time()
    for number in range(count):
        item = (
            AnswerItem(id=f"m{number}", text=text, done=True)
            if number % 2
            else ToolItem(id=f"m{number}", name="Read", title=f"Read file{number}.py", status="done")
        )
        transcript.apply([Add(item)])
        transcript.frame()
        _paint(transcript)
    return (time.process_time() - began) * 1000


def _grow(
    transcript: Transcript, text: str = "words that come in a stream, a whole row of them and more; " * 2
) -> None:
    transcript.apply([Grow("answer", text)])
    transcript.frame()


def _timed(transcript: Transcript, action: Callable[[], None]) -> float:
    """Milliseconds of CPU, with the screen's own work and without the layout of blocks."""
    PlainBlock.layouts = 0.0
    began = time.thread_time()
    action()
    _paint(transcript)
    return (time.thread_time() - began - PlainBlock.layouts) * 1000


def _paint(transcript: Transcript) -> None:
    """What the screen does when its turn comes, at once."""
    screen = transcript.screen
    screen._compositor.update_widgets({transcript, transcript.vertical_scrollbar})
    update = screen._compositor.render_update()
    if update is not None:
        update.render_segments(transcript.app.console)  # type: ignore[attr-defined]


async def _resize(app: Host, name: str) -> list[Measure]:
    transcript = app.transcript
    visible: list[float] = []
    slices: list[float] = []
    for size in (OTHER_SIZE, SIZE, OTHER_SIZE):
        app.screen._refresh_layout(Size(*size))
        visible.append(_timed(transcript, transcript.frame))
        slices += _slices(transcript)
    return [
        Measure(f"{name}a new width, what is in view", tuple(visible), budget=50.0),
        Measure(f"{name}a new width, one slice of the rest", tuple(slices), budget=10.0, judged_by="p95"),
    ]


def _slices(transcript: Transcript) -> Iterable[float]:
    while transcript.has_deferred_work:
        began = time.thread_time()
        transcript.do_deferred_work()
        yield (time.thread_time() - began) * 1000


def _find(transcript: Transcript, name: str) -> list[Measure]:
    began = time.perf_counter()
    transcript.find("file1024.py")
    first = (time.perf_counter() - began) * 1000
    slices: list[float] = []
    while transcript.has_deferred_work:
        began = time.perf_counter()
        transcript.do_deferred_work()
        slices.append((time.perf_counter() - began) * 1000)
    return [
        Measure(f"{name}a search until it answers", (first,), budget=20.0),
        Measure(f"{name}a search, all slices together", (sum(slices),)),
    ]


if __name__ == "__main__":
    print(tui_transcript(10))
