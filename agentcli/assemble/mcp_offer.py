"""Settings for offering the tools of MCP servers to the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from agentcli.assemble.environment import Environment
from agentcli.core.messages import Json

if TYPE_CHECKING:
    from agentcli.agent.mcp.offer import OfferLimits


def offer_limits(env: Environment, recorded: Sequence[Json] = ()) -> OfferLimits:
    """Limits on offered tools. `recorded`: the direct tools of a resumed session."""
    from agentcli.agent.mcp.offer import DIRECT_TOKENS, OfferLimits, OfferSettings, SearchMode, matching_any
    from agentcli.agent.mcp.results import MAX_TOKENS

    direct = env.settings.integer("mcp.directTokens")
    settings = OfferSettings(
        search=cast("SearchMode", env.settings.text("mcp.toolSearch") or "own"),
        direct_tokens=DIRECT_TOKENS if direct is None else direct,
        result_tokens=env.settings.integer("mcp.maxOutputTokens") or MAX_TOKENS,
    )
    named = env.options.mcp_tools
    if named is None and env.options.tools is not None:
        # `--tools` chooses built-in tools; those of servers only if it names some.
        named = tuple(name for name in env.options.tools if name.startswith("mcp__")) or None
    limits = OfferLimits(settings, recorded=tuple(recorded))
    return limits if named is None else replace(limits, allows=matching_any(named))
