"""No callback holds up the event loop: the longest turns of it while the app starts, streams, works and resumes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import Workshop, workshop
from tests.bench.tui_history import LAST_WORDS, RECORDS_A_TURN, write_session
from tests.bench.tui_long import THE_END, work_through, write_files
from tests.bench.tui_pty import AppInPty, markdown
from tests.support.scripts import reply, say

LIMIT_MS = 50.0
_WATCHED = str(Path(__file__).with_name("tui_watched.py"))


def tui_loop(runs: int, turns: int = 60, records: int = 20_000) -> Report:
    measures: list[Measure] = []
    stacks: list[str] = []
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        write_files(place, turns)
        session = write_session(place, records // RECORDS_A_TURN)

        def stream(app: AppInPty) -> None:
            server.play(reply(say(markdown(60_000, THE_END))))
            app.send("Tell me more")
            app.seen(THE_END)

        def work(app: AppInPty) -> None:
            server.play(*work_through(turns))
            app.send("Look through all of it")
            app.seen(THE_END)

        tasks: dict[str, tuple[tuple[str, ...], Callable[[AppInPty], object]]] = {
            "start": ((), lambda app: None),
            "a long reply flat out": ((), stream),
            f"{turns} turns": ((), work),
            f"resuming {records:,} events": (("--resume", session), lambda app: app.seen(LAST_WORDS)),
        }
        for name, (arguments, task) in tasks.items():
            found = [entry for _run in range(runs) for entry in _watched(place, arguments, task)]
            stacks += [str(entry["stack"]) for entry in found if entry["stack"]]
            # What another process had the processor for is not the callback's fault.
            longest = sorted((float(entry["running"]) * 1000 for entry in found), reverse=True)[: 20 * runs]
            measures.append(Measure(name, tuple(longest), budget=LIMIT_MS, judged_by="max"))
    return Report("tui-loop: the longest turns of the event loop", tuple(measures), _culprits(stacks))


def _watched(
    place: Workshop, arguments: tuple[str, ...], task: Callable[[AppInPty], object]
) -> list[dict[str, float | str]]:
    log = place.home / "turns.jsonl"
    log.unlink(missing_ok=True)
    with AppInPty(place, str(log), *arguments, command=(sys.executable, _WATCHED)) as app:
        app.ready()
        task(app)
        app.settle()
    return [json.loads(line) for line in log.read_text().splitlines()] or [
        {"seconds": 0.0, "running": 0.0, "stack": ""}
    ]


def _culprits(stacks: list[str]) -> tuple[str, ...]:
    """Where those turns were that the watchdog caught: the innermost lines of ours."""
    places: dict[str, int] = {}
    for stack in stacks:
        ours = [line.strip() for line in stack.splitlines() if "/agentcli/" in line and "__main__" not in line]
        for line in ours[-1:]:
            places[line] = places.get(line, 0) + 1
    return tuple(f"caught {count} times: {place}" for place, count in sorted(places.items(), key=lambda item: -item[1]))
