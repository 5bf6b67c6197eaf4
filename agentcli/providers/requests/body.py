"""Convert a `Request` to the JSON body of the Messages API for a given model.

Deterministic: equal requests give equal bytes, and the parts that change between turns come last, so that the prefix
stays the same for the prompt cache. The messages are never modified; blocks that get a cache breakpoint are copied.
Never sends temperature, top_p or top_k (the API refuses them).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import Any

from agentcli.core.messages import Json
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.providers.base import Request, Thinking
from agentcli.providers.catalog import ModelInfo, nearest_effort
from agentcli.providers.requests.encode import BodyMessages
from agentcli.providers.requests.server_tools import (
    ADVISOR,
    ADVISOR_BETA,
    API_SEARCH,
    advisor_of,
    defer,
    leave_out_advice,
    resolve_references,
    uses_references,
    without_advisor,
    without_api_search,
)

TASK_BUDGET_BETA = "task-budgets-2026-03-13"
FAST_BETA = "fast-mode-2026-02-01"
MIN_THINKING_BUDGET = 1024
USUAL_THINKING_BUDGET = 4096
"""Default thinking budget. Not a share of the output limit: that is raised for some requests of a conversation (after a
truncated reply, for a summary), and another budget would invalidate the prompt cache."""
MIN_ANSWER = 8192
"""Tokens of the model's output limit that no thinking budget uses."""
MAX_BREAKPOINTS = 4
_BREAKPOINT: Json = {"type": "ephemeral"}


class Feature(StrEnum):
    """Optional request features that an endpoint may not support."""

    THINKING_DISPLAY = "thinking.display"
    THINKING = "thinking"
    EFFORT = "effort"
    TASK_BUDGET = "task budget"
    CACHE_CONTROL = "cache_control"
    TOOL_CHOICE = "tool_choice"
    DEFERRED_TOOLS = "deferred tools"
    FAST_MODE = "fast mode"
    ADVISOR = "advisor"


REQUESTED_FEATURES = (Feature.FAST_MODE, Feature.ADVISOR)
"""Features that are sent only because the user turned them on."""


def build_body(request: Request, info: ModelInfo, dropped: Collection[Feature] = ()) -> tuple[Json, tuple[str, ...]]:
    """The body, and the beta features for the header."""
    caching = Feature.CACHE_CONTROL not in dropped
    system: list[Json] = [{"type": "text", "text": part} for part in request.system if part.strip()]
    used = 0
    if caching:
        for part in system[:2]:
            part["cache_control"] = _BREAKPOINT
        used = min(len(system), 2)
    body: Json = {"model": info.id}
    if system:
        body["system"] = system
    tools, messages = list(request.tools), BodyMessages(request.messages)
    if request.sequence is not None:
        messages.sequence, messages.stable = request.append_only, len(messages)
    referenced = set(request.referenced_tools) - {ADVISOR}
    if not info.known or Feature.ADVISOR in dropped:
        tools = without_advisor(tools)
    if len(referenced) < len(request.referenced_tools) and not advisor_of(tools):
        leave_out_advice(messages)
        messages.sequence = None
    if tools and caching and not system:
        # The breakpoints of a system prompt also cover the tools, which come before it in the cache.
        tools[-1] = {**tools[-1], "cache_control": _BREAKPOINT}
        used += 1
    if referenced or request.deferred_tools or API_SEARCH in tools:
        deferring = bool(tools) and info.tool_references and Feature.DEFERRED_TOOLS not in dropped
        tools = (
            [*tools, *defer(request.deferred_tools)]
            if deferring
            else [*without_api_search(tools), *request.deferred_tools]
        )
        resolve_references(messages, tools)
        messages.sequence = None
    if tools:
        body["tools"] = tools
    if caching:
        messages.stable = mark_tail(messages, min(2, MAX_BREAKPOINTS - used))
    body["messages"] = messages
    if tools and request.forbid_tools and Feature.TOOL_CHOICE not in dropped:
        body["tool_choice"] = {"type": "none"}
    body |= {**_parameters(request, info, dropped), "stream": True}
    return body, tuple(_betas(body, info))


def _parameters(request: Request, info: ModelInfo, dropped: Collection[Feature]) -> Json:
    """Thinking, effort, task budget, speed and output limit."""
    found: Json = {}
    max_tokens = request.max_tokens
    if thinking := _thinking(request, info, dropped):
        found["thinking"] = thinking
        max_tokens += thinking.get("budget_tokens", 0)
    if output_config := _output_config(request, info, dropped):
        found["output_config"] = output_config
    if request.fast and info.fast_price is not None and Feature.FAST_MODE not in dropped:
        found["speed"] = "fast"
    return {**found, "max_tokens": min(max_tokens, info.max_output)}


