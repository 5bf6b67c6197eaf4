"""All MCP servers of a session, and which of them and of their tools the user switched on or off in a project."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

from agentcli.config.files import change_entries, read_entries
from agentcli.core.aio import in_thread
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.link import ServerLimits
from agentcli.mcp.protocol import ServerRequests, server_parts, tool_names
from agentcli.mcp.server import McpServer, ServerState

CHOICES_FILE = "mcp-choices.json"
_MAX_BYTES = 4 * 1024 * 1024


@frozen
class SavedChoices:
    servers: Mapping[str, bool] = field(default_factory=dict)
    """Whether a server is on, by name; without an entry its configuration decides."""
    disabled_tools: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names of the disabled tools, by server name."""


class ChoiceStore:
    """The choices of one project; without a state folder nothing is stored."""

    def __init__(self, state_dir: Path | None = None, root: Path | None = None) -> None:
        self._path = state_dir / CHOICES_FILE if state_dir is not None and root is not None else None
        self._root = str(root)
        self.keeps = self._path is not None
        """Whether choices are stored."""

    def load(self) -> SavedChoices:
        """The stored choices; empty if there is no usable file."""
        project = self._read().get(self._root, {})
        servers, tools = _read_mapping(project, "servers"), _read_mapping(project, "tools")
        return SavedChoices(
            {name: on for name, on in servers.items() if isinstance(on, bool)},
            {
                name: frozenset(tool for tool in names if isinstance(tool, str))
                for name, names in tools.items()
                if isinstance(names, list)
            },
        )

    def save_server(self, name: str, on: bool) -> None:
        """Store whether a server is on. Raises `AgentError`."""
        with self._change() as project:
            project["servers"] = {**_read_mapping(project, "servers"), name: on}

    def save_tools(self, server: str, disabled: frozenset[str]) -> None:
        """Store the disabled tools of a server. Raises `AgentError`."""
        with self._change() as project:
            project["tools"] = {**_read_mapping(project, "tools"), server: sorted(disabled)}

    def forget(self) -> bool:
        """Remove all choices of the project; returns whether there were any. Raises `AgentError`."""
        with self._change() as project:
            had_some = bool(project)
            project.clear()
        return had_some

    def _read(self) -> dict[str, Any]:
        return read_entries(self._path, "projects", _MAX_BYTES)

    @contextmanager
    def _change(self) -> Iterator[dict[str, Any]]:
        if self._path is None:
            yield {}
            return
        try:
            with change_entries(self._path, "projects", _MAX_BYTES) as projects:
                project = dict(_read_mapping(projects, self._root))
                yield project
                projects[self._root] = project
                for root in [root for root, choices in projects.items() if not choices]:
                    del projects[root]
        except OSError as error:
            raise AgentError(f"The choice cannot be saved: {error.strerror}: {self._path}.") from error


