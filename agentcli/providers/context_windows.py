"""Ask the endpoint for the limits of models that the catalog does not know.

Each model is looked up once, in parallel with the first request to it: nothing waits for the answer and nothing fails
without it. The key is sent only to the address in use, never to a redirect.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from agentcli.core.aio import start_task
from agentcli.core.errors import CredentialError
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.providers.credentials import Credentials
from agentcli.providers.models.catalog import Catalog

if TYPE_CHECKING:
    import httpx2

SECONDS = 2.0
_LARGEST_ANSWER = 4 * 1024 * 1024
_ABSENT = (404, 405, 501)
_WINDOWS = ("max_input_tokens", "context_length", "context_window", "max_model_len", "max_context_length")
"""Field names used by servers. The last one is the model's capability, not the server's, so it comes last."""
_OUTPUT = "max_tokens"
_PLAUSIBLE = range(1_024, 100_000_001)

ListModel = Callable[[str], Awaitable["Listed | None"]]


@frozen
class Listed:
    window: int
    max_output: int | None = None


class ContextWindows:
    """Looks up models unknown to the catalog and records their limits there. Call `aclose` at the end."""

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
        from agentcli.core.aio import cancel_and_wait

        await cancel_and_wait(list(self._asked.values()))

    async def _find_out(self, model: str) -> None:
        found = await self._listing(model)
        if found is not None:
            self._catalog.note_listed(model, found.window, found.max_output)


def listing_at(credentials: Credentials, seconds: float = SECONDS) -> ListModel:
    """A lookup function for this address; it returns None without a usable answer in time. Never raises."""

    async def listed(model: str) -> Listed | None:
        # In a thread: this takes 0.1 s, which would block the UI.
        await asyncio.to_thread(importlib.import_module, "httpx2")
        import httpx2

        network = (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError)
        try:
            async with asyncio.timeout(seconds):
                return limits_in(await _entry(credentials, model))
        except (*network, CredentialError, ValueError, RecursionError):
            return None

    return listed


async def _entry(credentials: Credentials, model: str) -> object:
    from agentcli.providers.transports.wire import API_VERSION, make_client

    headers = {"anthropic-version": API_VERSION, "user-agent": "agentcli", **await credentials.headers()}
    client = await asyncio.to_thread(make_client, credentials.base_url)
    async with client:
        place = f"{credentials.base_url}/v1/models"
        status, entry = await read_json(client, f"{place}/{quote(model, safe='')}", headers)
        if status not in _ABSENT:
            return entry
        # Servers without an entry per model may list all models.
        _status, entries = await read_json(client, place, headers)
    found = entries.get("data") if isinstance(entries, Mapping) else None
    listed = found if isinstance(found, list) else []
    return next((each for each in listed if isinstance(each, Mapping) and each.get("id") == model), None)


async def read_json(client: httpx2.AsyncClient, url: str, headers: Mapping[str, str]) -> tuple[int, Any]:
    """The status, and the JSON of a successful answer. Raises ValueError if it is invalid or too long."""
    async with client.stream("GET", url, headers=headers) as response:
        if response.status_code != 200:
            return response.status_code, None
        data = bytearray()
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) > _LARGEST_ANSWER:
                raise ValueError("the answer is too long")
    return 200, json.loads(data)


def limits_in(entry: object) -> Listed | None:
    """The limits in a model's entry; implausible numbers are ignored."""
    if not isinstance(entry, Mapping):
        return None
    window = next((number for name in _WINDOWS if (number := _number(entry, name)) is not None), None)
    return None if window is None else Listed(window, _number(entry, _OUTPUT))


def _number(entry: Mapping[str, object] | Json, name: str) -> int | None:
    value = entry.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _PLAUSIBLE else None
