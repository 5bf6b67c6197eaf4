"""Check an API key with one free request. Never raises; no message contains the key."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal

from agentcli.core.errors import CredentialError
from agentcli.core.frozen import frozen
from agentcli.core.text.format import elapsed
from agentcli.providers.credentials import Credentials
from agentcli.providers.failures import Endpoint, from_exception
from agentcli.providers.models.catalog import SMALL_MODEL

if TYPE_CHECKING:
    import httpx2

SECONDS = 15.0
_ABSENT = (404, 405, 501)
_REFUSED = (401, 403)

Verdict = Literal["accepted", "refused", "unclear", "unreachable"]


@frozen
class KeyCheck:
    """Result of a key check. `unclear`: the server answers but cannot check keys. `unreachable`: no usable answer."""

    verdict: Verdict
    text: str = ""
    """User message; empty if the key was accepted."""


@frozen
class Listing:
    """A server's answer to a request for its model list."""

    status: int = 0
    """HTTP status; 0: no answer."""
    models: tuple[str, ...] = ()
    problem: str = ""
    """User message if there was no answer."""

    @property
    def is_refused(self) -> bool:
        return self.status in _REFUSED

    @property
    def is_absent(self) -> bool:
        """Whether the server answers but has no model list."""
        return self.status in _ABSENT or (self.status == 200 and not self.models)


async def list_models(credentials: Credentials, seconds: float = SECONDS) -> Listing:
    """Request the model list. Uses the same client settings as requests, so that proxies and certificates are the
    same."""
    host = credentials.host
    try:
        async with asyncio.timeout(seconds):
            return await _list(credentials, host)
    except TimeoutError:
        return Listing(problem=f"{host} did not answer within {elapsed(seconds)}.")
    except CredentialError as error:
        return Listing(problem=str(error))


async def _list(credentials: Credentials, host: str) -> Listing:
    await asyncio.to_thread(importlib.import_module, "httpx2")
    import httpx2

    from agentcli.providers.context_windows import read_json
    from agentcli.providers.transports.wire import API_VERSION, make_client

    headers = {"anthropic-version": API_VERSION, "user-agent": "agentcli", **await credentials.headers()}
    client = await asyncio.to_thread(make_client, credentials.base_url)
    try:
        async with client:
            status, answer = await read_json(client, f"{credentials.base_url}/v1/models?limit=1000", headers)
            rows = answer.get("data") if status == 200 else ()
            return Listing(status, tuple(str(row["id"]) for row in rows or ()))
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        return Listing(problem=from_exception(error, Endpoint(host)).message)
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
        # The answer is not a model list of the API.
        return Listing(200)


async def check_key(credentials: Credentials, seconds: float = SECONDS) -> KeyCheck:
    """Request the model list; if there is none, count the tokens of one word."""
    host = credentials.host
    try:
        async with asyncio.timeout(seconds):
            return await _check(credentials, host)
    except TimeoutError:
        return KeyCheck("unreachable", f"{host} did not answer within {elapsed(seconds)}.")
    except CredentialError as error:
        return KeyCheck("refused", str(error))


async def _check(credentials: Credentials, host: str) -> KeyCheck:
    # In a thread: this takes 0.1 s, which would block the UI.
    await asyncio.to_thread(importlib.import_module, "httpx2")
    import httpx2

    from agentcli.providers.transports.wire import API_VERSION, make_client

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
        return KeyCheck("unreachable", from_exception(error, Endpoint(host)).message)
    return _judge(status, host)


async def _status(answer: AbstractAsyncContextManager[httpx2.Response]) -> int:
    """The status only: the body is not read, as it may not end."""
    async with answer as response:
        return response.status_code


def _judge(status: int, host: str) -> KeyCheck:
    if status in _REFUSED:
        return KeyCheck("refused", f"{host} does not accept this key ({status}).")
    if status in _ABSENT:
        return KeyCheck("unclear", f"{host} does not support key checks.")
    if 300 <= status < 400:
        # Redirects are not followed: the key is only for this host.
        return KeyCheck("unreachable", f"{host} redirects to another address ({status}). Check the address.")
    if status == 429 or status >= 500:
        return KeyCheck("unreachable", f"{host} cannot check the key now ({status}).")
    return KeyCheck("accepted")
