"""How long a headless run takes to ask, and how long to be gone once it is answered."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import AGENTCLI, LEAST_CLIENT, workshop
from tests.support.scripts import reply, say

PROMPT = ("-p", "hi")
BARE = (sys.executable, "-c", "pass")
INSTALLED = Path(sys.executable).with_name("agentcli")


def start(runs: int, warm_ups: int = 1) -> Report:
    commands = {"python -c pass": BARE, "least client": LEAST_CLIENT, "python -m agentcli -p hi": (*AGENTCLI, *PROMPT)}
    if INSTALLED.exists():
        commands["agentcli -p hi"] = (str(INSTALLED), *PROMPT)
    results_of = clocked(commands, runs, warm_ups)
    bare = "python -c pass: start to end"
    measures = [Measure(bare, tuple(run.wall_ms for run in results_of.pop("python -c pass")))]
    for name, results in results_of.items():
        ours = name != "least client"
        measures += [
            Measure(
                f"{name}: start to request",
                tuple((run.asked - run.began) * 1000 for run in results),
                budget=300 if ours else None,
                baseline="least client: start to request" if ours else bare,
            ),
            Measure(f"{name}: processor time", tuple(run.cpu_ms for run in results)),
        ]
    return Report("start: process start to the arrival of the request", tuple(measures))


def ending(runs: int, warm_ups: int = 1) -> Report:
    commands = {
        "least client": LEAST_CLIENT,
        "agentcli -p hi": (*AGENTCLI, *PROMPT),
        "agentcli -p hi --output-format stream-json": (*AGENTCLI, *PROMPT, "--output-format=stream-json"),
    }
    measures = [
        Measure(
            name,
            tuple((run.ended - run.answered) * 1000 for run in results),
            budget=None if name == "least client" else 70,
            baseline=None if name == "least client" else "least client",
        )
        for name, results in clocked(commands, runs, warm_ups).items()
    ]
    return Report("exit: last byte of the answer to the end of the process", tuple(measures))


@dataclass(frozen=True)
class Clocked:
    began: float
    asked: float
    """When the request was there."""
    answered: float
    """When the last byte of the answer was sent."""
    ended: float
    cpu_ms: float

    @property
    def wall_ms(self) -> float:
        return (self.ended - self.began) * 1000


def clocked(commands: Mapping[str, Sequence[str]], runs: int, warm_ups: int = 1) -> dict[str, list[Clocked]]:
    """Each command in turn, `runs` times over: whatever else the machine does meanwhile, it does to all of them."""
    results: dict[str, list[Clocked]] = {name: [] for name in commands}
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        # The first time around may have to compile what it imports.
        for turn in range(warm_ups + runs):
            for name, command in commands.items():
                server.play(reply(say("Hello.")))
                ran = place.run((*command, server.url) if command == LEAST_CLIENT else command)
                asked, answered = (server.arrivals()[0], server.last_sent()) if command != BARE else (0.0, 0.0)
                if turn >= warm_ups:
                    results[name].append(Clocked(ran.began, asked, answered, ran.ended, ran.cpu_ms))
    return results
