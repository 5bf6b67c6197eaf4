"""Compute the usage that the real API would report for a request, with a simulated prompt cache.

Pure except for the remembered cache entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b

from agentcli.core.messages import Json

CHARACTERS_A_TOKEN = 4
LEAST_CACHED = 1_024
LOOKS_BACK = 20
"""How many blocks before a breakpoint are searched for a cached prefix."""


def tokens(value: object) -> int:
    return max(1, len(json.dumps(value, ensure_ascii=False)) // CHARACTERS_A_TOKEN)


class Billing:
    """The cached prefixes of earlier requests. A demo ends before any of them would expire."""

    def __init__(self) -> None:
        self._kept: set[bytes] = set()

    def usage(self, body: Json, written: int) -> Json:
        """The usage of a request whose reply has `written` tokens."""
        key, total = b"", 0
        keys: list[bytes] = []
        totals: list[int] = []
        marks: list[int] = []
        for place, (block, marked) in enumerate(_blocks(body)):
            key = blake2b(key + block.encode(), digest_size=12).digest()
            total += max(1, len(block) // CHARACTERS_A_TOKEN)
            keys.append(key)
            totals.append(total)
            marks += [place] if marked else []
        hits = [
            place
            for mark in marks
            for place in range(mark, max(-1, mark - LOOKS_BACK), -1)
            if keys[place] in self._kept
        ]
        read = totals[max(hits)] if hits else 0
        end = totals[marks[-1]] if marks else 0
        new = max(0, end - read) if end >= LEAST_CACHED else 0
        self._kept |= {keys[mark] for mark in marks if totals[mark] >= LEAST_CACHED}
        return {
            "input_tokens": total - read - new,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": new,
            "cache_creation": {"ephemeral_5m_input_tokens": new, "ephemeral_1h_input_tokens": 0},
            "output_tokens": written,
        }


def _blocks(body: Json) -> Iterator[tuple[str, bool]]:
    """All blocks in cache order, and which of them have a breakpoint."""
    yield json.dumps([body.get("model"), body.get("output_config")]), False
    for tool in body.get("tools") or ():
        yield _bare(tool)
    system = body.get("system") or ()
    for part in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield _bare(part)
    yield json.dumps([body.get("thinking"), body.get("tool_choice")]), False
    for message in body.get("messages") or ():
        content = message.get("content") or ()
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            text, marked = _bare(block)
            yield f"{message.get('role')} {text}", marked


def _bare(block: Json) -> tuple[str, bool]:
    """A block without its breakpoint, which is not content."""
    plain = {name: value for name, value in block.items() if name != "cache_control"}
    return json.dumps(plain, ensure_ascii=False), "cache_control" in block
