"""What MCP servers may ask of the client: its folders, the user's input, a reply of the model."""

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
    """A server wants something from the user (elicitation)."""

    server: str
    message: str
    schema: Json = field(default_factory=dict)
    """Of the wanted object: flat, with primitive fields. Empty in url mode."""
    url: str = ""
    """Not empty: the user shall open this address instead of filling a form."""


@frozen
class InputAnswer:
    action: ElicitAction
    content: Mapping[str, str | int | float | bool | list[str]] = field(default_factory=dict)


@frozen
class SamplingRequest:
    """A server wants a reply of the model."""

    server: str
    messages: tuple[PromptMessage, ...]
    system: str = ""
    max_tokens: int = 1024
    hints: tuple[str, ...] = ()
    """Names of models, or parts of them, that the server would like, the best first."""


@frozen
class SamplingReply:
    text: str = ""
    model: str = ""
    stop_reason: str = "endTurn"
    refused: str = ""
    """Not empty: there is no reply, for this reason."""


class ClientDuties:
    """Answers servers. This one has no folders and declines everything; nothing is claimed that it does not do."""

    @property
    def elicits(self) -> bool:
        """Whether a user can be asked for input."""
        return False

    @property
    def samples(self) -> bool:
        """Whether a model can be asked."""
        return False

    def roots(self) -> Sequence[Path]:
        return ()

    async def elicit(self, request: InputRequest) -> InputAnswer:
        return InputAnswer("cancel")

    async def sample(self, request: SamplingRequest) -> SamplingReply:
        return SamplingReply(refused="sampling is not available")
