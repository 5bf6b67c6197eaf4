"""One connection to an MCP server: wraps the `mcp` library with our own types.

`McpConnection.open` is an async context manager that must be entered and left in the same task. Calls may come from any
task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentcli import __version__
from agentcli.core.aio import Aborted, AbortSignal, cancel_and_wait, start_task
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.answers import AnswerReader, TakenResult
from agentcli.mcp.contents import clean_text, read_content
from agentcli.mcp.link import CallClock, ServerLimits, ServerLink, run_outside_scopes
from agentcli.mcp.protocol import (
    InputRequest,
    PromptMessage,
    SamplingRequest,
    ServerOffers,
    ServerRequests,
    ToolOffer,
)

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client
    from mcp.client._transport import Transport

_MAX_INSTRUCTIONS = 2048
_MAX_ERROR = 2000
_MAX_REFUSED = 100
_MAX_COMPLETIONS = 100
_LISTEN_TRIES = 5
_REASON_SECONDS = 1.0
FAILED_REQUEST = "Server returned an error response"
"""The library's message for any HTTP error status. Ours name the status."""


class McpFailure(Exception):
    """A call that a server did not answer, or answered with an error. The text is for the model and the user."""


class SessionExpired(McpFailure):
    """The server refused a call because it forgot the session. The call was not executed."""


