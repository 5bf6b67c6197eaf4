"""How long a headless run takes to ask, and how long to be gone once it is answered."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import AGENTCLI, LEAST_CLIENT, Ran, Workshop, workshop
from tests.support.scripts import reply, say

PROMPT = ("-p", "hi")
_BARE = (sys.executable, "-c", "pass")
_INSTALLED = Path(sys.executable).with_name("agentcli")

Clocked = tuple[Ran, float, float]
"""A run, when its request was there, and when the last byte of its answer was sent."""


def start(runs: int) -> Report:
    commands = {"least client": LEAST_CLIENT, "python -m agentcli -p hi": (*AGENTCLI, *PROMPT)}
    if _INSTALLED.exists():
        commands["agentcli -p hi"] = (str(_INSTALLED), *PROMPT)
    with workshop() as place, Loopback() as server:
        bare = [place.run(_BARE).wall_ms for _run in range(runs)]
        clocked = {name: _clocked(place, server, command, runs) for name, command in commands.items()}
    measures = [Measure("python -c pass, to its end", tuple(bare))]
    for name, results in clocked.items():
        ours = name != "least client"
        measures += [
            Measure(
                f"{name}: start to request",
                tuple((asked - ran.began) * 1000 for ran, asked, _answered in results),
                budget=400 if ours else None,
                baseline="least client: start to request" if ours else "python -c pass, to its end",
            ),
            Measure(f"{name}: processor time", tuple(ran.cpu_ms for ran, _asked, _answered in results)),
        ]
    return Report("start: process start to the arrival of the request", tuple(measures))


def ending(runs: int) -> Report:
    commands = {
        "least client": LEAST_CLIENT,
        "agentcli -p hi": (*AGENTCLI, *PROMPT),
        "agentcli -p hi --output-format stream-json": (*AGENTCLI, *PROMPT, "--output-format=stream-json"),
    }
    measures = []
    with workshop() as place, Loopback() as server:
        for name, command in commands.items():
            results = _clocked(place, server, command, runs)
            times = tuple((ran.ended - answered) * 1000 for ran, _asked, answered in results)
            ours = command != LEAST_CLIENT
            measures.append(
                Measure(name, times, budget=70 if ours else None, baseline="least client" if ours else None)
            )
    return Report("exit: last byte of the answer to the end of the process", tuple(measures))


def _clocked(place: Workshop, server: Loopback, command: Sequence[str], runs: int) -> list[Clocked]:
    place.talk_to(server.url)
    if command == LEAST_CLIENT:
        command = (*command, server.url)
    results: list[Clocked] = []
    # The first run may have to compile what it imports.
    for _run in range(runs + 1):
        server.play(reply(say("Hello.")))
        ran = place.run(command)
        results.append((ran, server.arrivals()[0], server.last_sent()))
    return results[1:]
