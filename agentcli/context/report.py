"""The context as front ends show it: its items with their tokens, and the size and cost of the next request.

Counts are estimates scaled to the last reported usage, so that the items add up to what the API counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Literal

from agentcli.context.edits import Edits, block_id
from agentcli.context.estimate import block_tokens, last_counted, schema_tokens, split_tokens, text_tokens
from agentcli.context.steps import ContextLimits
from agentcli.core.frozen import frozen
from agentcli.core.messages import (
    MCP_SERVERS,
    SKILLS,
    Block,
    Json,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    is_thinking,
)
from agentcli.core.text.format import about_money, token_count
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import Price, Usage

CacheReach = Literal["sent", "head", "nothing"]
"""How much of the next request the prompt cache covers: all that was sent before, only system prompt and tools, or
nothing."""
Category = Literal[
    "system", "tools", "prompts", "answers", "thinking", "calls", "results", "attachments", "skills", "mcp", "summary"
]


@frozen
class ContextItem:
    """One entry of the context: the system prompt, a tool's definition, or a block of a message."""

    id: str
    category: Category
    label: str
    tokens: int
    age: int = 0
    """Number of prompts since it was added; 0 for the system prompt and tools."""
    cached: bool | None = None
    """Whether the next request is expected to read it from the prompt cache; None: unknown."""
    pinned: bool = False


@frozen
class Outlook:
    """Expected size and cost of the next request."""

    tokens: int
    """Input tokens, without the prompt that is still being typed."""
    window: int
    """Tokens of the model's context window."""
    compact_at: int
    """Tokens at which the conversation is compacted automatically; 0: never."""
    cached_tokens: int
    """Part of `tokens` that should be read from the prompt cache: none if it is cold or of another model."""
    cold: bool
    """Whether a prompt cache existed and is now of no use: expired, or its prefix differs from the next request's."""
    next_cost_usd: float | None
    """Dollars for the input tokens; None: the price is unknown."""


@frozen
class ExpectedCache:
    """What the next request should find in the prompt cache."""

    tokens: int = 0
    """Tokens that should be read from it."""
    cold: bool = False
    """As in `Outlook`."""
    long_lived: bool = False
    """Whether entries last an hour instead of five minutes, which makes writing them more expensive."""
    reach: CacheReach = "sent"

    def writing(self, tokens: int) -> Usage:
        """The usage of writing so many tokens to this cache."""
        return Usage(cache_write_1h_tokens=tokens) if self.long_lived else Usage(cache_write_5m_tokens=tokens)


def estimate_outlook(tokens: int, limits: ContextLimits, price: Price | None, cache: ExpectedCache) -> Outlook:
    """The outlook for a next request of `tokens` input tokens."""
    read = min(tokens, cache.tokens)
    usage = Usage(cache_read_input_tokens=read) + cache.writing(tokens - read)
    return Outlook(
        tokens=tokens,
        window=limits.window,
        compact_at=int(limits.usable * limits.auto_threshold) if limits.auto_compact else 0,
        cached_tokens=read,
        cold=cache.cold,
        next_cost_usd=None if price is None else price.cost(usage),
    )


@frozen
class ChangePrice:
    """What a change of model, effort or thinking costs by invalidating the prompt cache: once, in the next request."""

    tokens: int
    """Cached tokens that are billed again."""
    usd: float | None
    """Dollars for these tokens; None: the price is unknown."""
    cold: bool = False
    """Whether nothing is billed again because the cache is cold already."""

    def needs_confirmation(self, threshold_usd: float) -> bool:
        """Whether to ask the user first: from the threshold on, and if the price is unknown."""
        return self.tokens > 0 and (self.usd is None or self.usd >= threshold_usd)

    @property
    def note(self) -> str:
        """A sentence to append to the report of the change; "" if nothing is lost."""
        if not self.tokens:
            return "The cache is cold: nothing is re-billed." if self.cold else ""
        cost = "at an unknown price" if self.usd is None else about_money(self.usd)
        return f"The next request re-reads {token_count(self.tokens)} tokens, {cost}."

    @property
    def text(self) -> str:
        """A clause for the user: `re-bills 48.2k tokens, about $0.18, once`; "" if nothing is lost."""
        if not self.tokens:
            return "the cache is cold: nothing is re-billed" if self.cold else ""
        if self.usd is None:
            return f"re-bills {token_count(self.tokens)} tokens once; the price is unknown"
        return f"re-bills {token_count(self.tokens)} tokens, {about_money(self.usd)}, once"


