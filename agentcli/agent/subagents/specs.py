"""Definition of an agent: its prompt, tools and limits, built in or read from a file; and how its engine is built."""

from __future__ import annotations

from asyncio import Semaphore
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from agentcli.core.aio import AbortReason
from agentcli.core.events import Event
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.definitions.files import AgentFile
from agentcli.tools.base import Tool, ToolContext
from agentcli.tools.registry import Registry, builtin_traits

if TYPE_CHECKING:
    from agentcli.agent.ports import Prompt
    from agentcli.agent.session import Session
    from agentcli.core.messages import Message
    from agentcli.providers.base import Effort

MAX_DEPTH = 2
"""Maximum nesting level: agents may start agents, which may not start any."""
TASK = "Task"
SMALL_MODEL = "small"

_REPORT = (
    "Your last message is your report: it goes to the agent that gave you the task, not to the user. Report what was "
    "asked for, with absolute paths and line numbers where they help, and say what you could not find out. "
    "You cannot ask back: take the sensible reading and name your assumptions."
)


@frozen
class AgentSpec:
    name: str
    description: str
    """When to use it, for the model."""
    prompt: str
    tools: tuple[str, ...] | None = None
    """Tool names; None: all that the session has, or those that explore if it is `read_only`."""
    disallowed_tools: tuple[str, ...] = ()
    model: str = ""
    """A model, an alias, `small` for the small model, or "" and `inherit` for the session's own."""
    max_turns: int | None = None
    background: bool = False
    worktree: bool = False
    """Whether it works in a git worktree of its own."""
    read_only: bool = False
    """Whether only read-only calls run, whatever the tool."""
    shares_context: bool = False
    """Whether it begins with the conversation, tools and system prompt of the agent that starts it, so that the prompt
    cache is used. Its `prompt` then precedes the task."""
    source: str = "built in"
    """The file it comes from, for the user."""

    @property
    def tool_names(self) -> tuple[str, ...] | None:
        """Names of its tools; None: all that the session has."""
        return tuple(builtin_traits("explores")) if self.tools is None and self.read_only else self.tools

    @property
    def system(self) -> str:
        """The system prompt of the sub-agent."""
        return f"{self.prompt}\n\n{_REPORT}"


BUILTIN: Mapping[str, AgentSpec] = {
    spec.name: spec
    for spec in (
        AgentSpec(
            "explore",
            "Searches and reads files and the web, changes nothing. Fast and cheap.",
            "You explore a code base to answer a question. You change nothing: read, search, and run only commands "
            "that read. Search broadly first, several calls at a time, then read the parts that matter. Stop as soon "
            "as the question is answered.",
            model=SMALL_MODEL,
            read_only=True,
        ),
        AgentSpec(
            "general",
            "Works on any task with all tools.",
            "You work on one task from start to end, with the tools you have. Do what was asked for and nothing "
            "beyond it. Prefer changing existing files to adding new ones, and check your changes where you can.",
        ),
        AgentSpec(
            "plan",
            "Reads the code and writes a plan for a change, changes nothing.",
            "You plan a change to a code base. You change nothing: read, search, and run only commands that read. "
            "Find the code that the change touches and the conventions it has to follow. Then write the plan: the "
            "steps in order, the files and functions of each, what could go wrong, and how to check the result.",
            read_only=True,
        ),
        AgentSpec(
            "fork",
            "A copy of the agent that starts it, which knows the whole conversation.",
            f"[You are a copy of the agent of this conversation, started for one task. The other one goes on "
            f"meanwhile. {_REPORT} The task:]",
            shares_context=True,
        ),
    )
}


def spec_of(file: AgentFile) -> AgentSpec:
    return AgentSpec(
        name=file.name,
        description=file.description,
        prompt=file.prompt.strip(),
        tools=file.tools,
        disallowed_tools=file.disallowed_tools,
        model=file.model,
        max_turns=file.max_turns,
        background=file.background,
        worktree=file.worktree,
        source=file.origin.label,
    )


