"""One MCP server of a session: its state, what it offers, its calls and its restarts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Literal

from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait, in_thread
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.mcp.client_duties import ClientDuties
from agentcli.mcp.connection import McpConnection, McpFailure, OnProgress, run_until
from agentcli.mcp.oauth.authorization import ServerAuthorization, authorization_for
from agentcli.mcp.offers import McpContent, McpResult, PromptMessage, ServerOffers
from agentcli.mcp.server_config import ServerConfig
from agentcli.mcp.transport import ServerSurroundings, transport_for

ServerState = Literal["waiting", "connecting", "connected", "failed", "needs-auth", "disabled", "unapproved"]
"""`waiting`: not started. `unapproved`: of a repository that is not trusted. `needs-auth`: the user has to sign in."""

_LOG_LINES = 200


@frozen
class ServerLimits:
    start_seconds: float = 30.0
    call_seconds: float = 600.0


class McpServer:
    """Its connection lives in a task of its own; everything else may be called from any task."""

    def __init__(
        self,
        config: ServerConfig,
        around: ServerSurroundings,
        duties: ClientDuties,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - immutable
        *,
        state: ServerState = "waiting",
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = config
        self.state: ServerState = state
        self.error = ""
        """Why it failed; one line or more, as the server or the system said it."""
        self.offers = ServerOffers()
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        """The last lines of its stderr and of its log messages."""
        self.disabled_tools: frozenset[str] = frozenset()
        """Names of tools that the user switched off."""
        self._around = around
        self._duties = duties
        self._limits = limits
        self._on_change = on_change
        self._authorization = authorization_for(config, around)
        self._connection: McpConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._lists_changed = asyncio.Event()

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def settled(self) -> bool:
        """Whether its start has ended, one way or the other."""
        return self.state not in ("waiting", "connecting")

    def start(self) -> None:
        """Begin to connect; returns at once. Does nothing unless it waits or has failed."""
        if self._task is None and self.state in ("waiting", "failed", "needs-auth"):
            self._set("connecting")
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"mcp {self.name}")

    async def stop(self, state: ServerState = "waiting") -> None:
        """Disconnect, and wait until nothing is left of it."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_and_wait([task])
        self._set(state)

    async def reconnect(self) -> None:
        """Disconnect and connect again, from any state but `unapproved`."""
        if self.state != "unapproved":
            await self.stop()
            self.start()

    async def disable(self) -> None:
        await self.stop("disabled")

    async def enable(self) -> None:
        if self.state == "disabled":
            self._set("waiting")
            self.start()

    # ------------------------------------------------------------------------------------------------------ sign-in

    @property
    def signs_in(self) -> bool:
        """Whether the user can sign in to it."""
        return self._authorization is not None

    async def sign_in(self, show: Callable[[str], None]) -> None:
        """Let the user sign in in the browser, then connect again; `show` gets the address. Raises `McpFailure`."""
        if self.state == "unapproved":
            raise McpFailure(f"The MCP server {self.name} is not approved yet.")
        await self._signing_in().sign_in(show)
        if self.state != "disabled":
            await self.reconnect()

    def paste(self, text: str) -> None:
        """Complete a sign-in with the address that the browser was sent to, or its code. Raises `McpFailure`."""
        self._signing_in().paste(text)

    async def sign_out(self) -> None:
        """Delete and revoke the tokens. Raises `McpFailure` if they were deleted but not revoked."""
        problem = await self._signing_in().sign_out()
        if self.state not in ("disabled", "unapproved"):
            await self.stop("needs-auth")
        if problem:
            raise McpFailure(problem)

    def _signing_in(self) -> ServerAuthorization:
        if self._authorization is None:
            raise McpFailure(f"The MCP server {self.name} has no sign-in.")
        return self._authorization

    # -------------------------------------------------------------------------------------------------------- calls

    async def call(
        self,
        tool: str,
        arguments: Json,
        on_progress: OnProgress = lambda _progress: None,
        signal: AbortSignal | None = None,
    ) -> McpResult:
        """Raises `McpFailure`; `Aborted` when the signal aborts, after the server was told."""
        seconds = self.config.timeout or self._limits.call_seconds
        try:
            return await run_until(signal, self._connected().call(tool, arguments, on_progress, seconds))  # type: ignore[no-any-return]
        except McpFailure as failure:
            if self._authorization is not None and (problem := self._authorization.scope_problem()):
                raise McpFailure(f"{self.name}: {problem}") from failure
            raise

    async def read(self, uri: str, signal: AbortSignal | None = None) -> tuple[McpContent, ...]:
        return await run_until(signal, self._connected().read(uri))  # type: ignore[no-any-return]

    async def prompt(
        self, name: str, arguments: Mapping[str, str], signal: AbortSignal | None = None
    ) -> tuple[PromptMessage, ...]:
        return await run_until(signal, self._connected().prompt(name, arguments))  # type: ignore[no-any-return]

    async def complete(
        self, kind: str, name: str, argument: str, value: str, others: Mapping[str, str]
    ) -> tuple[str, ...]:
        """As `McpConnection.complete`; empty if the server does not complete."""
        return await self._connected().complete(kind, name, argument, value, others) if self.offers.completes else ()

    async def tell_roots_changed(self) -> None:
        if self._connection is not None:
            await self._connection.tell_roots_changed()

    def _connected(self) -> McpConnection:
        if self._connection is None:
            why = f": {self.error}" if self.error else ""
            raise McpFailure(f"The MCP server {self.name} is not connected ({self.state}){why}")
        return self._connection

    # --------------------------------------------------------------------------------------------------- connection

    def _set(self, state: ServerState, error: str = "") -> None:
        self.state, self.error = state, error
        if state != "connected":
            self.offers = ServerOffers()
        self._on_change()

    async def _run(self) -> None:
        try:
            await in_thread(_import_library)
            auth = self._authorization.begin() if self._authorization is not None else None
            transport = transport_for(self.config, self._around, auth)
            async with asyncio.timeout(self._limits.start_seconds) as starting:
                opened = McpConnection.open(
                    self.name,
                    transport,
                    self._duties,
                    on_list_changed=lambda _what: self._lists_changed.set(),
                    on_log=self.log.append,
                    probes=self.config.kind == "http",
                )
                async with opened as connection:
                    self.offers = await connection.offers()
                    starting.reschedule(None)
                    self._connection = connection
                    self._set("connected")
                    while True:
                        await self._lists_changed.wait()
                        self._lists_changed.clear()
                        self.offers = await connection.offers()
                        self._on_change()
        except TimeoutError:
            self._fail(f"no answer within {self._limits.start_seconds:g} seconds")
        except Exception as error:  # noqa: BLE001  whatever a server or the library does must not end the session
            self._fail(_reason(error))
        finally:
            self._connection = None

    def _fail(self, reason: str) -> None:
        authorization, was_connected = self._authorization, self._connection is not None
        self._task = None
        self._connection = None
        if authorization is not None and (
            refusal := authorization.refusal or ("" if was_connected else authorization.scope_problem())
        ):
            self._set("needs-auth", refusal)
        else:
            self._set("failed", reason)


def _import_library() -> None:
    import mcp.client.client
    import mcp.client.sse  # noqa: F401


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return str(error) or type(error).__name__
