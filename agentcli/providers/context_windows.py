"""What the endpoint itself says about a model that the catalogue does not know: how much it reads and writes.

Asked once for each model, beside the first request to it: nothing waits for the answer and nothing fails without one.
The key goes to the address in use and to no other, also where that answers with a redirection.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from agentcli.core.errors import CredentialError
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.providers.catalog import Catalog
from agentcli.providers.credentials import Credentials

if TYPE_CHECKING:
    import httpx2

SECONDS = 2.0
_LARGEST_ANSWER = 4 * 1024 * 1024
_ABSENT = (404, 405, 501)
_WINDOWS = ("max_input_tokens", "context_length", "context_window", "max_model_len", "max_context_length")
"""As servers spell it. The last is what a model could do, which may be more or less than what is served: it comes last.
"""
_OUTPUT = "max_tokens"
_PLAUSIBLE = range(1_024, 100_000_001)

Listing = Callable[[str], Awaitable["Listed | None"]]


@frozen
class Listed:
    window: int
    max_output: int | None = None


class Windows:
    """Asks for models that the catalogue does not know, and tells it. `aclose` it."""

    def __init__(self, catalog: Catalog, listing: Listing) -> None:
        self._catalog = catalog
        self._listing = listing
        self._asked: dict[str, asyncio.Task[None]] = {}

    def ask(self, model: str) -> None:
        """Begin, unless that was done before or the answer is known. Returns at once."""
        if model not in self._asked and self._catalog.wants_window(model):
            self._asked[model] = asyncio.get_running_loop().create_task(self._find_out(model))

    async def settled(self) -> None:
        """Wait for the answers that are under way; for tests."""
        await asyncio.gather(*self._asked.values())

    async def aclose(self) -> None:
        from agentcli.core.aio import cancel_and_wait

        await cancel_and_wait(list(self._asked.values()))

    async def _find_out(self, model: str) -> None:
        found = await self._listing(model)
        if found is not None:
            self._catalog.note_listed(model, found.window, found.max_output)


def listing_at(credentials: Credentials, seconds: float = SECONDS) -> Listing:
    """What the server at this address lists; None where it says nothing of use, in time. Never raises."""

    async def listed(model: str) -> Listed | None:
        # In a thread: it takes a tenth of a second, in which nothing else could be painted.
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
    from agentcli.providers.wire import API_VERSION, make_client

    headers = {"anthropic-version": API_VERSION, "user-agent": "agentcli", **await credentials.headers()}
    client = await asyncio.to_thread(make_client, credentials.base_url)
    async with client:
        place = f"{credentials.base_url}/v1/models"
        status, entry = await read_json(client, f"{place}/{quote(model, safe='')}", headers)
        if status not in _ABSENT:
            return entry
        # Servers that know no single model may list them all.
        _status, entries = await read_json(client, place, headers)
    found = entries.get("data") if isinstance(entries, Mapping) else None
    listed = found if isinstance(found, list) else []
    return next((each for each in listed if isinstance(each, Mapping) and each.get("id") == model), None)


async def read_json(client: httpx2.AsyncClient, url: str, headers: Mapping[str, str]) -> tuple[int, Any]:
    """The status, and the JSON of a good answer. Raises ValueError for what is none, or too much."""
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
    """What a server's words about one model say; numbers that cannot be meant are passed over."""
    if not isinstance(entry, Mapping):
        return None
    window = next((number for name in _WINDOWS if (number := _number(entry, name)) is not None), None)
    return None if window is None else Listed(window, _number(entry, _OUTPUT))


def _number(entry: Mapping[str, object] | Json, name: str) -> int | None:
    value = entry.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _PLAUSIBLE else None
