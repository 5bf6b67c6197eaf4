"""`Command`, a row of the registry of slash commands, and how a command reports its text.

A command is a coroutine `run(engine, arguments)` in a module of its own name. It returns the text for the user or None,
and raises an `AgentError` if it fails. A command that asks or reports more returns or is an async generator of events;
its texts are notices with the code `command`. With `pages` or `local` in its row it is `run(engine, arguments,
front_end)` and can open pages, ask, copy and so on. In a module of several commands the function is `run_NAME`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from functools import partial
from importlib import import_module
from textwrap import indent
from typing import TYPE_CHECKING, Any, Literal, cast

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
"""Value of `local` for any arguments. Such a command needs a front end."""


@frozen
class Command:
    name: str
    summary: str
    argument_hint: str = ""
    """Its arguments as help shows them. A built-in command without a hint takes none."""
    aliases: tuple[str, ...] = ()
    module: str = ""
    """Module that it shares with other commands; "": one of its own name."""
    kind: Literal["report", "submission", "prompt"] = "report"
    """What its events are: texts, a whole submission with a `Result` at the end, or one with a prompt for the model,
    which the transcript shows as it was typed."""
    concurrent: bool = False
    """Whether it may run while a reply streams: it is read-only, or changes only what the next request uses."""
    pages: tuple[str, ...] | Callable[[str], bool] = ()
    """First words of arguments ("" for none) with which it opens a page. A front end without pages prints text
    instead."""
    local: tuple[str, ...] = ()
    """First words of arguments with which the front end runs it at once, not as a submission; or `ALWAYS`."""
    is_local_only: bool = True
    """Whether a command with `local` = `ALWAYS` is refused without a front end."""
    completes: ArgumentValues | Callable[[Engine, FrontEnd], ArgumentValues] = ()
    """Completions of its arguments. Each value is a whole line of arguments."""
    completes_late: Callable[[str], Awaitable[list[tuple[str, str]]]] | None = None
    """Requests further completions for the typed arguments, from an MCP server."""
    source: str = ""
    """Source of a command that is not built in: `project`, `user`, `plugin` or the name of an MCP server."""
    function: Callable[..., Any] | None = None
    """Function to run; None: `run` of its module."""
    unavailable: str = ""
    """Why it cannot be used now; menus show it greyed. "" if it can."""
    help: str = ""
    """Text of `/help COMMAND`; "": the docstring of its function."""

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
        opens_page = self.pages(word) if callable(self.pages) else word in self.pages
        return self.local == ALWAYS or word in self.local or (front_end.has_pages and opens_page)

    @property
    def needs_engine(self) -> bool:
        """Whether it cannot run while the app is starting, with None as the engine."""
        return self.local != ALWAYS and "" not in self.local

    def completions(self, engine: Engine, front_end: FrontEnd) -> list[tuple[str, str]]:
        values = self.completes(engine, front_end) if callable(self.completes) else self.completes
        return [(value, "") if isinstance(value, str) else value for value in values]

    def _load_function(self) -> Callable[..., Any]:
        """The command's function. Its module is imported on first use to keep the start fast."""
        if self.function is not None:
            return self.function
        own = self.name.replace("-", "_")
        module = import_module(f"agentcli.commands.{self.module or own}")
        return cast(Callable[..., Any], getattr(module, f"run_{own}" if self.module else "run"))

    @property
    def manual(self) -> str:
        """Text of `/help COMMAND` besides the row: `help`, or the docstring, whose last paragraph has examples."""
        if self.help:
            return self.help
        text, _blank, examples = (inspect.getdoc(self._load_function()) or "").rpartition("\n\n")
        return "\n\n".join((text.replace("\n", " "), indent(examples, "  ")))

    def load(self) -> RunCommand:
        run = self._load_function()
        return partial(self._run_guarded, run) if self.kind == "report" else cast(RunCommand, run)

    async def _run_guarded(
        self, run: Callable[..., Any], engine: Engine | None, arguments: str, front_end: FrontEnd | None = None
    ) -> AsyncGenerator[Event, None]:
        from agentcli.commands.front_end import NoFrontEnd, Unavailable

        extra = (front_end or NoFrontEnd(),) if self.pages or self.local else ()
        try:
            if self.local == ALWAYS and self.is_local_only and front_end is None:
                raise Unavailable(NoFrontEnd.instead)
            if arguments and not (self.argument_hint or self.source):
                raise UsageError(f"/{self.name} takes no arguments, so nothing was done.")
            work = run(engine, arguments, *extra)
            if isinstance(work, Coroutine):
                work = await work
            if isinstance(work, AsyncGenerator):
                async with aclosing(work) as events:
                    async for event in events:
                        yield event
            elif work:
                yield say(work)
        except Unavailable as error:
            yield fail(f"/{self.name} is not available here. {error}")
        except AgentError as error:
            yield fail(str(error))


def say(text: str) -> NoticeRaised:
    return NoticeRaised(text=text, code="command")


def fail(text: str) -> NoticeRaised:
    return NoticeRaised(text=text, level="error", code="command")
