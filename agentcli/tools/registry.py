"""The tools of a conversation: found by name or alias, listed in a fixed order.

The order is part of the request's prefix: it must be identical in every process to keep the prompt cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from agentcli.core.errors import UsageError
from agentcli.core.messages import Json
from agentcli.tools.base import Tool

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ALIASES = {
    "Search": "Grep",
    "Shell": "Bash",
    "KillBash": "KillShell",
    "Agent": "Task",
    "bash": "Bash",
    "read": "Read",
    "edit": "Edit",
}
_MAX_NAMED = 30
_OF_SERVERS = "mcp__"
_SEARCH = "ToolSearch"
"""Name of the tool that finds tools of MCP servers."""


class Registry:
    """The tools of a conversation. Immutable. Built-in tools come first, in fixed order, then all others by name."""

    def __init__(self, tools: Iterable[Tool], deferred: Collection[str] = ()) -> None:
        """`deferred`: names of tools that can be called but are not sent with each request."""
        builtin = {name: index for index, name in enumerate(BUILTIN_NAMES)}
        self._tools: dict[str, Tool] = {}
        for tool in sorted(tools, key=lambda tool: (builtin.get(tool.name, len(builtin)), tool.name)):
            if not is_tool_name(tool.name):
                raise UsageError(f"Not a tool name: {tool.name!r}. Use letters, digits, _ and -, at most 128 of them.")
            if tool.name in self._tools:
                raise UsageError(f"Two tools are called {tool.name}. Rename one of them.")
            self._tools[tool.name] = tool
        self.deferred = frozenset(deferred).intersection(self._tools)
        self._schemas: tuple[Json, ...] | None = None

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        """Find by name; an alias counts only if no tool has that name."""
        return self._tools.get(name) or self._tools.get(_ALIASES.get(name, ""))

    def near(self, name: str) -> list[str]:
        """Similar names, the most likely first."""
        import difflib

        folded = {known.lower(): known for known in self._tools}
        return [folded[match] for match in difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6)]

    def hint(self, name: str) -> str:
        """A suggestion for an unknown tool name; empty if there are no tools."""
        near = self.near(name)
        if name.startswith(_OF_SERVERS) and _SEARCH in self._tools:
            server, _, tool = name.removeprefix(_OF_SERVERS).partition("__")
            near = [each for each in near if each.startswith(f"{_OF_SERVERS}{server}__") or each.endswith(f"__{tool}")]
            if not near:
                return f"Use {_SEARCH} to find tools of MCP servers; it also names servers that are not connected."
        if near:
            return f"Did you mean {' or '.join(near)}?"
        names = list(self._tools)
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        return f"The tools are: {', '.join(names[:_MAX_NAMED])}{more}." if names else ""

    def schemas(self) -> tuple[Json, ...]:
        """Schemas for the request, without deferred tools. Always the same objects, so that they encode to the same
        bytes."""
        if self._schemas is None:
            self._schemas = tuple(
                {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
                for tool in self
                if tool.name not in self.deferred
            )
        return self._schemas

    def select(self, names: Iterable[str]) -> Registry:
        """A registry with only these tools. An unknown name is a `UsageError`: a typo must not widen anything."""
        chosen: list[Tool] = []
        for name in dict.fromkeys(names):
            tool = self.get(name)
            if tool is None:
                near = self.near(name)
                hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(self._tools)}."
                raise UsageError(f"There is no tool called {name}. {hint}")
            if tool not in chosen:
                chosen.append(tool)
        return Registry(chosen, self.deferred)

    def without(self, names: Iterable[str]) -> Registry:
        left_out = set(names)
        return Registry((tool for tool in self if tool.name not in left_out), self.deferred)

    def adding(self, tools: Iterable[Tool], deferred: Collection[str] = ()) -> Registry:
        return Registry([*self, *tools], self.deferred.union(deferred))


def is_tool_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


BUILTIN_NAMES = (
    *("Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "Bash", "Glob", "Grep", "BashOutput", "KillShell"),
    *("WebFetch", "WebSearch", "TodoWrite", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "Task"),
)


def builtin_traits(trait: str) -> Mapping[str, Any]:
    """The built-in tools that have a trait (an attribute of `BuiltinTool`), and its values."""
    return {tool.name: value for tool in _one_of_each() if (value := getattr(tool, trait, None))}


@cache
def _one_of_each() -> tuple[Tool, ...]:
    return builtin_tools()


def file_field(name: str) -> str:
    """The input field of a built-in tool that names the file it reads or writes; empty if there is none."""
    return str(builtin_traits("subject")[name]) if name in builtin_traits("names_file") else ""


def builtin_tools(read_only: Callable[[str], bool] = lambda _command: False) -> tuple[Tool, ...]:
    from agentcli.tools.documents.notebookedit import NotebookEdit
    from agentcli.tools.documents.read import Read
    from agentcli.tools.files.edit import Edit, MultiEdit
    from agentcli.tools.files.write import Write
    from agentcli.tools.planning import AskUserQuestion, EnterPlanMode, ExitPlanMode, TodoWrite
    from agentcli.tools.search.grep import Grep
    from agentcli.tools.search.ripgrep import Glob
    from agentcli.tools.shell.bash import Bash
    from agentcli.tools.shell.bashoutput import BashOutput, KillShell
    from agentcli.tools.task import Task
    from agentcli.tools.web.webfetch import WebFetch
    from agentcli.tools.web.websearch import WebSearch

    return (
        *(Read(), Write(), Edit(), MultiEdit(), NotebookEdit()),
        *(Bash(read_only), Glob(), Grep(), BashOutput(), KillShell()),
        *(WebFetch(), WebSearch(), TodoWrite(), AskUserQuestion(), EnterPlanMode(), ExitPlanMode(), Task()),
    )
