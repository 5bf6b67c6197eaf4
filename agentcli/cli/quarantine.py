"""`agentcli quarantine`: what the sandbox moved out of working directories, and how to take it back."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Annotated

import typer

from agentcli.cli.output import echo, echo_json
from agentcli.config.paths import Paths
from agentcli.core.errors import UsageError
from agentcli.core.plaintext import plain_line, terminal_line
from agentcli.permissions.sandbox.quarantine import Item, Quarantine

_ID = typer.Argument(metavar="ID", help="From `agentcli quarantine list`.")


def list_items(as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False) -> None:
    items = _store().items()
    if as_json:
        names = ("id", "path", "kind", "command", "when", "digest", "reason")
        echo_json([{name: getattr(item, name) for name in names} for item in items])
        return
    if not items:
        echo("Quarantine is empty.")
    for item in items:
        when = datetime.fromtimestamp(item.when, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        echo(f"{item.id}  {when}  {item.kind}  {terminal_line(item.path)}: {plain_line(item.reason, 200)}")
        echo(f"    by: {plain_line(item.command, 300)}")


def restore(item_id: Annotated[str, _ID]) -> None:
    item = _item(item_id)
    try:
        _store().restore(item)
    except FileExistsError:
        raise UsageError(f"{terminal_line(item.path)} exists. Move it away first.") from None
    except OSError as error:
        raise UsageError(f"{terminal_line(item.path)} could not be restored: {error.strerror}.") from error
    echo(f"Restored {terminal_line(item.path)}")


def remove(item_ids: Annotated[list[str], _ID]) -> None:
    for item in [_item(item_id) for item_id in item_ids]:
        _store().remove(item)
        echo(f"Deleted {terminal_line(item.path)} from quarantine")


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
