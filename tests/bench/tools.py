"""How soon a tool starts after its own block, while the reply goes on, and the next request after the last tool."""

from __future__ import annotations

import asyncio

from agentcli.core.events import ToolFinished, ToolStarted
from tests.bench.inside import Seen, engine_in, submit
from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import Workshop, workshop
from tests.support.scripts import call, pause, reply, say

STREAMS_ON = 0.03
"""Seconds between two blocks: longer than a tool may take to start, so that each is measured separately."""


def tools(runs: int) -> Report:
    started: dict[str, list[float]] = {}
    asked: list[float] = []
    with workshop() as place, Loopback() as server:
        (place.project / "small.txt").write_text("needle in a haystack\n" * 10)
        place.talk_to(server.url)
        for _run in range(runs):
            asyncio.run(_measure(place, server, started, asked))
    measures = [
        Measure(f"{name}: end of its block to start", tuple(values), budget=20, judged_by="p95")
        for name, values in started.items()
    ]
    measures.append(Measure("end of the last tool to next request", tuple(asked), budget=50, judged_by="p95"))
    return Report("tools: safe tools while the reply streams", tuple(measures))


async def _measure(place: Workshop, server: Loopback, started: dict[str, list[float]], asked: list[float]) -> None:
    calls = {
        "Read": call("Read", file_path="small.txt"),
        "Glob": call("Glob", pattern="*.txt"),
        "Grep": call("Grep", pattern="needle"),
        "Bash ls": call("Bash", command="ls", description="List"),
    }
    streaming = [step for one in calls.values() for step in (one, pause(STREAMS_ON))]
    # In the second reply the stream ends before the tools do, so that the last tool is what is waited for.
    together = reply(*calls.values())
    async with engine_in(place) as engine:
        # The first conversation imports what tools need; that is part of a start, not of a tool's start.
        for _warm in range(2):
            server.play(reply(say("I look.", 4), *streaming), together, reply(say("Done.")))
            seen = await submit(engine)
    records = server.records()
    sent = [at for kind, number, _segment, at in records if kind == "sent" and number == 1]
    starts = [at for at, event in seen if isinstance(event, ToolStarted)]
    for name, ended, began in zip(calls, sent, starts, strict=False):
        started.setdefault(name, []).append((began - ended) * 1000)
    arrivals = [at for kind, _number, _segment, at in records if kind == "request"]
    asked.append((arrivals[2] - _last_finished(seen)) * 1000)


def _last_finished(seen: Seen) -> float:
    return max(at for at, event in seen if isinstance(event, ToolFinished))
