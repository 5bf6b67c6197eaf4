"""Slash commands for the prompts of MCP servers: `/mcp__server__prompt`, with positional arguments."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from functools import partial

from agentcli.agent.engine import Engine
from agentcli.agent.mcp.results import ResultLimits, content_output
from agentcli.agent.ports import Prompt
from agentcli.agent.prompt_expansion import RequestedPrompt
from agentcli.commands.base import Command
from agentcli.commands.mcp_listing import argument_hint, prompt_lines, prompt_summary, server_name
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.events import Event
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.protocol import McpContent, PromptMessage, PromptOffer, server_parts, tool_names
from agentcli.mcp.server import McpServer
from agentcli.mcp.servers import McpServers

MAX_SUMMARY = 120
_WORD = re.compile(r"""\s*("(?:[^"\\]|\\.)*"(?=\s|\Z)|'[^']*'(?=\s|\Z)|\S+)""")
_ROLES = {"user": "User:", "assistant": "Assistant:"}


def rows_from_servers(servers: McpServers) -> Iterator[Command]:
    """Rows for the prompts of all connected servers."""
    parts = server_parts(server.name for server in servers)
    for server in servers:
        prompts = server.offers.prompts
        names = tool_names(parts[server.name], [prompt.name for prompt in prompts])
        for prompt in prompts:
            usage = f"/{names[prompt.name]} {argument_hint(prompt)}".rstrip()
            yield Command(
                names[prompt.name],
                plain_line(prompt_summary(prompt), MAX_SUMMARY).rstrip(".") or "Prompt of an MCP server",
                argument_hint(prompt),
                kind="prompt",
                source=server_name(server),
                function=partial(_send, server, prompt, names[prompt.name]),
                help="\n".join(prompt_lines(prompt, usage)),
                completes_late=partial(complete_argument, server, prompt) if prompt.arguments else None,
            )


def _send(
    server: McpServer, prompt: PromptOffer, name: str, engine: Engine, arguments: str, typed: str = "", added: str = ""
) -> AsyncGenerator[Event, None]:
    """Request the prompt from its server and submit it. `added`: text appended to it, e.g. piped input."""

    async def request() -> Prompt:
        filled = fill_arguments(prompt, arguments)
        try:
            messages = await server.prompt(prompt.name, filled)
        except McpFailure as error:
            raise AgentError(plain_line(f"/{name} failed: {error}", 400)) from error
        return await prompt_of(messages, ResultLimits(engine.session.tool_context.results_dir), added)

    shown = typed or f"/{name} {arguments}".rstrip()
    return engine.submit_requested(RequestedPrompt(request, shown, "MCP server", server_name(server), arguments))


async def prompt_of(messages: tuple[PromptMessage, ...], limits: ResultLimits, added: str = "") -> Prompt:
    """Join all messages to one user turn, with role labels if some are the assistant's."""
    marked = any(message.role == "assistant" for message in messages)
    parts: list[McpContent] = []
    for message in messages:
        if marked:
            parts.append(McpContent("text", text=_ROLES[message.role]))
        parts.append(message.content)
    if added:
        parts.append(McpContent("text", text=f"\n{added}"))
    if not any(part.text.strip() or part.data for part in parts):
        raise AgentError("The MCP server sent an empty prompt, so nothing was sent.")
    content = (await content_output(parts, limits)).content
    return content if isinstance(content, str) else tuple(content)


def words_of(text: str) -> list[tuple[int, str]]:
    """Split arguments into words, each with its start index. Quotes around a word keep its blanks."""
    return [(match.start(1), _unquote(match.group(1))) for match in _WORD.finditer(text)]


def _unquote(word: str) -> str:
    if len(word) > 1 and word[0] == word[-1] == '"':
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] == "'" else word


def fill_arguments(prompt: PromptOffer, text: str) -> dict[str, str]:
    """Argument values by name; the last argument takes the rest of the line. Raises `UsageError`."""
    words, names = words_of(text), [argument.name for argument in prompt.arguments]
    if words and not names:
        raise UsageError("This prompt takes no arguments.")
    values = [word for _start, word in words[: len(names)]]
    if len(words) > len(names):
        values[-1] = text[words[len(names) - 1][0] :].strip()
    missing = [each.name for each in prompt.arguments[len(values) :] if each.required]
    if missing:
        raise UsageError(plain_line(f"Arguments are missing: {argument_hint(prompt)}", 300))
    return dict(zip(names, values, strict=False))


async def complete_argument(server: McpServer, prompt: PromptOffer, typed: str) -> list[tuple[str, str]]:
    """Argument lines that complete the last typed word. Raises `McpFailure`."""
    words = words_of(typed)
    if not typed or typed[-1].isspace():
        words.append((len(typed), ""))
    place = len(words) - 1
    if place >= len(prompt.arguments) or not server.offers.completes:
        return []
    start, value = words[place]
    argument, before = prompt.arguments[place], words[:place]
    others = {each.name: word for each, (_start, word) in zip(prompt.arguments, before, strict=False)}
    values = await server.complete("prompt", prompt.name, argument.name, value, others)
    more = " " if any(each.required for each in prompt.arguments[place + 1 :]) else ""
    return [(f"{typed[:start]}{_quote(each)}{more}", plain_line(argument.description, 80)) for each in values]


def _quote(value: str) -> str:
    line = plain_line(value, 400)
    if not re.search(r"[\s\"']", line) and line:
        return line
    escaped = re.sub(r'(["\\])', r"\\\1", line)
    return f'"{escaped}"'
