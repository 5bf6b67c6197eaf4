"""The app's memory as a session grows: megabytes after hundreds and thousands of turns, each with a Read.

The model is a server that says how large each request was, so that the context fills up, old results are cleared and
the conversation is compacted as with a real one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import linear_regression

from agentcli.context.compact import INSTRUCTION
from tests.bench.growth import MOST_KILOBYTES
from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import REPOSITORY, Workshop, workshop
from tests.bench.server import TOKENS
from tests.bench.tui_pty import AppInPty
from tests.support.scripts import Json, call, reply, say

TURNS = (100, 500, 1_000, 2_000)
RESULT_BYTES = (2_000, 16_000)
_MOST_SECONDS = 1_200.0
_LOOK_SECONDS = 0.2
_POINTS = 20
"""Places in the second half where memory is read."""
_USAGE = {"input_tokens": 3, "cache_read_input_tokens": TOKENS}


def growth_app(runs: int, turns: Sequence[int] = TURNS, sizes: Sequence[int] = RESULT_BYTES) -> Report:
    """The last row of a size is the slope of a line through the second half of its turns: by then everything bounded
    is full. Clearing old results frees megabytes at a time, so that the difference of two places is mostly chance: each
    hundred turns of one session added between 1 and 33 KB a turn."""
    measures: list[Measure] = []
    for size in sizes:
        curves = [_curve(turns, size) for _run in range(runs)]
        name = f"Read of {size // 1000} KB"
        for place, count in enumerate(turns):
            megabytes = tuple(curve[place] / 1024 for curve, _slope in curves)
            measures.append(Measure(f"{name}: after {count:,} turns", megabytes, "MB"))
        for place, (before, after) in enumerate(pairwise(turns)):
            each = tuple((curve[place + 1] - curve[place]) / (after - before) for curve, _slope in curves)
            measures.append(Measure(f"{name}: a turn, {before:,} to {after:,}", each, "KB"))
        slopes = tuple(slope for _curve, slope in curves)
        measures.append(Measure(f"{name}: a turn, second half", slopes, "KB", MOST_KILOBYTES))
    return Report(f"growth-app: the app's memory over {turns[-1]:,} turns", tuple(measures))


def _curve(turns: Sequence[int], size: int) -> tuple[list[float], float]:
    """Resident kilobytes after each of these numbers of turns, and what a turn of the second half adds."""
    last = turns[-1]
    second_half = range(last // 2, last + 1, max(1, last // 2 // _POINTS))
    found: dict[int, float] = {}
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        _write_files(place, last, size)
        server.play(*_work_through(last))
        server.answer_aside(INSTRUCTION[:60], reply(say("Many files were read."), usage=_USAGE))
        with AppInPty(place) as app:
            app.ready()
            app.send("Read all of it")
            deadline = time.monotonic() + _MOST_SECONDS
            for count in sorted({*turns, *second_half}):
                while len(server.arrivals()) <= count:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{count:,} turns took more than {_MOST_SECONDS:g} seconds")
                    app.read_for(_LOOK_SECONDS)
                    app.forget_output()
                found[count] = app.resident_megabytes * 1024
    slope = linear_regression(second_half, [found[count] for count in second_half]).slope
    return [found[count] for count in turns], slope


def _work_through(turns: int) -> list[Json]:
    steps = [
        reply(say(f"Now part {turn}."), call("Read", file_path=f"file-{turn}.txt"), usage=_USAGE)
        for turn in range(turns)
    ]
    return [*steps, reply(say("All of that is done."), usage=_USAGE)]


def _write_files(place: Workshop, count: int, size: int) -> None:
    """Files as compressible as source code is, each another one."""
    lines = (REPOSITORY / "agentcli/agent/submission.py").read_text().splitlines(keepends=True)
    for number in range(count):
        chosen = random.Random(number).sample(lines, len(lines))
        text = "".join(f"# {number}\n{line}" if place % 9 == 0 else line for place, line in enumerate(chosen))
        (place.project / f"file-{number}.txt").write_text((text * (size // len(text) + 1))[:size])
