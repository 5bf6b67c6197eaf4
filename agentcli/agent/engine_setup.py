"""`EngineSetup`: the dependencies and initial state of an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Literal, Protocol

from agentcli.agent.cache.fingerprint import Front
from agentcli.agent.cache.watch import CacheWatch, Setup
from agentcli.agent.conversation_log import ConversationLog
from agentcli.agent.conversation_requests import ConversationRequests
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.plugins import SessionPlugins
from agentcli.agent.ports import Extensions, Hooks
from agentcli.agent.profile import Bounds, Profile, Tuning
from agentcli.agent.subagents.setup import AgentSetup, ParentLink
from agentcli.agent.updates.changed_files import ChangedFiles
from agentcli.context.pipeline import Pipeline
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock, Ids, seconds_between
from agentcli.core.messages import Message
from agentcli.core.permission import PermissionMode
from agentcli.core.usage import Totals
from agentcli.definitions.library import Library
from agentcli.memory.instructions import InstructionFiles
from agentcli.memory.notes import Notes
from agentcli.permissions.late_policy import LatePolicy
from agentcli.providers.base import Provider
from agentcli.providers.catalog import Catalog
from agentcli.session.base import Store
from agentcli.tools.base import ToolContext
from agentcli.tools.registry import Registry
from agentcli.tools.shell.environment import PassedVariables

if TYPE_CHECKING:
    from agentcli.agent.mcp.offer import OfferLimits
    from agentcli.mcp.servers import McpServers
    from agentcli.session.recent_messages import EarlierPart

LateSystem = Callable[[], Callable[[], tuple[str, ...]]]
"""Gathers the data of a system prompt (blocking, for a thread); the returned function builds and records the prompt."""


CHANGED_BEFORE = "old content was dropped, restored or shortened before the session was closed"


@frozen
class Reloaded:
    """What the settings say now."""

    hooks: Hooks | None
    """None: they are unchanged."""
    policy: LatePolicy
    """The rules."""
    tuning: Tuning
    max_turns: int | None
    passed: PassedVariables
    environ: Mapping[str, str]
    """Environment of commands."""
    changed: frozenset[str] = frozenset()
    """Names of the settings whose values have changed."""
    notices: tuple[ev.NoticeRaised, ...] = ()


@frozen
class Inactive:
    """Something that is configured but not active."""

    kind: Literal["hook", "rule", "setting"]
    name: str
    """A hook's event, or the name of a setting."""
    text: str
    """A hook's command, a rule, or a setting's value."""
    source: str
    reason: str
    """Why it is not active, and what to do."""
    matcher: str = ""
    is_due: bool = False
    """Whether it applies later without anything being done."""


class Configuration(Protocol):
    """The configuration files of a session."""

    def paths(self) -> Sequence[str]: ...

    def is_stale(self) -> bool:
        """Whether a file has changed since the last `read`. Costs a `stat` per file."""

    def read(self) -> Reloaded:
        """Read all files again. Blocking. Raises `AgentError` if they cannot be used at all."""

    async def update_servers(self, servers: McpServers | None) -> tuple[McpServers | None, list[str]]:
        """Start new MCP servers and stop removed ones, as last read. Returns the servers, new ones if there were none,
        and notices. Raises `AgentError`."""

    def server_limits(self) -> OfferLimits: ...

    def inactive(self) -> list[Inactive]:
        """What is configured but not active. Blocking."""


