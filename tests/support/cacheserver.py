"""A Messages API on 127.0.0.1 with a prompt cache, so that it reports the usage that the real one would bill.

What is simulated: entries are written where a request has a breakpoint (four at most) and the prefix up to there has
1,024 tokens; a breakpoint finds an entry at its own place or up to twenty blocks back; an entry lives for five minutes
after it was last used. The key of a prefix is every byte of it, in the order tools, system, messages, with model and
effort before all of it, and thinking and tool choice before the messages. Breakpoints themselves are no content.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from agentcli.providers.script import CheckRequest, Player, Script, ScriptedReply, ScriptedTransport
from tests.support.scripts import script
from tests.support.server import LoopbackServer, Manners

Json = dict[str, Any]
LOOKBACK = 20
MIN_TOKENS = 1_024
TTL = 300.0
_CHARACTERS_PER_TOKEN = 4
_as_json = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True)
class Reading:
    """What a request was billed for. The three numbers together are the whole prompt."""

    read: int
    written: int
    fresh: int

    @property
    def prompt(self) -> int:
        return self.read + self.written + self.fresh

    @property
    def usage(self) -> Json:
        return {
            "input_tokens": self.fresh,
            "cache_read_input_tokens": self.read,
            "cache_creation_input_tokens": self.written,
            "cache_creation": {"ephemeral_5m_input_tokens": self.written, "ephemeral_1h_input_tokens": 0},
        }


@dataclass
class PromptCache:
    clock: Callable[[], float] = time.monotonic
    ttl: float = TTL
    least: int = MIN_TOKENS
    readings: list[Reading] = field(default_factory=list)
    _entries: dict[bytes, float] = field(default_factory=dict)

    def take(self, body: Json) -> Reading:
        """Bill a request and keep what it marks."""
        now = self.clock()
        places = _places(body)
        marked = [number for number, place in enumerate(places) if place.marked]
        assert len(marked) <= 4, "more than four breakpoints"
        hit = max((found for number in marked if (found := self._find(places, number, now)) is not None), default=-1)
        read = places[hit].tokens if hit >= 0 else 0
        for number in marked:
            place = places[number]
            if place.tokens >= self.least:
                self._entries[place.key] = now + self.ttl
        end = places[marked[-1]].tokens if marked else 0
        written = max(0, end - read) if end >= self.least else 0
        reading = Reading(read, written, places[-1].tokens - read - written)
        self.readings.append(reading)
        return reading

    def forget(self) -> None:
        """As if the server had thrown everything away."""
        self._entries.clear()

    def _find(self, places: list[_Place], number: int, now: float) -> int | None:
        for back in range(number, max(-1, number - LOOKBACK), -1):
            if self._entries.get(places[back].key, -1.0) > now:
                return back
        return None


@dataclass(frozen=True)
class _Place:
    """The end of a block: everything up to here."""

    key: bytes
    tokens: int
    marked: bool


def _places(body: Json) -> list[_Place]:
    effort = (body.get("output_config") or {}).get("effort")
    key = _chained(b"", json.dumps({"model": body["model"], "effort": effort}))
    places: list[_Place] = []
    tokens = 0

    def add(block: Json, role: str) -> None:
        nonlocal key, tokens
        marked = "cache_control" in block
        if marked:
            block = {name: value for name, value in block.items() if name != "cache_control"}
        text = _as_json(block)
        key = _chained(key, f"{role} {text}")
        tokens += max(1, len(text) // _CHARACTERS_PER_TOKEN)
        places.append(_Place(key, tokens, marked))

    for tool in body.get("tools") or ():
        add(tool, "tool")
    system = body.get("system") or ()
    for part in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        add(part, "system")
    key = _chained(key, json.dumps([body.get("thinking"), body.get("tool_choice")]))
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            add(block, message["role"])
    return places


def _chained(before: bytes, text: str) -> bytes:
    return blake2b(before + text.encode(), digest_size=16).digest()


class CachingPlayer(Player):
    """Plays a script; what its replies say of their usage is what the cache says."""

    def __init__(self, script: Script, cache: PromptCache) -> None:
        super().__init__(script)
        self._cache = cache

    def next(self, body: Json) -> ScriptedReply:
        reply = super().next(body)
        if reply.error is not None:
            return reply
        written = max(1, sum(len(json.dumps(step)) for step in reply.steps) // _CHARACTERS_PER_TOKEN)
        return replace(reply, usage={"output_tokens": written, **reply.usage, **self._cache.take(body).usage})


class CacheServer(LoopbackServer):
    def __init__(self, *replies: Json | str, cache: PromptCache | None = None, manners: Manners | None = None) -> None:
        super().__init__(script=script(*replies), manners=manners)
        self.cache = cache or PromptCache()
        self.player = CachingPlayer(script(*replies), self.cache)


def caching_transport(
    *replies: Json | str, cache: PromptCache, on_request: CheckRequest | None = None
) -> ScriptedTransport:
    """The same without a socket, for virtual time."""
    transport = ScriptedTransport(script(*replies), on_request)
    transport.player = CachingPlayer(script(*replies), cache)
    return transport
