"""A reply while it streams: complete blocks, open text, and which parts may be kept."""

from __future__ import annotations

from dataclasses import field

from agentcli.context.estimate import block_tokens
from agentcli.core.frozen import slotted
from agentcli.core.messages import Block, Message, Origin, TextBlock, ToolUseBlock, UnknownBlock, is_thinking
from agentcli.core.usage import Usage


@slotted
class Reply:
    """Mutable and private to one `Turn`; `message` makes an immutable value of it."""

    message_id: str
    api_id: str
    model: str
    usage: Usage
    blocks: dict[int, Block] = field(default_factory=dict)
    """Complete blocks, by index."""
    open_text: dict[int, list[str]] = field(default_factory=dict)
    """Text of blocks that are still streaming; kept when the user interrupts."""
    opened: dict[int, float] = field(default_factory=dict)
    """Start time of each block, on the monotonic clock."""
    held: list[tuple[int, ToolUseBlock]] = field(default_factory=list)
    """Tool calls that the output cap may have cut: they do not run until the next block or the end proves otherwise."""

    def add_text(self, index: int, text: str) -> None:
        self.open_text.setdefault(index, []).append(text)

    def close_block(self, index: int, block: Block) -> None:
        self.open_text.pop(index, None)
        self.blocks[index] = block

    def drop_after(self, call: ToolUseBlock | None) -> None:
        """Keep the blocks up to and including a call; for a reply that was cut off after it."""
        last = next((index for index, block in self.blocks.items() if block is call), -1)
        self.blocks = {index: block for index, block in self.blocks.items() if index <= last}
        self.open_text.clear()
        self._drop_unanswered()

    def keep_what_came(self) -> None:
        """End the reply here: keep its text, drop calls that may be incomplete."""
        for index, _call in self.held:
            self.blocks.pop(index, None)
        for index, parts in self.open_text.items():
            text = "".join(parts)
            if text.strip():
                self.blocks[index] = TextBlock(text)
        self.open_text.clear()
        self._drop_unanswered()

    def _drop_unanswered(self) -> None:
        """Drop calls of server tools whose results did not arrive: no later request could add them."""
        unknown = [(index, block.data) for index, block in self.blocks.items() if isinstance(block, UnknownBlock)]
        answered = {data.get("tool_use_id") for _index, data in unknown}
        for index, data in unknown:
            if data.get("type") == "server_tool_use" and data.get("id") not in answered:
                del self.blocks[index]

    @property
    def content(self) -> tuple[Block, ...]:
        return tuple(self.blocks[index] for index in sorted(self.blocks))

    @property
    def estimated_tokens(self) -> int:
        """Tokens of everything received, except thinking and calls that are still streaming."""
        open_blocks = [TextBlock("".join(parts)) for parts in self.open_text.values()]
        return sum(map(block_tokens, (*self.blocks.values(), *open_blocks)))

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolUseBlock))

    @property
    def says_nothing(self) -> bool:
        """No text and no call, only thinking and white space. Such a reply is never stored."""
        return all(
            is_thinking(block) or (isinstance(block, TextBlock) and not block.text.strip()) for block in self.content
        )

    def message(self, stop_reason: str | None) -> Message:
        return Message(
            role="assistant",
            content=self.content,
            id=self.message_id,
            origin=Origin.REPLY,
            api_id=self.api_id,
            model=self.model,
            stop_reason=stop_reason,
            usage=self.usage,
        )
