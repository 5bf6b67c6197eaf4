"""Composition root: `Options` in, a working `Engine` out. The only module that knows every implementation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from agentcli.providers.base import Provider
from agentcli.tools.base import Tool

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything a caller can choose. None means: what the settings say, else the default."""

    cwd: Path | None = None
    environ: Mapping[str, str] | None = None
    """None: the process's own."""
    interactive: bool = False

    model: str | None = None
    fallback_models: tuple[str, ...] = ()
    effort: str | None = None
    """low, medium, high, xhigh, max or auto."""
    thinking: str | None = None
    """adaptive, enabled or disabled."""
    max_thinking_tokens: int | None = None
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
    trust: bool = False
    add_dirs: tuple[Path, ...] = ()

    settings: str | None = None
    """A file, or a JSON object as text, laid over the settings files."""
    setting_sources: tuple[str, ...] | None = None
    """Of user, project, local; None for all."""

    continue_latest: bool = False
    resume: str | None = None
    fork_session: bool = False
    session_id: str | None = None
    name: str | None = None
    persist: bool = True

    raw_events: bool = False
    provider: Provider | None = None
    """A provider of the caller's own; None: by settings."""


def build_engine(options: Options) -> Engine:
    """Read settings, find credentials, open or resume the session, put the engine together.

    Raises `UsageError` or `CredentialError` with a sentence that says what to do. No network, no child process.
    """
    raise RuntimeError("assembling is not part of this commit yet")
