"""`agentcli quarantine`: what the sandbox moved out of working directories, and how to take it back."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Annotated

import typer

from agentcli.config.paths import Paths
from agentcli.core.errors import UsageError
from agentcli.core.plaintext import plain_line, visible_text
from agentcli.permissions.sandbox.quarantine import Item, Quarantine

_ID = typer.Argument(metavar="ID", help="From `agentcli quarantine list`.")


def list_items(as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False) -> None:
    items = _store().items()
    if as_json:
        names = ("id", "path", "kind", "command", "when", "digest", "reason")
        typer.echo(json.dumps([{name: getattr(item, name) for name in names} for item in items], indent=2))
        return
    if not items:
        typer.echo("Quarantine is empty.")
    for item in items:
        when = datetime.fromtimestamp(item.when, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        typer.echo(f"{item.id}  {when}  {item.kind}  {visible_text(item.path)}: {plain_line(item.reason, 200)}")
        typer.echo(f"    by: {plain_line(item.command, 300)}")


def restore(item_id: Annotated[str, _ID]) -> None:
    item = _item(item_id)
    try:
        _store().restore(item)
    except FileExistsError:
        raise UsageError(f"{visible_text(item.path)} exists. Move it away first.") from None
    except OSError as error:
        raise UsageError(f"{visible_text(item.path)} could not be restored: {error.strerror}.") from error
    typer.echo(f"Restored {visible_text(item.path)}")


def remove(item_ids: Annotated[list[str], _ID]) -> None:
    for item in [_item(item_id) for item_id in item_ids]:
        _store().remove(item)
        typer.echo(f"Deleted {visible_text(item.path)} from quarantine")


def _item(item_id: str) -> Item:
    item = _store().get(item_id)
    if item is None:
        raise UsageError(f"There is no item {plain_line(item_id, 80)} in quarantine. See: agentcli quarantine list")
    return item


def _store() -> Quarantine:
    folder = Paths.from_environ(os.environ).quarantine_dir
    if folder is None:
        raise UsageError("There is no state folder: set HOME or AGENTCLI_STATE_DIR.")
    return Quarantine(folder)
