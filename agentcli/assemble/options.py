"""The options of `build_engine`, and which of them override settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock, Ids, RandomIds, SystemClock
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from agentcli.providers.base import Connection, Provider
from agentcli.tools.base import Tool

if TYPE_CHECKING:
    from agentcli.hooks.rules import HookRule
    from agentcli.mcp.configuration import ServerConfig
    from agentcli.session.base import Rewind


@frozen(kw_only=True)
class Options:
    """Everything a caller can choose. None means the value from the settings, else the default."""

    cwd: Path | None = None
    environ: Mapping[str, str] | None = None
    interactive: bool = False
    """Whether a user can answer permission questions."""

    model: str | None = None
    fallback_models: tuple[str, ...] = ()
    effort: str | None = None
    """low, medium, high, xhigh, max or auto."""
    fast: bool | None = None
    """Fast mode, for models that have it."""
    thinking: str | None = None
    """adaptive, enabled or disabled."""
    max_thinking_tokens: int | None = None
    advisor: str | None = None
    """Model that the server may consult during a reply."""
    max_turns: int | None = None
    max_budget_usd: float | None = None
    token_budget: int | None = None
    task_budget: int | None = None
    system_prompt: str | None = None
    """Replaces the default prompt; an empty string means none at all."""
    append_system_prompt: str | None = None
    json_schema: Json | None = None

    tools: tuple[str, ...] | None = None
    """Names of the built-in tools to offer; None for all, () for none."""
    extra_tools: tuple[Tool, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    permission_mode: PermissionMode | None = None
    offer_auto_mode: bool = False
    """Mention auto mode with the first prompt, once per user; for interactive sessions on a user's own work."""
    trust: bool = False
    sandbox: str | None = None
    """off, on or strict."""
    add_dirs: tuple[Path, ...] = ()

    agents: str | None = None
    """Sub-agents as a JSON object: `{"name": {"description": "…", "prompt": "…"}}`."""
    agent: str | None = None
    """The agent that the session itself runs as; None: none."""

    mcp_servers: tuple[ServerConfig, ...] = ()
    """MCP servers besides the configured ones."""
    mcp_config: tuple[str, ...] = ()
    """Further MCP servers: files or JSON texts with `{"mcpServers": {…}}`."""
    strict_mcp_config: bool = False
    """Use only the servers of `mcp_servers` and `mcp_config`."""
    mcp_tools: tuple[str, ...] | None = None
    """Allowed tools of MCP servers: full names, `mcp__server`, or with wildcards in the tool's part. None: all."""

    settings: str | None = None
    """A file, or a JSON object as text, that overrides the settings files."""
    setting_sources: tuple[str, ...] | None = None
    """Settings files to read: user, project, local; None for all."""

    continue_latest: bool = False
    resume: str | None = None
    rewind: Rewind | None = None
    """Where the resumed session continues; None: at its end."""
    fork_session: bool = False
    session_id: str | None = None
    name: str | None = None
    persist: bool = True

    after_clear: bool = False
    """Whether this new session replaces one that the user has cleared; for SessionStart hooks."""
    key_needed: bool = True
    """False: a missing key fails the first request instead of the start, for work that may need no model."""
    raw_events: bool = False
    base_url: str | None = None
    """The server for this session. It overrides settings and environment; only a key stored for it is sent there."""
    connection: Connection | None = None
    """Receives the provider, so that a front end can replace it later; each engine needs a new one."""
    provider: Provider | None = None
    """Custom provider; None: chosen by the settings."""
    hooks: tuple[HookRule, ...] = ()
    """Hooks besides those of the settings; their actions may be Python functions."""
    ids: Ids = field(default_factory=RandomIds)
    clock: Clock = field(default_factory=SystemClock)


def another_session(options: Options, resume: str | None, rewind: Rewind | None = None) -> Options:
    """The same options for another session: `resume`, or a new one if None."""
    fresh = replace(options, continue_latest=False, resume=resume, fork_session=False, session_id=None, name=None)
    return replace(fresh, after_clear=resume is None, rewind=rewind)


def flag_values(options: Options) -> dict[str, tuple[str, Any]]:
    """Setting name to (flag name, value), for each flag that overrides a setting."""
    given: dict[str, tuple[str, Any]] = {
        "model": ("--model", options.model),
        "fallbackModels": ("--fallback-model", list(options.fallback_models) or None),
        "effort": ("--effort", options.effort),
        "fastMode": ("--fast", options.fast),
        "thinking": ("--thinking", options.thinking),
        "maxThinkingTokens": ("--max-thinking-tokens", options.max_thinking_tokens),
        "advisorModel": ("--advisor", options.advisor),
        "maxTurns": ("--max-turns", options.max_turns),
        "maxBudgetUsd": ("--max-budget-usd", options.max_budget_usd),
        "sandbox.mode": ("--sandbox", options.sandbox),
        "systemPrompt": ("--system-prompt", options.system_prompt),
        "appendSystemPrompt": ("--append-system-prompt", options.append_system_prompt),
    }
    return {name: value for name, value in given.items() if value[1] is not None}
