"""The loop as a library: `async for event in query("…")`. Thin over `assemble` and `Engine`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from agentcli.agent.ports import Prompt
from agentcli.assemble import Options, build_engine
from agentcli.core.events import Event

_SERVER_SECONDS = 30.0


async def query(prompt: Prompt, options: Options | None = None) -> AsyncGenerator[Event, None]:
    """Run one prompt in a new conversation and yield its events. The last one is the `Result`; closing the generator
    stops the work. Waits up to 30 seconds for MCP servers.

    from agentcli import Options, Result, query

    async for event in query("What does this project do?", Options(max_turns=5)):
        if isinstance(event, Result):
            print(event.text)
    """
    async with build_engine(options or Options()) as engine:
        if engine.session.mcp is not None:
            engine.session.mcp.start()
            await engine.session.mcp.wait_for_start(_SERVER_SECONDS)
        async with aclosing(engine.submit(prompt)) as events:
            async for event in events:
                yield event
