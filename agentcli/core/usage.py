"""Tokens and money. Numbers come from untrusted responses, so sums and prices are kept finite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from agentcli.core.frozen import frozen, replace

TOKEN_LIMIT = 10**9
"""Maximum tokens of one response; a larger number is a server error and is capped."""
_INCLUDED = ("message", "fallback_message")
"""Iterations of a response whose tokens its own counts include."""
_MAX_ITERATIONS = 200
_MAX_NAME = 200


def _count(value: object) -> int:
    if type(value) is not int and (type(value) is not float or value != value):
        return 0
    return int(min(max(value, 0), TOKEN_LIMIT))


@frozen
class Usage:
    """The usage of one response, or a sum of responses."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    web_search_requests: int = 0
    fast: bool = False
    """Whether the server answered in fast mode, which has prices of its own; of a sum: in part."""
    consulted: tuple[tuple[str, Usage], ...] = ()
    """Usage that the other fields do not include: of models that the server consulted for this response, each with the
    model's name; "" for the answering model itself."""

    @property
    def cache_creation_input_tokens(self) -> int:
        return self.cache_write_5m_tokens + self.cache_write_1h_tokens

    @property
    def prompt_tokens(self) -> int:
        """All tokens of the request, however they were billed."""
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens

    @property
    def context_tokens(self) -> int:
        """Size of the conversation after this response."""
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_input_tokens + other.cache_read_input_tokens,
            self.cache_write_5m_tokens + other.cache_write_5m_tokens,
            self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            self.web_search_requests + other.web_search_requests,
            self.fast or other.fast,
            self.consulted + other.consulted,
        )

    @property
    def alone(self) -> Usage:
        """The usage of the answering model."""
        return replace(self, consulted=()) if self.consulted else self

    def __bool__(self) -> bool:
        return self != _NO_USAGE and self != _NO_FAST_USAGE

    def updated(self, wire: object) -> Usage:
        """This usage, updated with the fields of a `message_start` or `message_delta`."""
        if not isinstance(wire, Mapping):
            return self
        changes: dict[str, Any] = {}
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens"):
            if wire.get(name) is not None:
                changes[name] = _count(wire[name])
        by_ttl = wire.get("cache_creation")
        if isinstance(by_ttl, Mapping) and any(v is not None for v in by_ttl.values()):
            changes["cache_write_5m_tokens"] = _count(by_ttl.get("ephemeral_5m_input_tokens"))
            changes["cache_write_1h_tokens"] = _count(by_ttl.get("ephemeral_1h_input_tokens"))
        elif wire.get("cache_creation_input_tokens") is not None:
            changes["cache_write_5m_tokens"] = _count(wire["cache_creation_input_tokens"])
            changes["cache_write_1h_tokens"] = 0
        server = wire.get("server_tool_use")
        if isinstance(server, Mapping):
            changes["web_search_requests"] = _count(server.get("web_search_requests"))
        if wire.get("speed") is not None:
            changes["fast"] = wire["speed"] == "fast"
        if wire.get("iterations") is not None:
            changes["consulted"] = _read_consulted(wire["iterations"])
        return replace(self, **changes)

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Usage:
        """The reverse of `to_wire`."""
        return Usage().updated(wire)

    def to_wire(self) -> dict[str, Any]:
        """The usage with the API's field names."""
        wire: dict[str, Any] = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_creation_input_tokens": self.cache_creation_input_tokens,
            "cache_read_input_tokens": self.cache_read_input_tokens,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.cache_write_5m_tokens,
                "ephemeral_1h_input_tokens": self.cache_write_1h_tokens,
            },
            "server_tool_use": {"web_search_requests": self.web_search_requests},
        }
        if self.fast:
            wire["speed"] = "fast"
        if self.consulted:
            wire["iterations"] = [
                {"type": "advisor_message", "model": name, **used.to_wire()}
                if name
                else {"type": "compaction", **used.to_wire()}
                for name, used in self.consulted
            ]
        return wire


def usage_row(usage: Usage, cost_usd: float | None) -> dict[str, Any]:
    """A row of `modelUsage` in results and session files, with the key names that scripts already read elsewhere."""
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadInputTokens": usage.cache_read_input_tokens,
        "cacheCreationInputTokens": usage.cache_creation_input_tokens,
        "webSearchRequests": usage.web_search_requests,
        "costUSD": cost_usd,
    }


def _read_consulted(iterations: object) -> tuple[tuple[str, Usage], ...]:
    """The value of `Usage.consulted` from the iterations of a response, which may have iterations themselves."""
    if not isinstance(iterations, list):
        return ()
    found, waiting = list[tuple[str, Usage]](), iterations[:_MAX_ITERATIONS]
    while waiting and len(found) < _MAX_ITERATIONS:
        entry = waiting.pop(0)
        if not isinstance(entry, Mapping):
            continue
        if entry.get("type") not in _INCLUDED:
            own = {key: value for key, value in entry.items() if key != "iterations"}
            found.append((str(entry.get("model") or "")[:_MAX_NAME], Usage().updated(own)))
        if isinstance(inner := entry.get("iterations"), list):
            waiting[:0] = inner[:_MAX_ITERATIONS]
    return tuple(found)