def price_of_change(
    before: ExpectedCache, after: ExpectedCache, price: Price | None, prompt_tokens: int = 0
) -> ChangePrice:
    """The price of a change that turns `before` into `after`. `price` is that of the model used after it,
    `prompt_tokens` the size of the next request, for prices with tiers."""
    lost = max(0, before.tokens - after.tokens)
    usd = None if price is None else price.at(max(prompt_tokens, lost)).cost(before.writing(lost))
    return ChangePrice(lost, usd if lost else 0.0, before.cold)


def context_items(
    messages: Sequence[Message],
    total: int,
    later: int,
    system: Iterable[str],
    tools: Iterable[Json],
    pinned: AbstractSet[str] = frozenset(),
    reach: CacheReach = "sent",
) -> list[ContextItem]:
    """All items of the next request, in its order. `total`: its tokens; `later`: those of messages since the last
    reported usage, which are an estimate; `pinned`: the ids of pinned blocks."""
    size = int(sum(map(text_tokens, system)))
    items = [ContextItem("system", "system", "System prompt", size, cached=True)]
    items += [
        ContextItem(f"tool:{tool['name']}", "tools", str(tool["name"]), int(schema_tokens(tool)), cached=True)
        for tool in tools
    ]
    items += _block_items(messages)
    known = last_counted(messages)
    behind = {message.id for message in messages[known + 1 :]} if known >= 0 else set()
    is_later = [item.id.rpartition(":")[0] in behind for item in items]
    split = {
        part: iter(
            split_tokens(tokens, [item.tokens for item, one in zip(items, is_later, strict=True) if one is part])
        )
        for part, tokens in ((False, total - later), (True, later))
    }
    return [
        replace(
            item,
            tokens=next(split[part]),
            cached=_is_cached(item, reach) if known >= 0 else None,
            pinned=item.id in pinned,
        )
        for item, part in zip(items, is_later, strict=True)
    ]


def _is_cached(item: ContextItem, reach: CacheReach) -> bool:
    if reach == "head":
        return item.category in ("system", "tools")
    return reach == "sent" and bool(item.cached)


def dropped_items(messages: Sequence[Message], edits: Edits, density: float) -> list[ContextItem]:
    """Items that the user or a step dropped from the context. `messages`: as in the log; `density`: true tokens per
    estimated one."""
    items = ((item, edits.edited(item.id)) for item in _block_items(messages))
    dropped = ((item, edit.freed) for item, edit in items if edit is not None and edit.kind == "drop")
    return [
        replace(item, tokens=freed or max(1, round(item.tokens * density)), cached=False) for item, freed in dropped
    ]


def _block_items(messages: Sequence[Message]) -> Iterator[ContextItem]:
    prompts = sum(message.is_prompt for message in messages)
    last_reply = max((i for i, message in enumerate(messages) if message.usage is not None), default=-1)
    names: dict[str, str] = {}
    seen = 0
    for index, message in enumerate(messages):
        if message.origin.local:
            continue
        seen += message.is_prompt
        for place, block in enumerate(message.content):
            if isinstance(block, ToolUseBlock):
                names[block.id] = f"{block.name} {plain_line(_subject(block.input), 80)}".rstrip()
            category, label = _category_and_label(message, block, names)
            cached = index < last_reply
            age = max(0, prompts - seen)
            yield ContextItem(block_id(message, place), category, label, block_tokens(block), age, cached)


def _category_and_label(message: Message, block: Block, names: dict[str, str]) -> tuple[Category, str]:
    if isinstance(block, ToolResultBlock):
        return "results", names.get(block.tool_use_id, "Result of a call")
    if isinstance(block, ToolUseBlock):
        return "calls", names[block.id]
    if is_thinking(block):
        return "thinking", "Thinking"
    text = plain_line(block.text, 100) if isinstance(block, TextBlock) else "Picture or other content"
    if SKILLS in message.meta:
        return "skills", "List of skills"
    if MCP_SERVERS in message.meta:
        return "mcp", "Tools and instructions of MCP servers"
    match message.origin:
        case Origin.REPLY:
            return "answers", text
        case Origin.PROMPT | Origin.QUEUED:
            return "prompts", text
        case Origin.SUMMARY:
            return "summary", text
    return "attachments", text


def _subject(input: Json) -> str:
    """The value of a call's input that identifies it best, such as the path or the command."""
    for name in ("file_path", "notebook_path", "command", "pattern", "url", "query"):
        if name in input:
            return str(input[name])
    return ""
