"""Find local model servers and list their models.

Connects only to 127.0.0.1, on the default ports of known programs, and only when called. One small request each, in
parallel and without a proxy. Answers are untrusted: only a limited amount is read, and only model names are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line
from agentcli.providers.credentials import Credentials
from agentcli.providers.listing import ABSENT, list_models, request_errors, request_json

HOST = "127.0.0.1"
SECONDS = 0.15
"""Timeout for each server. A running one answers in a few milliseconds."""
MAX_MODELS = 200
MAX_NAME = 200
_SPEAKS_SECONDS = 5.0


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
    try:
        async with asyncio.timeout(seconds):
            status, _none = await request_json(Credentials(server.base_url), "messages", {})
    except request_errors():
        return None
    return status not in ABSENT


async def _ask(program: Program, seconds: float) -> LocalServer | None:
    base_url = f"http://{HOST}:{program.port}"
    listing = await list_models(Credentials(base_url), seconds)
    models = tuple(dict.fromkeys(filter(_is_name, listing.models)))[:MAX_MODELS]
    return LocalServer(program.name, base_url, models) if models else None


def _is_name(name: str) -> bool:
    return bool(name) and len(name) <= MAX_NAME and name == plain_line(name) and name.isprintable()