def _betas(body: Json, info: ModelInfo) -> Iterator[str]:
    """The beta features of a body."""
    if "task_budget" in body.get("output_config", {}):
        yield TASK_BUDGET_BETA
    if "speed" in body and info.fast_needs_beta:
        yield FAST_BETA
    if advisor_of(body.get("tools", ())):
        yield ADVISOR_BETA


def _thinking(request: Request, info: ModelInfo, dropped: Collection[Feature]) -> Json | None:
    if Feature.THINKING in dropped:
        return None
    mode = request.thinking.mode
    if mode == "enabled" and "enabled" not in info.thinking and "adaptive" in info.thinking:
        mode = "adaptive"
    if mode not in info.thinking:
        return None
    if mode == "adaptive":
        return (
            {"type": "adaptive"}
            if Feature.THINKING_DISPLAY in dropped
            else {"type": "adaptive", "display": "summarized"}
        )
    if mode == "disabled":
        return {"type": "disabled"}
    budget = thinking_budget(request.thinking, info)
    return {"type": "enabled", "budget_tokens": budget} if budget else None


def thinking_budget(thinking: Thinking, info: ModelInfo) -> int:
    """Tokens for thinking that are added to the output limit of an answer; 0: the model gets no budget. Does not depend
    on that limit: see `USUAL_THINKING_BUDGET`."""
    if thinking.mode != "enabled" or "enabled" not in info.thinking or info.max_output <= MIN_THINKING_BUDGET:
        return 0
    room = info.max_output - min(MIN_ANSWER, info.max_output // 2)
    return max(min(thinking.budget_tokens or USUAL_THINKING_BUDGET, room), MIN_THINKING_BUDGET)


def _output_config(request: Request, info: ModelInfo, dropped: Collection[Feature]) -> Json:
    config: Json = {}
    if request.effort is not None and Feature.EFFORT not in dropped:
        effort, _message = nearest_effort(info, request.effort)
        if effort is not None:
            config["effort"] = effort
    if request.task_budget_total is not None and info.task_budget and Feature.TASK_BUDGET not in dropped:
        budget: Json = {"type": "tokens", "total": request.task_budget_total}
        if request.task_budget_remaining is not None:
            budget["remaining"] = max(request.task_budget_remaining, 0)
        config["task_budget"] = budget
    return config


def mark_tail(messages: list[Json], count: int) -> int:
    """Put breakpoints on the last message and on the user message before it, replacing those messages by copies.

    The second breakpoint lets a request find the cache entry of the previous one, however many blocks this turn has
    added: the cache looks back only about twenty blocks from a breakpoint. Returns the number of messages before them.
    """
    last = len(messages) - 1
    if count < 1 or last < 0:
        return len(messages)
    wanted = [last]
    earlier = next((i for i in range(last - 1, -1, -1) if messages[i].get("role") == "user"), None)
    if earlier is not None and count > 1:
        wanted.append(earlier)
    for index in wanted:
        marked = _mark(messages[index])
        if marked is not None:
            messages[index] = marked
    return min(wanted)


def _mark(message: Json) -> Json | None:
    """A copy of the message with a breakpoint on its last block that supports one; None if no block does."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return (
            {**message, "content": [{"type": "text", "text": content, "cache_control": _BREAKPOINT}]}
            if content.strip()
            else None
        )
    if not isinstance(content, Sequence):
        return None
    for position in range(len(content) - 1, -1, -1):
        block = content[position]
        if not isinstance(block, dict) or block.get("type") in ("thinking", "redacted_thinking"):
            continue
        if block.get("type") == "text" and not str(block.get("text", "")).strip():
            continue
        blocks = list(content)
        blocks[position] = {**block, "cache_control": _BREAKPOINT}
        return {**message, "content": blocks}
    return None


_BLAME: tuple[tuple[Feature, re.Pattern[str]], ...] = (
    (Feature.CACHE_CONTROL, lazy_pattern(r"cache[_ ]control|ephemeral|prompt caching", re.IGNORECASE)),
    (Feature.ADVISOR, lazy_pattern(r"advisor", re.IGNORECASE)),
    (Feature.FAST_MODE, lazy_pattern(r"\bspeed\b|fast[_ -]mode", re.IGNORECASE)),
    (Feature.TASK_BUDGET, lazy_pattern(r"task[_ -]budget|anthropic-beta|\bbetas?\b", re.IGNORECASE)),
    (Feature.EFFORT, lazy_pattern(r"\beffort\b", re.IGNORECASE)),
    (Feature.THINKING_DISPLAY, lazy_pattern(r"\bdisplay\b|summarized", re.IGNORECASE)),
    (Feature.THINKING, lazy_pattern(r"thinking|adaptive|budget_tokens|reasoning", re.IGNORECASE)),
    (Feature.TOOL_CHOICE, lazy_pattern(r"tool_choice", re.IGNORECASE)),
    (Feature.DEFERRED_TOOLS, lazy_pattern(r"defer_loading|tool[_ ]reference|tool_search|deferred", re.IGNORECASE)),
)
_OUTPUT_CONFIG = lazy_pattern(r"output_config", re.IGNORECASE)
_OUTPUT_CAP = lazy_pattern(r"max_tokens\D{0,20}?(\d+)\s*>\s*(\d+)", re.IGNORECASE)
_OVER_CONTEXT = (
    lazy_pattern(r"max_tokens.{0,100}?(?P<input>\d+)\s*\+\s*\d+\s*>\s*(?P<limit>\d+)", re.IGNORECASE | re.DOTALL),
    lazy_pattern(
        r"maximum context length is (?P<limit>\d+) tokens.{0,200}?(?P<input>\d+) (?:in the messages|input tokens)",
        re.IGNORECASE | re.DOTALL,
    ),
)
"""Wording of the Messages API and of local servers."""
MIN_OUTPUT = 1_024
"""Tokens. With less room for a reply the conversation must be shortened."""


def blamed_feature(detail: str, body: Json) -> Feature | None:
    """The optional feature of this body that an error message names; None if it names none."""
    sent = _sent_features(body)
    for feature, pattern in _BLAME:
        if feature in sent and pattern.search(detail):
            return feature
    if _OUTPUT_CONFIG.search(detail):
        return next((f for f in (Feature.TASK_BUDGET, Feature.EFFORT) if f in sent), None)
    return None


def output_cap(detail: str, body: Json) -> int | None:
    """The model's output limit, if the error message names one that is lower than the limit sent."""
    found = _OUTPUT_CAP.search(detail)
    if found is None:
        return None
    cap = int(found[2])
    return cap if 0 < cap < int(body["max_tokens"]) else None


def output_room(detail: str, body: Json) -> int | None:
    """Tokens left for a reply, if the error message reports that only input plus `max_tokens` is too long."""
    found = next((match for pattern in _OVER_CONTEXT if (match := pattern.search(detail)) is not None), None)
    if found is None:
        return None
    room = int(found["limit"]) - int(found["input"])
    return room if MIN_OUTPUT <= room < int(body["max_tokens"]) else None


def _sent_features(body: Json) -> set[Feature]:
    sent: set[Feature] = set()
    thinking, config = body.get("thinking"), body.get("output_config", {})
    if thinking:
        sent.add(Feature.THINKING)
        if "display" in thinking:
            sent.add(Feature.THINKING_DISPLAY)
    if "effort" in config:
        sent.add(Feature.EFFORT)
    if "task_budget" in config:
        sent.add(Feature.TASK_BUDGET)
    if "tool_choice" in body:
        sent.add(Feature.TOOL_CHOICE)
    if _has_breakpoint(body):
        sent.add(Feature.CACHE_CONTROL)
    if uses_references(body):
        sent.add(Feature.DEFERRED_TOOLS)
    if "speed" in body:
        sent.add(Feature.FAST_MODE)
    if advisor_of(body.get("tools", ())):
        sent.add(Feature.ADVISOR)
    return sent


def _has_breakpoint(body: Json) -> bool:
    parts: list[Any] = [*body.get("system", ()), *body.get("tools", ())]
    for message in body["messages"]:
        if isinstance(message.get("content"), list):
            parts += message["content"]
    return any(isinstance(part, dict) and "cache_control" in part for part in parts)


DROPPED_TEXT: dict[Feature, str] = {
    Feature.THINKING_DISPLAY: "The endpoint does not support thinking summaries",
    Feature.THINKING: "The endpoint does not support the thinking setting",
    Feature.EFFORT: "The endpoint does not support effort levels",
    Feature.TASK_BUDGET: "The endpoint does not support task budgets",
    Feature.CACHE_CONTROL: "The endpoint does not support prompt caching",
    Feature.TOOL_CHOICE: "The endpoint does not support turning tools off",
    Feature.DEFERRED_TOOLS: "The endpoint does not support deferred tools",
    Feature.FAST_MODE: "The server refused fast mode",
    Feature.ADVISOR: "The server refused the advisor",
}


def dropped_message(feature: Feature) -> str:
    return f"{DROPPED_TEXT[feature]}; requests continue without it."