class McpConnection:
    def __init__(
        self, client: Client, name: str, reader: AnswerReader, link: ServerLink, limits: ServerLimits, clock: CallClock
    ) -> None:
        self._client = client
        self._name = name
        self._reader = reader
        self._link = link
        self._limits = limits
        self._clock = clock
        self._open: set[asyncio.Task[Any]] = set()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        name: str,
        transport: Transport,
        requests: ServerRequests,
        *,
        reader: AnswerReader,
        link: ServerLink,
        limits: ServerLimits,
        on_list_changed: Callable[[str], None] = lambda _what: None,
        probes: bool = False,
    ) -> AsyncGenerator[McpConnection, None]:
        """Connect. `on_list_changed` gets `tools`, `resources` or `prompts`. `probes`: try the stateless protocol
        first."""
        from mcp import Client
        from mcp_types import Implementation

        clock = CallClock()
        callbacks = _Callbacks(name, requests, on_list_changed, link.note, clock)
        client = Client(
            transport,
            client_info=Implementation(name="agentcli", version=__version__),
            mode="auto" if probes else "legacy",
            list_roots_callback=callbacks.roots,
            elicitation_callback=callbacks.elicit if requests.elicits else None,
            sampling_callback=callbacks.sample if requests.samples else None,
            log_level="info",
            message_handler=callbacks.message,
            cache=None,
        )
        connection = cls(client, name, reader, link, limits, clock)
        try:
            async with client:
                listening = start_task(connection._listen(on_list_changed))
                try:
                    yield connection
                finally:
                    await cancel_and_wait([listening])
        finally:
            await cancel_and_wait(connection._open)

    async def offers(self) -> ServerOffers:
        """Request all lists that the server claims to have."""
        client, claims = self._client, self._client.server_capabilities
        tools, refused = self._join_pages(await self._pages(client.list_tools) if claims.tools else [])
        resources = await self._all(client.list_resources) if claims.resources else []
        templates = await self._all(client.list_resource_templates) if claims.resources else []
        prompts = await self._all(client.list_prompts) if claims.prompts else []
        info = client.server_info
        return ServerOffers(
            name=clean_text(info.name, 200) if info is not None else "",
            version=clean_text(info.version, 200) if info is not None else "",
            protocol=client.protocol_version,
            instructions=clean_text(client.instructions, _MAX_INSTRUCTIONS),
            tools=tuple(tools.values()),
            refused=refused,
            resources=tuple(resources),
            templates=tuple(templates),
            prompts=tuple(prompts),
            completes=claims.completions is not None,
        )

    def _join_pages(self, pages: list[Any]) -> tuple[dict[str, ToolOffer], tuple[tuple[str, str], ...]]:
        """The tools of all pages by name, and those that cannot be used."""
        tools: dict[str, ToolOffer] = {}
        refused: list[tuple[str, str]] = []
        extra = 0
        for found, bad in pages:
            refused += bad
            for tool in found:
                if tool.name in tools:
                    refused.append((tool.name, "another tool has the same name"))
                elif len(tools) >= self._limits.tools:
                    extra += 1
                else:
                    tools[tool.name] = tool
        if extra:
            refused.insert(0, (f"{extra:,} tools", f"a server may have {self._limits.tools:,}"))
        return tools, tuple(refused[:_MAX_REFUSED])

    async def ask_for_log(self) -> None:
        """Make the server send log messages from `info` on, if it supports that. In the stateless protocol each request
        asks."""
        import mcp_types as types

        if self._client.session.initialize_result is None or self._client.server_capabilities.logging is None:
            return
        request = types.SetLevelRequest(params=types.SetLevelRequestParams(level="info"))
        try:
            await self._ask(self._client.session.send_request(request, types.EmptyResult), self._limits.list_seconds)
        except McpFailure as failure:
            self._link.note(str(failure))

    async def request(
        self, make: Callable[[Client], Coroutine[Any, Any, Any]], seconds: float, signal: AbortSignal | None = None
    ) -> Any:
        """Send a request of the library's client and return its converted result. Raises `McpFailure`; `Aborted` at
        once after an abort. The server is notified of both, and of a cancellation."""
        return (await self._read(make(self._client), seconds, signal)).value

    async def complete(
        self, kind: str, name: str, argument: str, value: str, others: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Completions for an argument. `kind`: `prompt`, or `resource` for a template; `name` is its name."""
        import mcp_types as types

        about = (
            types.PromptReference(type="ref/prompt", name=name)
            if kind == "prompt"
            else types.ResourceTemplateReference(type="ref/resource", uri=name)
        )
        asked = self._client.complete(about, {"name": argument, "value": value}, dict(others) or None)
        answer = await self._ask(asked, self._limits.list_seconds)
        return tuple(clean_text(each, 1000) for each in answer.completion.values[:_MAX_COMPLETIONS])

    # --------------------------------------------------------------------------------------------------------- requests

    async def _all(self, ask: Callable[..., Coroutine[Any, Any, Any]]) -> list[Any]:
        return [each for page in await self._pages(ask) for each in page][: self._limits.tools]

    async def _pages(self, ask: Callable[..., Coroutine[Any, Any, Any]]) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(self._limits.pages):
            page = await self._read(ask(cursor=cursor), self._limits.list_seconds, None)
            found.append(page.value)
            cursor = page.cursor
            if cursor is None or cursor in seen:
                break
            seen.add(cursor)
        return found

    async def _read(self, asked: Coroutine[Any, Any, Any], seconds: float, signal: AbortSignal | None) -> TakenResult:
        page = self._reader.claim((await self._ask(asked, seconds, signal)).meta)
        if page is None or page.problem:
            raise McpFailure(f"{self._name}: {page.problem if page is not None else 'the answer is malformed'}")
        return page

    async def _ask(self, asked: Coroutine[Any, Any, Any], seconds: float, signal: AbortSignal | None = None) -> Any:
        """Wait for a response, a timeout or an abort. After the latter two the library notifies the server, without
        waiting."""
        task = start_task(asked)
        self._open.add(task)
        task.add_done_callback(self._forget)
        signal = signal or AbortSignal()
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        unhook = signal.on_abort(lambda _reason: stopped.cancel())
        end = self._clock.now() + seconds
        try:
            # A wait may end early: the clock stands still while a question is open.
            while not task.done() and not stopped.done() and (left := end - self._clock.now()) > 0:
                await asyncio.wait([task, stopped], timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            unhook()
            if not task.done():
                task.cancel()
        if not task.done() and signal.reason is not None:
            raise Aborted(signal.reason)
        if not task.done():
            raise McpFailure(f"{self._name} did not answer within {seconds:g} seconds.")
        if _is_closed(task):
            # The reason why the connection ended may arrive a moment later.
            await self._link.ends_within(_REASON_SECONDS)
        return self._answer(task)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._open.discard(task)
        if not task.cancelled():
            task.exception()

    def _answer(self, task: asyncio.Task[Any]) -> Any:
        from mcp import MCPError
        from mcp_types import INVALID_REQUEST
        from pydantic import ValidationError

        if task.cancelled() or (_is_closed(task) and self._link.ended.is_set()):
            reason = self._link.reason or "the connection was closed"
            raise McpFailure(f"{self._name} disconnected: {reason}")
        try:
            return task.result()
        except MCPError as error:
            message = plain_line(error.error.message, _MAX_ERROR)
            if error.error.code == INVALID_REQUEST and message == "Session terminated":
                raise SessionExpired(f"{self._name}: {message}") from None
            if message == FAILED_REQUEST and self._link.http_error:
                message = self._link.http_error
            raise McpFailure(f"{self._name}: {message}") from None
        except ValidationError:
            raise McpFailure(f"{self._name} sent an answer that is not valid.") from None
        except Exception as error:  # noqa: BLE001  whatever the library does with an answer must not end the session
            raise McpFailure(f"{self._name}: {plain_line(str(error), _MAX_ERROR) or type(error).__name__}") from None

    async def _listen(self, on_list_changed: Callable[[str], None]) -> None:
        """Follow list changes in the stateless protocol, where they come on a stream that the client must request."""
        from mcp import MCPError
        from mcp.client.subscriptions import SubscriptionLost
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        claims = self._client.server_capabilities
        wanted: dict[str, Any] = {
            f"{what}_list_changed": True
            for what, claim in (("tools", claims.tools), ("resources", claims.resources), ("prompts", claims.prompts))
            if claim is not None and claim.list_changed
        }
        if not wanted or self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        for attempt in range(_LISTEN_TRIES):
            try:
                async with self._client.listen(**wanted) as events:
                    if attempt:
                        on_list_changed("tools")
                    async for event in events:
                        on_list_changed(type(event).__name__.removesuffix("ListChanged").lower())
            except (MCPError, SubscriptionLost, TimeoutError, RuntimeError) as error:
                self._link.note(f"changes of the lists are not reported: {error}")
            await asyncio.sleep(self._limits.restart_seconds * 2**attempt)


def _is_closed(task: asyncio.Task[Any]) -> bool:
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    error = None if task.cancelled() else task.exception()
    return isinstance(error, MCPError) and error.error.code == CONNECTION_CLOSED


class _Callbacks:
    """Callbacks of the library for requests and notifications from the server."""

    def __init__(
        self,
        name: str,
        requests: ServerRequests,
        on_list_changed: Callable[[str], None],
        note: Callable[[str], None],
        clock: CallClock,
    ) -> None:
        self._name = name
        self._clock = clock
        self._note = note
        self._requests = requests
        self._on_list_changed = on_list_changed

    async def roots(self, context: Any) -> types.ListRootsResult:
        import mcp_types as types

        folders = self._requests.roots()
        return types.ListRootsResult.model_validate(
            {"roots": [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]}
        )

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        import mcp_types as types

        url = getattr(params, "url", "") or ""
        schema = {} if url else dict(params.requested_schema)
        request = InputRequest(self._name, clean_text(params.message, 8000), schema, str(url))
        with self._clock.stopped():
            answer = await run_outside_scopes(self._requests.elicit(request))
        content: dict[str, Any] | None = dict(answer.content) if answer.action == "accept" and not url else None
        return types.ElicitResult(action=answer.action, content=content)

    async def sample(self, context: Any, params: Any) -> types.CreateMessageResult | types.ErrorData:
        import mcp_types as types

        messages = tuple(
            PromptMessage(message.role, read_content(part.model_dump(by_alias=True, mode="json")))
            for message in params.messages
            for part in (message.content if isinstance(message.content, list) else [message.content])
        )
        preferences = params.model_preferences
        hints = tuple(hint.name for hint in (preferences.hints if preferences else None) or () if hint.name)
        request = SamplingRequest(self._name, messages, params.system_prompt or "", params.max_tokens, hints)
        with self._clock.stopped():
            reply = await run_outside_scopes(self._requests.sample(request))
        if reply.refused:
            return types.ErrorData(code=-1, message=reply.refused)
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=reply.text),
            model=reply.model,
            stop_reason=reply.stop_reason,
        )

    async def message(self, message: Any) -> None:
        import mcp_types as types

        for kind, what in (
            (types.ToolListChangedNotification, "tools"),
            (types.ResourceListChangedNotification, "resources"),
            (types.PromptListChangedNotification, "prompts"),
        ):
            if isinstance(message, kind):
                self._on_list_changed(what)
        if isinstance(message, types.ElicitCompleteNotification):
            self._note("the request in the browser is complete")
