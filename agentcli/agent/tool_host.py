"""Run the tools of a session for another program (`agentcli mcp serve`), with its permissions, hooks and sandbox.

There is no model and no conversation: every call is one tool run. Read-only calls run in parallel, all others one after
the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from agentcli.agent.ports import EmitEvent, Questions
from agentcli.agent.session import Session
from agentcli.agent.toolcalls.calls import CallResult
from agentcli.agent.toolcalls.toolcall import ToolRunner
from agentcli.core import events as ev
from agentcli.core.aio import AbortController, AbortReason, start_task, wait_uncancelled
from agentcli.core.messages import ImageBlock, Json, TextBlock, ToolUseBlock, unwrap_error
from agentcli.core.permission import Answer
from agentcli.core.text.plaintext import plain_text
from agentcli.mcp.protocol import McpContent, McpResult
from agentcli.mcp.tool_server import ServedClient, ServedTool
from agentcli.permissions.rules import show_rule
from agentcli.tools.base import Tool
from agentcli.tools.registry import Registry

ONCE, SESSION, NO = "Allow once", "Allow such calls in this session", "Do not allow"
_MAX_INPUT = 4_000


class SessionToolHost:
    """Implements `mcp.tool_server.ToolHost`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._changing = asyncio.Lock()
        """Held by a call that may change something."""

    def tools(self) -> Sequence[ServedTool]:
        return [
            ServedTool(tool.name, tool.description, tool.input_schema, _only_reads(tool))
            for tool in _filter_served(self._session.registry)
        ]

    async def call(self, name: str, arguments: Json, client: ServedClient) -> McpResult:
        served = _filter_served(self._session.registry)
        if served.get(name) is None:
            text = f"There is no tool called {name[:100]!r}. {served.hint(name)}".rstrip()
            return McpResult((McpContent("text", text=text),), is_error=True)
        controller = AbortController()
        work = start_task(self._run(name, arguments, client, controller))
        try:
            result = await asyncio.shield(work)
        except asyncio.CancelledError:
            controller.abort(AbortReason.USER_CANCEL)
            await wait_uncancelled([work])
            raise
        return _as_result(result)

    async def _run(self, name: str, arguments: Json, client: ServedClient, controller: AbortController) -> CallResult:
        session = self._session
        questions = Questions(interactive=client.can_ask)
        runner = ToolRunner(session, questions)
        call = ToolUseBlock(session.ids.new(), name, arguments)

        async def emit(event: ev.Event) -> None:
            if isinstance(event, ev.ToolProgressed) and event.text:
                await client.report(plain_text(event.text.removeprefix("\r")))
            elif isinstance(event, ev.PermissionRequested):
                questions.answer(event.request_id, await _answer(event, client))

        if runner.is_safe(call) or runner.runs_beside(call):
            return await self._run_call(runner, call, controller, emit)
        async with self._changing:
            result = await self._run_call(runner, call, controller, emit)
        if result.output.new_cwd is not None:
            session.tool_context = replace(session.tool_context, cwd=result.output.new_cwd)
        return result

    async def _run_call(
        self, runner: ToolRunner, call: ToolUseBlock, controller: AbortController, emit: EmitEvent
    ) -> CallResult:
        return await runner.run(call, self._session.tool_context, controller.signal, emit, lambda: None)


async def _answer(question: ev.PermissionRequested, client: ServedClient) -> Answer:
    """Let the user of the other program answer a permission question."""
    input = "\n".join(f"{name}: {value}" for name, value in question.input.items())
    rules = f"\n\n{SESSION}: {', '.join(map(show_rule, question.suggestions))}" if question.suggestions else ""
    message = plain_text(f"{question.title}\n\n{question.reason}\n\n{input[:_MAX_INPUT]}{rules}")
    choices = (ONCE, SESSION, NO) if question.suggestions else (ONCE, NO)
    chosen = await client.choose(message, choices)
    if chosen == SESSION:
        return Answer("allow", rules=tuple(question.suggestions))
    return Answer("allow") if chosen == ONCE else Answer("deny", message="The user of the calling program declined.")


def _as_result(result: CallResult) -> McpResult:
    parts: list[McpContent] = []
    for block in result.block.content:
        if isinstance(block, TextBlock):
            parts.append(McpContent("text", text=unwrap_error(block.text)))
        elif isinstance(block, ImageBlock) and block.source.get("type") == "base64":
            parts.append(McpContent("image", data=block.source["data"], mime_type=block.source["media_type"]))
    return McpResult(tuple(parts), is_error=result.block.is_error)


def _only_reads(tool: Tool) -> bool:
    """Whether a tool never changes anything, whatever its input."""
    try:
        return tool.is_safe({})
    except Exception:  # noqa: BLE001 - it depends on the input
        return False


def _filter_served(registry: Registry) -> Registry:
    return registry.without(tool.name for tool in registry if getattr(tool, "needs_conversation", False))
