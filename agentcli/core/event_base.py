"""The base class of all events, the policy that each class carries, and events as JSON-able data.

The class arguments of an event are the fields of its `EventPolicy`. The defaults leave nothing out: an event without
arguments is recorded, shown as a line in every front end, and shown again after a resume.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, block_from_dict, block_to_dict, message_from_dict, message_to_dict
from agentcli.core.usage import Usage

USER_AGENT = "user"
"""Agent of events about a shell command that the user typed after `!`."""


@frozen(kw_only=True)
class EventPolicy:
    """What becomes of all events of a class."""

    recorded: Literal["no", "shown", "agent", "state"] = "shown"
    """Its record in the session file. shown: only to show the transcript again; agent: the same, for the start and end
    of a sub-agent, whose other events are in a session file of its own; state: the conversation is restored from it."""
    counted: bool = True
    """Whether it may change the costs or the state of the conversation."""
    line: bool = True
    """Whether `interactive.wording.event_line` has a line about it, which front ends show unless they have code for the
    class."""
    stderr: Literal["never", "verbose", "terminal", "always"] = "verbose"
    """When headless mode prints its line: with --verbose; also if standard error is a terminal; always."""
    stream_json: bool = True
    """Whether it makes a frame of stream-json: of a type of its own, or a notice with its line."""
    scope: Literal["submission", "agent", "parent", "session"] = "agent"
    """Where an event of a sub-agent belongs. submission: nowhere else, so it is not forwarded; agent: into the agent's
    own transcript; parent: also into the conversation that started it; session: it changes the whole session."""
    before_request: bool = False
    """Whether another event follows at once, and waiting between them would delay the next request."""
    after_interrupt: bool = True
    """Whether it is shown if it arrives after the user has interrupted the work."""
    changes_status: bool = False
    """Whether the status line of the app may have to be updated."""


@frozen(kw_only=True)
class Event:
    agent: str = ""

    policy: ClassVar[EventPolicy] = EventPolicy()

    def __init_subclass__(cls, **policy: Any) -> None:
        # Without arguments also when `frozen` makes the class again with the policy that it has.
        if policy:
            cls.policy = EventPolicy(**policy)


def is_of_subagent(event: Event) -> bool:
    """Whether the event belongs to a sub-agent: neither to the main conversation nor to the user's shell."""
    return bool(event.agent) and event.agent != USER_AGENT


_ENCODE: Mapping[str, Callable[[Any], Any]] = {
    "message": message_to_dict,
    "block": block_to_dict,
    "result": block_to_dict,
    "usage": Usage.to_wire,
}
_DECODE: Mapping[str, Callable[[Any], Any]] = {
    "message": message_from_dict,
    "block": block_from_dict,
    "result": block_from_dict,
    "usage": Usage.from_wire,
}


def event_to_dict(event: Event) -> Json:
    """The event as JSON-able data; `event` names its type."""
    data: Json = {"event": type(event).__name__}
    for name in event.__dataclass_fields__:
        value = getattr(event, name)
        # A string stays: a `block` may also be a name.
        encode = _ENCODE.get(name) if not isinstance(value, str) else None
        data[name] = encode(value) if encode else value
    return data


def event_from_dict(data: Mapping[str, Any]) -> Event:
    """The reverse of `event_to_dict`. Unknown fields are ignored; an unknown event raises ValueError."""
    from agentcli.core.events import EVENT_TYPES

    kind = EVENT_TYPES.get(str(data.get("event")))
    if kind is None:
        raise ValueError(f"unknown event: {data.get('event')!r}")
    known = {spec.name for spec in fields(kind)}
    values = {name: value for name, value in data.items() if name in known}
    decoded = (name for name, value in values.items() if name in _DECODE and not isinstance(value, str))
    return kind(**{**values, **{name: _DECODE[name](values[name]) for name in decoded}})


_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "bool": int,
    "float | None": (float, int, type(None)),
    "Json": dict,
    "list[str]": list,
    "Usage": Usage,
}


@cache
def _checked_fields(kind: type[Any]) -> tuple[tuple[str, type | tuple[type, ...]], ...]:
    return tuple((spec.name, _TYPES[str(spec.type)]) for spec in fields(kind) if str(spec.type) in _TYPES)


def has_valid_fields(event: Event) -> bool:
    """Whether the simple fields of a restored event have their types; `event_from_dict` takes any value."""
    kind: Any = type(event)
    return all(isinstance(getattr(event, name), types) for name, types in _checked_fields(kind))
