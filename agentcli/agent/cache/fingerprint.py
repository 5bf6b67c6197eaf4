"""Digests of the front of a request: small enough for a session file, and without any of the text that was sent.

The front is everything that keys the prompt cache before the messages: model, effort, thinking, tools, system prompt,
user context. The cache watch of a later process compares a stored front with its own to name what has changed in
between; the texts cannot be recovered from it. Never here: messages, which the session file contains anyway.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from operator import eq
from typing import Any, get_args

from agentcli import __version__
from agentcli.agent.cache.difference import changed_speed, changed_tools
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.providers.base import Effort, Request, Thinking, ThinkingMode

_DIGEST_BYTES = 8
_MARKED_PARTS = 2
"""Number of leading parts of the system prompt that have a cache breakpoint of their own: see `Request.system`."""
_LONGEST_NAME = 128
_CHANGED_SINCE_CLOSED = "it has changed since the session was closed"
_MOST_NAMED = 3
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
            model=plain_line(str(found["model"]), _LONGEST_NAME),
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
    """Make fronts. Values identical to those of the last call are not digested again."""

    def __init__(self) -> None:
        self._tools: tuple[Sequence[Json], tuple[tuple[str, str], ...]] = ((), ())
        self._system: tuple[Sequence[str], tuple[str, ...]] = ((), ())
        self._context: tuple[str, str] = ("", "")

    def front(self, request: Request, model: str, context: str) -> Front:
        """`model`: the one that answers the request; `context`: the user context at its beginning."""
        if self._tools[0] is not request.tools:
            digests = tuple((str(tool.get("name")), _digest(tool)) for tool in request.tools)
            self._tools = (request.tools, digests)
        if self._system[0] is not request.system:
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


def changed_front(before: Front, now: Front) -> tuple[str, str] | None:
    """What has changed since an earlier process: the first difference in the order in which the cache reads a request,
    and the reason; None if nothing has. Models are not compared: the same model may have different names."""
    changes = list(_changes(before, now))
    if not changes:
        return None
    (block, reason), *others = changes
    updated = before.version not in ("", __version__)
    why = f"agentcli was updated from {before.version} to {__version__}" if updated else _CHANGED_SINCE_CLOSED
    named = [name for name, _reason in others]
    also = f"; also changed: {', '.join(named[:_MOST_NAMED])}" if named else ""
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return block, f"{reason or why}{also}{more}"


def _changes(before: Front, now: Front) -> Iterator[tuple[str, str]]:
    """Differences: name and reason. The reason is "" unless the change explains itself."""
    if before.effort != now.effort:
        yield "the effort", f"it was changed from {before.effort or 'auto'} to {now.effort or 'auto'}"
    if before.fast != now.fast:
        yield changed_speed(now.fast)
    yield from changed_tools(dict(before.tools), dict(now.tools))
    if before.system != now.system:
        same = _same(before.system, now.system)
        yield ("the system prompt" if same == 0 else f"part {same + 1} of the system prompt"), ""
    if before.thinking != now.thinking:
        modes = before.thinking.mode, now.thinking.mode
        changed = "its budget was changed" if modes[0] == modes[1] else f"it was changed from {modes[0]} to {modes[1]}"
        yield "the thinking setting", changed
    if before.context != now.context:
        yield "the instructions before all messages", ""


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
