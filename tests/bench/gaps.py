"""From the end of a reply to the arrival of the next request, and whole iterations, for Read and a sandboxed `true`.

The project is a small git repository. The model takes a moment for each reply, as every model does: what is done beside
it must not count. Two more rows for `true`: with a model that takes no time, so that no sandbox can be started ahead,
and with a project below the temp folder, which its sandbox replaces.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from agentcli.core.messages import Json
from agentcli.sandbox.linux.probe import probe
from agentcli.sandbox.session_folder import SYSTEM_TEMP
from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import AGENTCLI, LEAST_CLIENT, Workshop, workshop
from tests.bench.tui_pty import AppInPty
from tests.support.scripts import call, pause, reply, say

CALLS = 30
TOGETHER = 50
"""Calls of one reply."""
MODEL_SECONDS = 0.04
WARM_UP = 3
"""Iterations that import what is used for the first time."""
OUTSIDE_TEMP = "/var/tmp"
_THE_END = "All of that is done."
_BARE_SANDBOX = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--die-with-parent")


@dataclass(frozen=True)
class Times:
    """Milliseconds."""

    gaps: tuple[float, ...]
    wholes: tuple[float, ...]
    """Without the model's own time."""


def gaps(runs: int, calls: int = CALLS, *, in_app: bool = True) -> Report:
    ability = probe(os.environ, (), None)
    measures: list[Measure] = []
    with workshop(OUTSIDE_TEMP) as place, workshop(SYSTEM_TEMP) as in_temp, Loopback() as server:
        for each in (place, in_temp):
            _make_repository(each)
            each.talk_to(server.url)
        least = _joined([_headless(place, server, (*LEAST_CLIENT, server.url), _reads(calls)) for _run in range(runs)])
        measures += _lines("least client, Read", least)
        if ability.works:
            bare = tuple(_bare_true(ability.program) for _run in range(runs * 10))
            measures.append(Measure("bubblewrap, true", bare))
        for name, steps, yardstick in (
            ("Read", _reads(calls), "least client, Read: gap"),
            ("true", _commands(calls), "bubblewrap, true"),
        ):
            if name == "true" and not ability.works:
                continue
            ours = _joined([_headless(place, server, (*AGENTCLI, "-p", "hi"), steps) for _run in range(runs)])
            measures += _lines(f"-p, {name}", ours, yardstick)
            if in_app:
                measures += _lines(
                    f"app, {name}", _joined([_app(place, server, steps) for _run in range(runs)]), yardstick
                )
        if ability.works:
            for name, where, seconds in (
                ("true, no model time", place, 0.0),
                ("true, below the temp folder", in_temp, MODEL_SECONDS),
            ):
                ours = _joined(
                    [
                        _headless(where, server, (*AGENTCLI, "-p", "hi"), _commands(calls), seconds)
                        for _run in range(runs)
                    ]
                )
                measures += _lines(f"-p, {name}", ours, "bubblewrap, true")
        measures.append(_together(place, server, runs))
    notes = () if ability.works else (f"commands are not measured: {ability.problem}",)
    return Report(f"gaps: end of a reply to the next request, {calls} iterations", tuple(measures), notes)


def _make_repository(place: Workshop) -> None:
    (place.project / "small.txt").write_text("The quick brown fox jumps over the lazy dog.\n" * 9)
    author = ("-c", "user.name=Bench", "-c", "user.email=bench@example.invalid")
    for words in (("init",), ("add", "."), (*author, "commit", "-m", "Begin")):
        subprocess.run(("git", *words), cwd=place.project, env=place.environ, check=True, capture_output=True)


def _together(place: Workshop, server: Loopback, runs: int) -> Measure:
    """Many calls in one reply, for each call: must not be more than for a call alone."""
    many = reply(pause(MODEL_SECONDS), *_reads(TOGETHER))
    values = []
    for _run in range(runs):
        warm = [reply(pause(MODEL_SECONDS), step) for step in _reads(WARM_UP)]
        server.play(*warm, many, reply(say(_THE_END)))
        place.run((*AGENTCLI, "-p", "hi"))
        values += [gap / TOGETHER for gap in _times(server, WARM_UP + 1).gaps]
    return Measure(f"-p, {TOGETHER} Reads in one reply, each", tuple(values), baseline="-p, Read: gap")


def _lines(name: str, times: Times, yardstick: str | None = None) -> list[Measure]:
    return [
        Measure(f"{name}: gap", times.gaps, baseline=yardstick),
        Measure(f"{name}: whole", times.wholes, baseline=yardstick),
    ]


def _joined(runs: Sequence[Times]) -> Times:
    gaps = tuple(gap for times in runs for gap in times.gaps)
    return Times(gaps, tuple(whole for times in runs for whole in times.wholes))


def _reads(count: int) -> list[Json]:
    # Never the same call twice, or it would be taken for a loop.
    return [call("Read", file_path="small.txt", limit=1_000 + number) for number in range(count)]


def _commands(count: int) -> list[Json]:
    return [call("Bash", command=f"true {number}", description="Nothing") for number in range(count)]


def _headless(
    place: Workshop, server: Loopback, command: Sequence[str], steps: Sequence[Json], seconds: float = MODEL_SECONDS
) -> Times:
    _play(server, steps, seconds)
    place.run(command)
    return _times(server, len(steps), seconds)


def _app(place: Workshop, server: Loopback, steps: Sequence[Json]) -> Times:
    with AppInPty(place) as app:
        app.ready()
        _play(server, steps)
        app.send("Do it")
        app.seen(_THE_END)
    return _times(server, len(steps))


def _play(server: Loopback, steps: Sequence[Json], seconds: float = MODEL_SECONDS) -> None:
    server.play(*(reply(pause(seconds), step) for step in steps), reply(say(_THE_END)))


def _times(server: Loopback, replies: int, seconds: float = MODEL_SECONDS) -> Times:
    records = server.records()
    asked = {number: at for kind, number, _segment, at in records if kind == "request"}
    ended = {number: at for kind, number, _segment, at in records if kind == "sent"}
    numbers = range(min(WARM_UP, replies - 1) + 1, replies + 1)
    assert len(asked) == replies + 1, f"{len(asked)} requests came"
    gaps = tuple((asked[number + 1] - ended[number]) * 1000 for number in numbers)
    return Times(gaps, tuple((asked[number + 1] - asked[number] - seconds) * 1000 for number in numbers))


def _bare_true(program: str) -> float:
    began = time.monotonic()
    subprocess.run([program, *_BARE_SANDBOX, "/bin/sh", "-c", "true"], check=True)
    return (time.monotonic() - began) * 1000
