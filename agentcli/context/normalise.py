"""Convert the log to a list of messages that the API accepts. Pure and idempotent.

Local messages are dropped; adjacent messages of one role are merged; every tool call gets exactly one result, first in
the next user message; empty text is dropped; text that cannot be sent is cleaned. Thinking is kept unchanged.
`check_pairing` is the assertion at the boundary to the provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import is_

from agentcli.core.append_only import AppendOnly, as_append_only
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
    wrapped,
)

MISSING_RESULT = wrapped("The call was interrupted before it had a result.")
NO_OUTPUT = "(no output)"
EARLIER_LEFT_OUT = "(Earlier messages are not part of this request.)"


class NormaliseCache:
    """Request messages of a growing log, so that each turn converts only new messages. Unchanged messages of the log
    give the same objects, so that their encoding can be cached too."""

    def __init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        self.settled: AppendOnly[Message] = AppendOnly()
        """The log messages of all groups of one role except the last, to which the next message may still belong."""
        self.wire: list[Json] = []
        """The request messages made of them."""
        self.calls: tuple[Message, ...] = ()
        """Replies with calls that the next message must answer."""
        self.role = ""
        """Role of the last settled group."""
        self.converted: dict[tuple[int, ...], tuple[tuple[Message, ...], tuple[Message, ...], Json | None]] = {}
        """By identity, a group and the calls before it, with the message made of them; for a log that has changed."""


def normalise(messages: Sequence[Message], memory: NormaliseCache | None = None) -> AppendOnly[Json]:
    memory, shown = memory or NormaliseCache(), as_append_only(messages)
    groups = _group(shown, len(memory.settled))
    known = memory.converted
    if not memory.settled.begins(shown) or (groups and groups[0][0][1].role == memory.role):
        memory.start_over()
        groups = _group(shown, 0)
    wire = memory.wire
    calls = memory.calls
    for entries in groups:
        if entries is groups[-1]:
            memory.settled, memory.wire, memory.calls = shown.first(entries[0][0]), wire.copy(), calls
        else:
            memory.role = entries[0][1].role
        group = tuple(message for _place, message in entries)
        key = (*map(id, group), 0, *map(id, calls))
        found = memory.converted[key] = known.get(key) or (group, calls, _convert(group, calls))
        made = found[2]
        calls = group if made is not None and made["role"] == "assistant" else ()
        if made is not None:
            _append(wire, made)
    wire = wire if groups else wire.copy()
    if any(message.tool_uses for message in calls):
        _append(wire, {"role": "user", "content": _pair((), _tool_uses(calls))})
    _trim(wire)
    return AppendOnly(wire)


def _group(shown: AppendOnly[Message], begin: int) -> list[tuple[tuple[int, Message], ...]]:
    """The messages to send from this place on, in groups of one role, each with its index."""
    sent = [(place, m) for place, m in enumerate(shown[begin:], begin) if m.content and not m.origin.local]
    return [tuple(group) for _role, group in groupby(sent, key=lambda entry: entry[1].role)]


def _convert(group: tuple[Message, ...], calls: tuple[Message, ...]) -> Json | None:
    """Convert messages of one role to one message; None if nothing is left of them."""
    blocks = [block for message in group for block in message.content]
    role = group[0].role
    content = _assistant_content(blocks) if role == "assistant" else _pair(blocks, _tool_uses(calls))
    return {"role": role, "content": content} if content else None


def _append(wire: list[Json], message: Json) -> None:
    """Add a message; merge it with the last one if dropping an empty message has made them adjacent with the same
    role."""
    if not wire and message["role"] == "assistant":
        wire.append({"role": "user", "content": [{"type": "text", "text": EARLIER_LEFT_OUT}]})
    if wire and wire[-1]["role"] == message["role"]:
        message = {"role": message["role"], "content": [*wire.pop()["content"], *message["content"]]}
    wire.append(message)


def _tool_uses(messages: Iterable[Message]) -> list[ToolUseBlock]:
    return [use for message in messages for use in message.tool_uses]


def _assistant_content(blocks: Sequence[Block]) -> list[Json]:
    """A reply's blocks; empty for a reply with only thinking, which the API rejects."""
    kept = [
        block
        for block in blocks
        if not _is_blank(block) and not _is_unsendable(block) and not isinstance(block, ToolResultBlock)
    ]
    if all(is_thinking(block) for block in kept):
        return []
    return [_clean(block) for block in kept]


def _pair(blocks: Sequence[Block], uses: Sequence[ToolUseBlock]) -> list[Json]:
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
    """Whether it is thinking with an invalid character: cleaning it would break its signature."""
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
    """The same object, or a copy if a string inside had to be cleaned."""
    cleaned = _cleaned(value)
    assert isinstance(cleaned, dict)
    return cleaned


def _cleaned(item: object) -> object:
    if isinstance(item, str):
        return clean_text(item)
    if isinstance(item, dict):
        keys = [clean_text(str(key)) for key in item]
        values = [_cleaned(inner) for inner in item.values()]
        is_same = all(map(is_, keys, item)) and all(map(is_, values, item.values()))
        return item if is_same else dict(zip(keys, values, strict=True))
    if isinstance(item, list):
        parts = [_cleaned(inner) for inner in item]
        return item if all(map(is_, parts, item)) else parts
    return item


def _trim(wire: list[Json]) -> None:
    """Strip trailing white space of a final assistant message (sent back after pause_turn), which the API rejects."""
    while wire and wire[-1]["role"] == "assistant":
        *before, last = wire[-1]["content"]
        if last.get("type") != "text" or last["text"] == last["text"].rstrip():
            return
        text = last["text"].rstrip()
        content = [*before, {**last, "text": text}] if text else before
        wire.pop()
        if content:
            wire.append({"role": "assistant", "content": content})


def check_pairing(wire: Sequence[Json], known: int = 0) -> None:
    """Assert that every tool_use has exactly one tool_result in the next message, and that there are no others (I1).

    `known`: number of leading messages that were checked before.
    """
    expected = _ids(wire[known - 1], "tool_use", "id") if known else []
    for message in wire[known:]:
        found = _ids(message, "tool_result", "tool_use_id")
        assert found == expected, f"tool results {found} do not answer the calls {expected}"
        expected = _ids(message, "tool_use", "id")
    assert not expected, f"the calls {expected} have no result"


def _ids(message: Json, kind: str, key: str) -> list[str]:
    return [block[key] for block in message["content"] if block.get("type") == kind]
