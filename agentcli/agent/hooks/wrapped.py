"""Hooks around other hooks: methods that a subclass does not override are forwarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentcli.agent.ports import EmitEvent, Hooks


class WrappedHooks(Hooks):
    def __init__(self, inner: Hooks) -> None:
        self._inner = inner

    def around(self, inner: Hooks) -> Hooks:
        """An equal wrapper around other hooks."""
        raise NotImplementedError

    def reporting_to(self, emit: EmitEvent) -> Hooks:
        inner = self._inner.reporting_to(emit)
        return self if inner is self._inner else self.around(inner)

    @property
    def watches_tools(self) -> bool:
        kind = type(self)
        overrides = kind.before_tool is not WrappedHooks.before_tool or kind.after_tool is not WrappedHooks.after_tool
        return overrides or self._inner.watches_tools

    @property
    def checks_prompts(self) -> bool:
        return self._inner.checks_prompts


def _passing_on(name: str) -> Callable[..., Any]:
    def method(self: WrappedHooks, *args: Any, **named: Any) -> Any:
        return getattr(self._inner, name)(*args, **named)

    return method


for _name, _member in vars(Hooks).items():
    if callable(_member) and _name not in vars(WrappedHooks) and not _name.startswith("_"):
        setattr(WrappedHooks, _name, _passing_on(_name))
