"""Known models: context windows, output caps, effort levels, thinking modes, and prices with their date.

A model that is not listed gets conservative limits and no price (never a price of zero). The `models` setting overrides
this table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentcli.core.frozen import frozen
from agentcli.core.text.format import token_count
from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.usage import Price
from agentcli.providers.base import Effort, ThinkingMode

PRICES_TAKEN = "2026-11-16"
DEFAULT_MODEL = "claude-opus-5-5"
SMALL_MODEL = "claude-haiku-5-5"

EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")
_ALWAYS: tuple[ThinkingMode, ...] = ("adaptive",)
_CHOICE: tuple[ThinkingMode, ...] = ("adaptive", "disabled")
_BUDGETED: tuple[ThinkingMode, ...] = ("adaptive", "enabled", "disabled")


@frozen
class ModelInfo:
    id: str
    context_window: int
    max_output: int
    efforts: tuple[Effort, ...] = ()
    """Supported levels, ascending; empty: the model has no effort levels."""
    default_effort: Effort | None = None
    thinking: tuple[ThinkingMode, ...] = ()
    """Accepted thinking modes. Without `disabled` the model always thinks; empty: the field is not sent."""
    price: Price | None = None
    task_budget: bool = False
    tool_references: bool = False
    """Whether tool results may load deferred tools by `tool_reference` blocks."""
    fast_price: Price | None = None
    """Price in fast mode; None: the model has no fast mode."""
    fast_needs_beta: bool = False
    known: bool = True

    def price_at(self, *, fast: bool) -> Price | None:
        """The price at this speed; None: unknown."""
        return self.fast_price if fast else self.price

    @property
    def always_thinks(self) -> bool:
        return "adaptive" in self.thinking and "disabled" not in self.thinking


_M = 1_000_000
_K = 1_000


def _model(id: str, price: Price | None, **rest: Any) -> ModelInfo:
    usual: dict[str, Any] = {
        "context_window": _M,
        "max_output": 128 * _K,
        "efforts": EFFORTS,
        "default_effort": "high",
        "thinking": _CHOICE,
        "task_budget": True,
        "tool_references": True,
    }
    return ModelInfo(id=id, price=price, **{**usual, **rest})


_FAST_FACTOR = 2
"""Fast mode costs twice as much, also for the cache. For Opus 5.5 from a third-party blog, for Opus 5 and 4.8 from
third-party price tables that agree (2026-11)."""
_OPUS_5_5 = Price.of(4, 20, cache_read=0.2, cache_write_5m=5, cache_write_1h=8)
_OPUS_5 = Price.of(5, 25)
_FAST_5: dict[str, Any] = {"fast_price": _OPUS_5.times(_FAST_FACTOR), "fast_needs_beta": True}
_BEFORE_TASK_BUDGETS: dict[str, Any] = {
    "efforts": ("low", "medium", "high", "max"),
    "thinking": _BUDGETED,
    "task_budget": False,
}
_SMALL_WINDOW: dict[str, Any] = {
    "context_window": 200 * _K,
    "max_output": 64 * _K,
    "efforts": (),
    "default_effort": None,
    "thinking": ("enabled", "disabled"),
    "task_budget": False,
}
_MODELS: tuple[ModelInfo, ...] = (
    _model("claude-fable-5-2", Price.of(8, 40), thinking=_ALWAYS),
    _model("claude-fable-5-1", Price.of(10, 50), thinking=_ALWAYS),
    _model(
        "claude-opus-5-5",
        _OPUS_5_5,
        thinking=_ALWAYS,
        default_effort="medium",
        fast_price=_OPUS_5_5.times(_FAST_FACTOR),
    ),
    _model("claude-sonnet-5-5", Price.of(2, 10)),
    _model("claude-haiku-5-5", Price.of(0.1, 0.5, above_tokens=100 * _K, above=Price.of(0.5, 2.5))),
    _model("claude-opus-5", _OPUS_5, **_FAST_5),
    _model("claude-sonnet-5", Price.of(2, 10)),
    _model("claude-haiku-4-5", Price.of(1, 5), **_SMALL_WINDOW),
    # Prices of older models: from third-party price tables that agree (2026-11), not from the vendor's page.
    _model("claude-fable-5", Price.of(10, 50), thinking=_ALWAYS),
    _model("claude-mythos-5", Price.of(10, 50), thinking=_ALWAYS),
    _model("claude-opus-4-8", _OPUS_5, **_FAST_5),
    _model("claude-opus-4-7", _OPUS_5),
    _model("claude-opus-4-6", _OPUS_5, **_BEFORE_TASK_BUDGETS),
    _model("claude-sonnet-4-6", Price.of(3, 15), **_BEFORE_TASK_BUDGETS),
    _model(
        "claude-opus-4-5", _OPUS_5, **{**_SMALL_WINDOW, "efforts": ("low", "medium", "high"), "default_effort": "high"}
    ),
    _model("claude-sonnet-4-5", Price.of(3, 15), **_SMALL_WINDOW),
    # No price was found for these models.
    _model("claude-mythos-5-2", None, thinking=_ALWAYS),
    _model("claude-mythos-5-1", None, thinking=_ALWAYS),
)
_BY_ID = {info.id: info for info in _MODELS}

ALIASES: Mapping[str, str] = {
    "default": DEFAULT_MODEL,
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}

UNKNOWN_WINDOW = 200 * _K
UNKNOWN_MAX_OUTPUT = 32 * _K
"""Output limit of a model that is not listed. High enough for the output ladder to help, low enough for most servers; a
server with a lower cap reports it in a 400, and the provider remembers it."""

# Cloud platforms add a region, a vendor and a version to the id; snapshots add a date.
_PREFIX = lazy_pattern(r"^(?:[a-z]{2,6}\.)?anthropic[./]")
_SUFFIX = lazy_pattern(r"(?:-v\d+(?::\d+)?|[@-]\d{8}|@[\w-]+)+$")
_LONG_CONTEXT = lazy_pattern(r"\[1m\]$", re.IGNORECASE)
"""Suffix of a name that requests a context window of 1M tokens, as in other programs. Never sent: models that have such
a window have it by default."""


class Catalog:
    """The table, extended by the models that the endpoint lists and overridden by settings."""

    def __init__(self, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._overrides = dict(overrides or {})
        self._listed: dict[str, tuple[int, int]] = {}
        """Context windows and output caps that the endpoint reported."""

    def resolve(self, model: str) -> str:
        """The id of an alias, without `[1m]`; any other name unchanged."""
        name = model.strip()
        if name not in self._overrides:
            name = _LONG_CONTEXT.sub("", name)
        return ALIASES.get(name.lower(), name)

    def refusal(self, model: str) -> str:
        """Why a name that the user chose cannot be used; "" if it can."""
        info = self.get(model)
        if model.strip() in self._overrides or not _LONG_CONTEXT.search(model.strip()) or info.context_window >= _M:
            return ""
        if not info.known:
            return (
                f"It is unknown whether {info.id} has a context window of 1M tokens. Use {info.id} without [1m]; the "
                "setting contextWindow sets its window."
            )
        return (
            f"{info.id} has a context window of {token_count(info.context_window)} tokens, not 1M. Use opus or sonnet, "
            f"which have 1M, or {info.id} without [1m]."
        )

    def get(self, model: str) -> ModelInfo:
        """The entry of a model or alias. Its `id` is the name to send."""
        name = self.resolve(model)
        found = _BY_ID.get(name) or _BY_ID.get(_SUFFIX.sub("", _PREFIX.sub("", name)))
        limits = self._listed.get(name, (UNKNOWN_WINDOW, UNKNOWN_MAX_OUTPUT))
        info = replace(found, id=name) if found else ModelInfo(name, *limits, known=False)
        override = self._overrides.get(name) or self._overrides.get(model)
        return _override(info, override) if isinstance(override, Mapping) else info

    def wants_window(self, model: str) -> bool:
        """Whether neither the table nor a setting has the model's context window."""
        override = self._overrides.get(model)
        said = isinstance(override, Mapping) and "contextWindow" in override
        return not said and not self.get(model).known

    def note_listed(self, model: str, window: int, max_output: int | None = None) -> None:
        """Record the limits an endpoint reports for an unknown model. Half of a small window stays free for input."""
        self._listed[self.resolve(model)] = (window, min(max_output or UNKNOWN_MAX_OUTPUT, window // 2))

    def fast_ids(self) -> list[str]:
        """Models with a fast mode."""
        return [name for name in self.list_ids() if self.get(name).fast_price is not None]

    def list_ids(self) -> tuple[str, ...]:
        return (*_BY_ID, *(name for name in self._overrides if name not in _BY_ID))


def _override(info: ModelInfo, override: Mapping[str, Any]) -> ModelInfo:
    changes: dict[str, Any] = {}
    for key, name in (("contextWindow", "context_window"), ("maxOutput", "max_output")):
        value = override.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            changes[name] = value
    efforts = override.get("efforts")
    if isinstance(efforts, list):
        changes["efforts"] = tuple(level for level in EFFORTS if level in efforts)
    thinking = override.get("thinking")
    if isinstance(thinking, list):
        changes["thinking"] = tuple(mode for mode in _BUDGETED if mode in thinking)
    references = override.get("toolReferences")
    if isinstance(references, bool):
        changes["tool_references"] = references
    for key, name in (("price", "price"), ("fastPrice", "fast_price")):
        price = _price(override.get(key))
        if price is not None:
            changes[name] = price
    return replace(info, **changes)


def _price(data: object) -> Price | None:
    """A price from settings; None unless input and output are numbers (half a price would be wrong)."""
    if not isinstance(data, Mapping):
        return None
    names = {
        "cacheRead": "cache_read",
        "cacheWrite5m": "cache_write_5m",
        "cacheWrite1h": "cache_write_1h",
        "webSearch": "web_search",
    }
    numbers = {
        key: float(value)
        for key, value in data.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    }
    if "input" not in numbers or "output" not in numbers:
        return None
    return Price.of(
        numbers["input"], numbers["output"], **{names[key]: value for key, value in numbers.items() if key in names}
    )


def no_fast_mode(catalog: Catalog, info: ModelInfo) -> str:
    """The sentence for a model without fast mode."""
    return f"{info.id} has no fast mode. Models that have it: {', '.join(catalog.fast_ids())}."


def nearest_effort(info: ModelInfo, wanted: Effort) -> tuple[Effort | None, str | None]:
    """Map a requested effort to the nearest supported one, in doubt the lower; the second value explains any change."""
    if wanted in info.efforts:
        return wanted, None
    if not info.efforts:
        return None, f"{info.id} does not support effort levels; {wanted!r} is ignored."
    place = EFFORTS.index(wanted)
    nearest = min(info.efforts, key=lambda level: (abs(EFFORTS.index(level) - place), EFFORTS.index(level)))
    return nearest, f"{info.id} does not support effort {wanted!r}; using {nearest!r}."
