"""Shared by tests of pins and drops: a tool with long results, an API with a cache, and finding an item."""

from __future__ import annotations

import asyncio
from typing import Any

from agentcli.context.steps import ContextState
from agentcli.core.usage import Price
from agentcli.tools.base import Output
from tests.support.cacheserver import PromptCache, caching_transport
from tests.support.fakes import Bench, FakeTool, bench
from tests.support.validate import first_problem

BIG = "A line of a file that was read, with words in it.\n" * 600


def looking(text: str = BIG) -> FakeTool:
    return FakeTool(output=lambda given: Output(f"{given.get('what')}: {text}"))


def cached_bench(*replies: Any, tools: Any = (), **rest: Any) -> tuple[Bench, PromptCache]:
    """On an API with a cache, in virtual time."""
    cache = PromptCache(least=0)
    cache.clock = lambda: asyncio.get_running_loop().time()
    transport = caching_transport(*replies, cache=cache, on_request=first_problem)
    return bench(transport=transport, tools=tools, **rest), cache


def item(b: Bench, category: str, words: str = "") -> str:
    found = [one.id for one in b.engine.context.items() if one.category == category and words in one.label]
    assert len(found) == 1, found
    return found[0]


def state(**given: Any) -> ContextState:
    facts: dict[str, Any] = {"estimate": 10_000, "usable": 100_000, "cached": 9_000, "price": Price.of(3.0, 15.0)}
    return ContextState(**{**facts, **given})
