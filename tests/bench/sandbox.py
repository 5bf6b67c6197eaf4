"""What a sandbox costs each command: the same command through the Bash tool, bare and sandboxed, in turns."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

from agentcli.core.abort import AbortController
from agentcli.core.permission import ORDINARY, Grant
from agentcli.core.processes.launch import Launcher
from agentcli.sandbox.linux.bubblewrap import BubblewrapLauncher
from agentcli.sandbox.linux.probe import probe
from agentcli.sandbox.plan import SandboxRules
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.shell.bash import Bash
from tests.bench.measure import Measure, Report

_COMMANDS = {"true": "true", "git status": "git status --short"}


def sandbox(runs: int) -> Report:
    ability = probe(os.environ, (), None)
    title = "sandbox: one command through the Bash tool"
    if not ability.works:
        return Report(title, (), (f"not measured: {ability.problem}",))
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        folder = Path(name).resolve()
        home, project, caches = folder / "home", folder / "project", folder / "caches"
        for made in (home / ".ssh", home / ".aws", home / ".config" / "gh", project, caches):
            made.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", project], check=True)
        rules = SandboxRules(working_dirs=(project,), home=home, network=True, cache_dir=caches)
        launchers: dict[str, Launcher] = {
            "bare": Launcher(),
            "sandboxed": BubblewrapLauncher(rules, ability, folder),
        }
        launchers["behind the host proxy"] = launchers["sandboxed"]
        return Report(title, tuple(asyncio.run(_measure(project, launchers, runs))))


async def _measure(project: Path, launchers: dict[str, Launcher], runs: int) -> list[Measure]:
    measures: list[Measure] = []
    for label, command in _COMMANDS.items():
        times: dict[str, list[float]] = {name: [] for name in launchers}
        for number in range(runs + 2):
            for name, launcher in launchers.items():
                grant = Grant(network="hosts") if name == "behind the host proxy" else ORDINARY
                context = ToolContext(
                    cwd=project, working_dirs=(project,), environ=os.environ, launcher=launcher, grant=grant
                )
                taken = await _once(command, context)
                if number >= 2:
                    times[name].append(taken)
        bare, sandboxed = times["bare"], times["sandboxed"]
        added = tuple(slow - fast for fast, slow in zip(bare, sandboxed, strict=True))
        behind = times["behind the host proxy"]
        proxied = tuple(slow - fast for fast, slow in zip(sandboxed, behind, strict=True))
        measures += [
            Measure(f"{label}: bare", tuple(bare)),
            Measure(f"{label}: sandboxed", tuple(sandboxed), baseline=f"{label}: bare"),
            Measure(f"{label}: what the sandbox adds", added, budget=10),
            Measure(f"{label}: what the host proxy adds to that", proxied, budget=25),
        ]
    return measures


async def _once(command: str, context: ToolContext) -> float:
    began = time.perf_counter()
    async with aclosing(Bash().run({"command": command}, context, AbortController().signal)) as steps:
        async for step in steps:
            if isinstance(step, Output) and step.is_error:
                raise RuntimeError(f"{command}: {step.content}")
    return (time.perf_counter() - began) * 1000
