"""A conversation of many tool calls with a model that answers at once: what a round of the loop costs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report, quantile
from tests.bench.program import AGENTCLI, LEAST_CLIENT, Ran, Workshop, workshop
from tests.support.scripts import call, reply, say

CALLS = 100
TURNS_OF_16_KB = 60
SETTLED_TURN = 10
"""From here on memory growth is the conversation's, not that of what is used for the first time."""

Json = dict[str, Any]


def iteration(runs: int, calls: int = CALLS) -> Report:
    variants = {
        "least client, Read": (LEAST_CLIENT, "Read"),
        "agentcli, Read": ((*AGENTCLI, "-p", "hi"), "Read"),
        "agentcli, Glob": ((*AGENTCLI, "-p", "hi"), "Glob"),
        "agentcli, Read, stream-json": ((*AGENTCLI, "-p", "hi", "--output-format=stream-json"), "Read"),
    }
    measures: list[Measure] = []
    with workshop() as place, Loopback() as server:
        for name, (command, tool) in variants.items():
            rounds = [rounds_of(place, server, command, tool, calls) for _run in range(runs)]
            quarter = max(calls // 4, 1)
            ours = command != LEAST_CLIENT
            measures += [
                Measure(
                    name,
                    tuple(value for times in rounds for value in times),
                    budget=12 if ours else None,
                    baseline="least client, Read" if ours else None,
                ),
                Measure(f"{name}: first quarter", tuple(value for times in rounds for value in times[:quarter])),
                Measure(
                    f"{name}: last quarter",
                    tuple(value for times in rounds for value in times[-quarter:]),
                    baseline=f"{name}: first quarter",
                ),
            ]
    return Report(f"iteration: request to request, {calls} tool calls", tuple(measures))


def rounds_of(place: Workshop, server: Loopback, command: Sequence[str], tool: str, calls: int) -> list[float]:
    file = _file(place.project, "small.txt", 400)
    # Never the same call twice, or it would be taken for a loop.
    steps = [
        call("Read", file_path=str(file), limit=1_000 + number)
        if tool == "Read"
        else call("Glob", pattern=f"{{*.txt,none-{number}}}")
        for number in range(calls)
    ]
    place.talk_to(server.url)
    server.play(*map(reply, steps), reply(say("Done.")))
    place.run((*command, server.url) if command == LEAST_CLIENT else command)
    arrivals = server.arrivals()
    assert len(arrivals) == calls + 1, f"{len(arrivals)} requests came"
    return [(later - earlier) * 1000 for earlier, later in pairwise(arrivals)]


def memory(runs: int, turns: int = TURNS_OF_16_KB) -> Report:
    with workshop() as place, Loopback() as server:
        files = [_file(place.project, f"file-{number}.txt", 16 * 1024) for number in range(turns)]
        from_tools = [reply(call("Read", file_path=str(file))) for file in files]
        from_model = [reply(say(_text(16 * 1024)), call("Read", file_path=str(file), limit=1)) for file in files]
        measures: list[Measure] = []
        for name, replies in {"16 KB tool results": from_tools, "16 KB replies": from_model}.items():
            ran = [watched(place, server, replies) for _run in range(runs)]
            measures += [
                Measure(f"{name}: peak", tuple(peak for peak, _growth in ran), "MB", budget=80),
                Measure(f"{name}: growth per turn", tuple(growth for _peak, growth in ran), "MB", budget=0.5),
            ]
    return Report(f"memory: resident, headless, {turns} turns", tuple(measures))


def watched(place: Workshop, server: Loopback, replies: Sequence[Json]) -> tuple[float, float]:
    """The peak, and the growth per turn, in megabytes."""
    place.talk_to(server.url)
    server.play(*replies, reply(say("Done.")))
    ran = place.run((*AGENTCLI, "-p", "hi"), watch_memory=True)
    arrivals = server.arrivals()
    first = min(SETTLED_TURN, len(arrivals) - 2)
    growth = _resident(ran, arrivals[-1]) - _resident(ran, arrivals[first])
    return ran.peak_kilobytes / 1024, growth / 1024 / (len(arrivals) - 1 - first)


def _resident(ran: Ran, at: float) -> float:
    """Kilobytes around that moment."""
    nearest = sorted(ran.memory, key=lambda sample: abs(sample[0] - at))[:3]
    return quantile([kilobytes for _at, kilobytes in nearest], 0.5)


def _file(folder: Path, name: str, size: int) -> Path:
    path = folder / name
    path.write_text(_text(size))
    return path


def _text(size: int) -> str:
    line = "The quick brown fox jumps over the lazy dog, again and again, until it is tired of it.\n"
    return (line * (size // len(line) + 1))[:size]
