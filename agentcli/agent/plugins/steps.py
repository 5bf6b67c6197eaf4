"""Context steps of plugins, guarded: a step that raises, or plans a forbidden edit, changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agentcli.agent.plugins.active_parts import Owned
from agentcli.agent.plugins.session_plugins import SessionPlugins
from agentcli.context.edits import ContextEdit
from agentcli.context.steps import ContextState, ContextStep, StepPlan
from agentcli.core.messages import Message


class PluginStep:
    def __init__(self, owned: Owned, plugins: SessionPlugins) -> None:
        self.name: str = owned.part.name
        self._owned = owned
        self._plugins = plugins

    def plan(self, shown: Sequence[Message], situation: ContextState) -> StepPlan | None:
        try:
            plan = self._owned.part.function(shown, situation)
            return None if plan is None else self._checked(plan, shown)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises must not stop the request
            self._plugins.fail(self._owned.source, f"the context step {self.name}", error)
            return None

    def _checked(self, plan: object, shown: Sequence[Message]) -> StepPlan:
        if not isinstance(plan, StepPlan):
            raise TypeError(f"it returned {type(plan).__name__}; expected StepPlan or None")
        known = {message.id for message in shown}
        for edit in plan.edits:
            # Dropping or merging messages can make a request invalid; replacing their text cannot.
            if (
                not isinstance(edit, ContextEdit)
                or edit.kind != "replace"
                or edit.target.rpartition(":")[0] not in known
            ):
                raise ValueError("a plugin's step may only replace the content of blocks that it was shown")
        return replace(plan, edits=tuple(replace(edit, step=self.name) for edit in plan.edits))


def plugin_steps(plugins: SessionPlugins) -> Callable[[], Sequence[ContextStep]]:
    """The steps of the plugins that are active at each call."""
    return lambda: [PluginStep(owned, plugins) for owned in plugins.active.steps]
