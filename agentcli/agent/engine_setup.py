"""What an engine is made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from agentcli.agent.cache.fingerprint import Front
from agentcli.agent.cache.watch import CacheWatch, Setup
from agentcli.agent.conversation_log import ConversationLog
from agentcli.agent.conversation_requests import ConversationRequests
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.plugins.session_plugins import SessionPlugins
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
from agentcli.providers.base import Provider
from agentcli.providers.catalog import Catalog
from agentcli.session.base import Store
from agentcli.tools.base import ToolContext
from agentcli.tools.registry import Registry

if TYPE_CHECKING:
    from agentcli.agent.mcp.offer import OfferLimits
    from agentcli.mcp.servers import McpServers
    from agentcli.session.recent import EarlierPart

LateSystem = Callable[[], Callable[[], tuple[str, ...]]]
"""Gathers what a system prompt needs (blocking, for a thread); the result makes and records the prompt."""


CHANGED_BEFORE = "old content was dropped, restored or shortened before the session was closed"


@frozen
class EngineSetup:
    """What an engine is made of. `assemble.build_engine` puts one together."""

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
    """Of a resumed session."""
    history: list[ev.Event] = field(default_factory=list)
    """What a resumed session has shown; the front end takes it out."""
    earlier_part: EarlierPart | None = None
    """The beginning of a long resumed session, which is not in `history`, and of which `log` has only some messages."""
    recorded_mode: str = PermissionMode.DEFAULT.value
    """The last permission mode in the session file; "": it has none, and the first one is recorded whatever it is."""
    last_reply_at: str = ""
    """When the last reply in it came, as a timestamp; "" if that is not known."""
    last_front: Front | None = None
    """How the last request in it began; None if that is not known."""
    earlier: Totals = Totals()
    """What was used before it was resumed. No budget of now counts it."""
    api_key_source: str = ""
    notices: tuple[ev.NoticeRaised, ...] = ()
    """Shown once, with the first submission: settings problems, what resuming found."""
    offer: Callable[[], str] = lambda: ""
    """A sentence to show with the first prompt while the mode is still the default one; empty for none."""
    wants_structured: bool = False
    pipeline: Pipeline = field(default_factory=lambda: Pipeline(()))
    instruction_notices: list[str] = field(default_factory=list)
    """Sentences for the user that others put here; the engine takes them out as it passes."""
    watched: ChangedFiles | None = None
    """Finds files that others changed between submissions; None: the disk is not watched."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The user's own, whole, for the commands that they type themselves."""
    late_system: LateSystem | None = None
    """Makes the system prompt with the first prompt, partly gathered during the start. None: the profile's applies."""
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
    """Which of their tools the conversation has; None: all."""
    session_source: str = "startup"
    """startup, resume or clear: for SessionStart hooks."""
    reread: Callable[[], Hooks] | None = None
    """Read the settings again, move the definitions to where trust allows them, and make the hooks again. Blocking.
    None: settings are read once."""
    reread_servers: Callable[[], Awaitable[None]] | None = None
    """Read the configured MCP servers again, and start and stop them as trust allows now. None: they are read once."""
    output_style: str = ""
    """Name of the output style in the system prompt; "" for the default one."""
    watches_definitions: bool = False
    """Whether changes of their files are noticed between submissions too."""
    agents: AgentSetup | None = None
    """How sub-agents are started; None: there are none."""
    link: ParentLink | None = None
    """For the engine of a sub-agent: what it shares. Provider, permissions, sandbox, background commands and workspace
    are the session's then, and this engine does not close them."""
    watch: CacheWatch = field(default_factory=CacheWatch)
    pins: set[str] = field(default_factory=set)
    """The names (`context.compact.pin_name`) of what the user wants kept in the context; changed in place."""


def resume_watch(setup: EngineSetup, log: ConversationLog, requests: ConversationRequests) -> None:
    """Let the cache watch know about requests of an earlier process: their prompt cache may still be warm."""
    setup.watch.keep_fronts(
        lambda: setup.view.user_context(log.messages), lambda front: setup.store.note_front(front.to_dict())
    )
    replies = [message for message in setup.log if message.usage is not None]
    if not replies:
        return
    idle = seconds_between(setup.last_reply_at, setup.clock.timestamp())
    made_with = Setup(replies[-1].model or setup.profile.model, setup.profile.effort, setup.profile.thinking)
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
