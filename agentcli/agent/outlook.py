"""What is in the context, item by item, and what the next request will cost: for people to look at, decides nothing.

Counts are estimates scaled to the last true usage, so that the items add up to what the API counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Literal

from agentcli.agent.ports import ContextLimits
from agentcli.context.edits import Edits, block_id
from agentcli.context.estimate import block_tokens
from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, Json, Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock, is_thinking
from agentcli.core.plaintext import plain_line
from agentcli.core.usage import Price, Usage

Category = Literal["system", "tools", "prompts", "answers", "thinking", "calls", "results", "attachments", "summary"]

_CHARACTERS_PER_TOKEN = 3.5


@frozen
class ContextItem:
    id: str
    category: Category
    label: str
    tokens: int
    age: int = 0
    """How many prompts ago it came; what is always there has 0."""
    cached: bool | None = None
    """Whether the next request is expected to read it from the prompt cache; None when nothing is known."""
    pinned: bool = False


@frozen
class Outlook:
    tokens: int
    """In the next request, without what is typed for it."""
    window: int
    compact_at: int
    """0: the conversation is not compacted by itself."""
    cached_tokens: int
    next_cost_usd: float | None
    """Of sending it, without the reply; None when the price is not known."""
    rebill_usd: float | None
    """Of sending it when nothing can be read from the cache: what a change of model or effort costs."""


def look_ahead(messages: Sequence[Message], tokens: int, limits: ContextLimits, price: Price | None) -> Outlook:
    """`messages` as the next request would have them, `tokens` what they come to."""
    cached = min(tokens, _cached(messages))
    fresh = Usage(cache_write_5m_tokens=tokens)
    warm = Usage(cache_read_input_tokens=cached, cache_write_5m_tokens=tokens - cached)
    return Outlook(
        tokens=tokens,
        window=limits.window,
        compact_at=int(limits.usable * limits.auto_threshold) if limits.auto_compact else 0,
        cached_tokens=cached,
        next_cost_usd=None if price is None else price.cost(warm),
        rebill_usd=None if price is None else price.cost(fresh),
    )


def _cached(messages: Sequence[Message]) -> int:
    """What the last response said is in the cache now; its own reply is not."""
    for message in reversed(messages):
        if message.usage is not None and message.usage.prompt_tokens:
            usage = message.usage
            return usage.cache_read_input_tokens + usage.cache_creation_input_tokens
    return 0


def context_items(
    messages: Sequence[Message],
    total: int,
    system: Iterable[str],
    tools: Iterable[Json],
    pinned: AbstractSet[str] = frozenset(),
) -> list[ContextItem]:
    """Everything the next request would carry, in its order. `total`: the tokens that it comes to; `pinned`: the ids of
    the blocks that are."""
    items = [ContextItem("system", "system", "System prompt", _size("".join(system)), cached=True)]
    items += [
        ContextItem(f"tool:{tool['name']}", "tools", str(tool["name"]), _size(str(tool)), cached=True) for tool in tools
    ]
    items += _blocks(messages)
    estimated = sum(item.tokens for item in items) or 1
    known = any(message.usage is not None for message in messages)
    return [
        replace(
            item,
            tokens=max(1, round(item.tokens * total / estimated)),
            cached=item.cached if known else None,
            pinned=item.id in pinned,
        )
        for item in items
    ]


def dropped_items(messages: Sequence[Message], edits: Edits, density: float) -> list[ContextItem]:
    """What the next request would carry if nobody had left it out. `messages` as they are in the log."""
    found = (item for item in _blocks(messages) if (edit := edits.edited(item.id)) is not None and edit.kind == "drop")
    return [replace(item, tokens=max(1, round(item.tokens * density)), cached=False) for item in found]


def _blocks(messages: Sequence[Message]) -> Iterator[ContextItem]:
    prompts = sum(message.origin in (Origin.PROMPT, Origin.QUEUED) for message in messages)
    last_reply = max((i for i, message in enumerate(messages) if message.usage is not None), default=-1)
    names: dict[str, str] = {}
    seen = 0
    for index, message in enumerate(messages):
        if message.origin.local:
            continue
        seen += message.origin in (Origin.PROMPT, Origin.QUEUED)
        for place, block in enumerate(message.content):
            if isinstance(block, ToolUseBlock):
                names[block.id] = f"{block.name} {plain_line(_gist(block.input), 80)}".rstrip()
            category, label = _described(message, block, names)
            cached = index < last_reply
            age = max(0, prompts - seen)
            yield ContextItem(block_id(message, place), category, label, block_tokens(block), age, cached)


def _described(message: Message, block: Block, names: dict[str, str]) -> tuple[Category, str]:
    if isinstance(block, ToolResultBlock):
        return "results", names.get(block.tool_use_id, "Result of a call")
    if isinstance(block, ToolUseBlock):
        return "calls", names[block.id]
    if is_thinking(block):
        return "thinking", "Thinking"
    text = plain_line(block.text, 100) if isinstance(block, TextBlock) else "Picture or other content"
    match message.origin:
        case Origin.REPLY:
            return "answers", text
        case Origin.PROMPT | Origin.QUEUED:
            return "prompts", text
        case Origin.SUMMARY:
            return "summary", text
    return "attachments", text


def _gist(input: Json) -> str:
    """The one value that says most about a call."""
    for name in ("file_path", "notebook_path", "command", "pattern", "url", "query"):
        if name in input:
            return str(input[name])
    return ""


def _size(text: str) -> int:
    return int(len(text) / _CHARACTERS_PER_TOKEN)
