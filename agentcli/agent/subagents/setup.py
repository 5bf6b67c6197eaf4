"""How a child engine is built, and what it shares with the engine that starts it."""

from __future__ import annotations

from asyncio import Semaphore
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agentcli.agent.subagents.specs import AgentSpec
from agentcli.core.abort import AbortReason
from agentcli.core.events import Event
from agentcli.core.frozen import frozen

if TYPE_CHECKING:
    from agentcli.agent.session import Session

MOST_AGENTS = 10


class AgentGroup:
    """State shared by all agents of a session: their numbers and the limit of parallel runs."""

    def __init__(self, most: int = MOST_AGENTS, numbers: Mapping[str, int] | None = None) -> None:
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
    def submit(self, prompt: str, typed: str = "", mentions: str | None = None) -> AsyncGenerator[Event, None]: ...
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


@frozen
class AgentSetup:
    """How an engine starts agents. Built by `assemble`."""

    build: Callable[[Session, AgentOrder], ChildEngine]
    """Builds the engine of an agent that this session starts. Raises `AgentError` or `OSError`."""
    defined: Callable[[], Mapping[str, AgentSpec]] = dict
    """Returns the current agents beyond the built-in ones; one with the name of a built-in agent replaces it."""
    most: int = MOST_AGENTS
    open_worktree: Callable[[Session], AgentWorktree] | None = None
    """Makes a git worktree for an agent of this session. Blocking; raises `AgentError`. None: there are none."""
