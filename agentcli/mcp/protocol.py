"""Values that MCP servers and the session exchange: offers, results, requests, and names of tools for the model.

Texts are as the server sent them: untrusted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from pathlib import Path
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


class ServerRequests:
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


PREFIX = "mcp__"
MAX_NAME = 128
_MAX_SERVER = 60
_DIGEST = 8
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_UNDERSCORES = re.compile(r"__+")


def server_part(server: str) -> str:
    """A server's name as it is written in the names of its tools."""
    cleaned = _UNDERSCORES.sub("_", _OTHER.sub("_", server)).strip("_")
    return _shorten(cleaned, _MAX_SERVER, server) or "server"


def tool_name(server: str, tool: str) -> str:
    """The name of a server's tool, unless another tool has the same; see `tool_names`."""
    return _name_tool(server_part(server), tool)


def split_name(name: str) -> tuple[str, str] | None:
    """The server's part and the tool's part; None if it is not such a name. The tool's part of `mcp__server` is
    empty."""
    if not name.startswith(PREFIX):
        return None
    server, _, tool = name.removeprefix(PREFIX).partition("__")
    return (server, tool) if server else None


def server_parts(servers: Iterable[str], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Each server's part, all distinct. Pass all configured servers, so that it does not depend on which are connected.

    `known`: parts of servers that keep them.
    """
    return _make_distinct(servers, server_part, known)


def tool_names(part: str, tools: Iterable[str]) -> dict[str, str]:
    """The name of each tool of one server (`part`: see `server_parts`), all distinct, regardless of their order."""
    return _make_distinct(tools, lambda tool: _name_tool(part, tool))


def _name_tool(part: str, tool: str) -> str:
    start = f"{PREFIX}{part}__"
    return start + (_shorten(_OTHER.sub("_", tool), MAX_NAME - len(start), tool) or "tool")


def _shorten(cleaned: str, longest: int, original: str) -> str:
    if len(cleaned) <= longest:
        return cleaned
    digest = hashlib.blake2b(original.encode("utf-8", "surrogatepass"), digest_size=_DIGEST // 2).hexdigest()
    return f"{cleaned[: longest - _DIGEST - 1]}_{digest}"


def _make_distinct(
    originals: Iterable[str], name_of: Callable[[str], str], known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Make names distinct. Among originals with the same name, the one that needs no change keeps it, else the first in
    sorted order; the others get a number."""
    known = known or {}
    names = {original: name_of(original) for original in originals if original not in known}
    taken = {name: original for original, name in known.items()}
    for original in sorted(names, key=lambda each: (not names[each].endswith(each), each)):
        name, number = names[original], 2
        while name in taken:
            suffix = f"_{number}"
            name, number = names[original][: MAX_NAME - len(suffix)] + suffix, number + 1
        taken[name] = original
    by_original = {original: name for name, original in taken.items()}
    return {original: by_original[original] for original in (*known, *names)}