def tools_of(spec: AgentSpec, registry: Registry, depth: int) -> Registry:
    """The part of its parent's tools that an agent gets."""
    if spec.shares_context:
        return registry  # The tools are part of the prefix.
    left_out = {_tool_name(name) for name in spec.disallowed_tools}
    if depth >= MAX_DEPTH:
        left_out.add(TASK)
    chosen: Iterable[Tool] = registry
    if spec.tools is not None:
        found = (registry.get(_tool_name(name)) for name in spec.tools)
        chosen = dict.fromkeys(tool for tool in found if tool is not None)
    elif spec.read_only:
        chosen = [tool for tool in registry if getattr(tool, "explores", False)]
    kept = [tool for tool in chosen if tool.name not in left_out and not getattr(tool, "main_agent_only", False)]
    return Registry([cast(Tool, _ReadOnly(tool)) for tool in kept] if spec.read_only else kept)


def _tool_name(text: str) -> str:
    """The tool's name in `Bash(git log *)`; the rest is left to permission rules."""
    return text.partition("(")[0].strip()


class _ReadOnly:
    """Wraps a tool to refuse each call that may change something."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    def check(self, input: Json, context: ToolContext) -> str | None:
        if problem := self._tool.check(input, context):
            return problem
        changing = any(need.kind in ("write", "execute", "other") for need in self._tool.needs(input, context))
        if changing and not self._tool.is_safe(input):
            return "This agent changes nothing: only calls that read are possible. Report what you would have done."
        return None


MAX_AGENTS = 10


class AgentGroup:
    """State shared by all agents of a session: their numbers and the limit of parallel runs."""

    def __init__(self, most: int = MAX_AGENTS, numbers: Mapping[str, int] | None = None) -> None:
        """`numbers`: the last number used per agent name."""
        self.most = most
        self.slots = Semaphore(most)
        self._numbers = dict(numbers or {})

    def new_id(self, name: str) -> str:
        """A new id such as `explore-2`: short, and readable in a question and in `/cost`."""
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        return f"{name}-{number}"


class ChildEngine(Protocol):
    """The part of an engine that a running agent uses."""

    @property
    def session_id(self) -> str: ...
    @property
    def model(self) -> str: ...
    def submit(self, prompt: Prompt, typed: str = "", mentions: str | None = None) -> AsyncGenerator[Event, None]: ...
    def abort(self, reason: AbortReason = AbortReason.USER_CANCEL) -> None: ...
    async def aclose(self) -> None: ...


class AgentWorktree(Protocol):
    """A git worktree for one agent."""

    @property
    def path(self) -> Path: ...
    @property
    def branch(self) -> str: ...
    def close(self) -> bool:
        """Remove it if nothing in it has changed; returns whether it was kept. Blocking; raises `AgentError`."""
        ...


@frozen
class AgentOrder:
    """The description of one agent to build."""

    id: str
    spec: AgentSpec
    description: str
    model: str
    """The model that the call requested; "" for the agent's own."""
    worktree: AgentWorktree | None = None
    """Its working tree; None: that of its parent."""
    log: tuple[Message, ...] | None = None
    """The conversation with which it begins, for a what-if: nothing of it is saved, because its events are in the
    session of its parent. None: by its `spec`."""
    effort: Effort | None = None
    """For a what-if."""


@frozen
class AgentSetup:
    """How an engine starts agents. Built by `assemble`."""

    build: Callable[[Session, AgentOrder], ChildEngine]
    """Builds the engine of an agent that this session starts. Raises `AgentError` or `OSError`."""
    defined: Callable[[], Mapping[str, AgentSpec]] = dict
    """Returns the current agents beyond the built-in ones; one with the name of a built-in agent replaces it."""
    most: int = MAX_AGENTS
    open_worktree: Callable[[Session], AgentWorktree] | None = None
    """Makes a git worktree for an agent of this session. Blocking; raises `AgentError`. None: there are none."""
