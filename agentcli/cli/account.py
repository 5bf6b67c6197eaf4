"""`agentcli login`, `logout` and `status`: store and remove a key, and show what is in use.

A key is entered without echo, checked, and stored for one address. It is never an argument: those are visible in the
shell's history and the process list.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from agentcli import __version__
from agentcli.assemble import Options, sandbox_for
from agentcli.assemble.environment import Environment
from agentcli.assemble.login import EndpointAddress, Login, tidy_key
from agentcli.assemble.model import ModelBuilder
from agentcli.cli.output import ask_secret, confirm, echo, echo_json, notice
from agentcli.cli.permissions import AsJson
from agentcli.config.trust import parts_of
from agentcli.core.errors import AgentError, CredentialError, UsageError
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.providers.credentials import show_url
from agentcli.providers.listing import KeyCheck
from agentcli.session.find import list_sessions

MAX_ATTEMPTS = 3
_MAX_INPUT = 65_536
_TRY_LATER = 75


def login(
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", metavar="URL", help="The server of the key; later requests use it."),
    ] = None,
    from_stdin: Annotated[
        bool, typer.Option("--with-key-stdin", help="Read the key from standard input; no questions.")
    ] = False,
    no_check: Annotated[bool, typer.Option("--no-check", help="Store the key without a check.")] = False,
    words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
) -> None:
    """Store an API key. It is entered without echo, checked with one free request, and stored in the system's keyring
    if there is one (pip install 'agentcli[keyring]'), else in a file that only you can read. From a program: agentcli
    login < FILE.

    A key is stored for one address and never sent to another.

    Order of precedence for keys: ANTHROPIC_AUTH_TOKEN, ANTHROPIC_API_KEY, the output of the apiKeyHelper command, the
    stored key. For addresses: ANTHROPIC_BASE_URL, the baseUrl setting, api.anthropic.com.

    Exit codes: 0 stored, 1 not stored, 2 wrong usage, 75 the server could not be reached.

    agentcli login                                        paste a key (not echoed)
    agentcli login --with-key-stdin < key.txt             read the key from standard input
    agentcli login --base-url https://models.example.com  for another server
    """
    if words:
        raise UsageError(
            "Do not pass a key as an argument, where others can see it. Run agentcli login and paste it, "
            "or use: agentcli login < FILE"
        )
    work = Login(Options())
    address = work.address(base_url)
    if address.is_unencrypted:
        notice(f"Warning: {show_url(address.url)} is not encrypted. Anyone on the network can read the key.")
    # Typed input is never echoed, whatever the flags.
    typed = sys.stdin.isatty()
    interactive = typed and not from_stdin
    for attempt in range(MAX_ATTEMPTS if interactive else 1):
        key = tidy_key(_ask_key(address) if typed else _read_key())
        if not key:
            if base_url is None or address.is_public:
                raise CredentialError("No key entered. Nothing was changed.")
            break
        if no_check or _is_accepted(
            asyncio.run(_check(work, address, key)), interactive, last=attempt == MAX_ATTEMPTS - 1
        ):
            break
    else:
        raise typer.Exit(1)
    _keep(work, address, key, chosen=base_url is not None)


def logout(
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="The server of the key. Default: the one in use.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove the keys of all servers.")] = False,
) -> None:
    """Remove the stored key for the server in use.

    agentcli logout  remove the key of the current server
    """
    work = Login(Options())
    addresses = (
        [EndpointAddress(url, "kept") for url in work.list_kept_addresses()] if everything else [work.address(base_url)]
    )
    forgotten = [address.host for address in addresses if work.forget(address)]
    if forgotten:
        echo(f"The key for {plain_line(', '.join(forgotten))} was deleted.")
    else:
        where = "any address" if everything else addresses[0].host
        echo(f"No key is stored for {plain_line(where)}.")
    try:
        source = work.credentials().source
    except CredentialError:
        return
    if source not in ("none", "agentcli login"):
        echo(f"{source} is still set and is used.")


def _ask_key(address: EndpointAddress) -> str:
    """Ask without echo. Ctrl+C propagates, Ctrl+D means no key."""
    none = "" if address.is_public else ", or Enter if it needs none"
    try:
        return ask_secret(f"API key for {plain_line(address.host)} (it is not shown{none}): ")
    except EOFError:
        return ""


def _read_key() -> str:
    raw = sys.stdin.buffer.read(_MAX_INPUT + 1)
    if len(raw) > _MAX_INPUT:
        raise UsageError("Standard input contains more than a key. Nothing was changed.")
    return raw.decode("utf-8", "replace")


async def _check(work: Login, address: EndpointAddress, key: str) -> KeyCheck:
    notice(f"Asking {plain_line(address.host)} …")
    return await work.check(address, key)


def _is_accepted(checked: KeyCheck, interactive: bool, *, last: bool) -> bool:
    """Report the check. Returns whether to store the key; False: ask again. Exits if asking again is pointless."""
    match checked.verdict:
        case "accepted":
            return True
        case "unclear":
            notice(f"{checked.text} The key is stored unchecked.")
            return True
        case "refused":
            again = " Try again." if interactive and not last else " Nothing was changed."
            notice(f"{checked.text}{again}")
            return False
    notice(checked.text)
    if interactive and confirm("Store the key without a check?"):
        return True
    notice("Nothing was changed. Try again later, or use --no-check.")
    raise typer.Exit(_TRY_LATER)


def _keep(work: Login, address: EndpointAddress, key: str, *, chosen: bool) -> None:
    # The settings first: if they cannot be changed, no unused key must be stored.
    changed = work.use(address) if chosen else ""
    host = plain_line(address.host)
    if key:
        placed = work.keep(address, key)
        if placed.problem:
            notice(placed.problem)
        echo(f"The key for {host} is stored in {placed.where} and never sent to another address.")
    if changed:
        echo(f"Requests now go to {host} ({changed}).")
    if key and (reason := work.explain_unused(address)):
        notice(f"It is not used now, {reason}.")
    elif sys.stdout.isatty():
        echo("Start with: agentcli")


def status(as_json: AsJson = False) -> None:
    """Show the model, server and key in use, and whether agentcli is ready. Exit codes: 0 ready, 1 no key.

    agentcli status         model, server and key in use
    agentcli status --json  the same as JSON
    """
    data = status_data(Options())
    if as_json:
        echo_json(data)
    else:
        for name, value in _rows(data):
            echo(f"{name:<9} {plain_line(value, 400)}")
    if not data["ready"]:
        raise typer.Exit(1)


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
        "endpoint": show_url(url),
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
