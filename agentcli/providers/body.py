"""Convert a `Request` to the JSON body of the Messages API for a given model.

Deterministic: equal requests give equal bytes, and the parts that change between turns come last, so that the prefix
stays the same for the prompt cache. The messages are never modified; blocks that get a cache breakpoint are copied.
Never sends temperature, top_p or top_k (the API refuses them).

Also handles tools of the API. Deferred tools are loaded by references: a model or an endpoint that does not support
them gets the definitions as text in their place. The advisor is a second model that the server consults during a reply:
the API offers it as a tool and puts the call and the advice into the reply; both are sent back unchanged.

`BodyEncoder` makes the bytes: each message of a long conversation is encoded once, not once per turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from agentcli.core.messages import Block, Json, UnknownBlock
from agentcli.core.space_saving import RunningValue
from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.text.plaintext import plain_text
from agentcli.providers.base import Request, Thinking
from agentcli.providers.catalog import ModelInfo, nearest_effort

TASK_BUDGET_BETA = "task-budgets-2026-03-13"
FAST_BETA = "fast-mode-2026-02-01"
ADVISOR_BETA = "advisor-tool-2026-03-01"
ADVISOR = "advisor"
"""Name of the tool."""
_ADVISOR_TYPE = "advisor_20260301"
_ADVICE = "advisor_tool_result"
_LEFT_OUT: Json = {"type": "text", "text": "[Consulted the advisor]"}
REFERENCE = "tool_reference"
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
    tools, messages = list(request.tools), list(request.messages)
    referenced = set(request.referenced_tools) - {ADVISOR}
    if not info.known or Feature.ADVISOR in dropped:
        tools = [tool for tool in tools if tool.get("type") != _ADVISOR_TYPE]
    if len(referenced) < len(request.referenced_tools) and not advisor_of(tools):
        _leave_out_advice(messages)
    if tools and caching and not system:
        # The breakpoints of a system prompt also cover the tools, which come before it in the cache.
        tools[-1] = {**tools[-1], "cache_control": _BREAKPOINT}
        used += 1
    if referenced or request.deferred_tools:
        deferring = bool(tools) and info.tool_references and Feature.DEFERRED_TOOLS not in dropped
        if deferring:
            tools += [{**tool, "defer_loading": True} for tool in request.deferred_tools]
        else:
            tools += request.deferred_tools
        _resolve_references(messages, tools)
    if tools:
        body["tools"] = tools
    if caching:
        mark_tail(messages, min(2, MAX_BREAKPOINTS - used))
    body["messages"] = messages
    if tools and request.forbid_tools and Feature.TOOL_CHOICE not in dropped:
        body["tool_choice"] = {"type": "none"}
    body |= {**_parameters(request, info, dropped), "stream": True}
    return body, tuple(_betas(body, info))


def _parameters(request: Request, info: ModelInfo, dropped: Collection[Feature]) -> Json:
    """Thinking, effort, task budget, speed and output limit."""
    found: Json = {}
    max_tokens = request.max_tokens
    if thinking := _build_thinking(request, info, dropped):
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


def _build_thinking(request: Request, info: ModelInfo, dropped: Collection[Feature]) -> Json | None:
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


def mark_tail(messages: list[Json], count: int) -> None:
    """Put breakpoints on the last message and on the user message before it, replacing those messages by copies.

    The second breakpoint lets a request find the cache entry of the previous one, however many blocks this turn has
    added: the cache looks back only about twenty blocks from a breakpoint.
    """
    last = len(messages) - 1
    earlier = (index for index in range(last - 1, -1, -1) if messages[index].get("role") == "user")
    for index in (last, next(earlier, last))[: max(count, 0)] if messages else ():
        messages[index] = _mark(messages[index]) or messages[index]


def _mark(message: Json) -> Json | None:
    """A copy of the message with a breakpoint on its last block that supports one; None if no block does."""
    content: Any = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
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


def find_blamed_feature(detail: str, body: Json) -> Feature | None:
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
    thinking, config, tools = body.get("thinking", {}), body.get("output_config", {}), body.get("tools", ())
    sent = {
        Feature.THINKING: bool(thinking),
        Feature.THINKING_DISPLAY: "display" in thinking,
        Feature.EFFORT: "effort" in config,
        Feature.TASK_BUDGET: "task_budget" in config,
        Feature.TOOL_CHOICE: "tool_choice" in body,
        Feature.CACHE_CONTROL: _has_breakpoint(body),
        Feature.DEFERRED_TOOLS: _uses_references(body),
        Feature.FAST_MODE: "speed" in body,
        Feature.ADVISOR: bool(advisor_of(tools)),
    }
    return {feature for feature, is_sent in sent.items() if is_sent}


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


def describe_dropped(feature: Feature) -> str:
    return f"{DROPPED_TEXT[feature]}; requests continue without it."


# --------------------------------------------------------------------------------------------------- tools of the API


def advisor_tool(model: str) -> Json:
    return {"type": _ADVISOR_TYPE, "name": ADVISOR, "model": model}


def advisor_of(tools: Iterable[Json]) -> str:
    """The advisor's model; "" if the tools have no advisor."""
    return next((str(tool["model"]) for tool in tools if tool.get("type") == _ADVISOR_TYPE), "")


