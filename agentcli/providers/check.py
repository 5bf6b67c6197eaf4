"""Whether a server takes a key: one request that costs nothing. Never raises; the key is in no message."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal

from agentcli.core.errors import CredentialError
from agentcli.core.format import elapsed
from agentcli.core.frozen import frozen
from agentcli.providers.catalog import SMALL_MODEL
from agentcli.providers.credentials import Credentials
from agentcli.providers.failures import Where, from_exception

if TYPE_CHECKING:
    import httpx2

SECONDS = 15.0
_ABSENT = (404, 405, 501)
_REFUSED = (401, 403)

Verdict = Literal["accepted", "refused", "unclear", "unreachable"]


@frozen
class Checked:
    """`unclear`: the server answers, and has no way to find out. `unreachable`: nobody can say now."""

    verdict: Verdict
    text: str = ""
    """What happened, for people; empty when it was accepted."""


@frozen
class Listing:
    """What a server says when it is asked for its models."""

    status: int = 0
    """Of HTTP; 0: nothing answered."""
    models: tuple[str, ...] = ()
    problem: str = ""
    """Why nothing answered, for people."""

    @property
    def is_refused(self) -> bool:
        return self.status in _REFUSED

    @property
    def is_absent(self) -> bool:
        """The server answers, and has no such list."""
        return self.status in _ABSENT or (self.status == 200 and not self.models)


async def list_models(credentials: Credentials, seconds: float = SECONDS) -> Listing:
    """With the client that requests go out with, so that proxies and certificates are the same."""
    host = credentials.host
    try:
        async with asyncio.timeout(seconds):
            return await _list(credentials, host)
    except TimeoutError:
        return Listing(problem=f"{host} gave no answer within {elapsed(seconds)}.")
    except CredentialError as error:
        return Listing(problem=str(error))


async def _list(credentials: Credentials, host: str) -> Listing:
    await asyncio.to_thread(importlib.import_module, "httpx2")
    import httpx2

    from agentcli.providers.windows import read_json
    from agentcli.providers.wire import API_VERSION, make_client

    headers = {"anthropic-version": API_VERSION, "user-agent": "agentcli", **await credentials.headers()}
    client = await asyncio.to_thread(make_client, credentials.base_url)
    try:
        async with client:
            status, answer = await read_json(client, f"{credentials.base_url}/v1/models?limit=1000", headers)
            rows = answer.get("data") if status == 200 else ()
            return Listing(status, tuple(str(row["id"]) for row in rows or ()))
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        return Listing(problem=from_exception(error, Where(host)).message)
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
        # Something answers, but not with what the API calls a list of models.
        return Listing(200)


async def check_key(credentials: Credentials, seconds: float = SECONDS) -> Checked:
    """Ask for the list of models; where there is none, have the tokens of a word counted."""
    host = credentials.host
    try:
        async with asyncio.timeout(seconds):
            return await _check(credentials, host)
    except TimeoutError:
        return Checked("unreachable", f"{host} gave no answer within {elapsed(seconds)}.")
    except CredentialError as error:
        return Checked("refused", str(error))


async def _check(credentials: Credentials, host: str) -> Checked:
    # In a thread: it takes a tenth of a second, in which nothing else could be painted.
    await asyncio.to_thread(importlib.import_module, "httpx2")
    import httpx2

    from agentcli.providers.wire import API_VERSION, make_client

    headers = {"anthropic-version": API_VERSION, "user-agent": "agentcli", **await credentials.headers()}
    client = await asyncio.to_thread(make_client, credentials.base_url)
    try:
        async with client:
            base = credentials.base_url
            status = await _status(client.stream("GET", f"{base}/v1/models?limit=1", headers=headers))
            if status in _ABSENT:
                body = {"model": SMALL_MODEL, "messages": [{"role": "user", "content": "hi"}]}
                counted = client.stream("POST", f"{base}/v1/messages/count_tokens", json=body, headers=headers)
                status = await _status(counted)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        return Checked("unreachable", from_exception(error, Where(host)).message)
    return _judge(status, host)


async def _status(answer: AbstractAsyncContextManager[httpx2.Response]) -> int:
    """Nothing but the status is wanted, so the body, which need not end, is not read."""
    async with answer as response:
        return response.status_code


def _judge(status: int, host: str) -> Checked:
    if status in _REFUSED:
        return Checked("refused", f"{host} does not accept this key ({status}).")
    if status in _ABSENT:
        return Checked("unclear", f"{host} has no way to check a key.")
    if 300 <= status < 400:
        # Not followed: the key is for this host and for no other that it names.
        return Checked("unreachable", f"{host} sends requests on to another address ({status}). Check the address.")
    if status == 429 or status >= 500:
        return Checked("unreachable", f"{host} cannot check it now ({status}).")
    return Checked("accepted")
