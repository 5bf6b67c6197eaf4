"""Find handlers of messages, reactive attributes and style rules of a widget with fewer calls: a tenth of the time of a
test of the app.

Textual looks through all base classes of a widget whenever one gets a message. Here the names of its handlers are kept
per class of widget and of message; the handlers are looked up at each message, so a test may still replace one.
Messages with a handler that is marked with `on` are left to Textual: whether it is called depends on the sender. So are
attributes that have no value yet or are computed.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from textual.css.styles import RenderStyles
from textual.message import Message
from textual.message_pump import MessagePump
from textual.reactive import Reactive

Handler = Callable[[Message], Awaitable[Any]]
_get_dispatch_methods = MessagePump._get_dispatch_methods
_get_reactive = Reactive.__get__


@functools.cache
def _handlers(pump: type[MessagePump], method_name: str, message: type[Message]) -> tuple[tuple[type, str], ...] | None:
    """Classes and names, in the order of their calls; None where Textual has to look for them."""
    found: list[tuple[type, str]] = []
    for base in pump.__mro__:
        if any(each in message.__mro__ for each in base.__dict__.get("_decorated_handlers") or ()):
            return None
        name = next((name for name in (f"_{method_name}", method_name) if base.__dict__.get(name)), None)
        if name is not None and not getattr(base.__dict__[name], "_textual_on", None):
            found.append((base, name))
    return tuple(found)


def _dispatch_methods(self: MessagePump, method_name: str, message: Message) -> Iterator[tuple[type, Handler]]:
    handlers = _handlers(type(self), method_name, type(message))
    if handlers is None:
        yield from _get_dispatch_methods(self, method_name, message)
        return
    for base, name in handlers:
        if message._no_default_action:
            break
        yield base, base.__dict__[name].__get__(self, base)


def _get_value(self: Reactive[Any], node: Any, node_type: Any = None) -> Any:
    if node is None:
        return self
    values = node.__dict__
    name = self.internal_name
    if name not in values or self.compute_name in values or hasattr(type(node), self.compute_name):
        return _get_reactive(self, node, node_type)
    return values[name]


def _get_rule(self: RenderStyles, name: str, default: object = None) -> object:
    rules: dict[str, object] = self._inline_styles._rules  # type: ignore[assignment]
    if name not in rules:
        rules = self._base_styles._rules  # type: ignore[assignment]
    return rules.get(name, default)


def install() -> None:
    MessagePump._get_dispatch_methods = _dispatch_methods  # type: ignore[method-assign]
    Reactive.__get__ = _get_value  # type: ignore[method-assign, assignment]
    RenderStyles.get_rule = _get_rule  # type: ignore[method-assign]
