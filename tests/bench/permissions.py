"""How long a decision about a shell command takes: nobody should wait for it, whatever the rules."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from agentcli.core.permission import Need
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import parse_rules
from agentcli.shell.parser import loose_parser
from agentcli.shell.parser import strict_parser as shell
from agentcli.shell.parser.syntax_tree import parse
from tests.bench.measure import Measure, Report

COMMANDS = (
    "ls -la",
    "git log --oneline -20",
    "cd src && rg -n foo | head -20",
    "npm run build && npm test 2>&1 | tail -20",
    "ls src/*.py",
    "for f in a b c; do echo $f; done",
)
ALLOW = [f"Bash(npm run task{number} *)" for number in range(12)]
DENY = [
    "Bash(rm *)",
    "Bash(git push *)",
    "Bash(curl *)",
    "Read(.env)",
    "Read(secrets/**)",
    "Edit(dist/**)",
    "Read(*.pem)",
]


def permissions(runs: int) -> Report:
    parse("true")
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "src").mkdir()
        for number in range(20):
            (folder / "src" / f"module{number}.py").touch()
        without = Policy(home=folder)
        with_rules = without.with_rules(allow=parse_rules(ALLOW, "a"), deny=parse_rules(DENY, "d"))
        measures = [
            Measure(f"{label}: {command}", _times(policy, command, folder, runs), budget=2.0)
            for label, policy in (("no rules", without), ("19 rules", with_rules))
            for command in COMMANDS
        ]
    return Report("Deciding about a shell command, seen for the first time", tuple(measures))


def _times(policy: Policy, command: str, folder: Path, runs: int) -> tuple[float, ...]:
    values: list[float] = []
    for _ in range(runs):
        for remembered in (shell.plain_steps, loose_parser.loose_segments, loose_parser.loose_words):
            remembered.cache_clear()
        began = time.perf_counter()
        policy.decide("Bash", {"command": command}, [Need("execute", command)], folder, [folder])
        values.append((time.perf_counter() - began) * 1000)
    return tuple(values)
