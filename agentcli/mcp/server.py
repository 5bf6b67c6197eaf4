"""One MCP server of a session: its state, what it offers, its calls and its restarts."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Literal

from agentcli.core.aio import AbortSignal, cancel_and_wait, in_thread, start_task
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.answers import AnswerReader, read_transport
from agentcli.mcp.authorization import ServerAuthorization, authorization_for
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.connection import FAILED_REQUEST, McpConnection, McpFailure, SessionExpired
from agentcli.mcp.link import LinkEnd, ServerLimits, ServerLink
from agentcli.mcp.protocol import (
    CallProgress,
    McpContent,
    McpResult,
    PromptMessage,
    ServerOffers,
    ServerRequests,
    ToolOffer,
)
from agentcli.mcp.stdio import StdioTransport, server_command, server_environment

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import Transport

OnProgress = Callable[[CallProgress], object]
ServerState = Literal["waiting", "connecting", "connected", "failed", "needs-auth", "disabled", "unapproved"]
"""`waiting`: not started. `failed`: also between two attempts. `unapproved`: from an untrusted repository.
`needs-auth`: the user has to sign in."""

_LOG_LINES = 200
_STATUS_TEXTS = (FAILED_REQUEST, "Not Found")
"""The library's messages for an HTTP error status. Ours name the status."""


@frozen
class _End:
    """How one connection ended."""

    reason: str
    kind: LinkEnd
    lasted: float | None = None
    """Seconds that it was connected; None if it never was."""


