"""/plugins: list the Python plugins of this session, or reload changed ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentcli.agent.engine import Engine
from agentcli.agent.plugins import line_of_function
from agentcli.commands.base import Manual
from agentcli.commands.registry import find
from agentcli.core.errors import UsageError
from agentcli.core.text.plaintext import plain_line
from agentcli.plugins.collection import LoadedPlugin
from agentcli.plugins.loader import PluginProblem

MANUAL = Manual(
    "Plugins are Python files in .agentcli/plugins and ~/.config/agentcli/plugins, or installed packages. A saved file "
    'is loaded again automatically. "plugins": false in the settings turns them off.',
    (("/plugins", "list plugins, what they add and their problems"), ("/plugins reload", "load changed files now")),
)


async def run(engine: Engine, arguments: str) -> str:
    plugins = engine.plugins
    if plugins is None:
        raise UsageError("Plugins are off.")
    if arguments not in ("", "reload"):
        raise UsageError("Use /plugins or /plugins reload.")
    if arguments == "reload" or not plugins.loaded:
        await plugins.refresh()
    return "\n".join(plugin_lines(plugins.plugins, plugins.active.conflicts))


def plugin_lines(plugins: Sequence[LoadedPlugin], conflicts: Sequence[PluginProblem]) -> Iterator[str]:
    """Each plugin with its source, what it adds, its load time and its problems."""
    if not plugins:
        yield "There are no plugins. `agentcli plugins new NAME` writes an example."
    for each in plugins:
        state = f"{each.milliseconds:.0f} ms" if each.plugin is not None else "not loaded"
        source = each.source
        yield f"{plain_line(source.name, 60)}  {source.scope}  {plain_line(source.label, 200)}  {state}"
        if each.plugin is not None:
            yield f"  adds: {plain_line(', '.join(each.plugin.parts.summary()), 400) or 'nothing'}"
        yield from (f"  problem: {text}" for text in problem_texts(each, conflicts))


def problem_texts(plugin: LoadedPlugin, conflicts: Sequence[PluginProblem]) -> list[str]:
    """Reasons why a plugin, or a part of it, is not used."""
    label = plugin.source.label
    problems = [problem for problem in (plugin.problem, *conflicts) if problem is not None and problem.label == label]
    for command in plugin.plugin.parts.commands if plugin.plugin is not None else ():
        if find(command.name) is not None:
            line = line_of_function(command.function)
            problems.append(PluginProblem(label, line, f"/{command.name} is built in; this one is not used"))
    return [str(problem) for problem in problems]
