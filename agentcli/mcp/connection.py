"""One connection to an MCP server, over the `mcp` library, in our own terms.

`McpConnection.open` is an async context manager that must be entered and left in the same task. The calls may come from
any task.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentcli import __version__
from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json
from agentcli.mcp.client_duties import ClientDuties, InputRequest, SamplingRequest
from agentcli.mcp.offers import (
    CallProgress,
    McpContent,
    McpResult,
    PromptArgument,
    PromptMessage,
    PromptOffer,
    ResourceOffer,
    ResourceTemplateOffer,
    ServerOffers,
    ToolOffer,
)

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client
    from mcp.client._transport import Transport

_MOST_PAGES = 100
OnProgress = Callable[[CallProgress], None]
MAX_RESULT_KEY = "anthropic/maxResultSizeChars"


class McpFailure(Exception):
    """A call that a server did not answer, or answered with an error. The text is for the model and the user."""


class McpConnection:
    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        name: str,
        transport: Transport,
        duties: ClientDuties,
        *,
        on_list_changed: Callable[[str], None] = lambda _what: None,
        on_log: Callable[[str], None] = lambda _line: None,
        probes: bool = False,
    ) -> AsyncGenerator[McpConnection, None]:
        """`on_list_changed` gets `tools`, `resources` or `prompts`. `probes`: ask for the stateless protocol first."""
        from mcp import Client
        from mcp_types import Implementation

        callbacks = _Callbacks(name, duties, on_list_changed, on_log)
        client = Client(
            transport,
            client_info=Implementation(name="agentcli", version=__version__),
            mode="auto" if probes else "legacy",
            list_roots_callback=callbacks.roots,
            elicitation_callback=callbacks.elicit if duties.elicits else None,
            sampling_callback=callbacks.sample if duties.samples else None,
            logging_callback=callbacks.log,
            message_handler=callbacks.message,
            cache=None,
        )
        async with client:
            yield cls(client, name)

    async def offers(self) -> ServerOffers:
        """Ask for everything that the server claims to have."""
        client, claims = self._client, self._client.server_capabilities
        tools = await _pages(client.list_tools, "tools") if claims.tools else []
        resources = await _pages(client.list_resources, "resources") if claims.resources else []
        templates = await _pages(client.list_resource_templates, "resource_templates") if claims.resources else []
        prompts = await _pages(client.list_prompts, "prompts") if claims.prompts else []
        info = client.server_info
        return ServerOffers(
            name=info.name if info is not None else "",
            version=info.version if info is not None else "",
            protocol=client.protocol_version,
            instructions=client.instructions or "",
            tools=tuple(map(_tool, tools)),
            resources=tuple(map(_resource, resources)),
            templates=tuple(map(_template, templates)),
            prompts=tuple(map(_prompt, prompts)),
            completes=claims.completions is not None,
        )

    async def call(self, tool: str, arguments: Json, on_progress: OnProgress, seconds: float) -> McpResult:
        """Raises `McpFailure`. Cancelling it tells the server."""

        async def report(progress: float, total: float | None, message: str | None) -> None:
            on_progress(CallProgress(progress, total, message or ""))

        result = await self._asked(
            self._client.call_tool(tool, dict(arguments), read_timeout_seconds=seconds, progress_callback=report)
        )
        return McpResult(tuple(map(_content, result.content)), result.structured_content, bool(result.is_error))

    async def read(self, uri: str) -> tuple[McpContent, ...]:
        result = await self._asked(self._client.read_resource(uri))
        return tuple(map(_resource_content, result.contents))

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> tuple[PromptMessage, ...]:
        result = await self._asked(self._client.get_prompt(name, dict(arguments)))
        return tuple(PromptMessage(message.role, _content(message.content)) for message in result.messages)

    async def complete(
        self, kind: str, name: str, argument: str, value: str, others: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Values for an argument. `kind`: `prompt`, or `resource` for a template, which `name` is then."""
        import mcp_types as types

        about = (
            types.PromptReference(type="ref/prompt", name=name)
            if kind == "prompt"
            else types.ResourceTemplateReference(type="ref/resource", uri=name)
        )
        asked = self._client.complete(about, {"name": argument, "value": value}, dict(others) or None)
        return tuple((await self._asked(asked)).completion.values)

    async def tell_roots_changed(self) -> None:
        if self._client.session.initialize_result is not None:
            await self._client.send_roots_list_changed()

    async def _asked(self, answer: Awaitable[Any]) -> Any:
        from mcp import MCPError
        from pydantic import ValidationError

        try:
            return await answer
        except MCPError as error:
            raise McpFailure(f"{self._name}: {error.error.message}") from error
        except TimeoutError as error:
            raise McpFailure(f"{self._name} did not answer in time.") from error
        except ValidationError as error:
            raise McpFailure(f"{self._name} sent an answer that is not valid.") from error


