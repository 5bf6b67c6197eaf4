"""A prompt whose text is fetched after its submission has begun, for example from an MCP server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agentcli.agent.prompt_queue import Prompt
from agentcli.core.frozen import frozen


@frozen
class RequestedPrompt:
    request: Callable[[], Awaitable[Prompt]]
    """Fetches the text. Raises `AgentError`: then nothing is sent. An abort cancels it."""
    typed: str
    """Text that the transcript shows."""
    kind: str
    """Kind of source, for the user: `MCP server`."""
    name: str
    """Name of the source."""
    mentions: str = ""
    """Text whose `@path` mentions are attached: what the user typed, never what was received."""
