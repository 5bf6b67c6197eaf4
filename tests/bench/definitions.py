"""What many commands, skills and agents add to the first request of a headless run, and to the first paint."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from agentcli.core.events import RequestStarted
from tests.bench.inside import engine_in, submit
from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import Workshop, workshop
from tests.support.scripts import reply, say

COMMANDS, SKILLS, AGENTS = 50, 50, 20


def definitions(runs: int, warm_ups: int = 2) -> Report:
    without: list[float] = []
    with_them: list[float] = []
    with workshop() as plain, workshop() as full, Loopback() as server:
        _write(Path(full.environ["HOME"]))
        for turn in range(warm_ups + runs):
            for place, values in ((plain, without), (full, with_them)):
                place.talk_to(server.url)
                server.play(reply(say("Hello.")))
                taken = asyncio.run(_first_request(place))
                if turn >= warm_ups:
                    values.append(taken)
    added = tuple(after - before for before, after in zip(without, with_them, strict=True))
    return Report(
        f"definitions: {COMMANDS} commands, {SKILLS} skills and {AGENTS} agents, in a process that is warm",
        (
            Measure("building to request, without", tuple(without)),
            Measure("building to request, with them", tuple(with_them), baseline="building to request, without"),
            Measure("added", added, budget=30),
        ),
        ("The app reads them behind its first paint: see tui-start.",),
    )


async def _first_request(place: Workshop) -> float:
    began = time.monotonic()
    async with engine_in(place) as engine:
        seen = await submit(engine)
    asked = next(at for at, event in seen if isinstance(event, RequestStarted))
    return (asked - began) * 1000


def _write(home: Path) -> None:
    body = "Do what is described here, step by step, and report what was done.\n" * 20
    for number in range(COMMANDS):
        _file(home / f".claude/commands/command{number}.md", f"---\ndescription: Command {number}\n---\n{body}")
    for number in range(SKILLS):
        _file(home / f".claude/skills/skill{number}/SKILL.md", f"---\ndescription: Use for task {number}\n---\n{body}")
    for number in range(AGENTS):
        _file(home / f".claude/agents/agent{number}.md", f"---\ndescription: Use for part {number}\n---\n{body}")


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
