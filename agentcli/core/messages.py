"""Messages and their blocks: the conversation as values, and their wire form.

A block of an unknown kind is kept complete (`UnknownBlock`) and sent back unchanged. Everything here is immutable by
convention, even where Python cannot enforce it: the dictionaries inside blocks are never changed, because the same
object is in the log, on disk and in the next request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Literal, NoReturn

from agentcli.core.compressed import compressible_field
from agentcli.core.frozen import frozen
from agentcli.core.usage import Usage

COPY_OF = "copy_of"
"""Meta key: the id of the message that this one repeats after a compaction."""

TYPED = "typed"
"""Meta key of a prompt: the text as typed, with placeholders for pasted text."""

EXPANDED = "expanded"
"""Meta key of a prompt: the command or skill that its text comes from (`kind`, `name`, `file`); `entered`: the session
shows the typed line before it, with the shell commands of the file."""

SKILLS = "skills"
"""Meta key of an attachment: the skills that it lists for the model (`listed`, `gone`, `first`, `tool`)."""

MCP_SERVERS = "mcp_servers"
"""Meta key of an attachment: its information about MCP servers, by server name."""

SAID = "said"
"""Meta key: the user's words alone, if the text also explains them to the model."""

ATTACHED = "attached"
"""Meta key: the file attached with `@path` (`path`, `name`, `summary`, `part`); empty if it failed."""

ATTACHMENT = "attachment"
"""Meta key of an attachment: what it reports as data, with its `type` (`max_turns_reached`: `max_turns` and
`turn_count`)."""

NOTE = "note"
"""Meta key of an attachment whose content the user has already seen elsewhere. `about` is shell, undo, background or
agents; `shells` and `agents` have the ids of background commands and agents that have ended."""

RESULT_DATA = "result_data"
"""Meta key of a message of tool results: data for later steps, by call id. `partial`: Read did not show the whole file.
`ended`: id of the background command whose end the result reports, "" if it still runs. `plan`: the plan as the user
approved it."""

EXTENDS_ANSWER = "extends_answer"
"""Meta key of a message of agentcli that asks the model to extend its finished answer."""

SUMMARY = "summary"
"""Meta key of a compaction's summary: its text for the user, without what is added for the model."""

Json = dict[str, Any]


class _Nothing(dict[str, Any]):
    """An empty dictionary that stays empty. Unlike a `MappingProxyType` it can be copied, pickled and converted to
    JSON."""

    def _refuse(self, *_args: Any, **_values: Any) -> NoReturn:
        raise TypeError("all messages and calls share this empty dictionary: use dataclasses.replace to change one")

    __setitem__ = __ior__ = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[Json], tuple[()]]:
        return dict, ()  # A copy is an ordinary dictionary.


NOTHING: Mapping[str, Any] = _Nothing()
"""The shared empty dictionary of all messages and blocks without `meta` or `extra`; a long session has thousands."""
Role = Literal["user", "assistant"]


@frozen
class TextBlock:
    text: str
    citations: tuple[Json, ...] = ()


@frozen
class ThinkingBlock:
    thinking: str
    signature: str = ""


@frozen
class ToolUseBlock:
    id: str
    name: str
    input: Json
    invalid_json: str | None = None
    """The text that the model wrote, if it is not a JSON object; `input` is then empty and the call is never run."""
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    """Unknown fields (e.g. `caller`); sent back unchanged."""


@frozen
class ImageBlock:
    source: Json


@frozen
class ToolResultBlock:
    tool_use_id: str
    content: tuple[TextBlock | ImageBlock | UnknownBlock, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))


@frozen
class UnknownBlock:
    data: Json

    @property
    def type(self) -> str:
        return str(self.data.get("type", ""))


Block = TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ImageBlock | UnknownBlock

_PACKABLE = {
    TextBlock: compressible_field(TextBlock, "text"),
    ThinkingBlock: compressible_field(ThinkingBlock, "thinking"),
    ToolUseBlock: compressible_field(ToolUseBlock, "input"),
}


def compress_block(block: Block) -> int:
    """Compress a block that is seldom read; it stays equal to what it was. Returns the number of bytes compressed."""
    if isinstance(block, ToolResultBlock):
        return sum(map(compress_block, block.content))
    field = _PACKABLE.get(type(block))
    return field.compress(block) if field is not None else 0


class Origin(StrEnum):
    """Why a message is in the log."""

    PROMPT = "prompt"
    QUEUED = "queued"
    REPLY = "reply"
    TOOL_RESULTS = "tool_results"
    ATTACHMENT = "attachment"
    INTERRUPTION = "interruption"
    RECOVERY = "recovery"
    """Messages of agentcli that continue the loop: output overrun, token budget, empty reply."""
    HOOK = "hook"
    SUMMARY = "summary"
    BOUNDARY = "boundary"
    """Marks a compaction; `meta` has trigger, tokens before and after. Never sent."""
    ERROR = "error"
    """An error shown to the user. Never sent."""

    @property
    def local(self) -> bool:
        """Local messages are in the log and shown to the user, but in no request."""
        return self in (Origin.BOUNDARY, Origin.ERROR)


