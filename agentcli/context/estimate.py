"""Context size: the true usage of the last response plus an estimate of later messages.

The estimate weighs kinds of characters separately, as tokenizers do: letters are cheap, punctuation and digits
expensive, a Chinese character costs more than a token, and base64 twice as much as prose. Models differ by a third; the
next response corrects the sum.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from agentcli.core.messages import (
    Block,
    ImageBlock,
    Json,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

IMAGE_TOKENS = 1_600
"""Tokens of a large picture; the API scales larger ones down."""
BLOCK_OVERHEAD = 4
RESULT_OVERHEAD = 14
CALL_OVERHEAD = 40
_PARAMETER_OVERHEAD = 8

_RANDOM_RUN = re.compile(rb"[A-Za-z0-9+/=_-]{60,}")
"""Base64, digests, keys: text without words known to a tokenizer."""
_KINDS: tuple[tuple[str, bytes, float], ...] = (
    ("lower", bytes(range(ord("a"), ord("z") + 1)), 0.21),
    ("upper", bytes(range(ord("A"), ord("Z") + 1)), 0.42),
    ("blank", b" \t\r", 0.12),
    ("line", b"\n", 0.4),
    ("digit", b"0123456789", 0.9),
    ("two bytes", bytes(range(0xC0, 0xE0)), 0.55),
    ("three bytes", bytes(range(0xE0, 0xF0)), 1.1),
    ("four bytes", bytes(range(0xF0, 0x100)), 2.5),
    ("other", bytes(range(0x21, 0x7F)), 0.64),
)
"""Kinds of characters by the first byte of their UTF-8, each with its tokens per character; `other` matches what the
previous ones leave. Fitted to usages reported by claude-sonnet-4, 4.5 and 4.6 for prose, Markdown, JSON and shell
output (tests/data/token_counts.json); multi-byte characters and random text by commonly measured values."""
_RANDOM_WEIGHT = 0.6
MIN_TOKENS_PER_CHARACTER = min(weight for _kind, _bytes, weight in _KINDS)


def count_kinds(text: str) -> dict[str, int]:
    """Number of characters of each kind. Takes nanoseconds per character, because C does the counting."""
    left = text.encode("utf-8", "surrogatepass")
    counts: dict[str, int] = {}
    if len(left) >= 60 and max(map(len, left.split()), default=0) >= 60:  # usually there is none
        plain, runs = _RANDOM_RUN.subn(b"", left)
        if runs:
            counts["random"] = len(left) - len(plain)
            left = plain
    for kind, of_it, _weight in _KINDS:
        if not left:
            break
        rest = left.translate(None, of_it)
        if len(rest) != len(left):
            counts[kind] = len(left) - len(rest)
        left = rest
    return counts


def weigh(counts: Mapping[str, int]) -> float:
    tokens = counts.get("random", 0) * _RANDOM_WEIGHT
    return tokens + sum(counts[kind] * weight for kind, _of_it, weight in _KINDS if kind in counts)


@lru_cache(maxsize=16)
def text_tokens(text: str) -> float:
    """Tokens of a text, before anything is known about the model. Cached briefly: several steps ask for the same
    text."""
    return weigh(count_kinds(text))


def block_tokens(block: Block) -> int:
    match block:
        case TextBlock():
            size = text_tokens(block.text)
        case ThinkingBlock():
            size = text_tokens(block.thinking)
        case ToolUseBlock():
            size = text_tokens(block.name) + text_tokens(str(block.input))
            return CALL_OVERHEAD + _PARAMETER_OVERHEAD * len(block.input) + int(size)
        case ToolResultBlock():
            return RESULT_OVERHEAD + sum(block_tokens(part) - BLOCK_OVERHEAD for part in block.content)
        case ImageBlock():
            return BLOCK_OVERHEAD + IMAGE_TOKENS
        case _:
            size = text_tokens(str(block.data))
    return BLOCK_OVERHEAD + int(size)


def message_tokens(message: Message) -> int:
    return 0 if message.origin.local else sum(block_tokens(block) for block in message.content)


def split_tokens(total: int, weights: Sequence[int]) -> list[int]:
    """Integers in the proportion of `weights` that sum to exactly `total`."""
    whole, sizes, reached, given = sum(weights) or len(weights), [], 0, 0
    for weight in weights if sum(weights) else [1] * len(weights):
        reached += weight
        sizes.append(total * reached // whole - given)
        given += sizes[-1]
    return sizes


class Estimator:
    """Sizes of one conversation's messages, cached. One per view."""

    def __init__(self) -> None:
        self._sizes: dict[str, tuple[Message, int]] = {}

    def message(self, message: Message) -> int:
        """Like `message_tokens`, cached."""
        known = self._sizes.get(message.id)
        if known is None or known[0] is not message:
            known = self._sizes[message.id] = (message, message_tokens(message))
        return known[1]

    def total(self, messages: Iterable[Message]) -> int:
        sizes = self._sizes
        return sum(
            [
                known[1] if (known := sizes.get(one.id)) is not None and known[0] is one else self.message(one)
                for one in messages
            ]
        )

    def context(self, messages: Sequence[Message], overhead: int) -> int:
        """Tokens of a request: the last reported usage plus an estimate of later messages."""
        if len(self._sizes) > 2 * len(messages) + 64:  # Most entries belong to messages before a compaction.
            self._sizes = {message.id: self._sizes[message.id] for message in messages if message.id in self._sizes}
        place = last_counted(messages)
        usage = messages[place].usage if place >= 0 else None
        return (overhead if usage is None else usage.context_tokens) + self.total(messages[place + 1 :])

    def later(self, messages: Sequence[Message]) -> int:
        """The part of `context` that is an estimate: tokens of the messages after the last reported usage."""
        return self.total(messages[last_counted(messages) + 1 :])


def last_counted(messages: Sequence[Message]) -> int:
    """Index of the last reply with a reported usage; -1 if there is none."""
    for place in range(len(messages) - 1, -1, -1):
        usage = messages[place].usage
        if usage is not None and usage.prompt_tokens:
            return place
    return -1


def schema_tokens(tool: Json) -> float:
    """Estimated tokens of a tool's definition."""
    return text_tokens(json.dumps(tool, ensure_ascii=False))
