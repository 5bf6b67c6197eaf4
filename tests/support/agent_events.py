"""Events of sub-agents as the engine yields them, for front ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentcli.core import events as ev
from agentcli.core.messages import Message, Origin, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentcli.core.usage import Usage


def task_call(call: str, description: str = "Find the callers", agent: str = "", **input: Any) -> list[ev.Event]:
    """The model calls Task, and the call begins to run. `agent`: whose call it is."""
    block = ToolUseBlock(call, "Task", {"description": description, **input})
    return [
        ev.BlockFinished(message_id=f"m-{call}", api_id="a", model="x", index=0, block=block, agent=agent),
        ev.ToolStarted(tool_use_id=call, name="Task", input=block.input, title=f"explore: {description}", agent=agent),
    ]


def task_end(call: str, agent: str = "", text: str = "The report.", **rest: Any) -> ev.ToolFinished:
    result = ToolResultBlock(call, (TextBlock(text),))
    return ev.ToolFinished(tool_use_id=call, name="Task", result=result, agent=agent, **rest)


def agent_start(agent: str, call: str, description: str = "Find the callers", **rest: Any) -> ev.AgentStarted:
    name = agent.partition("-")[0]
    return ev.AgentStarted(
        agent=agent, tool_use_id=call, name=name, description=description, model="m", session_id=f"s-{agent}", **rest
    )


def agent_end(agent: str, call: str, status: str = "completed", **rest: Any) -> ev.AgentFinished:
    values: dict[str, Any] = {
        "description": "Find the callers",
        "turns": 2,
        "tokens": 24_000,
        "cost_usd": 0.05,
        "duration_ms": 14_000,
        "text": "Three callers.",
    }
    name = agent.partition("-")[0]
    return ev.AgentFinished(agent=agent, tool_use_id=call, name=name, status=status, **{**values, **rest})


def agent_work(agent: str, turns: int = 1, text: str = "Found it.", size: int = 20) -> Iterator[ev.Event]:
    """Its prompt, and so many turns with a call, thoughts and streamed text."""
    prompt = Message("user", (TextBlock("Find all callers."),), f"{agent}-prompt", Origin.PROMPT)
    yield ev.MessageAppended(agent=agent, message=prompt)
    for turn in range(turns):
        reply, call = f"{agent}-m{turn}", f"{agent}-c{turn}"
        yield ev.RequestStarted(agent=agent, model="m", turn=turn + 1)
        yield ev.ReplyStarted(agent=agent, message_id=reply, api_id="a", model="m")
        yield ev.ThinkingStreamed(agent=agent, message_id=reply, index=0, text="Where could it be?")
        yield _finished(agent, reply, 0, ThinkingBlock("Where could it be?"))
        for start in range(0, len(text), size):
            yield ev.TextStreamed(agent=agent, message_id=reply, index=1, text=text[start : start + size])
        yield _finished(agent, reply, 1, TextBlock(text))
        yield _finished(agent, reply, 2, ToolUseBlock(call, "Grep", {"pattern": "head"}))
        usage = Usage(input_tokens=1_000, output_tokens=100)
        yield ev.UsageReported(agent=agent, model="m", usage=usage, cost_usd=0.01)
        yield ev.ToolStarted(agent=agent, tool_use_id=call, name="Grep", input={"pattern": "head"}, title="Grep head")
        result = ToolResultBlock(call, (TextBlock("a.py:1\nb.py:2"),))
        yield ev.ToolFinished(agent=agent, tool_use_id=call, name="Grep", result=result, summary="2 matches")


def question(agent: str, request: str = "q", call: str = "") -> ev.PermissionRequested:
    return ev.PermissionRequested(
        agent=agent,
        request_id=request,
        tool_use_id=call or f"{agent}-c0",
        name="Bash",
        input={"command": "make"},
        title="Bash make",
        reason="make can run code",
        display={"kind": "command", "command": "make"},
    )


def _finished(agent: str, reply: str, index: int, block: Any) -> ev.BlockFinished:
    return ev.BlockFinished(agent=agent, message_id=reply, api_id="a", model="m", index=index, block=block)
