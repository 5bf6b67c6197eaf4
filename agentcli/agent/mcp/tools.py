"""A tool of an MCP server as a `Tool`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from agentcli.agent.mcp.results import MOST_TOKENS, ResultLimits, output_of
from agentcli.core.abort import Aborted, AbortSignal
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.messages import Json
from agentcli.core.permission import TOOL_VERSION, Need
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.protocol import REFUSED_AT_TOP, CallProgress, ToolOffer
from agentcli.tools.base import Output, Progress, ToolContext, ToolRun
from agentcli.tools.builtin import failure

if TYPE_CHECKING:
    from agentcli.mcp.server import McpServer

LONGEST_DESCRIPTION = 2_048
_LONGEST_VALUE = 80
_PROGRESS_SECONDS = 0.1
"""Minimum time between two progress reports of a call."""
_CONNECT_SECONDS = 30.0
"""Timeout for a server that is still connecting when its tool is called."""


class McpTool:
    shows_schema = True
    """Answer invalid input with the schema: the model may call the tool without having seen it."""

    def __init__(self, server: McpServer, offer: ToolOffer, name: str, most_tokens: int = MOST_TOKENS) -> None:
        """`name`: the one for the model. `most_tokens`: limit of a result, unless the tool has its own."""
        self.server = server
        self.offer = offer
        self.name = name
        self.description = described(offer)
        self.input_schema = sendable_schema(offer.input_schema)
        self._most_tokens = most_tokens

    @property
    def is_there(self) -> bool:
        """Whether its server offers it now."""
        server, tool = self.server, self.offer.name
        return server.state == "connected" and any(tool == one.name for one in server.offers.tools)

    @property
    def validates_itself(self) -> bool:
        """Whether the server has changed the schema since, so that only the server can check an input."""
        return any(
            self.offer.name == one.name and self.offer.input_schema != one.input_schema
            for one in self.server.offers.tools
        )

    def title(self, input: Json) -> str:
        values = ", ".join(f"{name}: {_shown(value)}" for name, value in input.items())
        called = self.offer.title or self.offer.name
        return plain_line(f"{self.server.name}: {called}{f' ({values})' if values else ''}")

    def is_safe(self, input: Json) -> bool:
        return self.offer.read_only

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        # The server's claim to be read-only is not a permission. It may have changed the tool since the model saw it.
        offers = (one for one in self.server.offers.tools if one.name == self.offer.name)
        version = next(offers, self.offer).version
        return (Need("other", f"{TOOL_VERSION}{version}", is_declared_read_only=self.offer.read_only),)

    def preview(self, input: Json, context: ToolContext) -> Json:
        """The server, the tool and the server's claims about it, for the permission question."""
        offer = self.offer
        claims = ["read-only"] if offer.read_only else []
        claims += ["destructive"] if offer.destructive and not offer.read_only else []
        claims += ["open world"] if offer.open_world else []
        about = {"server": self.server.name, "tool": offer.name, "description": plain_line(offer.description, 300)}
        return {"kind": "mcp", **about, "claims": claims}

    def check(self, input: Json, context: ToolContext) -> str | None:
        server, tool = self.server, self.offer.name
        if tool in server.disabled_tools:
            return f"The user has turned {self.name} off."
        if server.state == "connected" and not self.is_there:
            return f"The MCP server {server.name} no longer has the tool {plain_line(tool)}."
        return None

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        latest: list[CallProgress] = []
        news = asyncio.Event()

        def report(progress: CallProgress) -> None:
            latest[:] = [progress]
            news.set()

        working = start_task(self._called(input, context, signal, report), name=self.name)
        try:
            while not working.done():
                waiting = start_task(news.wait())
                await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
                await cancel_and_wait([waiting])
                if news.is_set() and not working.done():
                    news.clear()
                    yield _progress(latest[0])
                    await asyncio.wait({working}, timeout=_PROGRESS_SECONDS)
            yield working.result()
        finally:
            await cancel_and_wait([working])

    async def _called(self, input: Json, context: ToolContext, signal: AbortSignal, report: Any) -> Output:
        limits = ResultLimits(context.results_dir, self._most_tokens, self.offer.max_result_chars)
        try:
            # In a resumed session the model knows the tools before their server is connected.
            await signal.run(self.server.settle(_CONNECT_SECONDS))
            return await output_of(await self.server.call(self.offer.name, input, report, signal), limits)
        except McpFailure as error:
            return failure(f"{self.name} failed. {plain_text(str(error))[:4_000]}")
        except Aborted:
            return failure(f"{self.name} was stopped before it ended.", "stopped")


def described(offer: ToolOffer) -> str:
    """The description for the model, without control characters and of limited length."""
    text = plain_text(offer.description or offer.title).strip()
    if len(text) <= LONGEST_DESCRIPTION:
        return text
    return f"{text[: LONGEST_DESCRIPTION - 20].rstrip()} [… cut off]"


def sendable_schema(schema: Json) -> Json:
    """A server's schema in the form that the API accepts: an object at the top level, without alternatives."""
    kept = {key: value for key, value in schema.items() if key not in REFUSED_AT_TOP}
    return {**kept, "type": "object"}


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return plain_line(text, _LONGEST_VALUE)


def _progress(progress: CallProgress) -> Progress:
    done = f"{progress.done:g}" if progress.total is None else f"{progress.done:g} of {progress.total:g}"
    text = plain_line(f"{progress.text} ({done})" if progress.text else done)
    return Progress(text, {"done": progress.done, "total": progress.total})
