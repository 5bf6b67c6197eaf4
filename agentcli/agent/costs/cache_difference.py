"""What differs between two requests, and fingerprints of the last one of a session: what the prompt cache keeps.

The front is everything that keys the prompt cache before the messages: model, effort, thinking, tools, system prompt,
user context. The cache watch of a later process compares a stored front with its own to name what has changed in
between; the texts cannot be recovered from it. Never here: messages, which the session file contains anyway.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from operator import eq, is_
from typing import Any, get_args

from agentcli import __version__
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.core.text.plaintext import plain_line
from agentcli.providers.base import Effort, Request, Thinking, ThinkingMode
from agentcli.providers.requests.body import USUAL_THINKING_BUDGET


def same_messages(before: Request, now: Request) -> int:
    """The number of messages that both requests begin with."""
    if before.sequence is None or now.sequence is None:
        return sum(takewhile(bool, map(is_, before.messages, now.messages)))
    return before.append_only.shared_with(now.append_only)


def blocks_of(message: Json) -> Sequence[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def known_share(before: Request, now: Request) -> float:
    """The share of a request, by its characters, that consists of blocks which an earlier request had too."""
    old = set(_texts(before))
    known = total = 0
    for text in _texts(now):
        total += len(text)
        known += len(text) if text in old else 0
    return known / max(total, 1)


def _texts(request: Request) -> Iterator[str]:
    for block in (*request.tools, *(block for message in request.messages for block in blocks_of(message))):
        yield _encode(block)
    yield from request.system


_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str).encode


def changed_front(before: Front, now: Front) -> Iterator[tuple[str, str]]:
    """What differs in front of the messages, in the order in which the cache reads it: name and reason. The reason is
    "" unless the change explains itself."""
    if not same_model(before.model, now.model):
        yield "the model", f"it was changed from {before.model} to {now.model}"
    if before.effort != now.effort:
        yield "the effort", f"it was changed from {before.effort or 'auto'} to {now.effort or 'auto'}"
    if before.fast != now.fast:
        yield "the speed", f"fast mode was turned {'on' if now.fast else 'off'}"
    yield from _changed_tools(dict(before.tools), dict(now.tools))
    if before.system != now.system:
        same = _same(before.system, now.system)
        yield ("the system prompt" if same == 0 else f"part {same + 1} of the system prompt"), ""
    if not think_alike(before.thinking, now.thinking):
        modes = before.thinking.mode, now.thinking.mode
        changed = "its budget was changed" if modes[0] == modes[1] else f"it was changed from {modes[0]} to {modes[1]}"
        yield "the thinking setting", changed
    if before.context != now.context:
        yield "the instructions before all messages", ""


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: responses may have a snapshot date where requests have none."""
    return _SNAPSHOT.sub("", one) == _SNAPSHOT.sub("", other)


def think_alike(one: Thinking, other: Thinking) -> bool:
    if one.mode != other.mode or one.mode != "enabled":
        return one.mode == other.mode
    return (one.budget_tokens or USUAL_THINKING_BUDGET) == (other.budget_tokens or USUAL_THINKING_BUDGET)


