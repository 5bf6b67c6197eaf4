"""The MCP servers of a session: from which places, as settings and trust allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentcli.assemble.environment import Environment

if TYPE_CHECKING:
    from agentcli.mcp.servers import McpServers


def servers_for(env: Environment) -> McpServers | None:
    """Not connected yet: `McpServers.start` does that, after the first paint. None if there are none."""
    options = env.options
    if not options.mcp_servers:
        return None
    from agentcli.agent.mcp.duties import SessionDuties
    from agentcli.mcp.servers import McpServers
    from agentcli.mcp.transport import ServerSurroundings

    around = ServerSurroundings(env.cwd, env.environ, tuple(env.working_dirs), env.paths.state_dir, options.interactive)
    budget = env.settings.number("mcp.samplingBudgetUsd")
    duties = SessionDuties(interactive=options.interactive, sampling_budget_usd=budget or 0.0)
    return McpServers(options.mcp_servers, around, duties)