_NO_USAGE = Usage()
_NO_FAST_USAGE = Usage(fast=True)


@frozen
class Price:
    """US dollars per million tokens. `above` applies to a request whose prompt exceeds `above_tokens`."""

    input: float
    output: float
    cache_read: float
    cache_write_5m: float
    cache_write_1h: float
    web_search: float = 0.01
    """Dollars per single search."""
    above_tokens: int | None = None
    above: Price | None = None

    @classmethod
    def of(cls, input: float, output: float, **rest: Any) -> Price:
        """A price by the API's usual ratios: reads cost a tenth of the input, writes 1.25 (5 m) and 2 (1 h) times."""
        usual = {"cache_read": input * 0.1, "cache_write_5m": input * 1.25, "cache_write_1h": input * 2}
        return cls(input=input, output=output, **{**usual, **rest})

    def times(self, factor: float) -> Price:
        """The price with all token prices multiplied."""
        above = self.above.times(factor) if self.above is not None else None
        names = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
        return replace(self, above=above, **{name: getattr(self, name) * factor for name in names})

    def at(self, prompt_tokens: int) -> Price:
        """The price of all tokens of a request whose prompt has this size."""
        is_above = self.above_tokens is not None and prompt_tokens > self.above_tokens
        return self.above if self.above is not None and is_above else self

    def cost(self, usage: Usage) -> float:
        price = self.at(usage.prompt_tokens)
        return (
            usage.input_tokens * price.input
            + usage.output_tokens * price.output
            + usage.cache_read_input_tokens * price.cache_read
            + usage.cache_write_5m_tokens * price.cache_write_5m
            + usage.cache_write_1h_tokens * price.cache_write_1h
        ) / 1_000_000 + usage.web_search_requests * price.web_search


@frozen
class ModelTotals:
    usage: Usage = Usage()
    cost_usd: float = 0.0
    requests: int = 0
    unpriced_requests: int = 0
    """Requests whose price is unknown; `cost_usd` does not include them and is then incomplete."""

    def __add__(self, other: ModelTotals) -> ModelTotals:
        return ModelTotals(
            self.usage + other.usage,
            self.cost_usd + other.cost_usd,
            self.requests + other.requests,
            self.unpriced_requests + other.unpriced_requests,
        )


@frozen
class Totals:
    """Usage of a conversation so far, per model. Immutable: `adding` returns new totals."""

    by_model: Mapping[str, ModelTotals] = field(default_factory=dict)

    def adding(self, model: str, usage: Usage, cost_usd: float | None) -> Totals:
        old = self._of(model)
        new = ModelTotals(
            usage=old.usage + usage,
            cost_usd=old.cost_usd + (cost_usd or 0.0),
            requests=old.requests + 1,
            unpriced_requests=old.unpriced_requests + (1 if cost_usd is None else 0),
        )
        return Totals({**self.by_model, model: new})

    def together(self, other: Totals) -> Totals:
        return Totals({**self.by_model, **{name: self._of(name) + used for name, used in other.by_model.items()}})

    def _of(self, model: str) -> ModelTotals:
        return self.by_model.get(model, ModelTotals())

    @property
    def usage(self) -> Usage:
        return sum((t.usage for t in self.by_model.values()), Usage())

    @property
    def cost_usd(self) -> float:
        return sum(t.cost_usd for t in self.by_model.values())

    @property
    def fully_priced(self) -> bool:
        return not any(t.unpriced_requests for t in self.by_model.values())


@frozen
class CacheLosses:
    """Cached tokens that had to be billed again. Immutable like `Totals`."""

    breaks: int = 0
    """How often older content of the request had changed."""
    expiries: int = 0
    """How often the cache had expired or was dropped by the server."""
    written: tuple[tuple[str, Usage, int], ...] = ()
    """For each time: the billed model, the usage written again, and the tokens of the whole prompt (its price tier)."""

    def adding(
        self, model: str, tokens: int, *, long_lived: bool, broken: bool, prompt: int = 0, fast: bool = False
    ) -> CacheLosses:
        written = Usage(cache_write_1h_tokens=tokens) if long_lived else Usage(cache_write_5m_tokens=tokens)
        written = replace(written, fast=fast)
        return CacheLosses(
            self.breaks + broken,
            self.expiries + (not broken),
            (*self.written, (model, written, prompt)),
        )

    @property
    def tokens(self) -> int:
        return sum(written.cache_creation_input_tokens for _model, written, _prompt in self.written)

    def cost_usd(self, price: Callable[[str, Usage], float | None]) -> float | None:
        """The extra cost compared with reading from the cache; None if a price is unknown."""
        cost = 0.0
        for model, written, prompt in self.written:
            tokens = written.cache_creation_input_tokens
            # Add the rest of the prompt to both, so that both use its price tier; it cancels out in the difference.
            rest = Usage(input_tokens=max(0, prompt - tokens), fast=written.fast)
            wrote = price(model, written + rest)
            read = price(model, Usage(cache_read_input_tokens=tokens) + rest)
            if wrote is None or read is None:
                return None
            cost += max(0.0, wrote - read)
        return cost
