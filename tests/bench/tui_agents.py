"""Ten sub-agents that stream at the same time: keys meanwhile, and the memory when they have ended."""

from __future__ import annotations

from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import AGENTCLI, Workshop, workshop
from tests.bench.tui_keys import KEYS, bare_keys, measured_keys
from tests.bench.tui_pty import AppInPty, markdown, paced_reply
from tests.support.scripts import call, reply

AGENTS = 10
DELTA_SECONDS = 0.03
"""Between two deltas of one agent; with ten of them a delta every 3 ms."""
REPORT_SIZE = 4_800
KEYS_BUDGET, MEMORY_BUDGET = 10.0, 1.1
THE_END = "All agents are back."
_BARE = "bare Textual app, idle"


def tui_agents(runs: int, keys: int = len(KEYS), size: int = REPORT_SIZE) -> Report:
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        bare: list[float] = []
        working: list[float] = []
        memory: list[float] = []
        for _run in range(runs):
            bare += bare_keys(place, keys)
            typed, ratio = work_of_agents(place, server, keys, size)
            working += typed
            memory.append(ratio)
    return Report(
        f"agents: {AGENTS} sub-agents at the same time",
        (
            Measure(_BARE, tuple(bare)),
            Measure("keys while all of them stream", tuple(working), "ms", KEYS_BUDGET, "p95", _BARE),
            Measure("memory when they have ended, of before", tuple(memory), "×", MEMORY_BUDGET),
        ),
        (f"a delta of each agent every {DELTA_SECONDS * 1000:g} ms",),
    )


def work_of_agents(place: Workshop, server: Loopback, keys: int, size: int) -> tuple[list[float], float]:
    """Milliseconds of each key while the agents stream; resident memory after they have ended, to that before."""
    tasks = [call("Task", description=f"Work {number}", prompt="Work.") for number in range(AGENTS)]
    reports = [paced_reply(markdown(size, "the end"), DELTA_SECONDS) for _task in tasks]
    server.play(reply("I delegate.", *tasks), *reports, THE_END)
    with AppInPty(place, command=AGENTCLI) as app:
        app.ready()
        before = app.resident_megabytes
        app.send("go")
        app.seen(f"{AGENTS} agents")
        app.seen("Writing")
        typed = measured_keys(app, keys)
        app.seen(THE_END)
        app.settle()
        return typed, app.resident_megabytes / before
