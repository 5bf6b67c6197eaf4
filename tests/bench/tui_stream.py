"""A reply of 20,000 characters: how soon its end is on the screen and what it costs; and Esc while one streams."""

from __future__ import annotations

from typing import NamedTuple

from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import Workshop, workshop
from tests.bench.tui_pty import AppInPty, markdown, paced_reply
from tests.support.scripts import reply, say

SIZE = 20_000
DELTA_SIZE = 24
DELTA_SECONDS = 0.005
THE_END = "And with this the reply is at its end."
ESCAPES = {"Esc as a lone byte": b"\x1b", "Esc by the keyboard protocol": b"\x1b[27u"}


def tui_stream(runs: int, size: int = SIZE) -> Report:
    text = markdown(size, THE_END)
    flat: list[Streamed] = []
    paced: list[Streamed] = []
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        for _run in range(runs):
            server.play(reply(say(text, chunk=DELTA_SIZE)))
            flat.append(streamed(place, server))
            server.play(paced_reply(text, DELTA_SECONDS, DELTA_SIZE))
            paced.append(streamed(place, server))
    return Report(
        f"tui-stream: a Markdown reply of {size:,} characters in deltas of {DELTA_SIZE}",
        (
            Measure("flat out: sent to its end visible", tuple(run.late for run in flat), budget=150),
            Measure("flat out: processor time", tuple(run.cpu for run in flat), budget=400),
            Measure("flat out: written", tuple(run.written for run in flat), "bytes", budget=size * 1.5),
            Measure("a delta every 5 ms: sent to its end visible", tuple(run.late for run in paced)),
            Measure("a delta every 5 ms: processor time", tuple(run.cpu for run in paced), budget=1200),
            Measure("a delta every 5 ms: written", tuple(run.written for run in paced), "bytes", budget=size * 6),
        ),
        ("processor time is without that of the start",),
    )


class Streamed(NamedTuple):
    late: float
    """Milliseconds from the last byte sent to its end on the screen."""
    cpu: float
    """Milliseconds of processor time until all is quiet again."""
    written: float
    """Bytes to the terminal until then."""


def streamed(place: Workshop, server: Loopback) -> Streamed:
    with AppInPty(place) as app:
        before = app.ready()
        app.send("Tell me more")
        written = len(app.output)
        seen = app.seen(THE_END)
        late = seen - server.last_sent()
        cpu = app.settle() - before
        return Streamed(late * 1000, cpu * 1000, float(len(app.output) - written))


def tui_escape(runs: int) -> Report:
    measures: list[Measure] = []
    text = markdown(200_000, THE_END)
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        for name, escape in ESCAPES.items():
            pressed = [each for _run in range(runs) for each in escaped(place, server, text, escape)]
            measures += [
                Measure(f"{name}: connection closed", tuple(closed for closed, _said in pressed), budget=10),
                Measure(f"{name}: said on the screen", tuple(said for _closed, said in pressed), budget=40),
            ]
    return Report("tui-escape: Esc while a reply streams, a delta every 0.5 ms", tuple(measures))


def escaped(place: Workshop, server: Loopback, text: str, escape: bytes, times: int = 1) -> list[tuple[float, float]]:
    """So many times in one conversation. Milliseconds from Esc to the closed connection, and to the notice about it."""
    found = []
    with AppInPty(place) as app:
        app.ready()
        for _time in range(times):
            server.play(paced_reply(text, 0.0005, DELTA_SIZE))
            since = len(app.output)
            app.send("Tell me more")
            app.seen("Part 3", since)
            app.read_for(0.1)
            since = len(app.output)
            pressed = app.press(escape)
            said = app.seen("Interrupted", since)
            closed = server.wait_for("closed")
            found.append(((closed - pressed) * 1000, (said - pressed) * 1000))
            app.read_for(0.2)
    return found
