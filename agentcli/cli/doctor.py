"""`agentcli doctor`: check this installation and suggest fixes, one finding a row."""

from __future__ import annotations

import os

import typer

from agentcli.assemble import Options
from agentcli.cli.flags.table import SANDBOX_MODES
from agentcli.cli.output import echo, echo_json, echo_styled
from agentcli.core.errors import UsageError
from agentcli.doctor.check_context import CheckContext, OutputScreen
from agentcli.doctor.checks import run_checks
from agentcli.doctor.finding import Finding, finding_lines, summary


def diagnose(*, as_json: bool, online: bool, sandbox: str | None) -> None:
    """Run the checks and print the findings. Exits with code 1 if a check fails; warnings do not count."""
    if sandbox is not None and sandbox not in SANDBOX_MODES:
        raise UsageError(f"--sandbox must be one of {', '.join(SANDBOX_MODES)}, not {sandbox!r}.")
    screen = OutputScreen.here(may_ask=not as_json)
    coloured = screen.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in ("", "dumb")
    found: list[Finding] = []
    for finding in run_checks(CheckContext(Options(sandbox=sandbox), os.environ, screen), online=online):
        found.append(finding)
        if not as_json:
            # Print each finding when it is known: a slow check does not delay the others.
            for line in finding_lines(finding, screen.columns, coloured):
                echo_styled(line)
    failed = any(finding.status == "fail" for finding in found)
    if as_json:
        echo_json({"ok": not failed, "checks": [finding.record() for finding in found]})
    else:
        echo(f"\n{summary(found)}")
    if failed:
        raise typer.Exit(1)
