"""`agentcli login` and `agentcli logout`: a key, asked for without showing it, checked, and kept for one address.

A key is never an argument: those stand in the shell's history and in the list of processes.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from agentcli.assemble import Options
from agentcli.assemble.login import Address, Login, tidy_key
from agentcli.cli.output import ask_secret, confirm, echo, notice
from agentcli.core.errors import CredentialError, UsageError
from agentcli.core.plaintext import plain_line
from agentcli.providers.check import Checked
from agentcli.providers.credentials import shown_url

LOGIN_HELP = """Give agentcli an API key. It is asked for without showing it, checked with one request that costs
nothing, and kept in the system's keyring where there is one (pip install 'agentcli[keyring]'), else in a file that only
you can read. From a program: agentcli login < FILE.

A key is kept for the address it was given for, and is never sent to another.

Which key is used, the first that is there: ANTHROPIC_AUTH_TOKEN, ANTHROPIC_API_KEY, what the command of the
apiKeyHelper setting prints, the key that was kept. Where requests go: ANTHROPIC_BASE_URL, the baseUrl setting,
api.anthropic.com.

Exit codes: 0 kept, 1 not kept, 2 wrong usage, 75 the server could not be asked."""
LOGOUT_HELP = "Forget the key that agentcli login kept for the address in use."

ATTEMPTS = 3
_MOST_INPUT = 65_536
_TRY_LATER = 75


def login(
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url", metavar="URL", help="The server that the key is for; requests go there from now on."
        ),
    ] = None,
    from_stdin: Annotated[
        bool, typer.Option("--with-key-stdin", help="Read the key from standard input and ask nothing.")
    ] = False,
    no_check: Annotated[bool, typer.Option("--no-check", help="Keep it without asking the server.")] = False,
    words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
) -> None:
    if words:
        raise UsageError(
            "A key is not given as an argument, where others can see it. Run agentcli login and paste it when asked, "
            "or use: agentcli login < FILE"
        )
    work = Login(Options())
    address = work.address(base_url)
    if address.is_unencrypted:
        notice(f"Attention: {shown_url(address.url)} is not encrypted. Whoever is on the way can read the key.")
    # What is typed is never echoed, whichever flags there are.
    typed = sys.stdin.isatty()
    person = typed and not from_stdin
    for attempt in range(ATTEMPTS if person else 1):
        key = tidy_key(_asked(address) if typed else _piped())
        if not key:
            if base_url is None or address.is_public:
                raise CredentialError("No key was given. Nothing was changed.")
            break
        if no_check or _may_be_kept(asyncio.run(_checked(work, address, key)), person, last=attempt == ATTEMPTS - 1):
            break
    else:
        raise typer.Exit(1)
    _keep(work, address, key, chosen=base_url is not None)


def logout(
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="The server whose key it is; else the one in use.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Forget the keys for all servers.")] = False,
) -> None:
    work = Login(Options())
    addresses = [Address(url, "kept") for url in work.kept_addresses()] if everything else [work.address(base_url)]
    forgotten = [address.host for address in addresses if work.forget(address)]
    if forgotten:
        echo(f"The key for {plain_line(', '.join(forgotten))} is forgotten.")
    else:
        where = "any address" if everything else addresses[0].host
        echo(f"No key was kept for {plain_line(where)}.")
    try:
        source = work.credentials().source
    except CredentialError:
        return
    if source not in ("none", "agentcli login"):
        echo(f"{source} is still set, and is used.")


def _asked(address: Address) -> str:
    """Without an echo. Ctrl+C goes up, Ctrl+D is no key."""
    none = "" if address.is_public else ", or Enter if it needs none"
    try:
        return ask_secret(f"API key for {plain_line(address.host)} (it is not shown{none}): ")
    except EOFError:
        return ""


def _piped() -> str:
    raw = sys.stdin.buffer.read(_MOST_INPUT + 1)
    if len(raw) > _MOST_INPUT:
        raise UsageError("Standard input holds more than a key. Nothing was changed.")
    return raw.decode("utf-8", "replace")


async def _checked(work: Login, address: Address, key: str) -> Checked:
    notice(f"Asking {plain_line(address.host)} …")
    return await work.check(address, key)


def _may_be_kept(checked: Checked, person: bool, *, last: bool) -> bool:
    """False: ask for another. Ends the command where that makes no sense."""
    match checked.verdict:
        case "accepted":
            return True
        case "unclear":
            notice(f"{checked.text} The key is kept unchecked.")
            return True
        case "refused":
            again = " Try again." if person and not last else " Nothing was changed."
            notice(f"{checked.text}{again}")
            return False
    notice(checked.text)
    if person and confirm("Keep the key without a check?"):
        return True
    notice("Nothing was changed. Try again later, or use --no-check.")
    raise typer.Exit(_TRY_LATER)


def _keep(work: Login, address: Address, key: str, *, chosen: bool) -> None:
    # The settings first: a file that cannot be changed must not leave a key behind that nothing uses.
    changed = work.use(address) if chosen else ""
    host = plain_line(address.host)
    if key:
        placed = work.keep(address, key)
        if placed.problem:
            notice(placed.problem)
        echo(f"The key for {host} is kept in {placed.where}, and goes to no other address.")
    if changed:
        echo(f"Requests go to {host} from now on ({changed}).")
    if key and (hindrance := work.unused_reason(address)):
        notice(f"It is not used now, {hindrance}.")
    elif sys.stdout.isatty():
        echo("Start with: agentcli")
