"""Text about MCP servers for `/mcp` in every front end: state, offers, source and error.

All texts of a server are untrusted; this module returns only lines that are safe to show.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from agentcli.core.text.columns import cut
from agentcli.core.text.format import byte_size, counted
from agentcli.core.text.plaintext import plain_line, plain_text, show_command
from agentcli.core.text.secret_text import holds_secret, is_random, is_secret_name, without_url_credentials
from agentcli.mcp.configuration import show_target
from agentcli.mcp.protocol import PromptOffer, ResourceOffer, ResourceTemplateOffer, ToolOffer, server_parts, tool_names
from agentcli.mcp.server import McpServer, ServerState

_STATES: Mapping[ServerState, tuple[str, str]] = {
    "waiting": ("·", "not started"),
    "connecting": ("…", "connecting"),
    "connected": ("✓", "connected"),
    "failed": ("✗", "failed"),
    "needs-auth": ("!", "needs sign-in"),
    "disabled": ("○", "disabled"),
    "unapproved": ("?", "not approved"),
}
_SOURCES = {
    "caller": "from the calling program",
    "flag": "from --mcp-config",
    "local": "yours, in this project",
    "project": "from .mcp.json",
    "user": "yours, in all projects",
}
_HIDDEN = "•••"
_LOG_LINES = 20
_MAX_LINE = 400
PROBLEM_STATES: frozenset[ServerState] = frozenset({"failed", "needs-auth"})


def state_mark(server: McpServer) -> str:
    return _STATES.get(server.state, ("·", ""))[0]


def state_word(server: McpServer) -> str:
    return _STATES.get(server.state, ("", server.state))[1]


def source_words(server: McpServer) -> str:
    return _SOURCES.get(server.config.source, server.config.source)


def server_name(server: McpServer) -> str:
    return show_command(plain_line(server.name, 80))


def error_line(server: McpServer, limit: int = 200) -> str:
    """The server's error in one line, and the time of its next start."""
    return "; ".join(filter(None, (plain_line(server.error, limit), _next_try(server))))


def offer_counts(server: McpServer) -> str:
    """`10 tools (2 off) · 2 resources · 1 prompt`; "" for a server that is not connected."""
    offers = server.offers
    off = sum(tool.name in server.disabled_tools for tool in offers.tools)
    parts = []
    if offers.tools:
        parts.append(counted(len(offers.tools), "tool") + (f" ({off} off)" if off else ""))
    if offers.refused:
        parts.append(f"{len(offers.refused)} refused")
    if resources := len(offers.resources) + len(offers.templates):
        parts.append(counted(resources, "resource"))
    if offers.prompts:
        parts.append(counted(len(offers.prompts), "prompt"))
    if not parts and server.state == "connected":
        return "offers nothing"
    return " · ".join(parts)


def next_step(server: McpServer) -> str:
    """What the user can do about the server's state; "" if nothing."""
    name = server_name(server)
    match server.state:
        case "failed":
            return f"/mcp reconnect {name} tries again."
        case "needs-auth":
            return f"/mcp login {name} signs in."
        case "disabled":
            return f"/mcp enable {name} connects to it."
        case "unapproved":
            return "/trust shows what this project would run and lets you approve it."
    return ""


def overview(servers: Sequence[McpServer]) -> str:
    """One or two lines for each server."""
    widest = max(len(server_name(server)) for server in servers)
    lines = []
    for server in servers:
        facts = "  ".join(filter(None, (state_word(server), offer_counts(server), source_words(server))))
        lines.append(f"{state_mark(server)} {server_name(server):<{widest}}  {facts}")
        lines.append(f"    {_line(show_target(server.config))}")
        if server.error:
            lines.append(f"    {error_line(server)}")
    return "\n".join(lines)


def details(server: McpServer, servers: Sequence[McpServer], *, advises: bool = True) -> list[str]:
    """Everything about one of the servers. `advises`: also the slash command that would help."""
    lines = [f"{state_mark(server)} {server_name(server)}: {state_word(server)}", *about(server)]
    if advises and (step := next_step(server)):
        lines.append(step)
    for title, rows in _sections(server, servers):
        lines += ["", title, *(f"  {row}" for row in rows)]
    if log := log_tail(server):
        lines += ["", "Log", *(f"  {line}" for line in log)]
    return lines


