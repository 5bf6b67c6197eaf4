"""Settings, hooks, MCP servers, definitions and plugins of an open session, kept up to date with their files.

Every submission checks the files when it begins, at the cost of a `stat` per file. An interactive session also waits
for changes in between, so that its menus and lists show what is active. Definitions and plugins are loaded at any time;
settings, hooks and servers change only between submissions, so that a prompt is answered with one session. Permission
rules are an exception: `LivePermissions` checks them before every decision.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from agentcli.agent.ports import Hooks
from agentcli.agent.profile import Tuning
from agentcli.core import events as ev
from agentcli.core.aio import cancel_and_wait, in_thread, start_task
from agentcli.core.errors import AgentError
from agentcli.core.files.file_notices import FileNotices
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.permissions.policy import Policy
from agentcli.tools.shell.environment import PassedVariables

if TYPE_CHECKING:
    from agentcli.agent.mcp.server_tools import ServerToolLimits
    from agentcli.agent.session import Session
    from agentcli.mcp.servers import McpServers


FIRST_SECONDS = 1.0
"""Delay of the first check between submissions, to keep the start of the app fast."""
CODE = "settings"


@frozen
class Reloaded:
    """What the settings say now."""

    hooks: Hooks | None
    """None: they are unchanged."""
    policy: Policy
    """The rules."""
    tuning: Tuning
    max_turns: int | None
    passed: PassedVariables
    environ: Mapping[str, str]
    """Environment of commands."""
    recorded: Json = field(default_factory=dict)
    """Settings that a replay needs, if one of them has changed."""
    changed: frozenset[str] = frozenset()
    """Names of the settings whose values have changed."""
    notices: tuple[ev.NoticeRaised, ...] = ()


@frozen
class Inactive:
    """Something that is configured but not active."""

    kind: Literal["hook", "rule", "setting"]
    name: str
    """A hook's event, or the name of a setting."""
    text: str
    """A hook's command, a rule, or a setting's value."""
    source: str
    reason: str
    """Why it is not active, and what to do."""
    matcher: str = ""
    is_due: bool = False
    """Whether it applies later without anything being done."""


class Configuration(Protocol):
    """The configuration files of a session."""

    def paths(self) -> Sequence[str]: ...

    def is_stale(self) -> bool:
        """Whether a file has changed since the last `read`. Costs a `stat` per file."""

    def read(self) -> Reloaded:
        """Read all files again. Blocking. Raises `AgentError` if they cannot be used at all."""

    async def update_servers(self, servers: McpServers | None) -> tuple[McpServers | None, list[str]]:
        """Start new MCP servers and stop removed ones, as last read. Returns the servers, new ones if there were none,
        and notices. Raises `AgentError`."""

    def server_limits(self) -> ServerToolLimits: ...

    def inactive(self) -> list[Inactive]:
        """What is configured but not active. Blocking."""


@frozen
class FileNews:
    """Changes of files that were loaded between submissions."""

    notices: tuple[ev.NoticeRaised, ...] = ()
    changed: frozenset[str] = frozenset()
    """Names of changed settings."""


