"""The parts of all plugins combined, as the engine uses them. Of several parts with the same name the first one
wins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar, cast

from agentcli.core.frozen import frozen
from agentcli.plugins.collection import LoadedPlugin
from agentcli.plugins.loader import PluginError, PluginProblem
from agentcli.plugins.places import PluginSource
from agentcli.plugins.plugin import (
    HookPart,
    Plugin,
    ProviderPart,
    RendererPart,
    SlashCommandPart,
    StepPart,
    ThemePart,
    ToolPart,
)
from agentcli.tools.base import Tool
from agentcli.tools.registry import is_tool_name

T = TypeVar("T")
_TOOL_METHODS = ("title", "is_safe", "needs", "check", "run")
_NAMED = (
    ("commands", "name", "command /{}"),
    ("renderers", "tool", "renderer of {}"),
    ("themes", "name", "theme named {}"),
    ("providers", "name", "provider named {}"),
)
"""Parts that are found by name: the field of `Parts`, the attribute with the name, and the wording in messages."""


@frozen
class Owned:
    """A part and the plugin that it comes from."""

    source: PluginSource
    part: Any


@frozen
class ActiveParts:
    tools: tuple[Tool, ...] = ()
    """Sorted by name."""
    commands: Mapping[str, Owned] = field(default_factory=dict)
    hooks: tuple[Owned, ...] = ()
    steps: tuple[Owned, ...] = ()
    renderers: Mapping[str, Owned] = field(default_factory=dict)
    """By tool name."""
    themes: Mapping[str, Owned] = field(default_factory=dict)
    providers: Mapping[str, Owned] = field(default_factory=dict)
    conflicts: tuple[PluginProblem, ...] = ()
    """Parts that are not used because their name is taken."""


def check_plugin(plugin: Plugin) -> None:
    """Raise `PluginError` if a part cannot be used."""
    for part in plugin.parts.tools:
        as_tool(part)
    for step in plugin.parts.steps:
        if not callable(step.function):
            raise PluginError(f"the context step {step.name} is not a function")


def as_tool(part: ToolPart) -> Tool:
    """Convert the part to a tool. Raises `PluginError`."""
    from agentcli.tools.function import tool as function_tool

    line = line_of_function(part.target)
    if not is_tool_name(part.name):
        raise PluginError(f"not a tool name: {part.name!r}. Use letters, digits, _ and -, at most 128 of them", line)
    if hasattr(part.target, "input_schema") and all(hasattr(part.target, name) for name in _TOOL_METHODS):
        return cast(Tool, part.target)
    if not part.description:
        raise PluginError(f"the tool {part.name} needs a docstring: the model reads it", line)
    try:
        return function_tool(name=part.name, description=part.description, safe=part.safe)(part.target)
    except TypeError as error:
        raise PluginError(str(error), line) from error


def line_of_function(function: object) -> int:
    """The line where a function begins; 0: unknown."""
    code = getattr(function, "__code__", None)
    return int(code.co_firstlineno) if code is not None else 0


def combine(plugins: Sequence[LoadedPlugin], reserved: Collection[str]) -> ActiveParts:
    """Combine the parts of all plugins. `reserved`: names of the tools that do not come from plugins."""
    conflicts: list[PluginProblem] = []
    used = [(each.source, each.plugin.parts) for each in plugins if each.plugin is not None]
    tools: dict[str, Owned] = {}
    for source, parts in used:
        for tool in parts.tools:
            if tool.name in reserved:
                text = f"there is already a tool named {tool.name}; this one is not used"
                conflicts.append(PluginProblem(source.label, line_of_function(tool.target), text))
            else:
                _add(tools, tool.name, Owned(source, tool), f"tool named {tool.name}", conflicts)
    named: dict[str, dict[str, Owned]] = {kind: {} for kind, _key, _what in _NAMED}
    for source, parts in used:
        for kind, key, what in _NAMED:
            for part in getattr(parts, kind):
                name = getattr(part, key)
                _add(named[kind], name, Owned(source, part), what.format(name), conflicts)
    return ActiveParts(
        tools=tuple(as_tool(tools[name].part) for name in sorted(tools)),
        hooks=tuple(Owned(source, hook) for source, parts in used for hook in parts.hooks),
        steps=tuple(Owned(source, step) for source, parts in used for step in parts.steps),
        conflicts=tuple(conflicts),
        **named,
    )


def _add(names: dict[str, Owned], name: str, owned: Owned, what: str, conflicts: list[PluginProblem]) -> None:
    first = names.setdefault(name, owned)
    if first is not owned:
        text = f"{first.source.label} already adds a {what}; this one is not used"
        conflicts.append(PluginProblem(owned.source.label, _line(owned.part), text))


def _line(part: ToolPart | SlashCommandPart | HookPart | StepPart | RendererPart | ThemePart | ProviderPart) -> int:
    function = getattr(part, "target", None) or getattr(part, "function", None) or getattr(part, "factory", None)
    return line_of_function(function)