def _has_advice(message: Json) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(map(_is_advice, content))


def _leave_out_advice(messages: list[Json]) -> None:
    """Remove the advisor's blocks, in copies of their messages: the API refuses them without the tool."""
    for place, message in enumerate(messages):
        if _has_advice(message):
            kept = [block for block in message["content"] if not _is_advice(block)]
            messages[place] = {**message, "content": kept or [_LEFT_OUT]}


def describe_advice(block: Block, model: str) -> str:
    """What an advisor's result says, for the user; "" for any other block."""
    if not isinstance(block, UnknownBlock) or block.type != _ADVICE:
        return ""
    content: Any = block.data.get("content")
    content = content if isinstance(content, dict) else {}
    text = content.get("text")
    if isinstance(text, str) and text.strip():
        return f"Advice from {model}: {plain_text(text).strip()}"
    if code := content.get("error_code"):
        return f"The advisor {model} did not answer: {plain_text(str(code)).replace('_', ' ')}."
    return f"{model} gave advice that only the model can read."


def _is_advice(block: Any) -> bool:
    """Whether a block is a call of the advisor, or its result."""
    if not isinstance(block, dict):
        return False
    kind = block.get("type")
    return kind == _ADVICE or (kind == "server_tool_use" and block.get("name") == ADVISOR)


def reference(name: str) -> Json:
    return {"type": REFERENCE, "tool_name": name}


def collect_referenced_tools() -> RunningValue[Json, dict[str, None]]:
    """The names of tools that messages refer to, in the order of their first reference, and the advisor, if it was
    used. Messages of the last call are not read again."""

    def add(names: dict[str, None], message: Json) -> dict[str, None]:
        names |= dict.fromkeys(_references(message))
        if _has_advice(message):
            names[ADVISOR] = None
        return names

    return RunningValue(dict, add)


def _resolve_references(messages: list[Json], tools: Sequence[Json]) -> None:
    """Replace references by text, in copies of their messages, unless the tool is defined and deferred: the API refuses
    them otherwise."""
    known = {str(tool.get("name")): tool for tool in tools}
    for place, message in enumerate(messages):
        if not all("defer_loading" in known.get(name, {}) for name in _references(message)):
            messages[place] = {**message, "content": [_resolve(block, known) for block in message["content"]]}


def _uses_references(body: Json) -> bool:
    """Whether a body contains anything that an endpoint without deferred tools refuses."""
    tools, messages = body.get("tools", ()), body["messages"]
    if any("defer_loading" in tool for tool in tools):
        return True
    return any(True for message in messages for _name in _references(message))


def _references(message: Json) -> Iterator[str]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
            yield from (str(part.get("tool_name")) for part in block["content"] if part.get("type") == REFERENCE)


def _resolve(block: Json, known: Mapping[str, Json]) -> Json:
    if block.get("type") != "tool_result" or not isinstance(block.get("content"), list):
        return block
    return {**block, "content": [_as_text(part, known) for part in block["content"]]}


def _as_text(part: Json, known: Mapping[str, Json]) -> Json:
    if part.get("type") != REFERENCE:
        return part
    name = str(part.get("tool_name"))
    tool: Mapping[str, Any] | None = known.get(name)
    if tool is not None and "defer_loading" in tool:
        return part
    if tool is None:
        return {"type": "text", "text": f"[The tool {name} is no longer available.]"}
    definition = {key: tool.get(key) for key in ("name", "description", "input_schema")}
    return {"type": "text", "text": f"You can call this tool now:\n{json.dumps(definition, ensure_ascii=False)}"}


# ------------------------------------------------------------------------------------------------------------ encoding

_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_SURROGATE = re.compile("[\ud800-\udfff]")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class BodyEncoder:
    """Keeps the encoding of messages and tools by the identity of their dictionaries, and a reference to each, so that
    no id is reused."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Json, bytes]] = {}

    def encode(self, body: Json) -> bytes:
        kept = [*body.get("messages", ()), *body.get("tools", ())]
        if len(self._known) > 2 * len(kept) + 64:
            self._known = {id(value): known for value in kept if (known := self._known.get(id(value))) is not None}
        fields = (
            to_bytes(key) + b":" + (self._encode_list(value) if key in ("messages", "tools") else to_bytes(value))
            for key, value in body.items()
        )
        return b"{%b}" % b",".join(fields)

    def _encode_list(self, values: list[Json]) -> bytes:
        keys, known = [*map(id, values)], self._known
        for key, value in zip(keys, values, strict=True):
            if key not in known:
                known[key] = (value, to_bytes(value))
        return b"[%b]" % b",".join([known[key][1] for key in keys])


def to_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8. NUL and lone surrogates, which the API refuses, become U+FFFD."""
    text = _encode(value)
    if "\\u0000" in text:
        text = _NUL.sub("\\1\ufffd", text)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode("utf-8")