def _read_mapping(value: object, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


_REPORTED = {"waiting": "pending", "connecting": "pending", "unapproved": "disabled"}
"""Names of states in stream-json, where they differ."""


class McpServers:
    def __init__(
        self,
        configs: Iterable[ServerConfig],
        around: ServerSurroundings,
        requests: ServerRequests,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - immutable
        *,
        disabled: Collection[str] = (),
        unapproved: Collection[str] = (),
        store: ChoiceStore | None = None,
    ) -> None:
        """`disabled`, `unapproved`: names of servers that are not started.

        `store`: stores servers and tools that the user switches on or off, which overrides `disabled`; None: nothing is
        stored.
        """
        self.version = 0
        """Increases with each change of a state or a list."""
        self.requests = requests
        self.limits = limits
        self._around = around
        self._store = store or ChoiceStore()
        self._changed = asyncio.Event()
        self._servers: dict[str, McpServer] = {}
        self._add(configs, disabled, unapproved, self._store.load())

    def _add(
        self,
        configs: Iterable[ServerConfig],
        disabled: Collection[str],
        unapproved: Collection[str],
        choices: SavedChoices,
    ) -> None:
        for config in configs:
            is_on = choices.servers.get(config.name, config.name not in disabled)
            server = McpServer(
                config,
                self._around,
                self.requests,
                self.limits,
                state=_first_state(is_on, config.name not in unapproved),
                on_change=self._note_change,
            )
            server.disabled_tools = choices.disabled_tools.get(config.name, frozenset())
            self._servers[config.name] = server

    def __iter__(self) -> Iterator[McpServer]:
        return iter(tuple(self._servers.values()))

    def get(self, name: str) -> McpServer | None:
        return self._servers.get(name)

    def note(self, name: str, line: str) -> None:
        """Add a line from agentcli to the log of a server."""
        if (server := self.get(name)) is not None:
            server.log.append(line)

    def start(self) -> None:
        """Start connecting to all servers; returns at once."""
        for server in self:
            server.start()

    def follow(self, before: McpServers) -> None:
        """Delay the start of each program until the one of the same name of an earlier session has ended. Call before
        `start`."""
        for server in self:
            server.predecessor = before.get(server.name)

    async def wait_for_start(self, seconds: float) -> None:
        """Wait at most `seconds` until no server is connecting."""
        try:
            async with asyncio.timeout(seconds):
                while not all(server.start_ended for server in self):
                    await self.wait_for_change(self.version)
        except TimeoutError:
            return

    async def read_lists(self, names: Collection[str], seconds: float) -> None:
        """Wait at most `seconds` until the changes of their lists that these servers have announced were read."""
        stale = [server for server in self if server.is_stale and server.name in names]
        await asyncio.gather(*(server.read_lists(seconds) for server in stale))

    async def wait_for_change(self, version: int) -> None:
        """Return when the current version is no longer `version`. Cancel it to stop waiting."""
        while self.version == version:
            self._changed.clear()
            await self._changed.wait()

    def _note_change(self) -> None:
        self.version += 1
        self._changed.set()

    def statuses(self) -> list[Json]:
        """Name and status of each, for stream-json: connected, pending, failed, needs-auth or disabled."""
        return [{"name": server.name, "status": _REPORTED.get(server.state, server.state)} for server in self]

    def prompt_commands(self) -> list[str]:
        """Names of the slash commands for the prompts of connected servers."""
        parts = server_parts(server.name for server in self)
        return [
            name
            for server in self
            for name in tool_names(parts[server.name], [prompt.name for prompt in server.offers.prompts]).values()
        ]

    async def replace(
        self, configs: Iterable[ServerConfig], *, disabled: Collection[str] = (), unapproved: Collection[str] = ()
    ) -> None:
        """Use these servers from now on. Unchanged ones stay connected, others are stopped, new ones are started."""
        wanted = {config.name: config for config in configs}
        gone = [
            server
            for server in self
            if wanted.get(server.name) != server.config or (server.state == "unapproved") != (server.name in unapproved)
        ]
        await asyncio.gather(*(server.close() for server in gone), return_exceptions=True)
        for server in gone:
            self._servers.pop(server.name, None)
        new = [config for name, config in wanted.items() if name not in self._servers]
        self._add(new, disabled, unapproved, await in_thread(self._store.load))
        self._servers = {name: self._servers[name] for name in wanted}
        self._note_change()
        for config in new:
            self._servers[config.name].start()

    async def set_enabled(self, name: str, on: bool) -> None:
        """Switch a server on or off, also for later sessions of this project. Raises `AgentError` if that cannot be
        stored."""
        server = self._servers[name]
        if server.state != "unapproved":
            await (server.enable() if on else server.disable())
        if self._store.keeps:
            await in_thread(self._store.save_server, name, on)

    async def set_tool_enabled(self, server: str, tool: str, on: bool) -> None:
        """Switch one tool on or off, also for later sessions of this project. Raises `AgentError` if that cannot be
        stored."""
        found = self._servers[server]
        found.disabled_tools = found.disabled_tools - {tool} if on else found.disabled_tools | {tool}
        self._note_change()
        if self._store.keeps:
            await in_thread(self._store.save_tools, server, found.disabled_tools)

    async def aclose(self) -> None:
        """Disconnect from all servers permanently, in parallel."""
        await asyncio.gather(*(server.close() for server in self), return_exceptions=True)


def _first_state(is_on: bool, is_approved: bool) -> ServerState:
    if not is_approved:
        return "unapproved"
    return "waiting" if is_on else "disabled"