class LiveFiles:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._watch: FileWatch | None = None
        """Set while changes are waited for."""
        self._reloading = asyncio.Lock()
        self._refreshing: set[asyncio.Task[None]] = set()
        self._changed: frozenset[str] = frozenset()
        """Names of changed settings that no front end knows yet."""
        self._reported_problems: set[str] = set()
        self._version = 0
        """Version of the definitions that a front end knows."""

    @property
    def is_stale(self) -> bool:
        """Whether changed settings wait for the end of the running prompt."""
        configuration = self._session.configuration
        return configuration is not None and configuration.is_stale()

    async def inactive(self) -> list[Inactive]:
        """What is configured but not active."""
        configuration = self._session.configuration
        if configuration is None:
            return []
        try:
            return await in_thread(configuration.inactive)
        except AgentError:
            return []

    @property
    def has_files(self) -> bool:
        session = self._session
        return any(part is not None for part in (session.configuration, session.definitions, session.plugins))

    async def refresh_all(self) -> None:
        """Load everything that has changed."""
        await self.refresh_settings()
        await self.refresh()

    async def refresh(self) -> None:
        """Load changed definitions and plugins. The first look is in a thread; later ones cost a stat per file."""
        definitions, plugins = self._session.definitions, self._session.plugins
        if definitions is not None and definitions.loaded:
            definitions.refresh()
        elif definitions is not None:
            await in_thread(definitions.refresh)
        if plugins is not None and plugins.is_stale():
            await plugins.refresh()

    async def refresh_settings(self, *, announce: bool = True, force: bool = False) -> None:
        """Load changed settings, hooks and MCP servers; not while a prompt is answered. `announce`: with notices, for
        changes that the user has not just made here. `force`: also unchanged files, at any time."""
        configuration = self._session.configuration
        if configuration is None:
            return
        # A cancelled caller must not lose what was read: unchanged files are not read again.
        work = start_task(self._refresh_settings(configuration, announce=announce, force=force))
        self._refreshing.add(work)
        work.add_done_callback(self._refreshing.discard)
        await asyncio.shield(work)

    async def _refresh_settings(self, configuration: Configuration, *, announce: bool, force: bool) -> None:
        async with self._reloading:
            if force or (not self._session.is_answering and configuration.is_stale()):
                notices = await self._reload(configuration)
                self._session.add_notices(notices if announce else ())

    async def _reload(self, configuration: Configuration) -> list[ev.NoticeRaised]:
        session = self._session
        try:
            fresh = await in_thread(configuration.read)
        except AgentError as error:
            return [_make_warning(f"The settings could not be reloaded, the old ones apply: {error}")]
        if fresh.hooks is not None:
            before = session.hooks
            session.use_hooks(fresh.hooks)
            await before.aclose()
        session.settings.tuning = fresh.tuning
        session.recorded_settings = fresh.recorded or session.recorded_settings
        session.settings.bounds = replace(session.settings.bounds, max_turns=fresh.max_turns)
        session.tool_context = replace(session.tool_context, environ=fresh.environ, passed=fresh.passed)
        self._session.permissions.reload(fresh.policy)
        self._changed |= fresh.changed
        notices = list(fresh.notices)
        try:
            servers, news = await configuration.update_servers(session.mcp)
        except AgentError as error:
            return [*notices, _make_warning(str(error))]
        if servers is not None and session.mcp is None:
            session.add_servers(servers, configuration.server_limits())
            servers.start()
        return [*notices, *(ev.NoticeRaised(text=text, code=CODE) for text in news)]

    def take_problems(self) -> list[ev.NoticeRaised]:
        """What is wrong in definition files, each problem once."""
        definitions = self._session.definitions
        found = [str(problem) for problem in definitions.problems] if definitions is not None else []
        new = [text for text in found if text not in self._reported_problems]
        # An error that was fixed and comes back is reported again.
        self._reported_problems = set(found)
        return [ev.NoticeRaised(text=text, level="warning", code="definitions") for text in new]

    # ------------------------------------------------------------------------------------------ between submissions

    async def wait_for_changes(self) -> FileNews:
        """Wait until a file has changed, and load it. Never returns if files are not watched; cancel it. Notices about
        plugins are taken from `SessionPlugins`."""
        if not self._session.watches_definitions:
            await asyncio.Event().wait()
        if self._watch is None:
            await asyncio.sleep(FIRST_SECONDS)

            self._watch = FileWatch()
        definitions = self._session.definitions
        while True:
            await self._watch.watch(await in_thread(self._paths))
            if definitions is not None:
                await in_thread(definitions.refresh)
            await self.refresh_all()
            notices = (*self.take_problems(), *self._rule_notices())
            if not self._session.is_answering:
                notices += tuple(self._session.take_notices())
            changed, self._changed = self._changed, frozenset()
            version = definitions.version if definitions is not None else 0
            if notices or changed or version != self._version:
                self._version = version
                return FileNews(notices, changed)
            await self._watch.wait()

    def _rule_notices(self) -> list[ev.NoticeRaised]:
        permissions = self._session.permissions
        permissions.refresh()
        found = []
        while (text := permissions.take_notice()) is not None:
            found.append(ev.NoticeRaised(text=text, code="permissions"))
        return found

    def _paths(self) -> list[str]:
        session, found = self._session, list[str]()
        if session.configuration is not None:
            found += session.configuration.paths()
        if session.definitions is not None:
            found += session.definitions.watched_paths()
        if session.plugins is not None:
            found += session.plugins.collection.watched_paths()
        return found

    def look_again(self) -> None:
        """Let `wait_for_changes` check the files: a submission has ended, so settings may change."""
        if self._watch is not None:
            self._watch.wake()

    async def aclose(self) -> None:
        await cancel_and_wait(list(self._refreshing))
        if self._watch is not None:
            await self._watch.aclose()


