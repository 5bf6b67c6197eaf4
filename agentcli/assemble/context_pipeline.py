"""The steps that free context space, chosen by the settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from agentcli.agent.context.collapse import Collapse, ConversationCollapse, Thresholds
from agentcli.agent.plugins import SessionPlugins, plugin_steps
from agentcli.agent.ports import Collapser
from agentcli.config.schema import BY_NAME
from agentcli.config.settings import Settings
from agentcli.context.old_results import ClearableTools, Microcompact, Snip, ToolResultBudget
from agentcli.context.steps import ContextStep, Pipeline
from agentcli.context.view import ContextView
from agentcli.core.files.access import read_bounded
from agentcli.tools.registry import builtin_traits


def pipeline_for(
    settings: Settings, results_dir: Path | None, collapser: Collapser, plugins: SessionPlugins | None = None
) -> Pipeline:
    """The steps in their strict order. A setting `context.NAME` switches the step of that name off."""
    steps: list[ContextStep] = [ToolResultBudget(_save_in(results_dir)), Snip(), Microcompact(clearable_tools())]
    if isinstance(collapser, ConversationCollapse):
        steps.append(collapser.step)
    switches = {step.name: f"context.{step.name}" for step in steps}
    active = [step for step in steps if switches[step.name] not in BY_NAME or settings.boolean(switches[step.name])]
    return Pipeline(active) if plugins is None else Pipeline(active, plugin_steps(plugins))


def clearable_tools() -> ClearableTools:
    subjects = builtin_traits("subject")
    return {name: (subjects[name], again) for name, again in builtin_traits("again").items()}


def collapser_for(settings: Settings, view: ContextView) -> Collapser:
    """The collapser, which summarises old parts before the whole conversation would be compacted."""
    if not settings.boolean("context.collapse"):
        return Collapser()
    compacted_at = settings.number("autoCompactThreshold") or 0.9
    return ConversationCollapse(view, Collapse(Thresholds().before(compacted_at)))


def _save_in(folder: Path | None) -> Callable[[str, str], str | None]:
    """A function that saves a tool result in `folder` and returns its path; None if it cannot be saved."""

    def save(name: str, text: str) -> str | None:
        if folder is None:
            return None
        path, data = folder / name, text.encode("utf-8", "replace")
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            return str(path) if read_bounded(path, len(data)) == data else None
        except OSError:
            return None
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except OSError:
            path.unlink(missing_ok=True)
            return None
        return str(path)

    return save