def _changed_tools(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each changed tool and the reason. The values are digests of definitions, by the tool's name."""
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


def changed_message(earlier: Request, later: Request) -> str | None:
    """Describe the first block of the old messages that is not at the same place in the new ones; None if all are."""
    before, now = earlier.messages, later.messages
    for place in range(same_messages(earlier, later), len(before)):
        old = blocks_of(before[place])
        new = blocks_of(now[place]) if place < len(now) and now[place]["role"] == before[place]["role"] else ()
        for number, block in enumerate(old):
            if number >= len(new) or new[number] != block:
                return _name_block(block, before, place)
        if len(new) > len(old) and place < len(before) - 1:
            following, after = before[place + 1], now[place + 1 : place + 2]
            if list(after) == [following] or not (gone := blocks_of(following)):
                return f"what was added to the message in turn {_turn(before, place)}"
            # The message between two messages of the same role was removed, so those two are merged now.
            return _name_block(gone[0], before, place + 1)
    return None


def _name_block(block: Json, messages: Sequence[Json], place: int) -> str:
    turn = f"in turn {_turn(messages, place)}"
    match block.get("type"):
        case "tool_result":
            return f"the result of {_call(str(block.get('tool_use_id')), messages[:place])} {turn}"
        case "tool_use":
            return f"the call {_name_call(block)} {turn}"
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
                return _name_call(block)
    return "a call"


def _name_call(block: Json) -> str:
    input = block.get("input")
    values = input if isinstance(input, dict) else {}
    names = ("file_path", "notebook_path", "command", "pattern", "url", "query")
    gist = next((str(values[name]) for name in names if name in values), "")
    return plain_line(f"{block.get('name')} {gist}", 100).rstrip()


_SNAPSHOT = lazy_pattern(r"[@-]\d{8}$")
_DIGEST_BYTES = 8
_MARKED_PARTS = 2
"""Number of leading parts of the system prompt that have a cache breakpoint of their own: see `Request.system`."""
_MAX_NAME = 128
_CHANGED_SINCE_CLOSED = "it has changed since the session was closed"
_MAX_NAMED = 3
"""How many changes to list besides the first one, which is the one that breaks the cache."""


@frozen
class Front:
    model: str
    """Model that answered, by the name that requests use."""
    effort: Effort | None = None
    thinking: Thinking = Thinking()
    tools: tuple[tuple[str, str], ...] = ()
    """Tool names with digests, in the order of the request."""
    system: tuple[str, ...] = ()
    """Digests of the parts of the system prompt."""
    context: str = ""
    """Digest of the user context; "" if there is none."""
    fast: bool = False
    version: str = ""
    """Version of the agentcli that sent it, if that was another process; "": unknown, or this process."""

    def to_dict(self) -> Json:
        """The front as JSON for the session file, which stores the version separately."""
        return {
            "model": self.model,
            "effort": self.effort,
            "thinking": {"mode": self.thinking.mode, "budget": self.thinking.budget_tokens},
            "tools": [list(tool) for tool in self.tools],
            "system": list(self.system),
            "context": self.context,
            **({"fast": True} if self.fast else {}),
        }


def front_from(found: Mapping[str, Any] | None, version: str = "") -> Front | None:
    """The reverse of `Front.to_dict`; None if the data has another form, or that of a newer version."""
    if found is None:
        return None
    try:
        effort, thinking = found["effort"], found["thinking"]
        mode, budget = thinking["mode"], thinking["budget"]
        if effort is not None and effort not in get_args(Effort):
            return None
        if mode not in get_args(ThinkingMode) or not (budget is None or type(budget) is int):
            return None
        return Front(
            model=plain_line(str(found["model"]), _MAX_NAME),
            effort=effort,
            thinking=Thinking(mode, budget),
            tools=tuple((str(name), str(digest)) for name, digest in found["tools"]),
            system=tuple(map(str, found["system"])),
            context=str(found["context"]),
            fast=found.get("fast") is True,
            version=plain_line(version, 40),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


class Fingerprints:
    """Make fronts. Values equal to those of the last call are not digested again."""

    def __init__(self) -> None:
        self._tools: tuple[Sequence[Json], tuple[tuple[str, str], ...]] = ((), ())
        self._system: tuple[Sequence[str], tuple[str, ...]] = ((), ())
        self._context: tuple[str, str] = ("", "")

    def front(self, request: Request, model: str, context: str) -> Front:
        """`model`: the one that answers the request; `context`: the user context at its beginning."""
        if self._tools[0] != request.tools:
            digests = tuple((str(tool.get("name")), _digest(tool)) for tool in request.tools)
            self._tools = (request.tools, digests)
        if self._system[0] != request.system:
            self._system = (request.system, tuple(map(_digest, request.system)))
        if self._context[0] != context:
            self._context = (context, _digest(context) if context else "")
        thinking = request.thinking
        if thinking.mode != "enabled" and thinking.budget_tokens is not None:
            thinking = Thinking(thinking.mode)
        return Front(model, request.effort, thinking, self._tools[1], self._system[1], self._context[1], request.fast)


def _digest(value: object) -> str:
    # Digest the text as sent: key order and number types matter for the cache.
    from hashlib import blake2b

    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def changed_since_closed(before: Front, now: Front) -> tuple[str, str] | None:
    """What has changed since an earlier process: the first difference and the reason, with the names of others; None if
    nothing has."""
    changes = list(changed_front(before, now))
    if not changes:
        return None
    (block, reason), *others = changes
    updated = before.version not in ("", __version__)
    why = f"agentcli was updated from {before.version} to {__version__}" if updated else _CHANGED_SINCE_CLOSED
    named = [name for name, _reason in others]
    also = f"; also changed: {', '.join(named[:_MAX_NAMED])}" if named else ""
    more = f" and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    return block, f"{reason or why}{also}{more}"


def kept_head(before: Front, now: Front, request: Request) -> float:
    """Share of the front (0 to 1) that a cache written with `before` still serves for a request with `now`: everything
    up to the last breakpoint before the first change. Model and effort are not compared."""
    if before.tools != now.tools:
        return 0.0
    if before.system == now.system:
        return 1.0
    same = min(_same(before.system, now.system), _MARKED_PARTS)
    if not same:
        return 0.0
    tools = sum(len(json.dumps(tool, ensure_ascii=False)) for tool in request.tools)
    parts = [len(part) for part in request.system]
    return (tools + sum(parts[:same])) / max(tools + sum(parts), 1)


def _same(before: Sequence[str], now: Sequence[str]) -> int:
    return sum(takewhile(bool, map(eq, before, now)))