class McpServer:
    """One server. Its connection runs in a separate task; all methods may be called from any task."""

    def __init__(
        self,
        config: ServerConfig,
        around: ServerSurroundings,
        requests: ServerRequests,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - immutable
        *,
        state: ServerState = "waiting",
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = config
        self.state: ServerState = state
        self.error = ""
        """Why it failed: one or more lines, as reported by the server or the system."""
        self.retry_seconds: float | None = None
        """Seconds from its failure to the next start; None if it is not started again."""
        self._offers = ServerOffers()
        self.predecessor: McpServer | None = None
        """The same server of an earlier session, which is being closed: its program may have locked a file or port."""
        self._first_tools: dict[str, ToolOffer] = {}
        """Definition of each tool when this session first saw it, up to the maximum number of tools."""
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        """The last lines of its stderr and of its log messages."""
        self.disabled_tools: frozenset[str] = frozenset()
        """Names of tools that the user switched off."""
        self._authorization = authorization_for(config, around)
        self._around = around
        self._requests = requests
        self._limits = limits
        self._on_change = on_change
        self._connection: McpConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Lock()
        self._is_closed = False
        self._retry_now = asyncio.Event()
        self._changed = asyncio.Event()
        self.is_stale = False
        """Whether it has announced a change of its lists that was not read yet."""

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def offers(self) -> ServerOffers:
        """The server's offers; empty while it is not connected."""
        return self._offers

    @offers.setter
    def offers(self, offers: ServerOffers) -> None:
        self._offers = offers
        for tool in offers.tools:
            if len(self._first_tools) < self._limits.tools:
                self._first_tools.setdefault(tool.name, tool)

    def has_changed(self, tool: ToolOffer) -> bool:
        """Whether a tool's description or arguments differ from when this session first saw it."""
        first = self._first_tools.get(tool.name, tool)
        return (tool.description, tool.title, tool.input_schema) != (first.description, first.title, first.input_schema)

    @property
    def start_ended(self) -> bool:
        """Whether it is neither waiting nor connecting."""
        return self.state not in ("waiting", "connecting")

    async def wait_for_start(self, seconds: float) -> None:
        """Wait at most `seconds` until its start has succeeded or failed; returns at once if it was not started."""
        with contextlib.suppress(TimeoutError):
            await self._wait_while(lambda: self.state == "connecting", seconds)

    async def read_lists(self, seconds: float) -> None:
        """Wait at most `seconds` until the announced changes of its lists were read."""
        with contextlib.suppress(TimeoutError):
            await self._wait_while(lambda: self.is_stale, seconds)

    async def _wait_while(self, holds: Callable[[], bool], seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while holds():
                self._changed.clear()
                await self._changed.wait()

    def start(self) -> None:
        """Start connecting; returns at once. Does nothing unless it is `waiting` or `failed`."""
        if self._task is not None:
            self._retry_now.set()
        elif self._is_closed or self._stopping.locked():
            return
        elif self.state in ("waiting", "failed", "needs-auth"):
            self._set("connecting")
            self._task = start_task(self._run(), name=f"mcp {self.name}")

    async def stop(self, state: ServerState = "waiting") -> None:
        """Disconnect, and wait until everything is cleaned up."""
        # Serialised: a second stop must not return, nor a start begin, while a program is still ending.
        async with self._stopping:
            task, self._task = self._task, None
            if task is not None:
                await cancel_and_wait([task])
            if self.state != "unapproved":
                self._set(state)

    async def close(self) -> None:
        """Disconnect permanently: nothing starts it again."""
        self._is_closed = True
        await self.stop()

    async def end(self) -> None:
        """Close it, and wait for its predecessors too."""
        await self.close()
        if self.predecessor is not None:
            await self.predecessor.end()
            self.predecessor = None

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
        """Let the user sign in with the browser, then reconnect; `show` gets the URL. Raises `McpFailure`."""
        if self.state == "unapproved":
            raise McpFailure(f"The MCP server {self.name} is not approved yet.")
        await self._require_authorization().sign_in(show)
        if self.state != "disabled":
            await self.reconnect()

    def paste(self, text: str) -> None:
        """Complete a sign-in with the URL that the browser was redirected to, or its code. Raises `McpFailure`."""
        self._require_authorization().paste(text)

    async def sign_out(self) -> None:
        """Delete and revoke the tokens. Raises `McpFailure` if they were deleted but not revoked."""
        problem = await self._require_authorization().sign_out()
        if self.state not in ("disabled", "unapproved"):
            await self.stop("needs-auth")
        if problem:
            raise McpFailure(problem)

    def _require_authorization(self) -> ServerAuthorization:
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
        """Raises `McpFailure`; `Aborted` when the signal aborts, after the server was notified."""

        async def report(progress: float, total: float | None, message: str | None) -> None:
            on_progress(CallProgress(progress, total, plain_line(message or "")))

        result: McpResult = await self._request(
            lambda client: client.call_tool(tool, dict(arguments), progress_callback=report),
            signal,
            self.config.timeout,
        )
        return result

    async def read(self, uri: str, signal: AbortSignal | None = None) -> tuple[McpContent, ...]:
        content: tuple[McpContent, ...] = await self._request(lambda client: client.read_resource(uri), signal)
        return content

    async def prompt(
        self, name: str, arguments: Mapping[str, str], signal: AbortSignal | None = None
    ) -> tuple[PromptMessage, ...]:
        messages: tuple[PromptMessage, ...] = await self._request(
            lambda client: client.get_prompt(name, dict(arguments)), signal
        )
        return messages

    async def complete(
        self, kind: str, name: str, argument: str, value: str, others: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Like `McpConnection.complete`; empty if the server does not support completion."""
        return (
            await self._require_connection().complete(kind, name, argument, value, others)
            if self.offers.completes
            else ()
        )

    async def _request(
        self,
        make: Callable[[Client], Coroutine[Any, Any, Any]],
        signal: AbortSignal | None,
        seconds: float | None = None,
    ) -> Any:
        """Send a request; again in a new session if the server forgot the old one, because then it was not executed."""
        connection, seconds = self._require_connection(), seconds or self._limits.call_seconds
        try:
            return await connection.request(make, seconds, signal)
        except SessionExpired:

            def lacks_connection() -> bool:
                return self._task is not None and self._connection in (None, connection)

            try:
                waiting = self._wait_while(lacks_connection, self._limits.start_seconds)
                await (signal or AbortSignal()).run(waiting)
            except TimeoutError:
                raise McpFailure(f"{self.name}: session expired, and there is no new one yet.") from None
            return await self._require_connection().request(make, seconds, signal)
        except McpFailure as failure:
            if self._authorization is not None and (problem := self._authorization.scope_problem()):
                raise McpFailure(f"{self.name}: {problem}") from failure
            raise

    def _require_connection(self) -> McpConnection:
        if self._connection is None:
            why = f": {self.error}" if self.error else ""
            raise McpFailure(f"The MCP server {self.name} is not connected ({self.state}){why}")
        return self._connection

    # --------------------------------------------------------------------------------------------------- connection

    def _set(self, state: ServerState, error: str = "", retry_seconds: float | None = None) -> None:
        self.state, self.error, self.retry_seconds = state, error, retry_seconds
        if state != "connected":
            self.offers = ServerOffers()
            self._connection = None
        self._changed.set()
        self._on_change()

    async def _run(self) -> None:
        if self.predecessor is not None and self.config.kind == "stdio":
            await self.predecessor.end()
        self.predecessor = None
        failures = 0
        while True:
            end = await self._live()
            if end.lasted is not None and end.lasted >= self._limits.stable_seconds:
                failures = 0
            failures += 1
            if not self._may_retry(end, failures):
                self._task = None
                self._set("needs-auth" if end.kind == "unauthorized" else "failed", end.reason)
                return
            seconds = self._limits.restart_seconds * 2 ** (failures - 1)
            if end.kind != "expired" or failures > 1:
                self._set("failed", end.reason, seconds)
                await self._pause(seconds)
            self._set("connecting", end.reason)

    def _may_retry(self, end: _End, failures: int) -> bool:
        if end.kind not in ("lost", "expired"):
            return False
        # A program that exits at its start will most likely do so again.
        once = self.config.kind == "stdio" and end.lasted is None
        return failures <= (min(1, self._limits.restarts) if once else self._limits.restarts)

    async def _pause(self, seconds: float) -> None:
        """Wait, or return early if the user wants to try again."""
        self._retry_now.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._retry_now.wait()
        except TimeoutError:
            return

    async def _live(self) -> _End:
        """Run one connection, from its start to its end."""
        loop = asyncio.get_running_loop()
        link = ServerLink(self.log.append)
        connected_at: float | None = None
        kind: LinkEnd = "refused"
        late = f"no answer within {self._limits.start_seconds:g} seconds"
        given_up: asyncio.TimerHandle | None = None
        try:
            await in_thread(_import_library)
            reader = AnswerReader(link, self._limits)
            async with asyncio.timeout(self._limits.start_seconds) as starting:
                # Stopping it takes some more seconds, which nothing needs to wait for.
                given_up = loop.call_later(self._limits.start_seconds, self._set, "failed", late)
                transport = await self._transport(reader, link)
                opened = McpConnection.open(
                    self.name,
                    transport,
                    self._requests,
                    reader=reader,
                    link=link,
                    limits=self._limits,
                    on_list_changed=lambda _what: self._note_new_lists(link),
                    probes=self._probes,
                )
                async with opened as connection:
                    self.offers = await connection.offers()
                    starting.reschedule(None)
                    given_up.cancel()
                    connected_at = loop.time()
                    self._connection = connection
                    self._set("connected")
                    await connection.ask_for_log()
                    await self._follow(connection, link)
            reason = link.reason
        except TimeoutError:
            reason = late
        except Exception as error:  # noqa: BLE001  whatever a server or the library does must not end the session
            reason = _reason(error)
            if link.http_error and (reason in _STATUS_TEXTS or link.http_error in reason):
                reason, kind = link.http_error, "lost" if link.is_temporary else "refused"
        finally:
            if given_up is not None:
                given_up.cancel()
            self._connection = None
            self._end_staleness()
        if link.ended.is_set():
            reason, kind = link.reason, link.kind
        if self._authorization is None:
            # The configured credentials are refused, and there are no others.
            kind = "refused" if kind == "unauthorized" else kind
        elif refusal := self._authorization.refusal or (connected_at is None and self._authorization.scope_problem()):
            reason, kind = refusal, "unauthorized"
        return _End(reason, kind, None if connected_at is None else loop.time() - connected_at)

    async def _transport(self, reader: AnswerReader, link: ServerLink) -> Transport:
        """The transport, not entered yet. Raises `ValueError` or `OSError`."""
        config, around = self.config, self._around
        dirs = around.working_dirs or (around.cwd,)
        if config.kind != "stdio":
            from agentcli.mcp.http_transport import http_transport

            auth = self._authorization.begin() if self._authorization is not None else None
            return read_transport(await http_transport(config, around, auth, reader, link, self._limits), reader, link)
        command = server_command(
            config.command, config.args, cwd=around.cwd, environ=around.environ, given=config.env, working_dirs=dirs
        )
        environ = server_environment(around.environ, config.env, dirs)
        program = StdioTransport(command, around.cwd, environ, reader, link, self._limits)
        return read_transport(program, reader, link)

    @property
    def _probes(self) -> bool:
        wanted = self._around.environ.get("MCP_PROTOCOL_NEGOTIATION") == "auto"
        return self.config.kind == "http" or (self.config.kind == "stdio" and wanted)

    async def _follow(self, connection: McpConnection, link: ServerLink) -> None:
        """Refresh the lists when they change, until the link ends."""
        while True:
            await link.stirred.wait()
            if await link.ends_within(self._limits.debounce_seconds):
                return
            link.stirred.clear()
            await self._refresh(connection, link)
            if not link.stirred.is_set():
                self._end_staleness()
            if await link.ends_within(self._limits.refresh_seconds):
                return

    def _note_new_lists(self, link: ServerLink) -> None:
        self.is_stale = True
        link.stirred.set()

    def _end_staleness(self) -> None:
        self.is_stale = False
        self._changed.set()

    async def _refresh(self, connection: McpConnection, link: ServerLink) -> None:
        try:
            offers = await connection.offers()
        except McpFailure as failure:
            link.note(f"the lists cannot be read: {failure}")
            return
        if offers != self.offers:
            self.offers = offers
            self._changed.set()
            self._on_change()


def _import_library() -> None:
    import logging

    import mcp.client.client
    import mcp.client.sse  # noqa: F401

    import agentcli.mcp.http_transport  # noqa: F401

    # Without a handler the standard library prints warnings to stderr, which is the user's screen.
    for name in ("mcp", "client", "httpx2", "httpcore2"):
        logging.getLogger(name).addHandler(logging.NullHandler())


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return plain_line(str(error), 500) or type(error).__name__
