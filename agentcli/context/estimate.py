"""Context size: the true usage of the last response plus an estimate of later messages.

The estimate weighs kinds of characters separately, as tokenizers do: letters are cheap, punctuation and digits
expensive, a Chinese character costs more than a token, and base64 twice as much as prose. The density of the model's
tokenizer (models differ by a third) is learnt from the conversation: the difference between the usages of two responses
is the true size of the messages between them.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from agentcli.core.append_only import AppendOnly, as_append_only
from agentcli.core.messages import (
    Block,
    ImageBlock,
    Json,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    is_thinking,
)
from agentcli.core.usage import Usage

IMAGE_TOKENS = 1_600
"""Tokens of a picture of unknown size, and the maximum of any: the API scales larger ones down."""
_PIXELS_PER_TOKEN = 750
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
            return BLOCK_OVERHEAD + _image_tokens(block.source)
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


def _image_tokens(source: Json) -> int:
    size = _pixels(source.get("data"))
    return IMAGE_TOKENS if size is None else max(1, min(IMAGE_TOKENS, size // _PIXELS_PER_TOKEN))


def _pixels(data: object) -> int | None:
    """Pixel count from the header of a PNG or GIF."""
    if not isinstance(data, str):
        return None
    try:
        head = base64.b64decode(data[:32], validate=True)
    except (binascii.Error, ValueError):
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return int.from_bytes(head[16:20], "big") * int.from_bytes(head[20:24], "big")
    if head.startswith(b"GIF8") and len(head) >= 10:
        return int.from_bytes(head[6:8], "little") * int.from_bytes(head[8:10], "little")
    return None


MIN_LEARNT_FROM = 150
"""Tokens: smaller samples mostly measure request framing."""
_PLAUSIBLE = (0.4, 2.5)
"""Plausible ratios; outside, tools or shown messages have changed between two requests."""
_REMEMBERED = 15


class Estimator:
    """Cached sizes of one conversation's messages, and the density of the model's tokenizer. One per view."""

    def __init__(self) -> None:
        self._sizes: dict[str, tuple[Message, int]] = {}
        self._learnt: AppendOnly[Message] = AppendOnly()
        """Messages shown up to the last reply used for learning."""
        self._ratios: deque[float] = deque(maxlen=_REMEMBERED)
        self.density = 1.0
        """True tokens per estimated token, from the responses so far."""

    def message(self, message: Message) -> int:
        """Like `message_tokens`, cached and without `density`."""
        known = self._sizes.get(message.id)
        if known is None or known[0] is not message:
            known = self._sizes[message.id] = (message, message_tokens(message))
        return known[1]

    def total(self, messages: Iterable[Message]) -> int:
        """Tokens of these messages, without `density`."""
        sizes = self._sizes
        return sum(
            [
                known[1] if (known := sizes.get(one.id)) is not None and known[0] is one else self.message(one)
                for one in messages
            ]
        )

    def context(self, messages: Sequence[Message], overhead: int) -> int:
        """Tokens of a request: the last reported usage plus an estimate of later messages, with `density` applied."""
        if len(self._sizes) > 2 * len(messages) + 64:  # Most entries belong to messages before a compaction.
            self._sizes = {message.id: self._sizes[message.id] for message in messages if message.id in self._sizes}
        place = last_counted(messages)
        usage = messages[place].usage if place >= 0 else None
        if usage is None:
            return overhead + self._estimate(messages)
        self._learn(messages, place)
        return usage.context_tokens + self._estimate(messages[place + 1 :])

    def later(self, messages: Sequence[Message]) -> int:
        """The part of `context` that is an estimate: tokens of the messages after the last reported usage."""
        return self._estimate(messages[last_counted(messages) + 1 :])

    def _estimate(self, messages: Sequence[Message]) -> int:
        return round(self.density * self.total(messages))

    def _learn(self, messages: Sequence[Message], last: int) -> None:
        """Update the density from new replies, each compared with the previous one."""
        known = len(self._learnt)
        if known == last + 1 and self._learnt[-1] is messages[last]:
            return
        now = as_append_only(messages)
        grown = known <= last and self._learnt.begins(now)
        # If old content is shown differently now, the difference of two usages is meaningless; in a log that was just
        # loaded this is unknown, and the median compensates.
        begin = known - 1 if grown and known else last if known else 0
        counted = _count(messages, range(last, begin - 1, -1))
        ratios: list[float] = []
        for (other, after), (one, before) in pairwise(counted):
            if len(ratios) == _REMEMBERED:
                break
            ratios += self._ratio(messages[one], before, messages[one + 1 : other], after)
        self._learnt = now.first(last + 1)
        self._remember(ratios)

    def _ratio(self, reply: Message, before: Usage, between: Sequence[Message], after: Usage) -> list[float]:
        """Density from two usages and the messages between them; empty if other factors interfere."""
        estimated = self.total(between)
        if estimated < MIN_LEARNT_FROM or _forgets_thinking(reply, between):
            return []
        ratio = (after.prompt_tokens - before.context_tokens) / estimated
        return [ratio] if _PLAUSIBLE[0] <= ratio <= _PLAUSIBLE[1] else []

    def _remember(self, ratios: Sequence[float]) -> None:
        """Store ratios, given newest first, and update the density."""
        self._ratios.extend(reversed(ratios))
        if self._ratios:
            self.density = _median(self._ratios)


def _median(numbers: Iterable[float]) -> float:
    """The median. Importing `statistics` would add 4 ms to every start."""
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def last_counted(messages: Sequence[Message]) -> int:
    """Index of the last reply with a reported usage; -1 if there is none."""
    return next((place for place, _usage in _count(messages, range(len(messages) - 1, -1, -1))), -1)


def _count(messages: Sequence[Message], places: Iterable[int]) -> Iterator[tuple[int, Usage]]:
    for place in places:
        usage = messages[place].usage
        if usage is not None and usage.prompt_tokens:
            yield place, usage


def _forgets_thinking(reply: Message, between: Sequence[Message]) -> bool:
    """Whether a new prompt may make the API drop earlier thinking, so that the reply is smaller than its usage."""
    prompted = any(message.origin in (Origin.PROMPT, Origin.QUEUED) for message in between)
    return prompted and any(map(is_thinking, reply.content))


def schema_tokens(tool: Json) -> float:
    """Estimated tokens of a tool's definition, not yet scaled to the model."""
    return text_tokens(json.dumps(tool, ensure_ascii=False))
