"""Looking back at a session: bisecting and blaming it, and what recording for replays adds to its file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import AGENTCLI, Workshop, workshop
from tests.support.scripts import call, reply, say

CALLS = 200
MAX_RUNS = 9
_SANDBOX = () if shutil.which("bwrap") else ("--sandbox", "off")
_EDITING = ("-p", "write the notes", "--permission-mode", "acceptEdits")
_FOR_REPLAYS = ("request", "max_tokens", "first_ms")
"""Fields of a usage record that nothing but replays and traces need."""


def look_back(runs: int, calls: int = CALLS) -> Report:
    commands: list[float] = []
    own: list[float] = []
    blamed: list[float] = []
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        share = _record(place, server, calls)
        for _run in range(runs):
            ran = place.run((*AGENTCLI, "bisect", *_SANDBOX, "--json", "! grep -q wrong notes.txt"))
            found = json.loads(ran.output)
            # The first edit is the first call that changes something.
            assert found["changes"][0]["call"] == _breaking(calls) + 2
            commands.append(len(found["runs"]))
            in_command = sum(one["seconds"] for one in found["runs"]) * 1000
            own.append((ran.wall_ms - in_command) / len(found["runs"]))
            blamed.append(place.run((*AGENTCLI, "blame", "notes.txt")).wall_ms)
    return Report(
        f"look-back: a session of {calls} calls that change a file",
        (
            Measure("bisect: runs of the command", tuple(commands), "runs", budget=MAX_RUNS, judged_by="max"),
            Measure("bisect: a run without the command, with its share of the start", tuple(own), budget=300),
            Measure("blame: the file that they changed", tuple(blamed), budget=1_000),
            Measure("recording for replays: share of the file", (share,), "%", budget=5),
        ),
    )


def _breaking(calls: int) -> int:
    return calls * 2 // 3


def _record(place: Workshop, server: Loopback, calls: int) -> float:
    """Returns the percentage of the session file that replays need."""
    (place.project / "notes.txt").write_text("Notes\n")
    words = [f"note {number}{' wrong' if number == _breaking(calls) else ''}" for number in range(calls)]
    lines = ["Notes", *words]
    edits = [
        call("Edit", file_path="notes.txt", old_string=before, new_string=f"{before}\n{after}")
        for before, after in zip(lines, words, strict=False)
    ]
    server.play(reply(call("Read", file_path="notes.txt")), *map(reply, edits), reply(say("Done.")))
    place.run((*AGENTCLI, *_EDITING))
    assert (place.project / "notes.txt").read_text().count("\n") == calls + 1
    path = next((Path(place.home) / ".local/state/agentcli/sessions").glob("*/*.jsonl"))
    size = recorded = 0
    for line in path.read_text().splitlines():
        record: dict[str, Any] = json.loads(line)
        size += len(line)
        event = record.get("event", {})
        if record["type"] == "input":
            recorded += len(line)
        elif event.get("event") == "UsageReported":
            recorded += sum(len(json.dumps({name: event[name]})) for name in _FOR_REPLAYS if name in event)
    return recorded / size * 100
