"""From the log to a list of messages that the API accepts (SPEC 3.2). Pure and idempotent.

Local messages go; neighbours of one role become one message; every tool call gets exactly one result, first in
the very next user message; empty text goes; text that cannot be sent is cleaned. Thinking stays as it came.
`check_pairing` is the assertion at the boundary to the provider (SPEC T5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from agentcli.core.messages import (
    Block,
    Json,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_to_wire,
    clean_text,
    is_thinking,
)

MISSING_RESULT = "<tool_use_error>The call was interrupted before it had a result.</tool_use_error>"
NO_OUTPUT = "(no output)"
EARLIER_LEFT_OUT = "(Earlier messages are not part of this request.)"

Cache = dict[tuple[int, ...], tuple[tuple[Message, ...], Json | None]]
"""Finished wire messages by the identity of what they were made from. Holding the messages keeps the identities
from being used again. Equal log prefixes give the very same objects, so that encoding can be cached too."""


def normalise(messages: Iterable[Message], cache: Cache | None = None) -> tuple[Json, ...]:
    cache = {} if cache is None else cache
    sent = [message for message in messages if not message.origin.local and message.content]
    groups = [tuple(group) for _role, group in groupby(sent, key=lambda message: message.role)]
    wire: list[Json] = []
    calls: tuple[Message, ...] = ()
    for group in groups:
        made = _made(group, calls, cache)
        calls = group if group[0].role == "assistant" else ()
        if made is None:
            calls = ()
            continue
        _append(wire, made)
    if calls and any(message.tool_uses for message in calls):
        _append(wire, {"role": "user", "content": _paired((), _tool_uses(calls))})
    _trim_end(wire)
    if len(cache) > 4 * len(groups) + 64:
        cache.clear()  # Leftovers of groups that have grown since; a full pass is cheap and rare.
    return tuple(wire)


def _made(group: tuple[Message, ...], calls: tuple[Message, ...], cache: Cache) -> Json | None:
    key = tuple(id(message) for message in (*calls, *group))
    found = cache.get(key)
    if found is not None:
        return found[1]
    blocks = [block for message in group for block in message.content]
    role = group[0].role
    content = _assistant_content(blocks) if role == "assistant" else _paired(blocks, _tool_uses(calls))
    made: Json | None = {"role": role, "content": content} if content else None
    cache[key] = ((*calls, *group), made)
    return made


def _append(wire: list[Json], message: Json) -> None:
    """Add a message; where dropping an empty one has made neighbours of one role, merge them."""
    if not wire and message["role"] == "assistant":
        wire.append({"role": "user", "content": [{"type": "text", "text": EARLIER_LEFT_OUT}]})
    if wire and wire[-1]["role"] == message["role"]:
        wire[-1] = {"role": message["role"], "content": [*wire[-1]["content"], *message["content"]]}
    else:
        wire.append(message)


def _tool_uses(messages: Iterable[Message]) -> list[ToolUseBlock]:
    return [use for message in messages for use in message.tool_uses]


def _assistant_content(blocks: Sequence[Block]) -> list[Json]:
    """A reply's blocks. One of nothing but thinking goes: the API wants thinking to lead somewhere."""
    kept = [
        block
        for block in blocks
        if not _is_blank(block) and not _is_unsendable(block) and not isinstance(block, ToolResultBlock)
    ]
    if all(is_thinking(block) for block in kept):
        return []
    return [_clean(block) for block in kept]


def _paired(blocks: Sequence[Block], uses: Sequence[ToolUseBlock]) -> list[Json]:
    """A user message's content: one result for each of `uses`, in their order, then everything else."""
    results: dict[str, ToolResultBlock] = {}
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            results.setdefault(block.tool_use_id, block)
    first = [
        results.get(use.id) or ToolResultBlock(use.id, (TextBlock(MISSING_RESULT),), is_error=True) for use in uses
    ]
    rest = [block for block in blocks if not isinstance(block, ToolResultBlock) and not _is_blank(block)]
    return [_clean(block) for block in (*first, *rest)]


def _is_blank(block: Block) -> bool:
    return isinstance(block, TextBlock) and not block.text.strip()


def _is_unsendable(block: Block) -> bool:
    """Thinking with a character that cannot be sent: cleaned it would not fit its signature any more."""
    return isinstance(block, ThinkingBlock) and clean_text(block.thinking) != block.thinking


def _clean(block: Block) -> Json:
    if isinstance(block, TextBlock):
        return block_to_wire(TextBlock(clean_text(block.text), block.citations))
    if isinstance(block, ToolResultBlock):
        parts = tuple(
            TextBlock(clean_text(part.text)) if isinstance(part, TextBlock) else part
            for part in block.content
            if not _is_blank(part)
        )
        return block_to_wire(ToolResultBlock(block.tool_use_id, parts or (TextBlock(NO_OUTPUT),), block.is_error))
    if isinstance(block, ToolUseBlock):
        return block_to_wire(ToolUseBlock(block.id, block.name, _clean_json(block.input), extra=block.extra))
    return block_to_wire(block) if is_thinking(block) else _clean_json(block_to_wire(block))


def _clean_json(value: Json) -> Json:
    """The input as it came, unless a string inside cannot be sent."""

    def clean(item: object) -> object:
        if isinstance(item, str):
            return clean_text(item)
        if isinstance(item, dict):
            return {clean_text(str(key)): clean(inner) for key, inner in item.items()}
        if isinstance(item, list):
            return [clean(inner) for inner in item]
        return item

    cleaned = clean(value)
    assert isinstance(cleaned, dict)
    return cleaned


def _trim_end(wire: list[Json]) -> None:
    """A final assistant message (sent back after pause_turn) must not end in white space."""
    while wire and wire[-1]["role"] == "assistant":
        *before, last = wire[-1]["content"]
        if last.get("type") != "text":
            return
        text = last["text"].rstrip()
        if text == last["text"]:
            return
        content = [*before, {**last, "text": text}] if text else before
        if content:
            wire[-1] = {"role": "assistant", "content": content}
            return
        wire.pop()


def check_pairing(wire: Sequence[Json]) -> None:
    """Every tool_use has exactly one tool_result in the very next message, and there is no other (I1)."""
    expected: list[str] = []
    for message in wire:
        content = message["content"]
        found = [block["tool_use_id"] for block in content if block.get("type") == "tool_result"]
        assert found == expected, f"tool results {found} do not answer the calls {expected}"
        expected = [block["id"] for block in content if block.get("type") == "tool_use"]
    assert not expected, f"the calls {expected} have no result"