@frozen(weakref_slot=True)
class Message:
    role: Role
    content: tuple[Block, ...]
    id: str
    """Our own id, for the log and the session file."""
    origin: Origin
    api_id: str = ""
    model: str = ""
    stop_reason: str | None = None
    usage: Usage | None = None
    meta: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def typed(self) -> str:
        """A prompt as the user typed it."""
        typed = self.meta.get(TYPED, self.meta.get(SAID))
        return typed if isinstance(typed, str) else self.text

    @property
    def is_prompt(self) -> bool:
        """Whether the user sent it as a prompt, at once or queued, and not as a comment on an answer to a question."""
        return self.origin in (Origin.PROMPT, Origin.QUEUED) and SAID not in self.meta

    @property
    def is_copy(self) -> bool:
        """Whether it repeats a message of the log after a compaction: users have already seen it."""
        return COPY_OF in self.meta

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        return tuple([block for block in self.content if isinstance(block, ToolUseBlock)])

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        return tuple([block for block in self.content if isinstance(block, ToolResultBlock)])


def is_thinking(block: Block) -> bool:
    """Whether a block is thinking in any form, including encrypted."""
    return isinstance(block, ThinkingBlock) or (isinstance(block, UnknownBlock) and block.type == "redacted_thinking")


_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Text that the API accepts: NUL and lone surrogates are replaced."""
    return _UNSENDABLE.sub("\ufffd", text) if _UNSENDABLE.search(text) else text


def block_to_wire(block: Block) -> Json:
    match block:
        case TextBlock(text, citations):
            wire: Json = {"type": "text", "text": text}
            if citations:
                wire["citations"] = list(citations)
            return wire
        case ThinkingBlock(thinking, signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case ToolUseBlock():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input, **block.extra}
        case ToolResultBlock():
            wire = {
                "type": "tool_result",
                "tool_use_id": block.tool_use_id,
                "content": [block_to_wire(part) for part in block.content],
            }
            if block.is_error:
                wire["is_error"] = True
            return wire
        case ImageBlock(source):
            return {"type": "image", "source": source}
        case UnknownBlock(data):
            return data


def block_from_wire(wire: Mapping[str, Any]) -> Block:
    """Parse a block. Never raises for a JSON object: unexpected forms become an `UnknownBlock`."""
    data = dict(wire)
    kind = data.get("type")
    if kind == "text" and isinstance(data.get("text"), str):
        return TextBlock(data["text"], tuple(data.get("citations") or ()))
    if kind == "thinking" and isinstance(data.get("thinking"), str):
        return ThinkingBlock(data["thinking"], str(data.get("signature") or ""))
    if kind == "tool_use" and isinstance(data.get("id"), str) and isinstance(data.get("name"), str):
        known = ("type", "id", "name", "input")
        given = data.get("input")
        return ToolUseBlock(
            id=data["id"],
            name=data["name"],
            input=given if isinstance(given, dict) else {},
            extra={key: value for key, value in data.items() if key not in known} or NOTHING,
        )
    if kind == "image" and isinstance(data.get("source"), dict):
        return ImageBlock(data["source"])
    if kind == "tool_result" and isinstance(data.get("tool_use_id"), str):
        return ToolResultBlock(data["tool_use_id"], result_content(data.get("content")), bool(data.get("is_error")))
    return UnknownBlock(data)


def result_content(content: object) -> tuple[TextBlock | ImageBlock | UnknownBlock, ...]:
    """The content of a tool result from its wire form: a string, or a list of blocks."""
    if isinstance(content, str):
        return (TextBlock(content),)
    if not isinstance(content, list):
        return ()
    parts = (block_from_wire(part) for part in content if isinstance(part, dict))
    return tuple(part for part in parts if isinstance(part, TextBlock | ImageBlock | UnknownBlock))


def block_to_dict(block: Block) -> Json:
    wire = block_to_wire(block)
    if isinstance(block, ToolUseBlock) and block.invalid_json is not None:
        wire = {**wire, "invalid_json": block.invalid_json}
    return wire


def block_from_dict(data: Mapping[str, Any]) -> Block:
    invalid = data.get("invalid_json")
    block = block_from_wire({key: value for key, value in data.items() if key != "invalid_json"})
    if isinstance(block, ToolUseBlock) and isinstance(invalid, str):
        return ToolUseBlock(block.id, block.name, block.input, invalid, block.extra)
    return block


def message_to_dict(message: Message) -> Json:
    data: Json = {
        "role": message.role,
        "content": [block_to_dict(block) for block in message.content],
        "id": message.id,
        "origin": message.origin.value,
    }
    if message.api_id:
        data["api_id"] = message.api_id
    if message.model:
        data["model"] = message.model
    if message.stop_reason is not None:
        data["stop_reason"] = message.stop_reason
    if message.usage is not None:
        data["usage"] = message.usage.to_wire()
    if message.meta:
        data["meta"] = dict(message.meta)
    return data


def message_from_dict(data: Mapping[str, Any]) -> Message:
    usage = data.get("usage")
    return Message(
        role="assistant" if data["role"] == "assistant" else "user",
        content=tuple(block_from_dict(block) for block in data["content"]),
        id=str(data["id"]),
        origin=Origin(data["origin"]),
        api_id=str(data.get("api_id", "")),
        model=str(data.get("model", "")),
        stop_reason=data.get("stop_reason"),
        usage=Usage.from_wire(usage) if usage is not None else None,
        meta=data.get("meta") or NOTHING,
    )


def user_message(
    content: str | Iterable[Block], id: str, origin: Origin, meta: Mapping[str, Any] | None = None
) -> Message:
    blocks: tuple[Block, ...] = (TextBlock(clean_text(content)),) if isinstance(content, str) else tuple(content)
    return Message("user", blocks, id, origin, meta=meta or NOTHING)