def about(server: McpServer) -> list[str]:
    """The server's configuration, own name, instructions and error."""
    config, offers = server.config, server.offers
    origin = f" ({_line(config.origin)})" if config.origin and config.origin not in source_words(server) else ""
    lines = [f"Source: {source_words(server)}{origin}"]
    lines.append(f"Command: {_command(server)}" if config.kind == "stdio" else f"Address: {_address(config.url)}")
    if config.kind != "stdio":
        lines.append(f"Transport: {config.kind}")
    if config.env:
        lines.append(f"Environment: {_line(', '.join(config.env))}")
    if config.headers:
        lines.append(f"Headers: {_line(', '.join(config.headers))}")
    if offers.name or offers.protocol:
        itself = f"{offers.name} {offers.version}".strip()
        lines.append(f"Server: {_line(itself) or 'unnamed'}, protocol {_line(offers.protocol) or 'unknown'}")
    if offers.instructions.strip():
        lines += ["Instructions:", *(f"  {line}" for line in _block(offers.instructions, 40))]
    if server.error:
        first, *rest = _block(server.error, 20)
        lines += [f"Error: {first}", *(f"  {line}" for line in rest)]
        lines += [f"  {again}"] if (again := _next_try(server)) else []
    return lines


def _next_try(server: McpServer) -> str:
    return f"next try in {server.retry_seconds:g} s" if server.retry_seconds is not None else ""


def _sections(server: McpServer, servers: Sequence[McpServer]) -> Iterator[tuple[str, list[str]]]:
    """Titles and rows of the server's offers, without empty sections."""
    offers = server.offers
    prompts = prompt_commands(server, servers)
    parts: tuple[tuple[str, list[str]], ...] = (
        ("Tools", [f"{_line(tool.name, 80)}  {tool_summary(tool, server)}".rstrip() for tool in offers.tools]),
        ("Refused tools", [f"{_line(name, 80)}: {_line(reason)}" for name, reason in offers.refused]),
        ("Prompts", [f"{prompts[each.name]}  {prompt_summary(each)}".rstrip() for each in offers.prompts]),
        ("Resources", [f"@{mention(server, each)}  {resource_summary(each)}".rstrip() for each in offers.resources]),
        (
            "Resource templates",
            [f"@{mention(server, each)}  {resource_summary(each)}".rstrip() for each in offers.templates],
        ),
    )
    for title, rows in parts:
        if rows:
            yield f"{title} ({len(rows):,})", rows


def log_tail(server: McpServer, count: int = _LOG_LINES) -> list[str]:
    return [_line(line) for line in list(server.log)[-count:]]


def tool_claims(tool: ToolOffer) -> list[str]:
    """The server's own claims about a tool's effects, which nothing verifies."""
    claims = ["read-only"] if tool.read_only else []
    claims += ["destructive"] if tool.destructive and not tool.read_only else []
    return [*claims, "open world"] if tool.open_world else claims


def tool_summary(tool: ToolOffer, server: McpServer) -> str:
    state = ["off"] if tool.name in server.disabled_tools else []
    state += ["changed"] if server.has_changed(tool) else []
    state += [f"without {', '.join(tool.left_out)}"] if tool.left_out else []
    tags = [*state, *tool_claims(tool)]
    text = _line(tool.description or tool.title, 200)
    return f"[{', '.join(tags)}] {text}".rstrip() if tags else text


def tool_lines(tool: ToolOffer, server: McpServer, name: str) -> list[str]:
    """Everything about a tool. `name`: its name for the model and permission rules."""
    state = "off" if tool.name in server.disabled_tools else "on"
    lines = [f"Name: {_line(tool.name)}", f"For rules: {name}", f"State: {state}"]
    if tool.title:
        lines.append(f"Title: {_line(tool.title)}")
    if claims := tool_claims(tool):
        lines.append(f"The server says: {', '.join(claims)}")
    if server.has_changed(tool):
        lines.append("Changed during this session: the model may know its earlier description and arguments.")
    if tool.left_out:
        keywords = ", ".join(tool.left_out)
        lines.append(f"Not shown to the model: {keywords} at the top of the schema, which the API does not accept.")
    lines += ["", *_block(tool.description or "(no description)", 200), "", "Arguments:"]
    lines += [f"  {row}" for row in _argument_rows(tool)] or ["  none"]
    return lines


