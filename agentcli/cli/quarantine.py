"""`agentcli quarantine`: list, restore and delete files that the sandbox moved out of working directories."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from agentcli.cli.output import echo, echo_json

_ID = typer.Argument(metavar="ID", help="From `agentcli quarantine list`.")
_FIELDS = ("id", "path", "kind", "command", "when", "digest", "reason")


def list_items(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    from agentcli.commands import quarantine as command

    store = command.store(os.environ)
    if as_json:
        echo_json([{name: getattr(item, name) for name in _FIELDS} for item in store.items()])
        return
    for line in command.listing(store):
        echo(line)


def restore(item_id: Annotated[str, _ID]) -> None:
    from agentcli.commands import quarantine as command

    echo(command.restore(command.store(os.environ), item_id))


def remove(item_ids: Annotated[list[str], _ID]) -> None:
    from agentcli.commands import quarantine as command

    for line in command.remove(command.store(os.environ), item_ids):
        echo(line)
