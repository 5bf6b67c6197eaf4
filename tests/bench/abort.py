"""How soon an abort takes hold: the connection closed, the command and all it started gone."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.core.events import Event, TextStreamed
from agentcli.core.permission import PermissionMode
from tests.bench.loopback import FOR_EVER, Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import Workshop, workshop
from tests.support.scripts import call, pause, reply, say

_GROUP_FILE = "group"
# The sleeper tells the group itself, when the shell already waits for it: a signal that comes while a shell is still
# starting something may be lost on it, which is another thing to measure.
_SLEEP = f"sh -c 'echo $PPID > {_GROUP_FILE}.new && mv {_GROUP_FILE}.new {_GROUP_FILE} && exec sleep 60'"
_POLITE = f"{_SLEEP}; true"
_STUBBORN = f"trap '' TERM; {_SLEEP}; {_SLEEP}"
_LOOK_SECONDS = 0.0005
_PATIENCE_SECONDS = 10.0


def engine_in(place: Workshop) -> Engine:
    """With the wire provider and a session file, as headless; everything is allowed."""
    return build_engine(Options(cwd=Path(place.project), environ=place.environ, permission_mode=PermissionMode.BYPASS))


async def submit(engine: Engine, look: Callable[[Event], None] = lambda _event: None) -> None:
    async with aclosing(engine.submit("hi")) as events:
        async for event in events:
            look(event)


def abort(runs: int, stubborn_runs: int = 3) -> Report:
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        # In a sandbox a command does not know its group by the number that it has out here.
        place.environ["AGENTCLI_SANDBOX"] = "off"
        stream = [asyncio.run(_stream(place, server)) for _run in range(runs)]
        polite = [asyncio.run(_command(place, server, _POLITE)) for _run in range(runs)]
        stubborn = [asyncio.run(_command(place, server, _STUBBORN)) for _run in range(min(runs, stubborn_runs))]
    measures = [
        Measure("stream: connection closed", tuple(stream), budget=50, judged_by="p95"),
        Measure("sleep 60: process group gone", tuple(polite), budget=300, judged_by="p95"),
    ]
    if stubborn:
        measures.append(Measure("ignores SIGTERM: group gone", tuple(stubborn), budget=2300, judged_by="p95"))
    return Report("abort: Engine.abort until nothing is left", tuple(measures))


async def _stream(place: Workshop, server: Loopback) -> float:
    server.play(reply(say("And then"), pause(FOR_EVER), say("never")))
    aborted: list[float] = []
    async with engine_in(place) as engine:

        def look(event: Event) -> None:
            if isinstance(event, TextStreamed) and not aborted:
                aborted.append(time.monotonic())
                engine.abort()

        await submit(engine, look)
        closed = await asyncio.to_thread(server.wait_for, "closed")
    return (closed - aborted[0]) * 1000


async def _command(place: Workshop, server: Loopback, command: str) -> float:
    group_file = place.project / _GROUP_FILE
    group_file.unlink(missing_ok=True)
    server.play(reply(call("Bash", command=command, description="Wait")))
    aborted: list[float] = []
    loop = asyncio.get_running_loop()
    async with engine_in(place) as engine:

        def stop() -> None:
            aborted.append(time.monotonic())
            engine.abort()

        def watch() -> float:
            """From a thread, so that what the loop does neither delays the look nor is delayed by it."""
            _until(group_file.exists)
            group = int(group_file.read_text())
            loop.call_soon_threadsafe(stop)
            _until(lambda: not _runs(group))
            return time.monotonic()

        gone, _events = await asyncio.gather(asyncio.to_thread(watch), submit(engine))
    return (gone - aborted[0]) * 1000


def _runs(group: int) -> bool:
    """Whether anything of the group still runs. What has ended and waits to be reaped does not: some machines have an
    init that takes seconds for it, and signals cannot tell."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    states = [_group_and_state(entry / "stat") for entry in Path("/proc").glob("[0-9]*")]
    return not states or any(of == group and state not in "ZX" for of, state in states)


def _group_and_state(stat: Path) -> tuple[int, str]:
    try:
        state, _parent, group = stat.read_text().rpartition(")")[2].split()[:3]
    except OSError:
        return 0, "X"
    return int(group), state


def _until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError("the command did not start, or did not end")
        time.sleep(_LOOK_SECONDS)