class _Callbacks:
    """What the library calls when the server asks or tells something."""

    def __init__(
        self, name: str, duties: ClientDuties, on_list_changed: Callable[[str], None], on_log: Callable[[str], None]
    ) -> None:
        self._name = name
        self._duties = duties
        self._on_list_changed = on_list_changed
        self._on_log = on_log

    async def roots(self, context: Any) -> types.ListRootsResult:
        import mcp_types as types

        folders = self._duties.roots()
        return types.ListRootsResult.model_validate(
            {"roots": [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]}
        )

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        import mcp_types as types

        url = getattr(params, "url", "") or ""
        schema = {} if url else dict(params.requested_schema)
        answer = await self._duties.elicit(InputRequest(self._name, params.message, schema, str(url)))
        content: dict[str, Any] | None = dict(answer.content) if answer.action == "accept" and not url else None
        return types.ElicitResult(action=answer.action, content=content)

    async def sample(self, context: Any, params: Any) -> types.CreateMessageResult | types.ErrorData:
        import mcp_types as types

        messages = tuple(
            PromptMessage(message.role, _content(part))
            for message in params.messages
            for part in (message.content if isinstance(message.content, list) else [message.content])
        )
        preferences = params.model_preferences
        hints = tuple(hint.name for hint in (preferences.hints if preferences else None) or () if hint.name)
        request = SamplingRequest(self._name, messages, params.system_prompt or "", params.max_tokens, hints)
        reply = await self._duties.sample(request)
        if reply.refused:
            return types.ErrorData(code=-1, message=reply.refused)
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=reply.text),
            model=reply.model,
            stop_reason=reply.stop_reason,
        )

    async def log(self, params: Any) -> None:
        self._on_log(f"{params.level}: {params.data}")

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
            self._on_log("info: the server has what it asked for in the browser")


async def _pages(ask: Callable[..., Awaitable[Any]], field: str) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await ask(cursor=cursor)
        found += getattr(page, field)
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _tool(tool: types.Tool) -> ToolOffer:
    hints = tool.annotations
    largest = (tool.meta or {}).get(MAX_RESULT_KEY)
    return ToolOffer(
        name=tool.name,
        description=tool.description or "",
        title=tool.title or (hints.title if hints is not None and hints.title else ""),
        input_schema=dict(tool.input_schema),
        output_schema=dict(tool.output_schema) if tool.output_schema else None,
        read_only=bool(hints is not None and hints.read_only_hint),
        destructive=bool(hints is not None and hints.destructive_hint),
        open_world=bool(hints is not None and hints.open_world_hint),
        max_result_chars=largest if isinstance(largest, int) and not isinstance(largest, bool) else None,
    )


def _resource(found: types.Resource) -> ResourceOffer:
    return ResourceOffer(
        uri=str(found.uri),
        name=found.name,
        title=found.title or "",
        description=found.description or "",
        mime_type=found.mime_type or "",
        size=found.size,
    )


def _template(found: types.ResourceTemplate) -> ResourceTemplateOffer:
    return ResourceTemplateOffer(
        uri_template=found.uri_template,
        name=found.name,
        title=found.title or "",
        description=found.description or "",
        mime_type=found.mime_type or "",
    )


def _prompt(found: types.Prompt) -> PromptOffer:
    arguments = tuple(
        PromptArgument(each.name, each.description or "", bool(each.required)) for each in found.arguments or ()
    )
    return PromptOffer(found.name, found.title or "", found.description or "", arguments)


def _content(part: Any) -> McpContent:
    match part.type:
        case "text":
            return McpContent("text", text=part.text)
        case "image":
            return McpContent("image", data=part.data, mime_type=part.mime_type)
        case "audio":
            return McpContent("audio", data=part.data, mime_type=part.mime_type)
        case "resource":
            return _resource_content(part.resource)
        case "resource_link":
            return McpContent(
                "link", text=part.description or "", uri=str(part.uri), name=part.name, mime_type=part.mime_type or ""
            )
    return McpContent("text", text=f"[content of an unknown kind: {part.type}]")


def _resource_content(found: Any) -> McpContent:
    return McpContent(
        "resource",
        text=getattr(found, "text", "") or "",
        data=getattr(found, "blob", "") or "",
        mime_type=found.mime_type or "",
        uri=str(found.uri),
    )


async def run_until(signal: AbortSignal | None, work: Awaitable[Any]) -> Any:
    """Await something until the abort at the latest, which then raises `Aborted`."""
    return await (work if signal is None else signal.run(work))
