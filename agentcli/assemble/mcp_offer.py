"""How the tools of MCP servers are offered to the model, by the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from agentcli.assemble.environment import Environment

if TYPE_CHECKING:
    from agentcli.agent.mcp.offer import OfferLimits


def offer_limits(env: Environment) -> OfferLimits:
    from agentcli.agent.mcp.agent_tools import matching_any
    from agentcli.agent.mcp.offer import DIRECT_TOKENS, OfferLimits, OfferSettings, SearchMode
    from agentcli.agent.mcp.results import MOST_TOKENS

    direct = env.settings.integer("mcp.directTokens")
    settings = OfferSettings(
        search=cast(SearchMode, env.settings.text("mcp.toolSearch") or "own"),
        direct_tokens=DIRECT_TOKENS if direct is None else direct,
        result_tokens=env.settings.integer("mcp.maxOutputTokens") or MOST_TOKENS,
    )
    named = env.options.mcp_tools
    return OfferLimits(settings) if named is None else OfferLimits(settings, matching_any(named))
