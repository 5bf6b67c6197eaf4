"""Parts that plugins add to a session: tools, hooks, context steps, renderers; loading, reloading and reporting them.

Of several parts with the same name the first one wins. Loading happens in a thread. The active parts are replaced as a
whole between two events of the loop; tools change only when a submission begins.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentcli.context.edits import ContextEdit
from agentcli.context.steps import ContextState, ContextStep, StepPlan
from agentcli.core.aio import in_thread
from agentcli.core.events import NoticeRaised
from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock, Ids
from agentcli.core.messages import Json, Message, TextBlock
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.plugins.collection import PluginCollection
from agentcli.plugins.loader import (
    LoadedPlugin,
    PluginError,
    PluginProblem,
    PluginSource,
    TracebackLog,
    call_bounded,
    problem_of,
)
from agentcli.plugins.plugin import (
    STYLES,
    HookPart,
    Plugin,
    ProviderPart,
    Renderer,
    RendererPart,
    SlashCommandPart,
    StepPart,
    ThemePart,
    ToolCall,
    ToolPart,
)
from agentcli.tools.base import Output, Tool
from agentcli.tools.registry import is_tool_name

if TYPE_CHECKING:
    from agentcli.hooks.rules import HookRule
    from agentcli.hooks.runner import HookRunner

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


CODE = "plugins"
"""The `code` of its notices."""


class SessionPlugins:
    def __init__(
        self,
        collection: PluginCollection,
        reserved: Collection[str] = (),
        check_tools: Callable[[Iterable[str]], Iterable[str]] = lambda _names: (),
    ) -> None:
        """`reserved`: names of the tools that do not come from plugins. `check_tools`: returns warnings about the rest
        of the setup, given the names of the plugins' tools; called once, after the first load."""
        self.collection = collection
        self.active = ActiveParts()
        self.on_change: Callable[[], None] = lambda: None
        """Called after each `refresh`; a front end sets it to use themes of plugins."""
        self.is_answering: Callable[[], bool] = lambda: False
        """Whether a prompt is answered, with the tools and hooks that it began with."""
        self._reserved = reserved
        self._check_tools = check_tools
        self._notices: list[NoticeRaised] = []
        self._reported: set[str] = set()
        self._news = asyncio.Event()

    @property
    def loaded(self) -> bool:
        return self.collection.loaded

    @property
    def plugins(self) -> tuple[LoadedPlugin, ...]:
        return self.collection.plugins

    def themes(self) -> dict[str, Mapping[str, Any] | Path]:
        """Themes of plugins by name: their values, or their files."""
        parts = {name: owned.part for name, owned in self.active.themes.items()}
        return {name: part.path if part.path is not None else part.values for name, part in parts.items()}

    def is_stale(self) -> bool:
        """Whether `refresh` has something to load. Costs a stat per file."""
        return self.collection.is_stale()

    async def refresh(self) -> list[LoadedPlugin]:
        """Load what is new or changed, in a thread; returns the plugins that changed."""
        try:
            return await in_thread(self._load)
        finally:
            # Also when cancelled: the thread has ended by then, and what it loaded is active.
            self._news.set()
            self.on_change()

    def _load(self) -> list[LoadedPlugin]:
        first = not self.loaded
        changed, problems = self.collection.refresh()
        self.active = combine(self.plugins, self._reserved)
        for problem in (*problems, *self.active.conflicts):
            self._report(f"Plugin problem: {problem}", CODE)
        for plugin in () if first else changed:
            self._notices.append(NoticeRaised(text=self._change_text(plugin), code=CODE))
        for text in self._check_tools([tool.name for tool in self.active.tools]) if first else ():
            self._report(text, "rules")
        return changed

    def _change_text(self, plugin: LoadedPlugin) -> str:
        name = plain_line(plugin.source.name, 60)
        later = ""
        if self.is_answering():
            later = " The running prompt continues with the earlier version; the next one uses the new version."
        if plugin not in self.plugins or plugin.plugin is None:
            return f"Plugin {name} was removed.{later and ' The running prompt still uses it, the next one does not.'}"
        parts = ", ".join(plugin.plugin.parts.summary()) or "it adds nothing"
        return plain_line(f"Plugin {name} loaded: {parts}.", 300) + later

    def fail(self, source: PluginSource, what: str, error: BaseException) -> None:
        """Report that a plugin's function failed while it was used; once for each place and error."""
        self.collection.loading.log.add(f"{source.label}: {what}", error)
        problem = problem_of(source, error)
        located = PluginProblem(problem.label, problem.line, f"{what} failed: {problem.text}")
        self._report(f"Plugin problem: {located}", CODE)
        self._news.set()

    def _report(self, text: str, code: str) -> None:
        """Warn the user, once for each text."""
        if text not in self._reported:
            self._reported.add(text)
            self._notices.append(NoticeRaised(text=text, level="warning", code=code))

    def take_notices(self) -> list[NoticeRaised]:
        """Notices for the user, each once."""
        notices, self._notices = self._notices, []
        return notices

    async def wait_for_notices(self) -> Sequence[NoticeRaised]:
        """Wait for notices, for interactive sessions; cancel it."""
        while not (notices := self.take_notices()):
            self._news.clear()
            await self._news.wait()
        return notices