def _make_warning(text: str) -> ev.NoticeRaised:
    return ev.NoticeRaised(text=text, level="warning", code=CODE)


POLL_SECONDS = 2.0
SETTLE_SECONDS = 0.1
"""Delay between a change and the check: editors save in several steps."""
_ANY = ""
"""Stands for all names in a folder."""


class FileWatch:
    """Call `watch`, then check the files, then `wait`: so no change is missed in between."""

    def __init__(self) -> None:
        self._notices: FileNotices | None = None
        self._is_complete = False
        """Whether every path is watched by inotify."""
        self._names: dict[str, set[str]] = {}
        """The names of interest in each watched folder."""
        self._stirred = asyncio.Event()

    async def watch(self, paths: Iterable[str]) -> None:
        """Watch these files and folders, whether they exist or not. A folder is not watched recursively."""
        await in_thread(self._watch, tuple(paths))

    def _watch(self, paths: Iterable[str]) -> None:
        names: dict[str, set[str]] = {}
        for path in paths:
            for folder, name in _places(path):
                names.setdefault(folder, set()).add(name)
        if self._notices is None:
            self._notices = FileNotices(removals=True)
        self._is_complete = self._notices.watch(names)
        self._names = names

    def wake(self) -> None:
        """Let `wait` return."""
        self._stirred.set()

    async def wait(self) -> None:
        """Wait until a watched path may have changed. Cancel it to stop."""
        descriptor = self._notices.descriptor if self._notices is not None else -1
        loop = asyncio.get_running_loop()
        if descriptor >= 0:
            loop.add_reader(descriptor, self._look)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if self._is_complete else POLL_SECONDS):
                    await self._stirred.wait()
        finally:
            if descriptor >= 0:
                loop.remove_reader(descriptor)
        self._stirred.clear()
        await asyncio.sleep(SETTLE_SECONDS)

    def _look(self) -> None:
        assert self._notices is not None
        if any(self._concerns(path) for path in self._notices.read()):
            self._stirred.set()

    def _concerns(self, path: Path) -> bool:
        names = self._names.get(str(path.parent), ())
        return str(path) in self._names or _ANY in names or path.name in names

    async def aclose(self) -> None:
        if self._notices is not None:
            await in_thread(self._notices.close)  # the kernel takes milliseconds for it


def _places(path: str) -> Iterator[tuple[str, str]]:
    """The folders to watch for a path, each with the name of interest in it."""
    if os.path.isdir(path):  # noqa: PTH112
        yield os.path.realpath(path), _ANY
    elif os.path.islink(path) and (real := os.path.realpath(path)) != path:  # noqa: PTH114
        yield from _places(real)
    folder, name = os.path.split(path)
    while folder and not os.path.isdir(folder):  # noqa: PTH112
        folder, name = os.path.split(folder)
        if not name:
            return
    yield os.path.realpath(folder), name
