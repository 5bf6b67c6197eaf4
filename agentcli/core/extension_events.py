"""Events of sub-agents and hooks. Import them from `core.events`, as all others."""

from __future__ import annotations

from agentcli.core.event_base import Event
from agentcli.core.frozen import frozen


@frozen(kw_only=True)
class AgentStarted(Event, recorded="agent", stderr="terminal", scope="parent"):
    """A sub-agent begins; `agent` is its id, which all of its events carry until its `AgentFinished`."""

    tool_use_id: str
    """The Task call that started it."""
    name: str
    """explore, general, plan, or the name of a definition."""
    description: str
    """Its task in a few words."""
    model: str
    background: bool = False
    session_id: str = ""
    """Id of the session that holds its transcript."""
    parent: str = ""
    """Id of the agent that started it; "" is the main one."""
    worktree: str = ""
    """The git worktree it works in; "" for the session's own folder."""


@frozen(kw_only=True)
class AgentMoved(Event, recorded="agent", stderr="terminal", scope="parent"):
    """The user moved a sub-agent to the background: its call ends, and its report follows later."""

    tool_use_id: str
    description: str
    agents: list[str]
    """Ids of the agent itself and of the running agents that it started."""


@frozen(kw_only=True)
class AgentFinished(Event, recorded="agent", stderr="terminal", scope="parent"):
    tool_use_id: str
    name: str
    description: str
    status: str
    """completed, failed or stopped."""
    turns: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    """None: the price of a model is unknown."""
    duration_ms: int = 0
    text: str = ""
    """Its report; if it failed, the reason."""
    background: bool = False
    worktree: str = ""
    """The worktree that was kept because it has changes; "" if there is none."""


@frozen(kw_only=True)
class HookStarted(Event, recorded="no", stderr="never"):
    hook_id: str
    event_name: str
    """PreToolUse, Stop, …"""
    name: str
    """The command or the function's name, shortened."""
    tool_use_id: str = ""
    """The call that it was run for; "" if there is none."""


@frozen(kw_only=True)
class HookFinished(Event, stderr="always"):
    """A hook has ended. Not sent for one that an abort stopped."""

    hook_id: str
    event_name: str
    name: str
    outcome: str
    """success, allowed, asked, denied, blocked, stopped, failed, timed_out or crashed."""
    duration_ms: int = 0
    text: str = ""
    """Its reason, or the problem."""
    tool_use_id: str = ""
    source: str = ""
    """The settings file or plugin that it comes from."""
    exit_code: int | None = None
    """None for a function, and for a command that was stopped."""
    output: str = ""
    """The beginning of its standard output."""
    errors: str = ""
    """The beginning of its standard error."""

    @property
    def is_notable(self) -> bool:
        """Whether it has stopped something or failed, so that the user should see it."""
        return self.outcome not in ("success", "allowed", "asked")
