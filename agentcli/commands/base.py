"""What a slash command is, and how one answers.

A command gets the engine and the rest of the line, and yields events like a submission does; it knows no front end.
What it says to the person is a notice with the code `command`; one of level `error` makes the command a failed one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from importlib import import_module
from typing import cast

from agentcli.agent.engine import Engine
from agentcli.core.events import Event, NoticeRaised
from agentcli.core.frozen import frozen

Run = Callable[[Engine, str], AsyncGenerator[Event, None]]


@frozen
class Command:
    name: str
    summary: str
    argument_hint: str = ""
    aliases: tuple[str, ...] = ()
    submits: bool = False
    """Its events are a whole submission already, with a `Result` at their end."""
    beside: bool = False
    """May run while a reply streams: it only reads, or changes what the next request uses."""
    on_screen: bool = False
    """The terminal app does it itself; elsewhere there is nothing that it could do."""

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.argument_hint}".rstrip()

    def load(self) -> Run:
        """The command itself, imported when it is first used: a start pays for none of them."""
        if self.on_screen:
            return self._elsewhere
        return cast(Run, import_module(f"agentcli.commands.{self.name.replace('-', '_')}").run)

    async def _elsewhere(self, _engine: Engine, _arguments: str) -> AsyncGenerator[Event, None]:
        yield fail(f"/{self.name} is for the terminal app. Start agentcli without -p to use it.")


def say(text: str) -> NoticeRaised:
    return NoticeRaised(text=text, code="command")


def fail(text: str) -> NoticeRaised:
    return NoticeRaised(text=text, level="error", code="command")
