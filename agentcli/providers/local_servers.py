"""Find local model servers and list their models.

Connects only to 127.0.0.1, on the default ports of known programs, and only when called. One small request each, in
parallel and without a proxy. Answers are untrusted: only a limited amount is read, and only model
names are used.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line

HOST = "127.0.0.1"
SECONDS = 0.15
"""Timeout for each server. A running one answers in a few milliseconds."""
MAX_BYTES = 512 * 1024
MAX_MODELS = 200
MAX_NAME = 200
_SPEAKS_SECONDS = 5.0
_NO_SUCH_ROUTE = (404, 405, 501)


@frozen
class Program:
    name: str
    port: int


PROGRAMS: tuple[Program, ...] = (
    Program("Ollama", 11434),
    Program("LM Studio", 1234),
    Program("llama.cpp", 8080),
    Program("vLLM", 8000),
)


@frozen
class LocalServer:
    name: str
    base_url: str
    models: tuple[str, ...]
    """Model names as the server spells them; printable, without control characters."""

    @property
    def host(self) -> str:
        return self.base_url.removeprefix("http://")


async def find_local_servers(
    programs: Sequence[Program] = PROGRAMS, seconds: float = SECONDS
) -> tuple[LocalServer, ...]:
    """The servers that answer with a list of models, in the order of `programs`. Never raises."""
    found = await asyncio.gather(*(_ask(program, seconds) for program in programs))
    return tuple(server for server in found if server is not None)


async def speaks_messages(server: LocalServer, seconds: float = _SPEAKS_SECONDS) -> bool | None:
    """Whether the server has the Messages API: an empty request is refused, but not as unknown. None: no answer."""
    answer = await _request(server.base_url, "POST", "/v1/messages", seconds)
    return None if answer is None else answer[0] not in _NO_SUCH_ROUTE


async def _ask(program: Program, seconds: float) -> LocalServer | None:
    base_url = f"http://{HOST}:{program.port}"
    answer = await _request(base_url, "GET", "/v1/models", seconds)
    models = _names(answer[1]) if answer is not None and answer[0] == 200 else ()
    return LocalServer(program.name, base_url, models) if models else None


async def _request(base_url: str, method: str, path: str, seconds: float) -> tuple[int, bytes] | None:
    """Status and body; None without an HTTP answer in time."""
    from agentcli.providers.transports.wire import fetch

    headers, content = {"accept": "application/json", "content-type": "application/json"}, b"{}"
    try:
        async with asyncio.timeout(seconds):
            return await fetch(base_url, method, path, headers, content if method == "POST" else b"", MAX_BYTES)
    except (OSError, TimeoutError):
        return None


def _names(body: bytes) -> tuple[str, ...]:
    """Model names in a list such as `{"data": [{"id": "…"}]}`."""
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    rows = answer.get("data") if isinstance(answer, dict) else None
    names = [row.get("id") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    usable = (name for name in names if isinstance(name, str) and _is_name(name))
    return tuple(dict.fromkeys(usable))[:MAX_MODELS]


def _is_name(name: str) -> bool:
    return bool(name) and len(name) <= MAX_NAME and name == plain_line(name) and name.isprintable()
