"""What `replay --verify` takes for a long session, and what recording its inputs adds to the file."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from agentcli.core.messages import Json
from agentcli.history.replay import verify as replay
from tests.bench.measure import Measure, Report
from tests.bench.program import workshop
from tests.support.record_sessions import Desk
from tests.support.scripts import call, reply, think

TURNS = 200
CALLS = 4
"""Turns of a prompt."""
_NAMES = ("request", "first_ms", "transition", "pauses", "max_tokens")
"""Fields of a usage that only looking back needs."""


def verify(runs: int, turns: int = TURNS) -> Report:
    took: list[float] = []
    shares: list[float] = []
    with workshop() as place:
        records = asyncio.run(_record(Path(place.home), turns))
        shares.append(100 * _count_bytes(records, only_inputs=True) / _count_bytes(records))
        for _run in range(max(1, runs)):
            began = time.perf_counter()
            found = asyncio.run(replay.verify(records))
            took.append((time.perf_counter() - began) * 1000)
            assert found.exit_code == 0, "\n".join(replay.describe(found))
    return Report(
        "verify: a session that is replayed and compared",
        (
            Measure(f"{turns:,} turns", tuple(took), "ms", budget=10_000),
            Measure("what recording adds to the file", tuple(shares), "%", budget=5),
        ),
        (f"{found.events:,} events and {found.requests:,} requests are identical",),
    )


async def _record(folder: Path, turns: int) -> list[Json]:
    """Prompts that read a file of usual length a few times, then answer."""
    desk = Desk(folder)
    (desk.project / "sub").mkdir(parents=True)
    (desk.project / "a.txt").write_text("a line of a file, of a usual length for a line of code\n" * 40)
    answer = "It has forty lines, all alike. " * 10
    replies: list[Json | str] = []
    for number in range(turns):
        look = call("Bash", command=f"cat a.txt && echo {number}")
        replies.append(reply(answer) if number % CALLS == CALLS - 1 else reply(think("I look at it."), "I look.", look))
    await desk.prompts([*replies, answer], *["What is in a.txt?"] * (turns // CALLS))
    return replay.read_session(desk.file())


def _count_bytes(records: list[Json], *, only_inputs: bool = False) -> int:
    if not only_inputs:
        return sum(len(json.dumps(record, separators=(",", ":"))) for record in records)
    added = 0
    for record in records:
        if record["type"] == "input":
            added += len(json.dumps(record, separators=(",", ":")))
        elif isinstance(event := record.get("event"), dict):
            kept = {name: event[name] for name in _NAMES if name in event}
            added += len(json.dumps(kept, separators=(",", ":"))) - 2
    return added
