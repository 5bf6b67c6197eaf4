"""Hooks of plugins: functions that run beside the configured hooks, by the same rules."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agentcli.agent.hooks.configured_hooks import ConfiguredHooks
from agentcli.agent.plugins.active_parts import Owned
from agentcli.core.ids import Clock, Ids
from agentcli.core.messages import Json
from agentcli.hooks.rules import HookRule
from agentcli.hooks.runner import HookPlace, HookRun, HookRunner
from agentcli.plugins.loader import problem_of
from agentcli.plugins.traceback_log import TracebackLog


class PluginHooks(ConfiguredHooks):
    """The hooks of plugins around all others."""

    def bind(self, describe: Callable[[], Json], runs: Iterable[HookRun]) -> None:
        known = list(runs)
        super().bind(describe, known)
        self._inner.bind(describe, known)

    def listing(self) -> Iterable[HookRun]:
        return (*self._inner.listing(), *self.runner.listing())


def plugin_runner(root: Path, ids: Ids, clock: Clock) -> HookRunner:
    """A runner without rules yet. Its place is never used: functions run in this process."""
    return HookRunner((), HookPlace(root, {}), ids, clock)


def hook_rules(parts: Sequence[Owned], log: TracebackLog) -> tuple[HookRule, ...]:
    return tuple(_rules(parts, log))


def _rules(parts: Sequence[Owned], log: TracebackLog) -> Iterator[HookRule]:
    for owned in parts:
        part = owned.part
        yield HookRule(part.event, part.matcher, _located(owned, log), part.timeout, owned.source.label)


def _located(owned: Owned, log: TracebackLog) -> Callable[[Json], Any]:
    """The function, wrapped so that its exceptions name the line of the plugin's file."""
    function = owned.part.function

    def located(error: Exception) -> RuntimeError:
        log.add(owned.source.label, error)
        return RuntimeError(str(problem_of(owned.source, error)))

    @functools.wraps(function)
    async def call_async(data: Json) -> Any:
        try:
            return await function(data)
        except Exception as error:
            raise located(error) from error

    @functools.wraps(function)
    def call(data: Json) -> Any:
        try:
            return function(data)
        except Exception as error:
            raise located(error) from error

    return call_async if inspect.iscoroutinefunction(function) else call
