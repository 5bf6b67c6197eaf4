"""Parse what the user typed into a prompt, a slash command or a shell line, and run a slash command."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from agentcli.agent.engine import Engine
from agentcli.commands.base import Command, fail
from agentcli.commands.registry import find, near
from agentcli.core.events import Event
from agentcli.core.frozen import frozen

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine

_COMMAND = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_.:-]*)(?:\s+(.*))?\Z", re.DOTALL)
_LIKELY = re.compile(r"[A-Za-z][A-Za-z0-9_:-]*\Z")
"""Unknown names that are reported as unknown commands; `/1` and `/a.b` are prompts instead."""
_NOTE = re.compile(r"#[ \t]+(\S[^\n]*)\Z")
"""`# text`: a line for an instruction file. `#12 fails` and a heading with text below it are prompts."""


@frozen
class PromptLine:
    """Text for the model."""

    text: str


@frozen
class CommandLine:
    """A slash command with its arguments."""

    name: str
    """The typed name, which may be an alias or unknown."""
    arguments: str
    command: Command | None
    """The registered command of that name."""


@frozen
class ShellLine:
    """A command for the user's own shell (`!ls`)."""

    command: str


Line = PromptLine | CommandLine | ShellLine


def parse_line(text: str, engine: Engine | None = None) -> Line:
    """Classify a line. `# text` is `/memory add text`. `/usr is full` is a prompt: an absolute path that exists is not
    an unknown command. Commands from files are known with an engine."""
    if text.startswith("!"):
        return ShellLine(text.removeprefix("!").strip())
    if (note := _NOTE.match(text)) is not None:
        return CommandLine("memory", f"add {note.group(1).strip()}", find("memory"))
    found = _COMMAND.match(text.strip()) if text.lstrip().startswith("/") else None
    if found is None:
        return PromptLine(text)
    name = found.group(1)
    command = find(name, engine)
    if command is None and (not _LIKELY.match(name) or os.path.lexists(f"/{name}")):
        return PromptLine(text)
    return CommandLine(name, (found.group(2) or "").strip(), command)


def run_command(
    engine: Engine, name: str, arguments: str, typed: str = "", added: str = ""
) -> AsyncGenerator[Event, None]:
    """Run the command of a name. For commands that send a prompt: `typed` is the text for the transcript, `added` is
    appended to the prompt as it is."""
    command = find(name, engine)
    if command is None:
        return engine.perform(_report_unknown(engine, name))
    if command.kind == "prompt":
        return command.load()(engine, arguments, typed, added)
    work = command.load()(engine, arguments)
    return engine.perform(work) if command.kind == "report" else work


async def _report_unknown(engine: Engine, name: str) -> AsyncGenerator[Event, None]:
    if name.startswith("mcp__") and not all(server.start_ended for server in engine.session.mcp or ()):
        yield fail(f"There is no command /{name} yet: MCP servers are still connecting. /mcp shows them.")
        return
    meant = near(name, engine)
    hint = f" Did you mean {' or '.join(f'/{one}' for one in meant)}?" if meant else " /help lists all commands."
    yield fail(f"There is no command /{name}.{hint}")
