"""`agentcli status`: whether agentcli is ready in this folder. Sends no request, changes nothing, shows no key."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import Annotated

import typer

from agentcli import __version__
from agentcli.assemble import Options, sandbox_for
from agentcli.assemble.environment import Environment
from agentcli.assemble.model import ModelBuilder
from agentcli.cli.output import echo, echo_json
from agentcli.config.trust import parts_of
from agentcli.core.errors import AgentError, CredentialError
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.providers.credentials import shown_url
from agentcli.session.find import list_sessions

STATUS_HELP = "Show the model, server and key in use, and whether agentcli is ready. Exit codes: 0 ready, 1 no key."


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    data = status_data(Options())
    if as_json:
        echo_json(data)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        for name, value in _rows(data):
            echo(_row(name, plain_line(value, 400), width))
    if not data["ready"]:
        raise typer.Exit(1)


def _row(name: str, value: str, width: int) -> str:
    """One row of the table, wrapped to `width` columns; 0: not wrapped, for programs that read it."""
    if not width:
        return f"{name:<9} {value}"
    rows = textwrap.wrap(value, max(20, width - 10), break_on_hyphens=False, break_long_words=False)
    return f"{name:<9} " + f"\n{'':<10}".join(rows)


def status_data(options: Options) -> Json:
    """The values that `--json` prints. Reads settings and credentials; sends no request."""
    env = Environment(options)
    models = ModelBuilder(env)
    url, url_source = models.base_url()
    data: Json = {
        "ready": True,
        "problem": "",
        "version": __version__,
        "model": models.profile("").model,
        "endpoint": shown_url(url),
        "endpoint_source": url_source,
        "key_source": "none",
        "key_hint": "",
        "key_kept_in": "",
        "sandbox": _sandbox(options),
        "cwd": str(env.cwd),
        "own_settings": bool(parts_of(env.cwd)),
        "trusted": env.is_trusted(),
        "sessions": len(list_sessions(env.paths.state_dir, env.cwd)) if env.paths.state_dir else 0,
    }
    if models.needs_no_key:
        return {**data, "key_source": models.needs_no_key, "endpoint": "", "endpoint_source": ""}
    try:
        found = models.credentials()
    except CredentialError as error:
        return {**data, "ready": False, "problem": str(error)}
    return {**data, "key_source": found.source, "key_hint": found.hint, "key_kept_in": found.kept_in}


def _sandbox(options: Options) -> str:
    """The sandbox level, or why there is no sandbox."""
    try:
        return sandbox_for(options)[0].level
    except AgentError as error:
        return str(error)


def _rows(data: Json) -> list[tuple[str, str]]:
    if data["problem"]:
        key = data["problem"]
    elif data["key_source"] == "none":
        key = "none, which this server may accept"
    else:
        hint = f" ({data['key_hint']})" if data["key_hint"] else ""
        kept = f", stored in {data['key_kept_in']}" if data["key_kept_in"] else ""
        key = f"{data['key_source']}{hint}{kept}"
    count = data["sessions"]
    trust = "trusted" if data["trusted"] else "its settings are ignored until you run: agentcli trust"
    folder = f"{data['cwd']} ({trust})" if data["own_settings"] else data["cwd"]
    return [
        ("ready", "yes" if data["ready"] else "no"),
        ("model", data["model"]),
        *([("server", f"{data['endpoint']} ({data['endpoint_source']})")] if data["endpoint"] else []),
        ("key", key),
        ("sandbox", data["sandbox"]),
        ("folder", folder),
        ("sessions", f"{count} in this folder"),
    ]
