"""Messages and their blocks: the conversation as values, and their wire form.

A block of an unknown kind is kept complete (`UnknownBlock`) and sent back unchanged. Everything here is immutable by
convention, even where Python cannot enforce it: the dictionaries inside blocks are never changed, because the same
object is in the log, on disk and in the next request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Literal, NoReturn

from agentcli.core.frozen import frozen, replace
from agentcli.core.space_saving import compressible_field
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


ResultContent = tuple[TextBlock | ImageBlock | UnknownBlock, ...]
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


def clean_json(value: Any) -> Any:
    """The same for all texts in a JSON value."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): clean_json(item) for key, item in value.items()}
    return value


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


def result_content(content: object) -> ResultContent:
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
    usage, meta = data.get("usage"), data.get("meta")
    return Message(
        role="assistant" if data["role"] == "assistant" else "user",
        content=tuple(block_from_dict(block) for block in data["content"]),
        id=str(data["id"]),
        origin=Origin(data["origin"]),
        api_id=str(data.get("api_id", "")),
        model=str(data.get("model", "")),
        stop_reason=data.get("stop_reason"),
        usage=Usage.from_wire(usage) if usage is not None else None,
        meta=meta if meta and isinstance(meta, dict) else NOTHING,
    )


def user_message(
    content: str | Iterable[Block], id: str, origin: Origin, meta: Mapping[str, Any] | None = None
) -> Message:
    blocks: tuple[Block, ...] = (TextBlock(clean_text(content)),) if isinstance(content, str) else tuple(content)
    return Message("user", blocks, id, origin, meta=meta or NOTHING)


# How a failed tool call is reported to the model. A call has failed if it did not run (unknown tool, input that is not
# JSON or does not fit the schema, the tool's own validation, a hook or the permissions denied it), did not run to its
# end (a crash, an abort, a cancelled sibling, a session that ended), or ran and reports a failure itself
# (`Output.is_error`: a missing file). Then, and in no other case, the `tool_result` has `is_error`, and its text is in
# `<tool_use_error>` tags, once: the first text block opens them and the last one closes them. A command that ran to its
# end and exited with another code than 0 did not fail as a call: its result has `is_error`, and its output is
# unchanged. Notes that are not part of the result, such as the user's comment with an approval, follow in blocks of
# their own, outside the tags. Front ends show the text without the tags (`unwrap_error`).

_OPEN, _CLOSE = "<tool_use_error>", "</tool_use_error>"
_NOTHING_SAID = "The call failed without a message."


def wrap_error(text: str) -> str:
    return text if text.startswith(_OPEN) and text.endswith(_CLOSE) else f"{_OPEN}{text}{_CLOSE}"


def wrap_error_content(
    content: Sequence[TextBlock | ImageBlock | UnknownBlock],
) -> ResultContent:
    """The content of a failed call with its text in the tags; images stay in place."""
    blocks = list(content)
    texts = [(place, block) for place, block in enumerate(blocks) if isinstance(block, TextBlock)]
    if not texts:
        return (TextBlock(wrap_error(_NOTHING_SAID)), *blocks)
    (first, opening), (last, closing) = texts[0], texts[-1]
    if first == last:
        blocks[first] = replace(opening, text=wrap_error(opening.text))
    else:
        blocks[first] = replace(opening, text=_OPEN + opening.text)
        blocks[last] = replace(closing, text=closing.text + _CLOSE)
    return tuple(blocks)


def unwrap_error(text: str) -> str:
    """The text for the user. Also for a truncated result without its closing tag."""
    stripped = text.strip()
    return stripped.removeprefix(_OPEN).removesuffix(_CLOSE).strip() if stripped.startswith(_OPEN) else text


# Answers that span several replies. A reply that reached the output cap, filled the context window or was paused by the
# server is continued by the next reply. For the user the pieces are one answer: their texts are joined without a
# separator, because the model continues in the middle of a sentence or a word. Replies that a token target asked for
# extend a finished answer by paragraphs.

_UNFINISHED = ("max_tokens", "model_context_window_exceeded", "pause_turn")
"""Stop reasons after which the next reply continues the answer."""
_PROMPTS = (Origin.PROMPT, Origin.QUEUED)


def is_continued(message: Message) -> bool:
    """Whether the next reply continues this one. A reply with tool calls is complete: its results follow."""
    return (
        message.origin is Origin.REPLY
        and not message.is_copy
        and message.stop_reason in _UNFINISHED
        and not message.tool_uses
    )


class AnswerTracker:
    """Follows a conversation message by message."""

    def __init__(self) -> None:
        self.unfinished = False
        """Whether the next reply continues the text of the answer."""
        self.extends = False
        """Whether all replies until the next prompt belong to the answer."""

    def take(self, message: Message) -> None:
        if message.is_copy:
            return
        if message.origin is Origin.REPLY:
            self.unfinished = is_continued(message)
        elif message.origin in _PROMPTS:
            self.unfinished = self.extends = False
        elif message.meta.get(EXTENDS_ANSWER):
            self.extends = True

    def joined(self, answer: str, text: str) -> str:
        """The answer so far with the text of the next reply."""
        if self.unfinished:
            return answer + text
        if not self.extends:
            return text
        return "\n\n".join(part for part in (answer.rstrip(), text.lstrip("\n")) if part)


def answers(messages: Iterable[Message]) -> list[str]:
    """The text of every answer, oldest first; replies without text are skipped."""
    found: list[str] = []
    tracker = AnswerTracker()
    for message in messages:
        if message.origin is Origin.REPLY and not message.is_copy and message.text:
            if (tracker.unfinished or tracker.extends) and found:
                found[-1] = tracker.joined(found[-1], message.text)
            else:
                found.append(message.text)
        tracker.take(message)
    return found
