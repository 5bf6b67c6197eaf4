"""How large the context is: the last response's true usage plus an estimate of what came since (SPEC 3.3)."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.core.messages import (
    Block,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

CHARACTERS_PER_TOKEN = 3.5
IMAGE_TOKENS = 1_600
BLOCK_OVERHEAD = 4


def block_tokens(block: Block) -> int:
    match block:
        case TextBlock():
            size = len(block.text)
        case ThinkingBlock():
            size = len(block.thinking)
        case ToolUseBlock():
            size = len(block.name) + len(str(block.input))
        case ToolResultBlock():
            return BLOCK_OVERHEAD + sum(block_tokens(part) for part in block.content)
        case ImageBlock():
            return IMAGE_TOKENS
        case _:
            size = len(str(block.data))
    return BLOCK_OVERHEAD + int(size / CHARACTERS_PER_TOKEN)


def message_tokens(message: Message) -> int:
    return 0 if message.origin.local else sum(block_tokens(block) for block in message.content)


def context_tokens(messages: Sequence[Message], overhead: int) -> int:
    """Tokens of a request with these messages. `overhead` estimates system prompt and tools, for when no response
    has told the truth yet."""
    for index in range(len(messages) - 1, -1, -1):
        usage = messages[index].usage
        if usage is not None and usage.prompt_tokens:
            return usage.context_tokens + sum(map(message_tokens, messages[index + 1 :]))
    return overhead + sum(map(message_tokens, messages))
