"""Select the tools of MCP servers that a sub-agent has."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentcli.agent.mcp.offer import OfferLimits, OfferSettings
from agentcli.agent.mcp.resource_tools import ListMcpResources, ReadMcpResource
from agentcli.agent.mcp.tool_search import ToolSearch
from agentcli.agent.mcp.tools import McpTool
from agentcli.agent.subagents.specs import AgentSpec
from agentcli.permissions.rules.rule import Rule
from agentcli.tools.base import Tool
from agentcli.tools.registry import Registry

_RESOURCE_TOOLS = (ListMcpResources.name, ReadMcpResource.name)


def is_of_servers(tool: Tool) -> bool:
    return isinstance(tool, McpTool | ListMcpResources | ReadMcpResource | ToolSearch)


def matching_any(names: Iterable[str]) -> Callable[[str], bool]:
    """A predicate for tool names that match one of these, which may be `mcp__server` or have wildcards in the tool's
    part."""
    rules = [Rule(name.partition("(")[0].strip()) for name in names]
    return lambda tool: any(rule.names(tool) for rule in rules)


def agent_limits(spec: AgentSpec, parent: Registry, settings: OfferSettings) -> OfferLimits | None:
    """The part of its parent's MCP tools that an agent gets; None: none."""
    if spec.shares_context:
        direct = (tool for tool in parent if is_of_servers(tool) and tool.name not in parent.deferred)
        return OfferLimits(settings, direct=tuple(tool for tool in direct if not isinstance(tool, ToolSearch)))
    wanted, unwanted = matching_any(spec.tools or ("*",)), matching_any(spec.disallowed_tools)
    if spec.tools is not None and not any(name.startswith(("mcp__", "*", *_RESOURCE_TOOLS)) for name in spec.tools):
        return None
    return OfferLimits(settings, lambda name: wanted(name) and not unwanted(name))
