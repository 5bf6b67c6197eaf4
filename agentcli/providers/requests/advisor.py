"""The advisor: a second model that the server consults during a reply.

The API offers it to the model as a tool and puts the call and the advice into the reply; both are sent back unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentcli.core.messages import Block, Json, UnknownBlock
from agentcli.core.text.plaintext import plain_text

ADVISOR_BETA = "advisor-tool-2026-03-01"
ADVISOR = "advisor"
"""Name of the tool."""
_TYPE = "advisor_20260301"
_RESULT = "advisor_tool_result"
_LEFT_OUT: Json = {"type": "text", "text": "[Consulted the advisor]"}


def advisor_tool(model: str) -> Json:
    return {"type": _TYPE, "name": ADVISOR, "model": model}


def advisor_of(tools: Iterable[Json]) -> str:
    """The advisor's model; "" if the tools have no advisor."""
    return next((str(tool["model"]) for tool in tools if tool.get("type") == _TYPE), "")


def without_advisor(tools: Iterable[Json]) -> list[Json]:
    return [tool for tool in tools if tool.get("type") != _TYPE]


def has_advice(message: Json) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(map(_is_advice, content))


def leave_out_advice(messages: list[Json]) -> None:
    """Remove the advisor's blocks, in copies of their messages: the API refuses them without the tool."""
    for place, message in enumerate(messages):
        if has_advice(message):
            kept = [block for block in message["content"] if not _is_advice(block)]
            messages[place] = {**message, "content": kept or [_LEFT_OUT]}


def describe_advice(block: Block, model: str) -> str:
    """What an advisor's result says, for the user; "" for any other block."""
    if not isinstance(block, UnknownBlock) or block.type != _RESULT:
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
    return kind == _RESULT or (kind == "server_tool_use" and block.get("name") == ADVISOR)