def plugin_runner(root: Path, ids: Ids, clock: Clock) -> HookRunner:
    """A runner without rules yet. Its place is never used: functions run in this process."""
    from agentcli.hooks.runner import HookPlace, HookRunner

    return HookRunner((), HookPlace(root, {}), ids, clock)


def hook_rules(parts: Sequence[Owned], log: TracebackLog) -> tuple[HookRule, ...]:
    from agentcli.hooks.rules import HookRule

    return tuple(
        HookRule(one.part.event, one.part.matcher, _locate_errors(one, log), one.part.timeout, one.source.label)
        for one in parts
    )


def _locate_errors(owned: Owned, log: TracebackLog) -> Callable[[Json], Any]:
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


KIND = "lines"
"""The `kind` of the display."""
_MAX_LINES = 500
_MAX_LINE = 2_000
_SECONDS = 2.0


class PluginRenderers:
    def __init__(self, plugins: SessionPlugins) -> None:
        self._plugins = plugins

    async def render(self, name: str, input: Json, output: Output) -> Output:
        """The output with the lines of the tool's renderer as its display; unchanged without one, or if it fails."""
        owned = self._plugins.active.renderers.get(name)
        if owned is None:
            return output
        content = output.content
        text = content if isinstance(content, str) else "\n".join(b.text for b in content if isinstance(b, TextBlock))
        call = ToolCall(name, dict(input), text, output.is_error, output.structured)
        try:
            render = partial(_display, owned.part.function, call)
            display = await in_thread(call_bounded, render, _SECONDS, f"renderer of {name}")
        except Exception as error:  # noqa: BLE001 - the usual display is shown instead
            self._plugins.fail(owned.source, f"the renderer of {name}", error)
            return output
        return replace(output, display=display)


def _display(function: Renderer, call: ToolCall) -> Json:
    returned: Any = function(call)
    lines = returned.split("\n") if isinstance(returned, str) else returned
    spans = [_spans(line) for line in islice(lines, _MAX_LINES)]
    return {"kind": KIND, "lines": spans, "text": "\n".join("".join(text for text, _style in line) for line in spans)}


def _spans(line: object) -> list[list[str]]:
    if isinstance(line, str):
        return [[_clean(line), "text"]]
    if not isinstance(line, Iterable):
        raise TypeError(f"a line is {type(line).__name__}; expected a text or a list of spans")
    found = []
    for span in line:
        text, style = (span, "text") if isinstance(span, str) else span
        if style not in STYLES:
            raise ValueError(f"there is no style {style!r}. There are {', '.join(STYLES)}")
        found.append([_clean(str(text)), style])
    return found


def _clean(text: str) -> str:
    return plain_text(text).replace("\n", " ")[:_MAX_LINE]


class PluginStep:
    def __init__(self, owned: Owned, plugins: SessionPlugins) -> None:
        self.name: str = owned.part.name
        self._owned = owned
        self._plugins = plugins

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        try:
            plan = self._owned.part.function(shown, state)
            return None if plan is None else self._check(plan, shown)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises must not stop the request
            self._plugins.fail(self._owned.source, f"the context step {self.name}", error)
            return None

    def _check(self, plan: object, shown: Sequence[Message]) -> StepPlan:
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
