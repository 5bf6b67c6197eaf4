"""A protected server, its authorization server, and our client of them."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcli.core.aio import cancel_and_wait
from agentcli.mcp.configuration import OAuthConfig, ServerConfig, ServerSurroundings
from agentcli.mcp.protocol import ServerRequests
from agentcli.mcp.server import McpServer
from tests.support.authorization_server import AuthorizationServer, ProtectedServer, browse


@dataclass
class SignInBench:
    authorization: AuthorizationServer
    protected: ProtectedServer
    folder: Path
    servers: list[McpServer] = field(default_factory=list)

    @property
    def state_dir(self) -> Path:
        return self.folder / "state"

    def client(self, name: str = "files", oauth: OAuthConfig | None = None, **around: Any) -> McpServer:
        """As a new process would make it: nothing is shared but the state folder."""
        config = ServerConfig(name, "http", url=self.protected.endpoint, oauth=oauth or OAuthConfig())
        server = McpServer(
            config, ServerSurroundings(self.folder, **{"state_dir": self.state_dir, **around}), ServerRequests()
        )
        self.servers.append(server)
        return server

    async def connected(self, **changes: Any) -> McpServer:
        """A client that has signed in and connected."""
        server = self.client(**changes)
        await sign_in(server)
        await settled(server)
        assert server.state == "connected", server.error
        return server


@asynccontextmanager
async def sign_in_bench(folder: Path, issuer_path: str = "") -> AsyncIterator[SignInBench]:
    async with AuthorizationServer(issuer_path) as authorization, ProtectedServer(authorization) as protected:
        bench = SignInBench(authorization, protected, folder)
        try:
            yield bench
        finally:
            for server in bench.servers:
                await server.stop()


def on_bench(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Give a test a bench, which ends with the test itself: tasks that outlive a test fail it."""

    @functools.wraps(test)
    async def run(*, tmp_path: Path, **arguments: Any) -> None:
        async with sign_in_bench(tmp_path) as bench:
            await test(bench=bench, **arguments)

    given = inspect.signature(test)
    others = [each for name, each in given.parameters.items() if name != "bench"]
    folder = inspect.Parameter("tmp_path", inspect.Parameter.KEYWORD_ONLY)
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in others]
    run.__signature__ = given.replace(parameters=[*keywords, folder])  # type: ignore[attr-defined]
    return run


async def settled(server: McpServer) -> None:
    """Wait until a start or a fall has ended."""
    async with asyncio.timeout(20):
        while not server.start_ended:
            await asyncio.sleep(0.001)


async def connect(server: McpServer) -> None:
    await server.stop()
    server.start()
    await settled(server)


async def sign_in(server: McpServer, visit: Callable[[str], Awaitable[object]] = browse) -> str:
    """Sign in with a browser; returns the address that the user was shown."""
    shown: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.ensure_future(server.sign_in(shown.put_nowait))
    waiting = asyncio.ensure_future(shown.get())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            await visit(waiting.result())
        await task
    finally:
        await cancel_and_wait([task, waiting])
    return waiting.result()
