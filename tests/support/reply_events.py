"""Events of one reply and its call, as short as tests want them."""

from __future__ import annotations

from typing import Any

from agentcli.core import events as ev
from agentcli.core.messages import TextBlock, ToolResultBlock, ToolUseBlock


def streamed(text: str, index: int = 0, message: str = "m1", **more: Any) -> ev.TextStreamed:
    return ev.TextStreamed(message_id=message, index=index, text=text, **more)


def block(found: Any, index: int = 0, message: str = "m1") -> ev.BlockFinished:
    return ev.BlockFinished(message_id=message, api_id="a", model="x", index=index, block=found)


def call(id: str = "t1", name: str = "Bash", **input: Any) -> ev.BlockFinished:
    return block(ToolUseBlock(id, name, input or {"command": "make"}))


def started(id: str = "t1", name: str = "Bash", title: str = "Bash make") -> ev.ToolStarted:
    return ev.ToolStarted(tool_use_id=id, name=name, input={}, title=title)


def finished(
    id: str = "t1", text: str = "", name: str = "Bash", is_error: bool = False, **rest: Any
) -> ev.ToolFinished:
    result = ToolResultBlock(id, (TextBlock(text),), is_error)
    return ev.ToolFinished(tool_use_id=id, name=name, result=result, **rest)
