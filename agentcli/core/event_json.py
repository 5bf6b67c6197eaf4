"""Events as JSON-able data, for the session file and for debugging output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from agentcli.core.events import EVENT_TYPES, Event
from agentcli.core.messages import Json, block_from_dict, block_to_dict, message_from_dict, message_to_dict
from agentcli.core.usage import Usage

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
    kind = EVENT_TYPES.get(str(data.get("event")))
    if kind is None:
        raise ValueError(f"unknown event: {data.get('event')!r}")
    known = {spec.name for spec in fields(kind)}
    values = {name: value for name, value in data.items() if name in known}
    decoded = (name for name, value in values.items() if name in _DECODE and not isinstance(value, str))
    return kind(**{**values, **{name: _DECODE[name](values[name]) for name in decoded}})
