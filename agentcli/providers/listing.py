"""Ask a server for its models: to check a key, and for the limits of models that the catalog does not know.

The key is sent only to the address in use, never to a redirect. No message contains it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal
from urllib.parse import quote

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.errors import CredentialError
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.format import format_elapsed
from agentcli.providers.catalog import SMALL_MODEL, Catalog
from agentcli.providers.credentials import Credentials
from agentcli.providers.failures import Endpoint, from_exception

SECONDS = 15.0
LOOKUP_SECONDS = 2.0
MAX_ANSWER = 4 * 1024 * 1024
ABSENT = (404, 405, 501)
_REFUSED = (401, 403)
_WINDOWS = ("max_input_tokens", "context_length", "context_window", "max_model_len", "max_context_length")
"""Field names used by servers. The last one is the model's capability, not the server's, so it comes last."""
_OUTPUT = "max_tokens"
_PLAUSIBLE = range(1_024, 100_000_001)


async def request_json(credentials: Credentials, path: str, body: Json | None = None, max_bytes: int = 0) -> Any:
    """Send one small request. Returns its status, and the JSON of a successful answer of up to `max_bytes`; without
    `max_bytes` the body is not read, as it may not end. Raises ValueError, `CredentialError` and network errors."""
    from agentcli.providers.transports.wire import API_VERSION, fetch

    headers = {"anthropic-version": API_VERSION, "user-agent": "agentcli", **await credentials.headers()}
    content = b""
    if body is not None:
        headers["content-type"], content = "application/json", json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    status, answer = await fetch(credentials.base_url, method, f"/v1/{path}", headers, content, max_bytes)
    return status, json.loads(answer) if max_bytes and status == 200 else None


def _problem(error: Exception, credentials: Credentials, seconds: float) -> str:
    """User message about a request without an answer."""
    if isinstance(error, CredentialError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"{credentials.host} did not answer within {format_elapsed(seconds)}."
    return from_exception(error, Endpoint(credentials.host)).message


def request_errors() -> tuple[type[Exception], ...]:
    from agentcli.providers.transports.wire import network_errors

    return (*network_errors(), TimeoutError, CredentialError)


# ---------------------------------------------------------------------------------------------------------- model lists


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
        return self.status in ABSENT or (self.status == 200 and not self.models)


async def list_models(credentials: Credentials, seconds: float = SECONDS) -> Listing:
    """Request the model list. Never raises."""
    try:
        async with asyncio.timeout(seconds):
            status, answer = await request_json(credentials, "models?limit=1000", max_bytes=MAX_ANSWER)
        rows = answer.get("data") if status == 200 else ()
        names = (row.get("id") for row in rows or () if isinstance(row, dict))
        return Listing(status, tuple(name for name in names if isinstance(name, str)))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return Listing(200)  # the answer is not a model list of the API
    except request_errors() as error:
        return Listing(problem=_problem(error, credentials, seconds))


# ----------------------------------------------------------------------------------------------------------- key checks

Verdict = Literal["accepted", "refused", "unclear", "unreachable"]


@frozen
class KeyCheck:
    """Result of a key check. `unclear`: the server answers but cannot check keys. `unreachable`: no usable answer."""

    verdict: Verdict
    text: str = ""
    """User message; empty if the key was accepted."""


async def check_key(credentials: Credentials, seconds: float = SECONDS) -> KeyCheck:
    """Check a key with a free request: for the model list, or if there is none, the tokens of one word. Never
    raises."""
    try:
        async with asyncio.timeout(seconds):
            status, _none = await request_json(credentials, "models?limit=1")
            if status in ABSENT:
                body = {"model": SMALL_MODEL, "messages": [{"role": "user", "content": "hi"}]}
                status, _none = await request_json(credentials, "messages/count_tokens", body)
    except CredentialError as error:
        return KeyCheck("refused", str(error))
    except request_errors() as error:
        return KeyCheck("unreachable", _problem(error, credentials, seconds))
    return _judge(status, credentials.host)


def _judge(status: int, host: str) -> KeyCheck:
    if status in _REFUSED:
        return KeyCheck("refused", f"{host} does not accept this key ({status}).")
    if status in ABSENT:
        return KeyCheck("unclear", f"{host} does not support key checks.")
    if 300 <= status < 400:
        return KeyCheck("unreachable", f"{host} redirects to another address ({status}). Check the address.")
    if status == 429 or status >= 500:
        return KeyCheck("unreachable", f"{host} cannot check the key now ({status}).")
    return KeyCheck("accepted")


# -------------------------------------------------------------------------------------------------------- model limits


@frozen
class Listed:
    window: int
    max_output: int | None = None


ListModel = Callable[[str], Awaitable[Listed | None]]


class ContextWindows:
    """Looks up models unknown to the catalog and records their limits there. Call `aclose` at the end.

    Each model is looked up once, in parallel with the first request to it: nothing waits for the answer and nothing
    fails without it.
    """

    def __init__(self, catalog: Catalog, listing: ListModel) -> None:
        self._catalog = catalog
        self._listing = listing
        self._asked: dict[str, asyncio.Task[None]] = {}

    def ask(self, model: str) -> None:
        """Start a lookup unless the model was looked up or is known. Returns immediately."""
        if model not in self._asked and self._catalog.wants_window(model):
            self._asked[model] = start_task(self._find_out(model))

    async def settled(self) -> None:
        """Wait for running lookups; for tests."""
        await asyncio.gather(*self._asked.values())

    async def aclose(self) -> None:
        await cancel_and_wait(list(self._asked.values()))

    async def _find_out(self, model: str) -> None:
        found = await self._listing(model)
        if found is not None:
            self._catalog.note_listed(model, found.window, found.max_output)


def look_up_at(credentials: Credentials, seconds: float = LOOKUP_SECONDS) -> ListModel:
    """A lookup function for this address; it returns None without a usable answer in time. Never raises."""

    async def find_limits(model: str) -> Listed | None:
        try:
            async with asyncio.timeout(seconds):
                return limits_in(await _entry(credentials, model))
        except (ValueError, RecursionError):
            return None
        except request_errors():
            return None

    return find_limits


async def _entry(credentials: Credentials, model: str) -> object:
    status, entry = await request_json(credentials, f"models/{quote(model, safe='')}", max_bytes=MAX_ANSWER)
    if status not in ABSENT:
        return entry
    # Servers without an entry per model may list all models.
    _status, entries = await request_json(credentials, "models", max_bytes=MAX_ANSWER)
    found = entries.get("data") if isinstance(entries, Mapping) else None
    listed = found if isinstance(found, list) else []
    return next((each for each in listed if isinstance(each, Mapping) and each.get("id") == model), None)


def limits_in(entry: object) -> Listed | None:
    """The limits in a model's entry; implausible numbers are ignored."""
    if not isinstance(entry, Mapping):
        return None
    window = next((number for name in _WINDOWS if (number := _number(entry, name)) is not None), None)
    return None if window is None else Listed(window, _number(entry, _OUTPUT))


def _number(entry: Mapping[str, object], name: str) -> int | None:
    value = entry.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _PLAUSIBLE else None
