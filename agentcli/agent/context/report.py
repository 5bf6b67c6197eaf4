"""What is in the context, item by item, and what the next request will cost: for people to look at, decides nothing.

Counts are estimates scaled to the last true usage, so that the items add up to what the API counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Literal

from agentcli.agent.ports import ContextLimits
from agentcli.agent.profile import schema_tokens
from agentcli.context.edits import Edits, block_id
from agentcli.context.estimate import block_tokens, split_tokens, text_tokens
from agentcli.core.format import about_money, token_count
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
from agentcli.core.plaintext import plain_line
from agentcli.core.usage import Price, Usage

Reach = Literal["sent", "head", "nothing"]
"""Of the prompt cache into the next request: all that was sent before, what comes before the messages, or nothing."""
Category = Literal[
    "system", "tools", "prompts", "answers", "thinking", "calls", "results", "attachments", "skills", "mcp", "summary"
]


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
    """Of them, expected to be read from the prompt cache: none once it is cold, or was made with another model."""
    cold: bool
    """There was a cache, and it has run out, or nothing that is sent now begins as what is in it."""
    next_cost_usd: float | None
    """Of sending it, without the reply; None when the price is not known."""


@frozen
class Cached:
    """What the cache watch knows about the next request."""

    tokens: int = 0
    cold: bool = False
    long_lived: bool = False
    """It is kept for an hour, and writing it costs more."""
    reach: Reach = "sent"

    def written(self, tokens: int) -> Usage:
        return Usage(cache_write_1h_tokens=tokens) if self.long_lived else Usage(cache_write_5m_tokens=tokens)


def look_ahead(tokens: int, limits: ContextLimits, price: Price | None, cached: Cached) -> Outlook:
    """`tokens`: what the next request comes to."""
    read = min(tokens, cached.tokens)
    usage = Usage(cache_read_input_tokens=read) + cached.written(tokens - read)
    return Outlook(
        tokens=tokens,
        window=limits.window,
        compact_at=int(limits.usable * limits.auto_threshold) if limits.auto_compact else 0,
        cached_tokens=read,
        cold=cached.cold,
        next_cost_usd=None if price is None else price.cost(usage),
    )


@frozen
class ChangePrice:
    """What a change of model, effort or thinking does to the cache: paid once, with the next request."""

    tokens: int
    """That are in the cache, and would be billed again."""
    usd: float | None
    """For them; None when the price is not known."""
    cold: bool = False
    """Nothing is billed again because the cache has run out."""

    def needs_confirmation(self, threshold_usd: float) -> bool:
        """Whether the user is asked first: at or above the threshold, and where the price is not known."""
        return self.tokens > 0 and (self.usd is None or self.usd >= threshold_usd)

    @property
    def note(self) -> str:
        """A sentence to follow the report of the change; empty if there is nothing to say."""
        if not self.tokens:
            return "The cache is cold: nothing is re-billed." if self.cold else ""
        cost = "at an unknown price" if self.usd is None else self._about
        return f"The next request re-reads {token_count(self.tokens)} tokens, {cost}."

    @property
    def text(self) -> str:
        """Of a sentence, for people: `re-bills 48.2k tokens, about $0.18, once`; "" where there is nothing to say."""
        if not self.tokens:
            return "the cache is cold: nothing is re-billed" if self.cold else ""
        if self.usd is None:
            return f"re-bills {token_count(self.tokens)} tokens once; the price is unknown"
        return f"re-bills {token_count(self.tokens)} tokens, {self._about}, once"

    @property
    def _about(self) -> str:
        return about_money(self.usd or 0.0)


def price_of_change(before: Cached, after: Cached, price: Price | None, prompt_tokens: int = 0) -> ChangePrice:
    """`before` and `after`: what would be read from the cache without the change, and with it; `price`: of the model
    that is asked then; `prompt_tokens`: of the next request, for prices with tiers."""
    lost = max(0, before.tokens - after.tokens)
    usd = None if price is None else price.at(max(prompt_tokens, lost)).cost(before.written(lost))
    return ChangePrice(lost, usd if lost else 0.0, before.cold)


def context_items(
    messages: Sequence[Message],
    total: int,
    system: Iterable[str],
    tools: Iterable[Json],
    pinned: AbstractSet[str] = frozenset(),
    cached: Reach = "sent",
) -> list[ContextItem]:
    """Everything the next request would carry, in its order. `total`: the tokens that it comes to; `pinned`: the ids of
    the blocks that are; `cached`: how far it is expected to be read from the cache."""
    size = int(sum(map(text_tokens, system)))
    items = [ContextItem("system", "system", "System prompt", size, cached=True)]
    items += [
        ContextItem(f"tool:{tool['name']}", "tools", str(tool["name"]), int(schema_tokens(tool)), cached=True)
        for tool in tools
    ]
    items += _blocks(messages)
    known = any(message.usage is not None for message in messages)
    sizes = split_tokens(total, [item.tokens for item in items])
    return [
        replace(
            item,
            tokens=size,
            cached=_is_cached(item, cached) if known else None,
            pinned=item.id in pinned,
        )
        for item, size in zip(items, sizes, strict=True)
    ]


def _is_cached(item: ContextItem, reach: Reach) -> bool:
    if reach == "head":
        return item.category in ("system", "tools")
    return reach == "sent" and bool(item.cached)


def dropped_items(messages: Sequence[Message], edits: Edits, density: float) -> list[ContextItem]:
    """What the next request would carry if it had not been dropped. `messages` as they are in the log."""
    found = (item for item in _blocks(messages) if (edit := edits.edited(item.id)) is not None and edit.kind == "drop")
    return [replace(item, tokens=max(1, round(item.tokens * density)), cached=False) for item in found]


def _blocks(messages: Sequence[Message]) -> Iterator[ContextItem]:
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


def _gist(input: Json) -> str:
    """The one value that says most about a call."""
    for name in ("file_path", "notebook_path", "command", "pattern", "url", "query"):
        if name in input:
            return str(input[name])
    return ""
