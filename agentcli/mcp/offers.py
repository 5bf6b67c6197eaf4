"""What MCP servers offer, and the results of their calls. Texts are as the server sent them: untrusted."""

from __future__ import annotations

import json
from dataclasses import field
from hashlib import sha256
from typing import Any, Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json

REFUSED_AT_TOP = ("anyOf", "oneOf", "allOf", "enum", "not")
"""Keywords that the API refuses at the top of an input schema."""


@frozen
class ToolOffer:
    name: str
    """The tool's name on the server."""
    description: str = ""
    title: str = ""
    input_schema: Json = field(default_factory=lambda: {"type": "object"})
    output_schema: Json | None = None
    read_only: bool = False
    """The server claims that it changes nothing."""
    destructive: bool = False
    """The server claims that it may remove or overwrite something."""
    open_world: bool = False
    """The server claims that it reaches beyond this machine."""
    max_result_chars: int | None = None
    """The tool's own limit, from its `_meta`."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Top-level keywords of its schema that the API refuses; they are not sent to the model."""
        return tuple(key for key in REFUSED_AT_TOP if key in self.input_schema)

    @property
    def version(self) -> str:
        """Digest of what the user sees and the model obeys: a changed tool needs a new approval."""
        defined = (self.name, self.title, self.description, self.input_schema, self.read_only, self.destructive)
        return sha256(json.dumps(defined, sort_keys=True).encode()).hexdigest()[:16]

    def is_defined_as(self, other: ToolOffer) -> bool:
        """Whether both look the same to the model."""
        return (self.description, self.title, self.input_schema) == (other.description, other.title, other.input_schema)


@frozen
class ResourceOffer:
    uri: str
    name: str = ""
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None


@frozen
class ResourceTemplateOffer:
    uri_template: str
    name: str = ""
    title: str = ""
    description: str = ""
    mime_type: str = ""


@frozen
class PromptArgument:
    name: str
    description: str = ""
    required: bool = False


@frozen
class PromptOffer:
    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@frozen
class McpContent:
    """One part of a result, of a resource or of a prompt's message."""

    kind: Literal["text", "image", "audio", "resource", "link"]
    text: str = ""
    """The text, or the text of a resource, or the description of a link."""
    data: str = ""
    """Base64 of an image, a sound or a binary resource."""
    mime_type: str = ""
    uri: str = ""
    name: str = ""


@frozen
class McpResult:
    """Result of a tool call."""

    content: tuple[McpContent, ...] = ()
    structured: Any = None
    is_error: bool = False


@frozen
class PromptMessage:
    role: Literal["user", "assistant"]
    content: McpContent


@frozen
class CallProgress:
    done: float = 0.0
    total: float | None = None
    text: str = ""


@frozen
class ServerOffers:
    """Everything that a connected server offers."""

    name: str = ""
    """The name that the server gives itself."""
    version: str = ""
    protocol: str = ""
    instructions: str = ""
    """The server's instructions for the model."""
    tools: tuple[ToolOffer, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    """Tools that cannot be used, and why."""
    resources: tuple[ResourceOffer, ...] = ()
    templates: tuple[ResourceTemplateOffer, ...] = ()
    prompts: tuple[PromptOffer, ...] = ()
    completes: bool = False
    """Whether the server can complete arguments."""
