"""`agentcli trust`: shows everything a folder could make agentcli run or allow, whole, and remembers the answer."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from agentcli.config.paths import Paths
from agentcli.config.trust import UNREADABLE, TrustState, TrustStore
from agentcli.core.errors import UsageError
from agentcli.core.plaintext import visible_text


def store() -> TrustStore:
    home = os.environ.get("HOME")
    return TrustStore(Paths.from_environ(os.environ).state_dir, Path(home) if home else None)


def list_trusted() -> None:
    for root in store().roots():
        typer.echo(visible_text(str(root)))


def distrust(folder: Path) -> None:
    trust = store()
    root = trust.state(folder).root
    known = trust.distrust(root)
    typer.echo(f"{visible_text(str(root))} is not trusted any more." if known else "It was not trusted.")


def trust_folder(folder: Path, *, yes: bool) -> None:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.")
    trust = store()
    state = trust.state(folder)
    if state.trusted:
        typer.echo(f"{visible_text(str(state.root))} is trusted, and nothing in it has changed since.")
        return
    typer.echo(shown(state))
    unusable = [part.name for part in state.parts if part.digest == UNREADABLE]
    if unusable:
        typer.echo("These cannot be trusted, because they are no plain files of this folder: " + ", ".join(unusable))
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("Nobody is there to ask. Read what is above, then use --yes.")
        if not typer.confirm("Trust this folder with exactly this content?", default=False):
            typer.echo("Nothing was changed.")
            return
    trust.trust(state)
    typer.echo(f"{visible_text(str(state.root))} is trusted. A change of these files asks again.")


def shown(state: TrustState) -> str:
    """What would take effect, untruncated, with everything invisible made visible."""
    lines = [f"Folder: {visible_text(str(state.root))}"]
    if not state.parts:
        lines.append("It has no settings, servers, hooks, skills or commands of its own.")
    for part in state.parts:
        mark = "changed or new" if part.name in state.changed else "as trusted before"
        lines += ["", f"{visible_text(part.name)} ({mark}):"]
        lines += [f"    {visible_text(line)}" for line in part.text.splitlines()]
    return "\n".join(lines)
