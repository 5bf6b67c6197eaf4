"""`Command`, a row of the registry of slash commands, and how a command reports its text.

A command's module has a coroutine `run(engine, arguments)` that returns the text for the user, or None, and raises an
`AgentError` if it fails. A command that asks or reports more is an async generator of events; its texts are notices
with the code `command`. With `pages` or `local` in its row it is `run(engine, arguments, front_end)` and can open
pages, ask, copy and so on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from agentcli.core.errors import AgentError, UsageError
from agentcli.core.events import Event, NoticeRaised
from agentcli.core.frozen import frozen

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.commands.front_end import FrontEnd

RunCommand = Callable[..., AsyncGenerator[Event, None]]
"""Called with the engine, the arguments and, if there is one, the front end."""
ArgumentValues = Iterable[str | tuple[str, str]]
"""Values for a completion menu, with a description where one helps."""
ALWAYS = ("*",)
"""Value of `local` and `pages` for any arguments. A command with it in `local` needs a front end."""


@frozen
class Manual:
    """Text of `/help COMMAND` besides the row: `MANUAL` in the command's module."""

    text: str
    examples: tuple[tuple[str, str], ...]
    """Lines to type, and what each does."""


@frozen
class Command:
    name: str
    summary: str
    argument_hint: str = ""
    """Its arguments as help shows them. A built-in command without a hint takes none."""
    aliases: tuple[str, ...] = ()
    submits: bool = False
    """Whether its events are a whole submission, with a `Result` at the end."""
    beside: bool = False
    """Whether it may run while a reply streams: it is read-only, or changes only what the next request uses."""
    pages: tuple[str, ...] = ()
    """First words of arguments ("" for none) with which it opens a page, or `ALWAYS`. A front end without pages prints
    text instead."""
    pages_except: tuple[str, ...] = ()
    """With `ALWAYS` in `pages`: first words of arguments with which it opens no page."""
    local: tuple[str, ...] = ()
    """First words of arguments with which the front end runs it at once, not as a submission; or `ALWAYS`."""
    without_engine: bool = False
    """Whether it also runs while the app is starting, with None as the engine, like every command with `ALWAYS`."""
    completes: ArgumentValues | Callable[[Engine, FrontEnd], ArgumentValues] = ()
    """Completions of its arguments. Each value is a whole line of arguments."""
    completes_late: Callable[[str], Awaitable[list[tuple[str, str]]]] | None = None
    """Requests further completions for the typed arguments, from an MCP server."""
    source: str = ""
    """Source of a command that is not built in: `project`, `user`, `plugin` or the name of an MCP server."""
    sends_prompt: bool = False
    """Whether it sends a prompt to the model; the transcript shows that prompt as it was typed."""
    function: Callable[..., Any] | None = None
    """Function to run; None: `run` of its module."""
    unavailable: str = ""
    """Why it cannot be used now; menus show it greyed. "" if it can."""
    help: Manual | None = None
    """Manual for `/help`; None: `MANUAL` of its module."""

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.argument_hint}".rstrip()

    @property
    def described(self) -> str:
        """The summary for menus, with the source of a command that is not built in."""
        summary = f"not available: {self.unavailable}" if self.unavailable else self.summary
        return f"{summary} ({self.source})" if self.source else summary

    def is_local(self, arguments: str, front_end: FrontEnd) -> bool:
        """Whether the front end itself runs it: calls `load()` and passes itself."""
        word = "".join(arguments.split()[:1])
        opens_page = word in self.pages or (self.pages == ALWAYS and word not in self.pages_except)
        return self.local == ALWAYS or word in self.local or (front_end.has_pages and opens_page)

    def completions(self, engine: Engine, front_end: FrontEnd) -> list[tuple[str, str]]:
        values = self.completes(engine, front_end) if callable(self.completes) else self.completes
        return [(value, "") if isinstance(value, str) else value for value in values]

    @property
    def _module(self) -> ModuleType:
        """The command's module, imported on first use to keep the start fast."""
        return import_module(f"agentcli.commands.{self.name.replace('-', '_')}")

    @property
    def manual(self) -> Manual:
        return self.help if self.help is not None else cast(Manual, self._module.MANUAL)

    def load(self) -> RunCommand:
        run = self.function if self.function is not None else self._module.run
        return cast(RunCommand, run) if self.submits else partial(self._guarded, run)

    async def _guarded(
        self, run: Callable[..., Any], engine: Engine | None, arguments: str, front_end: FrontEnd | None = None
    ) -> AsyncGenerator[Event, None]:
        from agentcli.commands.front_end import NoFrontEnd, Unavailable

        extra = (front_end or NoFrontEnd(),) if self.pages or self.local else ()
        try:
            if self.local == ALWAYS and front_end is None:
                raise Unavailable(NoFrontEnd.instead)
            if arguments and not (self.argument_hint or self.source):
                raise UsageError(f"/{self.name} takes no arguments, so nothing was done.")
            work = run(engine, arguments, *extra)
            if isinstance(work, Coroutine):
                if text := await work:
                    yield say(text)
                return
            async with aclosing(work) as events:
                async for event in events:
                    yield event
        except Unavailable as error:
            yield fail(f"/{self.name} is not available here. {error}")
        except AgentError as error:
            yield fail(str(error))


def say(text: str) -> NoticeRaised:
    return NoticeRaised(text=text, code="command")


def fail(text: str) -> NoticeRaised:
    return NoticeRaised(text=text, level="error", code="command")
