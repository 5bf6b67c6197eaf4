"""`agentcli doctor`: how this installation is, line by line, and what to do about what is not well."""

from __future__ import annotations

import json
import os
from dataclasses import asdict

import typer

from agentcli.assemble import Options
from agentcli.cli.doctor_checks import examine


def diagnose(*, as_json: bool, online: bool, sandbox: str | None) -> None:
    """Ends with code 1 if anything fails; warnings do not count."""
    failed = False
    records = []
    for finding in examine(Options(sandbox=sandbox), os.environ, online=online):
        failed = failed or finding.status == "fail"
        if as_json:
            records.append(asdict(finding))
            continue
        typer.echo(f"{finding.status:<5} {finding.name:<14} {finding.text}")
        if finding.advice:
            typer.echo(f"{'':20} {finding.advice}")
    if as_json:
        typer.echo(json.dumps({"ok": not failed, "checks": records}, indent=2))
    if failed:
        raise typer.Exit(1)
