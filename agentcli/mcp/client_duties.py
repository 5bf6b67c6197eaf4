"""Requests that MCP servers may make to the client: its folders, user input, a model reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.mcp.offers import PromptMessage

ElicitAction = Literal["accept", "decline", "cancel"]


@frozen
class InputRequest:
    """A server's request for user input (elicitation)."""

    server: str
    message: str
    schema: Json = field(default_factory=dict)
    """Schema of the requested object: flat, with primitive fields. Empty in url mode."""
    url: str = ""
    """If not empty, the user should open this URL instead of filling in a form."""


@frozen
class InputAnswer:
    action: ElicitAction
    content: Mapping[str, str | int | float | bool | list[str]] = field(default_factory=dict)


@frozen
class SamplingRequest:
    """A server's request for a model reply (sampling)."""

    server: str
    messages: tuple[PromptMessage, ...]
    system: str = ""
    max_tokens: int = 1024
    hints: tuple[str, ...] = ()
    """Model names, or parts of them, that the server prefers, best first."""


@frozen
class SamplingReply:
    text: str = ""
    model: str = ""
    stop_reason: str = "endTurn"
    refused: str = ""
    """Why there is no reply; empty if there is one."""


class ClientDuties:
    """Answers requests of servers. This base class has no folders, declines everything and claims no capability."""

    @property
    def elicits(self) -> bool:
        """Whether the user can be asked for input."""
        return False

    @property
    def samples(self) -> bool:
        """Whether a model can be used for sampling."""
        return False

    def roots(self) -> Sequence[Path]:
        return ()

    async def elicit(self, request: InputRequest) -> InputAnswer:
        return InputAnswer("cancel")

    async def sample(self, request: SamplingRequest) -> SamplingReply:
        return SamplingReply(refused="sampling is not available")