@frozen
class EngineSetup:
    """Dependencies and initial state of an engine. Built by `assemble.build_engine`."""

    provider: Provider
    registry: Registry
    store: Store
    permissions: LivePermissions
    profile: Profile
    tool_context: ToolContext
    catalog: Catalog
    ids: Ids
    clock: Clock
    interactive: bool = False
    bounds: Bounds = Bounds()
    tuning: Tuning = Tuning()
    extensions: Extensions = field(default_factory=Extensions)
    view: ContextView = field(default_factory=ContextView)
    log: tuple[Message, ...] = ()
    """Messages of a resumed session."""
    history: list[ev.Event] = field(default_factory=list)
    """Events that a resumed session has shown; the front end removes them from the list."""
    earlier_part: EarlierPart | None = None
    """The beginning of a long resumed session, which is not in `history`, and of which `log` has only a few
    messages."""
    recorded_mode: tuple[str, str] = (PermissionMode.DEFAULT.value, "")
    """Last `mode` and `returns_to` of a `ModeChanged` in the session file; "": it has none, so the first mode is
    recorded in any case."""
    last_reply_at: str = ""
    """Timestamp of the last reply in the session file; "" if unknown."""
    last_front: Front | None = None
    """Front of the last request in the session file; None if unknown."""
    earlier: Totals = Totals()
    """Usage before the session was resumed. It does not count towards the budget."""
    api_key_source: str = ""
    notices: tuple[ev.NoticeRaised, ...] = ()
    """Shown once, with the first submission: settings problems, findings while resuming."""
    offer: Callable[[], str] = lambda: ""
    """A sentence to show with the first prompt while the mode is still the default one; "" for none."""
    wants_structured: bool = False
    pipeline: Pipeline = field(default_factory=lambda: Pipeline(()))
    instruction_notices: list[str] = field(default_factory=list)
    """Sentences for the user, added by others; the engine takes them out."""
    watched: ChangedFiles | None = None
    """Finds files that others changed between submissions; None: the disk is not watched."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The user's complete environment, for commands that they type themselves."""
    late_system: LateSystem | None = None
    """Builds the system prompt with the first prompt, from data partly gathered during the start. None: use the
    profile's."""
    notes: Notes | None = None
    """The project's memory; None: it is off."""
    instruction_files: InstructionFiles | None = None
    definitions: Library | None = None
    """Slash commands, skills, agents and output styles from files; None: none are used."""
    plugins: SessionPlugins | None = None
    """Python plugins; None: none are used."""
    mcp: McpServers | None = None
    """MCP servers; None: there are none. A sub-agent has the session's."""
    mcp_limits: OfferLimits | None = None
    """Limits on which of the servers' tools are offered; None: all are."""
    session_source: str = "startup"
    """startup, resume or clear: for SessionStart hooks."""
    configuration: Configuration | None = None
    """The files of settings, hooks and MCP servers; None: they are read once."""
    output_style: str = ""
    """Name of the output style in the system prompt; "" for the default one."""
    watches_definitions: bool = False
    """Whether changes of settings, definitions and plugins are also noticed between submissions."""
    agents: AgentSetup | None = None
    """Configuration of sub-agents; None: there are none."""
    link: ParentLink | None = None
    """Set for the engine of a sub-agent: what it shares with its parent. Provider, permissions, sandbox, background
    commands and workspace then belong to the session, and this engine does not close them."""
    watch: CacheWatch = field(default_factory=CacheWatch)
    pins: set[str] = field(default_factory=set)
    """Names (`context.compact.pin_name`) of the blocks that the user has pinned; changed in place."""


def resume_watch(setup: EngineSetup, log: ConversationLog, requests: ConversationRequests) -> None:
    """Let the cache watch know about requests of an earlier process: their prompt cache may still be warm."""
    setup.watch.keep_fronts(
        lambda: setup.view.user_context(log.messages), lambda front: setup.store.note_front(front.to_dict())
    )
    replies = [message for message in setup.log if message.usage is not None]
    if not replies:
        return
    idle = seconds_between(setup.last_reply_at, setup.clock.timestamp())
    profile = setup.profile
    made_with = Setup(replies[-1].model or profile.model, profile.effort, profile.thinking, profile.fast)
    at = setup.clock.monotonic() - (idle or 0.0)
    boundary = setup.view.edits.boundary(setup.log)
    compacted = next(m is boundary for m in reversed(setup.log) if m is boundary or m is replies[-1])
    changed = None if compacted else setup.view.changed_since(setup.log, replies[-1].id)
    setup.watch.resume(replies, made_with, at, compacted=compacted, freed=changed[1] if changed else 0)
    recall_front(setup, requests)
    if changed:
        setup.watch.explain(CHANGED_BEFORE)


def recall_front(setup: EngineSetup, requests: ConversationRequests) -> None:
    """Compare the front of the next request with the last one of an earlier process. Without one it does nothing."""
    if setup.last_front is not None:
        setup.watch.recall(setup.last_front, requests.build((), 1, "turn"))
