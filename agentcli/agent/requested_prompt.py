"""A prompt whose text comes from elsewhere when its submission has begun, for example from an MCP server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agentcli.agent.prompt_queue import Prompt
from agentcli.core.frozen import frozen


@frozen
class RequestedPrompt:
    request: Callable[[], Awaitable[Prompt]]
    """Raises `AgentError`: then nothing is sent. An abort cancels it."""
    typed: str
    """What the transcript shows."""
    kind: str
    """What it comes from, for the user: `MCP server`."""
    name: str
    """The name of that."""
    mentions: str = ""
    """The text whose `@path` mentions are attached: what the user typed, never what was received."""