def _argument_rows(tool: ToolOffer) -> list[str]:
    fields = tool.input_schema.get("properties")
    required = tool.input_schema.get("required")
    needed = required if isinstance(required, list) else []
    rows = []
    for name, schema in fields.items() if isinstance(fields, dict) else ():
        known = schema if isinstance(schema, dict) else {}
        kind = known.get("type") if isinstance(known.get("type"), str) else "any"
        mark = ", required" if name in needed else ""
        text = known.get("description")
        rows.append(_line(f"{name} ({kind}{mark})" + (f": {text}" if isinstance(text, str) else "")))
    return rows


def name_part(server: McpServer, servers: Iterable[McpServer]) -> str:
    """The server's part in the names of its tools and prompts. It need not be among `servers` any more."""
    return server_parts([server.name, *(each.name for each in servers)])[server.name]


def prompt_commands(server: McpServer, servers: Sequence[McpServer]) -> dict[str, str]:
    """The slash command of each prompt, with its arguments."""
    names = tool_names(name_part(server, servers), [prompt.name for prompt in server.offers.prompts])
    return {prompt.name: f"/{names[prompt.name]} {argument_hint(prompt)}".rstrip() for prompt in server.offers.prompts}


def argument_hint(prompt: PromptOffer) -> str:
    """`<name> [mood]`: optional arguments in brackets."""
    shown = [(_line(each.name, 40), each.required) for each in prompt.arguments]
    return " ".join(f"<{name}>" if required else f"[{name}]" for name, required in shown)


def prompt_summary(prompt: PromptOffer) -> str:
    return _line(prompt.description or prompt.title, 200)


def prompt_lines(prompt: PromptOffer, command: str) -> list[str]:
    lines = [f"Command: {command}", "", *_block(prompt.description or prompt.title or "(no description)", 100)]
    if prompt.arguments:
        lines += ["", "Arguments:"]
    for each in prompt.arguments:
        text = f": {each.description}" if each.description else ""
        lines.append(f"  {_line(each.name, 80)}{', required' if each.required else ''}{_line(text)}")
    return lines


def mention(server: McpServer, resource: ResourceOffer | ResourceTemplateOffer) -> str:
    """`server:uri`, as it is written after an `@`."""
    uri = resource.uri if isinstance(resource, ResourceOffer) else resource.uri_template
    return _line(f"{server.name}:{uri}", 300)


def resource_summary(resource: ResourceOffer | ResourceTemplateOffer) -> str:
    size = byte_size(resource.size) if isinstance(resource, ResourceOffer) and resource.size is not None else ""
    text = _line(resource.title or resource.name, 80)
    if resource.description:
        text = f"{text}: {_line(resource.description, 200)}" if text else _line(resource.description, 200)
    return " · ".join(filter(None, (text, _line(resource.mime_type, 60), size)))


def _command(server: McpServer) -> str:
    """The server's command with its arguments; values that look like secrets are hidden."""
    config = server.config
    shown, hide_next = [config.command], False
    for argument in config.args:
        name, separator, _value = argument.partition("=")
        if hide_next or holds_secret(argument) or is_random(argument):
            shown.append(_HIDDEN)
        elif separator and is_secret_name(name.lstrip("-")):
            shown.append(f"{name}={_HIDDEN}")
        else:
            shown.append(argument)
        hide_next = argument.startswith("-") and not separator and is_secret_name(argument.lstrip("-"))
    return _line(" ".join(part if part.endswith(_HIDDEN) else shlex.quote(part) for part in shown), 2_000)


def _address(url: str) -> str:
    """The address without credentials and without its query."""
    bare, separator, _query = (without_url_credentials(url) or "(hidden)").partition("?")
    return _line(f"{bare}?{_HIDDEN}" if separator else bare)


def _line(text: str, limit: int = _MAX_LINE) -> str:
    return show_command(plain_line(text, limit))


def _block(text: str, most: int) -> list[str]:
    """Split untrusted text into safe lines, at most `most`."""
    lines = [cut(show_command(line.rstrip()), _MAX_LINE) for line in plain_text(text).strip().splitlines()]
    return [*lines[:most], "…"] if len(lines) > most else lines
