"""`agentcli login` and `agentcli logout`: ask for a key without echo, check it, and store it for one address.

A key is never an argument: those are visible in the shell's history and the process list.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from agentcli.assemble import Options
from agentcli.assemble.login import EndpointAddress, Login, tidy_key
from agentcli.cli.output import ask_secret, confirm, echo, notice
from agentcli.core.errors import CredentialError, UsageError
from agentcli.core.text.plaintext import plain_line
from agentcli.providers.credentials import shown_url
from agentcli.providers.listing import KeyCheck

LOGIN_HELP = """Store an API key. It is entered without echo, checked with one free request, and stored in the
system's keyring if there is one (pip install 'agentcli[keyring]'), else in a file that only you can read.
From a program: agentcli login < FILE.

A key is stored for one address and never sent to another.

Order of precedence for keys: ANTHROPIC_AUTH_TOKEN, ANTHROPIC_API_KEY, the output of the apiKeyHelper command,
the stored key. For addresses: ANTHROPIC_BASE_URL, the baseUrl setting, api.anthropic.com.

Exit codes: 0 stored, 1 not stored, 2 wrong usage, 75 the server could not be reached."""
LOGOUT_HELP = "Remove the stored key for the server in use."

ATTEMPTS = 3
_MOST_INPUT = 65_536
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
    if words:
        raise UsageError(
            "Do not pass a key as an argument, where others can see it. Run agentcli login and paste it, "
            "or use: agentcli login < FILE"
        )
    work = Login(Options())
    address = work.address(base_url)
    if address.is_unencrypted:
        notice(f"Warning: {shown_url(address.url)} is not encrypted. Anyone on the network can read the key.")
    # Typed input is never echoed, whatever the flags.
    typed = sys.stdin.isatty()
    interactive = typed and not from_stdin
    for attempt in range(ATTEMPTS if interactive else 1):
        key = tidy_key(_asked(address) if typed else _piped())
        if not key:
            if base_url is None or address.is_public:
                raise CredentialError("No key entered. Nothing was changed.")
            break
        if no_check or _is_accepted(
            asyncio.run(_checked(work, address, key)), interactive, last=attempt == ATTEMPTS - 1
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
    work = Login(Options())
    addresses = (
        [EndpointAddress(url, "kept") for url in work.kept_addresses()] if everything else [work.address(base_url)]
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


def _asked(address: EndpointAddress) -> str:
    """Ask without echo. Ctrl+C propagates, Ctrl+D means no key."""
    none = "" if address.is_public else ", or Enter if it needs none"
    try:
        return ask_secret(f"API key for {plain_line(address.host)} (it is not shown{none}): ")
    except EOFError:
        return ""


def _piped() -> str:
    raw = sys.stdin.buffer.read(_MOST_INPUT + 1)
    if len(raw) > _MOST_INPUT:
        raise UsageError("Standard input contains more than a key. Nothing was changed.")
    return raw.decode("utf-8", "replace")


async def _checked(work: Login, address: EndpointAddress, key: str) -> KeyCheck:
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
    if key and (reason := work.unused_reason(address)):
        notice(f"It is not used now, {reason}.")
    elif sys.stdout.isatty():
        echo("Start with: agentcli")
