"""What the Messages API refuses, as a function: `problems(body)` is empty for a request that it accepts.

The wording is close to the API's own, so that what recognises its errors is tested with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

TOP_LEVEL = {
    "model",
    "messages",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "stream",
    "stop_sequences",
    "metadata",
    "service_tier",
    "cache_control",
    "speed",
    "diagnostics",
    "container",
}
REMOVED = ("temperature", "top_p", "top_k")
EFFORTS = ("low", "medium", "high", "xhigh", "max")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
MAX_IMAGE_BASE64 = 5 * 1024 * 1024


def problems(body: Json) -> list[str]:
    found = [*_top_level(body), *_thinking(body), *_tools(body), *_breakpoints(body), *_messages(body), *_text(body)]
    return [*found, *_advice(body)]


def first_problem(body: Json) -> str | None:
    """For `ScriptedTransport(on_request=...)`."""
    found = problems(body)
    return found[0] if found else None


def _top_level(body: Json) -> Iterator[str]:
    for key in body:
        if key in REMOVED:
            yield f"{key}: this parameter is not supported"
        elif key not in TOP_LEVEL:
            yield f"{key}: Extra inputs are not permitted"
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: Field required"
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        yield "max_tokens: Field required"
    config = body.get("output_config", {})
    for key in set(config) - {"effort", "task_budget", "format"}:
        yield f"output_config.{key}: Extra inputs are not permitted"
    if "effort" in config and config["effort"] not in EFFORTS:
        yield "output_config.effort: Input should be one of " + ", ".join(EFFORTS)
    if "task_budget" in config:
        total = config["task_budget"].get("total")
        if config["task_budget"].get("type") != "tokens" or not isinstance(total, int):
            yield "output_config.task_budget: type and total are required"


def _thinking(body: Json) -> Iterator[str]:
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = thinking.get("type")
    if kind not in ("enabled", "disabled", "adaptive"):
        yield "thinking.type: Input should be 'enabled', 'disabled' or 'adaptive'"
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        elif budget >= body.get("max_tokens", 0):
            yield "`max_tokens` must be greater than `thinking.budget_tokens`"
    elif "budget_tokens" in thinking:
        yield "thinking.budget_tokens: Extra inputs are not permitted"


def _tools(body: Json) -> Iterator[str]:
    tools = body.get("tools", [])
    names = [tool.get("name") for tool in tools]
    for place, tool in enumerate(tools):
        if not isinstance(tool.get("name"), str) or not _NAME.fullmatch(tool["name"]):
            yield f"tools.{place}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if tool.get("type", "custom") == "custom" and tool.get("input_schema", {}).get("type") != "object":
            yield f"tools.{place}.custom.input_schema.type: Field required"
        if tool.get("defer_loading") and "cache_control" in tool:
            yield f"tools.{place}: cache_control cannot be set on a tool with defer_loading"
    if len(set(names)) != len(names):
        yield "tools: Tool names must be unique."
    if tools and all(tool.get("defer_loading") for tool in tools):
        yield "tools: at least one tool must not have defer_loading"
    deferred = {tool.get("name") for tool in tools if tool.get("defer_loading")}
    for name in _referenced(body):
        if name not in deferred:
            yield f"tool_reference: Tool '{name}' not found among the tools with defer_loading"
    choice = body.get("tool_choice")
    if choice is not None:
        if not tools:
            yield "tool_choice: tool_choice may only be specified while providing tools"
        if choice.get("type") not in ("auto", "any", "tool", "none"):
            yield "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'"


def _referenced(body: Json) -> Iterator[str]:
    """The tools that results refer to."""
    for message in body.get("messages", []):
        for block in _list(message):
            content = block.get("content")
            if isinstance(content, list):
                yield from (part["tool_name"] for part in content if part.get("type") == "tool_reference")


def _blocks(body: Json) -> Iterator[Json]:
    """Every block that may carry a breakpoint, also inside tool results."""
    system = body.get("system")
    if isinstance(system, list):
        yield from system
    yield from body.get("tools", [])
    for message in body.get("messages", []):
        if isinstance(message.get("content"), list):
            for block in message["content"]:
                yield block
                if isinstance(block.get("content"), list):
                    yield from block["content"]


def _breakpoints(body: Json) -> Iterator[str]:
    marked = [block for block in _blocks(body) if "cache_control" in block]
    if len(marked) + ("cache_control" in body) > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}."
    for block in marked:
        if block.get("type") in ("thinking", "redacted_thinking"):
            yield "cache_control cannot be set for thinking blocks"
        if block.get("type") == "text" and not block.get("text", "").strip():
            yield "cache_control cannot be set for empty text blocks"
        if block["cache_control"].get("type") != "ephemeral":
            yield "cache_control.type: Input should be 'ephemeral'"


def _advice(body: Json) -> Iterator[str]:
    offered = any(tool.get("type") == "advisor_20260301" for tool in body.get("tools", ()))
    for place, message in enumerate(body.get("messages") or ()):
        blocks = _list(message)
        results = {block["tool_use_id"] for block in blocks if block.get("type") == "advisor_tool_result"}
        calls = {
            block["id"] for block in blocks if block.get("type") == "server_tool_use" and block["name"] == "advisor"
        }
        if (results or calls) and not offered:
            yield f"messages.{place}: advisor blocks require the advisor tool"
        if calls - results and place < len(body["messages"]) - 1:
            yield f"messages.{place}: `server_tool_use` ids were found without `advisor_tool_result` blocks"


def _messages(body: Json) -> Iterator[str]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages: at least one message is required"
        return
    if messages[0].get("role") != "user":
        yield 'messages: first message must use the "user" role'
    seen: set[str] = set()
    for place, message in enumerate(messages):
        if set(message) - {"role", "content"}:
            yield f"messages.{place}.{min(set(message) - {'role', 'content'})}: Extra inputs are not permitted"
        if message.get("role") not in ("user", "assistant"):
            yield f"messages.{place}.role: Input should be 'user' or 'assistant'"
        yield from _content(message, f"messages.{place}", last=place == len(messages) - 1)
        yield from _calls(message, place, messages, seen)
        yield from _results(message, place, messages)


def _list(message: Json) -> list[Json]:
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def _content(message: Json, where: str, *, last: bool) -> Iterator[str]:
    blocks = _list(message)
    if not blocks:
        yield f"{where}: all messages must have non-empty content"
    for place, block in enumerate(blocks):
        kind = block.get("type")
        if kind == "text" and not str(block.get("text", "")).strip():
            yield f"{where}.content.{place}: text content blocks must contain non-whitespace text"
        if kind in ("thinking", "redacted_thinking") and message.get("role") != "assistant":
            yield f"{where}.content.{place}: thinking blocks are only permitted in assistant messages"
        if kind == "thinking" and not block.get("signature"):
            yield f"{where}.content.{place}.thinking.signature: Field required"
        if kind == "image" and len(block.get("source", {}).get("data", "")) > MAX_IMAGE_BASE64:
            yield f"{where}.content.{place}.image.source.base64: image exceeds 5 MB maximum"
        if kind == "document" and message.get("role") == "assistant":
            yield f"{where}.content.{place}: document blocks are not permitted in assistant messages"
    if last and message.get("role") == "assistant" and blocks:
        end = blocks[-1]
        if end.get("type") == "text" and str(end.get("text", "")) != str(end.get("text", "")).rstrip():
            yield f"{where}: final assistant content cannot end with trailing whitespace"


def _calls(message: Json, place: int, messages: list[Json], seen: set[str]) -> Iterator[str]:
    ids = []
    for number, block in enumerate(_list(message)):
        if block.get("type") != "tool_use":
            continue
        where = f"messages.{place}.content.{number}.tool_use"
        if message.get("role") != "assistant":
            yield f"{where}: tool_use blocks are only permitted in assistant messages"
        if set(block) - {"type", "id", "name", "input", "cache_control", "caller"}:
            yield f"{where}: Extra inputs are not permitted"
        if not isinstance(block.get("input"), dict):
            yield f"{where}.input: Input should be a valid dictionary"
        if not _NAME.fullmatch(str(block.get("name", ""))):
            yield f"{where}.name: String should match pattern"
        if not _ID.fullmatch(str(block.get("id", ""))):
            yield f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        if block.get("id") in seen:
            yield f"{where}: `tool_use` ids must be unique"
        seen.add(str(block.get("id")))
        ids.append(block.get("id"))
    if not ids:
        return
    following = messages[place + 1] if place + 1 < len(messages) else {}
    answered = [b.get("tool_use_id") for b in _list(following) if b.get("type") == "tool_result"]
    missing = [str(id) for id in ids if id not in answered]
    if missing or following.get("role") != "user":
        yield (
            f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message."
        )


def _results(message: Json, place: int, messages: list[Json]) -> Iterator[str]:
    blocks = _list(message)
    results = [block for block in blocks if block.get("type") == "tool_result"]
    if not results:
        return
    if any(block.get("type") != "tool_result" for block in blocks[: len(results)]):
        yield f"messages.{place}: tool_result blocks must come first in the content array"
    before = messages[place - 1] if place else {}
    known = (
        [b.get("id") for b in _list(before) if b.get("type") == "tool_use"] if before.get("role") == "assistant" else []
    )
    for block in results:
        id = block.get("tool_use_id")
        if id not in known:
            yield f"messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}."
        if isinstance(block.get("content"), list):
            for part in block["content"]:
                if part.get("type") == "text" and not part.get("text"):
                    yield f"messages.{place}: text content blocks must be non-empty"
    ids = [block.get("tool_use_id") for block in results]
    if len(set(ids)) != len(ids):
        yield f"messages.{place}: each tool_use must have a single result. Found multiple `tool_result` blocks."


def _text(body: Json) -> Iterator[str]:
    """What cannot be sent as text at all."""
    encoded = json.dumps(body, ensure_ascii=False)
    if "\\u0000" in encoded and re.search(r"(?<!\\)(?:\\\\)*\\u0000", encoded):
        yield "the request body contains a null character"
    try:
        encoded.encode("utf-8")
    except UnicodeEncodeError:
        yield "the request body is not valid JSON: lone surrogate"
