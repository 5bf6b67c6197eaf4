"""Describe how two requests differ in the fields that key the prompt cache. Pure; used by the cache watch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from operator import is_

from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.providers.base import Request
from agentcli.providers.requests.body import USUAL_THINKING_BUDGET


def same_messages(before: Request, now: Request) -> int:
    """The number of messages that both requests begin with."""
    if before.sequence is None or now.sequence is None:
        return sum(takewhile(bool, map(is_, before.messages, now.messages)))
    return before.growing.shared_with(now.growing)


def blocks_of(message: Json) -> Sequence[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def changed_settings(before: Request, now: Request) -> Iterator[tuple[str, str]]:
    """Cache-keying settings, other than messages, that differ: name and reason. The reason is "" unless the change
    explains itself."""
    if before.model != now.model:
        yield "the model", f"it was changed from {before.model} to {now.model}"
    if before.effort != now.effort:
        yield "the effort", f"it was changed from {before.effort or 'auto'} to {now.effort or 'auto'}"
    if before.fast != now.fast:
        yield changed_speed(now.fast)
    if before.tools is not now.tools:
        yield from changed_tools(_by_name(before.tools), _by_name(now.tools))
    if before.system is not now.system and before.system != now.system:
        same = sum(takewhile(bool, map(str.__eq__, before.system, now.system)))
        yield ("the system prompt" if same == 0 else f"part {same + 1} of the system prompt"), ""
    if _thinking(before) != _thinking(now):
        same_mode = before.thinking.mode == now.thinking.mode
        changed = (
            "its budget was changed"
            if same_mode
            else f"it was changed from {before.thinking.mode} to {now.thinking.mode}"
        )
        yield "the thinking setting", changed
    if before.forbid_tools != now.forbid_tools:
        yield "the choice of tools", "they were forbidden" if now.forbid_tools else "they are allowed again"


def changed_speed(fast: bool) -> tuple[str, str]:
    return "the speed", f"fast mode was turned {'on' if fast else 'off'}"


def _thinking(request: Request) -> tuple[str, int | None]:
    thinking = request.thinking
    return (thinking.mode, (thinking.budget_tokens or USUAL_THINKING_BUDGET) if thinking.mode == "enabled" else None)


def changed_tools(before: Mapping[str, object], now: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each changed tool and the reason. The values are definitions, or digests of them, by the tool's name."""
    for name in dict.fromkeys((*before, *now)):
        block = f"the tool {plain_line(name, 128)}"
        if name not in now:
            yield block, "it was removed"
        elif name not in before:
            yield block, "tools of MCP servers were loaded" if name.startswith("mcp__") else "it was added"
        elif before[name] != now[name]:
            yield block, ""
    if list(before) != list(now) and before.keys() == now.keys():
        yield "the order of the tools", ""


def _by_name(tools: Sequence[Json]) -> dict[str, Json]:
    return {str(tool.get("name")): tool for tool in tools}


def changed_message(earlier: Request, later: Request) -> str | None:
    """Describe the first block of the old messages that is not at the same place in the new ones; None if all are."""
    before, now = earlier.messages, later.messages
    for place in range(same_messages(earlier, later), len(before)):
        old = blocks_of(before[place])
        new = blocks_of(now[place]) if place < len(now) and now[place]["role"] == before[place]["role"] else ()
        for number, block in enumerate(old):
            if number >= len(new) or new[number] != block:
                return _named(block, before, place)
        if len(new) > len(old) and place < len(before) - 1:
            following, after = before[place + 1], now[place + 1 : place + 2]
            if list(after) == [following] or not (gone := blocks_of(following)):
                return f"what was added to the message in turn {_turn(before, place)}"
            # The message between two messages of the same role was removed, so those two are merged now.
            return _named(gone[0], before, place + 1)
    return None


def _named(block: Json, messages: Sequence[Json], place: int) -> str:
    turn = f"in turn {_turn(messages, place)}"
    match block.get("type"):
        case "tool_result":
            return f"the result of {_call(str(block.get('tool_use_id')), messages[:place])} {turn}"
        case "tool_use":
            return f"the call {_called(block)} {turn}"
        case "thinking" | "redacted_thinking":
            return f"the thinking {turn}"
        case "image":
            return f"a picture {turn}"
        case "text":
            said = plain_line(str(block.get("text", "")), 40)
            is_answer = messages[place]["role"] == "assistant"
            return f"the answer “{said}” {turn}" if is_answer else f"the message “{said}” {turn}"
    return f"a block of type {plain_line(str(block.get('type')), 40)} {turn}"


def _turn(messages: Sequence[Json], place: int) -> int:
    """Turn number of a message, counted by replies: the prompt that a reply answers and the results of its calls belong
    to its turn."""
    replies = sum(1 for message in messages[: place + 1] if message["role"] == "assistant")
    answers = any(block.get("type") == "tool_result" for block in blocks_of(messages[place]))
    return replies if answers or messages[place]["role"] == "assistant" else replies + 1


def _call(id: str, messages: Sequence[Json]) -> str:
    for message in reversed(messages):
        for block in blocks_of(message):
            if block.get("type") == "tool_use" and block.get("id") == id:
                return _called(block)
    return "a call"


def _called(block: Json) -> str:
    input = block.get("input")
    values = input if isinstance(input, dict) else {}
    names = ("file_path", "notebook_path", "command", "pattern", "url", "query")
    gist = next((str(values[name]) for name in names if name in values), "")
    return plain_line(f"{block.get('name')} {gist}", 100).rstrip()
