"""Context cost of each MCP server: direct and loaded definitions, and the messages about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentcli.agent.conversation_requests import schema_tokens
from agentcli.agent.mcp.offer import McpOffer
from agentcli.agent.mcp.updates import tokens_by_server
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Message
from agentcli.mcp.protocol import split_name


@frozen
class ServerCost:
    server: str
    direct: int = 0
    """Number of tools in every request."""
    direct_tokens: int = 0
    loaded: int = 0
    """Number of tools that a search has loaded."""
    loaded_tokens: int = 0
    deferred: int = 0
    """Number of tools that are not in every request, including the loaded ones; they cost their names."""
    announced_tokens: int = 0
    """Its share of the messages that list tools and give instructions."""

    @property
    def tokens(self) -> int:
        return self.direct_tokens + self.loaded_tokens + self.announced_tokens


def server_costs(
    offer: McpOffer, direct: Sequence[Json], loaded: Sequence[Json], shown: Sequence[Message], density: float
) -> list[ServerCost]:
    """Costs per server. `direct`, `loaded`: definitions in the next request; `shown`: its messages; `density`: true
    tokens per estimated token."""
    deferred, announced = offer.deferred_by_server(), _announced(offer, shown)
    costs = []
    for server in offer.servers:
        part = offer.part_of(server.name)
        always, later = _of(part, direct), _of(part, loaded)
        costs.append(
            ServerCost(
                server.name,
                len(always),
                round(sum(map(schema_tokens, always)) * density),
                len(later),
                round(sum(map(schema_tokens, later)) * density),
                len(deferred.get(server.name, ())),
                round(announced.get(server.name, 0.0) * density),
            )
        )
    return costs


def _of(part: str, tools: Sequence[Json]) -> list[Json]:
    return [tool for tool in tools if (split_name(str(tool["name"])) or ("", ""))[0] == part]


def _announced(offer: McpOffer, shown: Sequence[Message]) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for message in shown:
        for server, tokens in tokens_by_server(message, offer).items():
            found[server] = found.get(server, 0.0) + tokens
    return found
