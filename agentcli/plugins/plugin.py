"""`Plugin`: registers what a plugin adds. A plugin's module has one at its top level, with the name `plugin`:

    from agentcli import Plugin

    plugin = Plugin()

    @plugin.tool(safe=True)
    def word_count(text: str) -> int:
        "Count the words of a text."
        return len(text.split())

Every decorator returns the function as it is, so that tests can call it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar, overload

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.patterns import lazy_pattern

F = TypeVar("F", bound=Callable[..., Any])
Span = str | tuple[str, str]
"""A text, or a text and the name of its style: see `STYLES`."""
RenderedLine = str | Sequence[Span]

HOOK_EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"),
    *("Notification", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact"),
    "SessionEnd",
)
STYLES = (
    *("text", "muted", "faint", "accent", "heading", "strong", "emphasis", "code", "link", "quote"),
    *("success", "warning", "error", "info", "added", "removed"),
)
"""Styles of a rendered line, by meaning. The theme decides what they look like."""
_COMMAND_NAME = lazy_pattern(r"[a-z][a-z0-9_-]{0,39}")
_THEME_NAME = lazy_pattern(r"[a-z0-9][a-z0-9-]{0,39}")


@frozen
class ToolCall:
    """A finished tool call, for a renderer."""

    name: str
    input: Json
    output: str
    """The text that the model gets."""
    is_error: bool = False
    structured: Any = None
    """The tool's return value, if it was not text."""


Renderer = Callable[[ToolCall], Iterable[RenderedLine]]


@frozen
class ToolPart:
    target: Any
    """A typed function, or an object with the methods of `agentcli.Tool`."""
    name: str
    description: str
    safe: bool


@frozen
class SlashCommandPart:
    name: str
    summary: str
    argument_hint: str
    function: Callable[..., Any]


@frozen
class HookPart:
    event: str
    matcher: str
    function: Callable[..., Any]
    timeout: float


@frozen
class StepPart:
    name: str
    function: Callable[..., Any]


@frozen
class RendererPart:
    tool: str
    function: Renderer


@frozen
class ThemePart:
    name: str
    values: Mapping[str, Any] | None
    path: Path | None


@frozen
class ProviderPart:
    name: str
    factory: Callable[[], Any]


@frozen
class Parts:
    """Everything that a plugin registered, in order of registration."""

    tools: list[ToolPart] = field(default_factory=list)
    commands: list[SlashCommandPart] = field(default_factory=list)
    hooks: list[HookPart] = field(default_factory=list)
    steps: list[StepPart] = field(default_factory=list)
    renderers: list[RendererPart] = field(default_factory=list)
    themes: list[ThemePart] = field(default_factory=list)
    providers: list[ProviderPart] = field(default_factory=list)

    def summary(self) -> list[str]:
        """Descriptions of what the plugin adds: `tool word_count`, `command /stamp`."""
        return [
            *(f"tool {part.name}" for part in self.tools),
            *(f"command /{part.name}" for part in self.commands),
            *(f"hook {part.event}" for part in self.hooks),
            *(f"context step {part.name}" for part in self.steps),
            *(f"renderer of {part.tool}" for part in self.renderers),
            *(f"theme {part.name}" for part in self.themes),
            *(f"provider {part.name}" for part in self.providers),
        ]


class Plugin:
    """Registers what one plugin adds to agentcli. Methods raise ValueError or TypeError for a registration that cannot
    work."""

    def __init__(self) -> None:
        self.parts = Parts()

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self, /, *, name: str | None = None, description: str | None = None, safe: bool = False
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        safe: bool = False,
    ) -> Any:
        """Register a typed function as a tool of the model. Its annotations are the schema of its input, its docstring
        the description. An object with the methods of `agentcli.Tool` is registered as it is.

        `safe`: it only reads, so it may run in parallel and without approval.

        Three seconds after Esc a call that still runs is cancelled. What it awaits in `finally` is not interrupted for
        two more seconds.
        """

        def register(target: F) -> F:
            text = description or getattr(target, "description", None) or inspect.getdoc(target) or ""
            known_as = name or getattr(target, "name", None) or target.__name__
            self.parts.tools.append(ToolPart(target, str(known_as), str(text), safe))
            return target

        return register if function is None else register(function)

    def command(self, name: str, summary: str = "", *, argument_hint: str = "") -> Callable[[F], F]:
        """Register a function `(engine, arguments)` as the slash command `/name`.

        A generator, sync or async, yields texts that are shown, or events. A function that returns a text submits it
        to the model as a prompt; one that returns None reports nothing. `summary`: the line in the menu; the first
        line of the docstring otherwise.
        """
        if not _COMMAND_NAME.fullmatch(name):
            raise ValueError(f"Not a command name: {name!r}. Use small letters, digits, _ and -.")

        def register(function: F) -> F:
            first = (inspect.getdoc(function) or "").strip().partition("\n")[0]
            self.parts.commands.append(SlashCommandPart(name, (summary or first).rstrip("."), argument_hint, function))
            return function

        return register

    def hook(self, event: str, matcher: str = "", *, timeout: float = 60.0) -> Callable[[F], F]:
        """Register a function for a hook event, e.g. "PreToolUse". It gets the same JSON object as a hook command and
        may return the same JSON object as one prints (`{"decision": "block", "reason": …}`), a text for the model, or
        None. `matcher`: a regular expression for the tool's name; "" matches all. `timeout`: in seconds.
        """
        if event not in HOOK_EVENTS:
            raise ValueError(f"There is no hook event {event!r}. There are {', '.join(HOOK_EVENTS)}.")
        re.compile(matcher)

        def register(function: F) -> F:
            self.parts.hooks.append(HookPart(event, matcher, function, timeout))
            return function

        return register

    @overload
    def context_step(self, function: F, /) -> F: ...
    @overload
    def context_step(self, /, *, name: str | None = None) -> Callable[[F], F]: ...
    def context_step(self, function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
        """Register a function `(messages, state) -> StepPlan | None` that shrinks old content before a request. It runs
        after the built-in steps; a plan is applied only if it saves more than the prompt cache that it breaks."""

        def register(target: F) -> F:
            self.parts.steps.append(StepPart(name or target.__name__, target))
            return target

        return register if function is None else register(function)

    def renderer(self, tool: str) -> Callable[[F], F]:
        """Register a function `(call: ToolCall) -> lines` that is shown below the calls of a tool. A line is a text, or
        a list of texts and `(text, style)` pairs; the names of styles are in `agentcli.plugins.plugin.STYLES`."""

        def register(function: F) -> F:
            self.parts.renderers.append(RendererPart(tool, function))
            return function

        return register

    def theme(self, name: str, values: Mapping[str, Any] | str | Path) -> None:
        """Register a theme: the content of a theme file as a dictionary, or the path of a TOML file."""
        if not _THEME_NAME.fullmatch(name):
            raise ValueError(f"Not a theme name: {name!r}. Use small letters, digits and hyphens.")
        is_path = isinstance(values, str | Path)
        path = Path(values) if isinstance(values, str | Path) else None
        self.parts.themes.append(ThemePart(name, None if is_path else dict(values), path))  # type: ignore[arg-type]

    def provider(self, name: str) -> Callable[[F], F]:
        """Register a function without arguments that returns a `Transport` or a `Provider`. The setting
        `"provider": "name"` selects it."""

        def register(factory: F) -> F:
            self.parts.providers.append(ProviderPart(name, factory))
            return factory

        return register
