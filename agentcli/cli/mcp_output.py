"""The output of `agentcli mcp list` and `agentcli mcp test`. Text from servers is untrusted and shortened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentcli.core.messages import Json
from agentcli.core.text.format import counted, duration
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.configuration import shown_target
from agentcli.mcp.protocol import PromptOffer, ToolOffer
from agentcli.mcp.server import McpServer

_ERROR_WIDTH = 400
_NAME_WIDTH = 160
_DESCRIPTION_WIDTH = 100
_LOG_TAIL = 10
"""Last lines of a server's log that are shown."""
_STATE_TEXTS = {"waiting": "not started", "needs-auth": "needs sign-in", "unapproved": "waits for approval"}


def server_record(server: McpServer) -> Json:
    """A server as `mcp list --json` prints it."""
    return {
        "name": server.name,
        "state": server.state,
        "type": server.config.kind,
        "target": shown_target(server.config),
        "source": server.config.source,
        "origin": server.config.origin,
        "error": server.error,
        "tools": len(server.offers.tools),
        "resources": len(server.offers.resources),
        "prompts": len(server.offers.prompts),
    }


def server_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """A server as `mcp list` prints it: one line, and more about a problem."""
    state = _STATE_TEXTS.get(record["state"], record["state"])
    if record["state"] == "connected":
        state = f"{state}, {counted(record['tools'], 'tool')}"
    yield f"{record['name']}  {state}  {plain_line(record['target'], 200)}  ({plain_line(record['origin'], 200)})"
    if record["error"]:
        yield f"  {plain_line(record['error'], _ERROR_WIDTH)}"
    if record["state"] == "unapproved":
        yield "  `agentcli trust` reviews the servers of this repository."


def offer_record(server: McpServer, seconds: float) -> Json:
    """A server with everything it offers, for `mcp test --json`. `seconds`: how long connecting took."""
    offers = server.offers
    return {
        **server_record(server),
        "seconds": round(seconds, 3),
        "protocol": offers.protocol,
        "server": {"name": offers.name, "version": offers.version},
        "instructions": offers.instructions,
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
                "read_only": tool.read_only,
            }
            for tool in offers.tools
        ],
        "resources": [{"uri": resource.uri, "name": resource.name} for resource in offers.resources],
        "prompts": [{"name": prompt.name, "arguments": _argument_names(prompt)} for prompt in offers.prompts],
        "log": list(server.log)[-_LOG_TAIL:],
    }


def offer_lines(server: McpServer, seconds: float) -> Iterator[str]:
    """A server with everything it offers, or why it did not connect, for `mcp test`."""
    if server.state != "connected":
        state = _STATE_TEXTS.get(server.state, server.state)
        yield f"{server.name}: {state} after {duration(seconds)}: {plain_line(server.error, _ERROR_WIDTH)}"
        yield f"  {plain_line(shown_target(server.config), 400)}"
        tail = list(server.log)[-_LOG_TAIL:]
        if tail:
            yield "Last lines of its log:"
        yield from (f"  | {plain_line(line, 300)}" for line in tail)
        return
    offers = server.offers
    product = plain_line(f"{offers.name} {offers.version}".strip(), 80)
    yield f"{server.name}: connected in {duration(seconds)} to {product or 'an unnamed server'}, MCP {offers.protocol}"
    prompts = [(f"{each.name}({', '.join(_argument_names(each))})", each.description) for each in offers.prompts]
    for title, rows in (
        ("tool", [(_signature(tool), tool.description) for tool in offers.tools]),
        ("resource", [(each.uri, each.description or each.name) for each in offers.resources]),
        ("resource template", [(each.uri_template, each.description or each.name) for each in offers.templates]),
        ("prompt", prompts),
    ):
        if rows:
            yield f"{counted(len(rows), title)}:"
        for name, text in rows:
            yield f"  {plain_line(name, _NAME_WIDTH)}  {plain_line(text, _DESCRIPTION_WIDTH)}".rstrip()


def _signature(tool: ToolOffer) -> str:
    """`search(query, limit?) [read-only]`: `?` marks optional arguments."""
    properties, needed = tool.input_schema.get("properties"), tool.input_schema.get("required")
    names = list(properties) if isinstance(properties, dict) else []
    required = needed if isinstance(needed, list) else []
    shown = ", ".join(name if name in required else f"{name}?" for name in names)
    mark = " [read-only]" if tool.read_only else ""
    return f"{tool.name}({shown}){mark}"


def _argument_names(prompt: PromptOffer) -> list[str]:
    return [argument.name if argument.required else f"{argument.name}?" for argument in prompt.arguments]
