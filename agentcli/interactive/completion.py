"""What can be completed in the prompt: files, resources of MCP servers, slash commands and their arguments.

A `Target` is the part of the text that a completion would replace: `@src/ma`, `/eff`, the argument of a command. Pure
functions find it and make its `Menu`, which front ends show. `Completions` gathers the sources of a front end;
`IndexedFiles` searches the engine's index of files.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.frozen import frozen
from agentcli.core.text.fuzzy import fuzzy_match
from agentcli.core.text.plaintext import plain_line

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.commands.base import Command
    from agentcli.commands.front_end import FrontEnd
    from agentcli.mcp.protocol import ResourceTemplateOffer
    from agentcli.mcp.server import McpServer
    from agentcli.mcp.servers import McpServers
    from agentcli.tools.search.file_index import FileIndex

MAX_SERVER_SECONDS = 2.0
"""Seconds to wait for completions of a server; without an answer in time there are none."""
_FRESH_SECONDS = 3.0
_FRESH_FACTOR = 10
"""Files are not listed again for this many times the duration of the last listing: otherwise a huge tree would be
listed all the time."""
_FIRST_SECONDS = 0.05
"""Seconds that the first search waits for the listing. Most trees are listed by then, so that it is complete."""
_SLICE_SECONDS = 0.03
"""Seconds that one call may search; the next call continues."""
_MAX_LISTED = 5_000
_VARIABLE = re.compile(r"\{([A-Za-z0-9_]+)\}")

_MENTION = re.compile(r"""(?:^|[\s(\[{<,;"'`=])@(?:"([^"\n]*)|([^\s"]*))$""")
_RANGE = re.compile(r":\d+(?:-\d*)?$")
"""Lines of a mentioned file, which nothing completes."""
_COMMAND = re.compile(r"/([^\s/]*)$")
_ARGUMENT = re.compile(r"/([^\s/]+)[ \t]+(.*)$", re.DOTALL)
_MAX_QUERY = 200

CommandSource = Callable[[str], "Sequence[Command]"]
"""Maps the text after the slash to the matching commands, best first."""
ArgumentSource = Callable[[str], list[tuple[str, str]]]
"""Maps a command to its possible arguments, each with a short description; empty if there are none."""


@frozen
class FileHit:
    path: str
    """Text after the `@`; a folder ends with a slash."""
    is_dir: bool = False
    """Whether more may be typed after it: a folder, or a resource template."""
    positions: tuple[int, ...] = ()
    """Indexes of the matching characters in `path`."""
    detail: str = ""
    """Short description of a resource of an MCP server."""


@frozen
class FoundFiles:
    hits: list[FileHit]
    is_complete: bool = True
    """False: repeating the query finds more."""
    note: str = ""
    """Remark on files that are not searched, or not yet."""


@frozen
class Target:
    kind: Literal["file", "command", "argument"]
    query: str
    start: int
    """First column of the part in the cursor's line; it ends at the cursor."""
    command: str = ""


@frozen
class Candidate:
    label: str
    """Listed text. Untrusted: front ends spell out its hidden characters."""
    insert: str
    """Replacement for the target."""
    detail: str = ""
    hint: str = ""
    """Text after the label, e.g. the arguments of a command."""
    positions: tuple[int, ...] = ()
    """Indexes of the matching characters in the label."""
    is_dimmed: bool = False
    """Whether it is listed, but cannot be used now; its detail says why."""
    then: Literal["stay", "go on", "send"] = "stay"
    """What Enter does after inserting: nothing; complete the next part; send the prompt."""


@frozen
class Menu:
    target: Target
    candidates: tuple[Candidate, ...] = ()
    title: str = ""
    note: str = ""
    """Extra line that cannot be chosen: help for an argument."""
    chosen: int = 0
    """Index of the initially selected candidate; -1: none, so that Enter sends the text as typed."""


def target_at(line: str, column: int, *, first_line: bool) -> Target | None:
    """The part before the cursor that can be completed, if any."""
    before = line[:column]
    if first_line and before.startswith("/"):
        if (command := _COMMAND.fullmatch(before)) is not None:
            return Target("command", command.group(1), 0)
        if (argument := _ARGUMENT.fullmatch(before)) is not None and "@" not in argument.group(2):
            return Target("argument", argument.group(2), argument.start(2), argument.group(1))
    if "@" not in before:
        return None
    mention = _MENTION.search(before[-_MAX_QUERY - 2 :])
    if mention is None:
        return None
    quoted = mention.group(1) is not None
    query = mention.group(1) if quoted else mention.group(2)
    if _RANGE.search(query):
        return None
    return Target("file", query, column - len(query) - (2 if quoted else 1))


def file_menu(target: Target, found: FoundFiles) -> Menu:
    candidates = tuple(
        Candidate(
            label=hit.path,
            insert=mention_of(hit.path, open_ended=hit.is_dir),
            detail=hit.detail,
            positions=hit.positions,
            then="go on" if hit.is_dir else "stay",
        )
        for hit in found.hits
    )
    title = "files and resources" if any(hit.detail for hit in found.hits) else "files"
    if not candidates:
        return Menu(target, title=title, note=found.note)
    return Menu(target, candidates, title=f"{title} · {found.note}" if found.note else title)


def mention_of(path: str, *, open_ended: bool = False) -> str:
    """`@path`, quoted if the path has blanks; without a blank at the end, because a range of lines may follow.
    `open_ended`: the path of a folder, which may be continued."""
    if re.search(r"[\s\"']", path):
        path = path.replace('"', "")
        return f'@"{path}' if open_ended else f'@"{path}"'
    return f"@{path}"


def command_menu(target: Target, commands: CommandSource) -> Menu:
    return Menu(target, tuple(_entry(one, target.query) for one in commands(target.query)), title="commands")


def argument_menu(target: Target, commands: CommandSource, choices: ArgumentSource) -> Menu | None:
    """Argument help and candidates for a command; None for an unknown command."""
    command = next((one for one in commands(target.command) if one.name == target.command), None)
    offered = choices(target.command)
    if command is None and not offered:
        return None
    usage = f"/{command.name} {command.argument_hint}".rstrip() if command is not None else f"/{target.command}"
    note = f"{usage}   {command.summary}" if command is not None and command.argument_hint else ""
    ranked: list[tuple[int, Candidate]] = []
    for value, words in offered:
        if (found := fuzzy_match(target.query, value)) is not None:
            then: Literal["go on", "send"] = "go on" if value.endswith(" ") else "send"
            ranked.append((-found.score, Candidate(value, value, detail=words, positions=found.positions, then=then)))
    candidates = tuple(one for _rank, one in sorted(ranked, key=lambda each: each[0]))
    if not candidates and not note:
        return None
    return Menu(target, candidates, title=usage if not note else "", note=note, chosen=0 if target.query else -1)


def _entry(command: Command, query: str) -> Candidate:
    found = fuzzy_match(query.lower(), command.name)
    hint = command.argument_hint
    # `[level]` may be left out, `<name>` may not.
    complete = not hint or hint.startswith("[")
    return Candidate(
        label=f"/{command.name}",
        insert=f"/{command.name} " if hint else f"/{command.name}",
        detail=command.described,
        hint=hint,
        positions=tuple(at + 1 for at in found.positions) if found is not None else (),
        is_dimmed=bool(command.unavailable),
        then="send" if complete else "go on",
    )


class Completions:
    """The sources of one front end, for the engine that it has at the time. `aclose` it."""

    def __init__(self, engine: Callable[[], Engine | None], front_end: Callable[[], FrontEnd]) -> None:
        self._engine = engine
        self._front_end = front_end
        self._files: IndexedFiles | None = None
        """None until there is an engine to list files."""
        self._of_servers: dict[tuple[int, str], list[FileHit]] = {}
        """Completed template variables of the current search, which is repeated, by server version and query."""

    # ------------------------------------------------------------------------------------------------ after a slash

    def commands(self, typed: str) -> Sequence[Command]:
        from agentcli.commands.registry import find_matching

        return find_matching(typed, self._engine())

    def choices(self, command: str) -> list[tuple[str, str]]:
        from agentcli.commands.registry import completions

        return completions(command, self._engine(), self._front_end())

    async def late_choices(self, command: str, typed: str) -> list[tuple[str, str]]:
        """Completed argument lines of a server's command, each with a short description."""
        if (engine := self._engine()) is None or self._servers is None:
            return []
        from agentcli.commands.registry import find
        from agentcli.mcp.connection import McpFailure

        row = find(command, engine)
        if row is None or row.completes_late is None:
            return []
        try:
            async with asyncio.timeout(MAX_SERVER_SECONDS):
                return await row.completes_late(typed)
        except (McpFailure, TimeoutError):
            return []

    # ------------------------------------------------------------------------------------------------- after an `@`

    async def use(self, files: IndexedFiles) -> None:
        """Replace the source of files."""
        before, self._files = self._files, files
        if before is not None:
            await before.aclose()

    async def aclose(self) -> None:
        if self._files is not None:
            await self._files.aclose()

    def begin(self) -> None:
        """The user starts to look for a file: a good moment to list the files again."""
        self._of_servers.clear()
        if self._files is not None:
            self._files.begin()

    async def files(self, query: str, limit: int) -> FoundFiles:
        """The best files and resources, best first; only resources if the query names a server. Call it for one query
        at a time."""
        servers = self._servers
        if servers is None:
            return await self._find_files(query, limit)
        names_server = servers.get(query.partition(":")[0]) is not None and ":" in query
        found = [*await self._complete_templates(query, servers), *find_resources(query, servers, limit)]
        files = FoundFiles([]) if names_server else await self._find_files(query, limit)
        distinct = {hit.path: hit for hit in found}.values()
        both = [*files.hits[: limit - min(len(found), limit // 2)], *distinct]
        # Fuzzy matches among many files must not hide a resource that contains the query as a whole.
        hits = sorted(both, key=lambda hit: query.lower() not in f"{hit.path} {hit.detail}".lower())[:limit]
        return FoundFiles(hits, files.is_complete, files.note)

    async def all_files(self, query: str, limit: int, seconds: float) -> FoundFiles:
        """The best matches after all files were searched, or after `seconds`."""
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        found = await self.files(query, limit)
        while not found.is_complete and clock() < end:
            await asyncio.sleep(_SLICE_SECONDS)
            found = await self.files(query, limit)
        return found

    @property
    def _servers(self) -> McpServers | None:
        engine = self._engine()
        return engine.session.mcp if engine is not None else None

    async def _find_files(self, query: str, limit: int) -> FoundFiles:
        return FoundFiles([]) if self._files is None else await self._files.files(query, limit)

    async def _complete_templates(self, query: str, servers: McpServers) -> list[FileHit]:
        """Let servers complete a template's variable if the query ends in it."""
        key = (servers.version, query)
        if key not in self._of_servers:
            self._of_servers[key] = await _complete(query, servers)
        return self._of_servers[key]


class IndexedFiles:
    """Files of the engine's index, made on first use: a session without an `@` lists no files. `aclose` it."""

    def __init__(self, make_index: Callable[[], FileIndex], clock: Callable[[], float] = time.monotonic) -> None:
        self._make_index = make_index
        self._clock = clock
        self._index: FileIndex | None = None
        self._listed = 0.0
        self._listing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        """Held during a search: an index is for one thread at a time."""

    def begin(self) -> None:
        if self._index is None:
            self._index = self._make_index()
        elif self._clock() - self._listed < max(_FRESH_SECONDS, self._index.listing_seconds * _FRESH_FACTOR):
            return
        if self._listing is None or self._listing.done():
            self._listed = self._clock()
            self._listing = start_task(self._index.refresh(), name="files for the prompt")

    async def files(self, query: str, limit: int) -> FoundFiles:
        if self._index is None:
            self.begin()
        index, listing = self._index, self._listing
        assert index is not None
        async with self._turn:
            if not len(index) and listing is not None and not listing.done():
                await asyncio.wait({listing}, timeout=_FIRST_SECONDS)
            found = await asyncio.to_thread(index.look, query, limit, _SLICE_SECONDS)
        hits = [FileHit(match.path, match.path.endswith("/"), match.positions) for match in found.matches]
        if found.is_cut:
            return FoundFiles(hits, found.is_complete, f"only the first {found.listed:,} are searched")
        is_listing = listing is not None and not listing.done() and not found.is_complete
        return FoundFiles(hits, found.is_complete, f"listing, {found.listed:,} so far" if is_listing else "")

    async def aclose(self) -> None:
        if self._listing is not None:
            await cancel_and_wait([self._listing])
        if self._index is not None:
            await self._index.aclose()


def find_resources(query: str, servers: McpServers, limit: int) -> list[FileHit]:
    """Resources and templates whose address, name or title matches, best first."""
    ranked: list[tuple[int, FileHit]] = []
    for path, about, is_open in _list_resources(servers):
        if (match := fuzzy_match(query, path)) is not None:
            ranked.append((-match.score, FileHit(path, is_open, match.positions, about)))
        elif (match := fuzzy_match(query, about)) is not None:
            ranked.append((10 - match.score, FileHit(path, is_open, (), about)))
    return [hit for _rank, hit in sorted(ranked, key=lambda each: each[0])][:limit]


def _list_resources(servers: McpServers) -> Iterator[tuple[str, str, bool]]:
    """Yields the text after the `@`, a short description, and whether more has to be typed."""
    for server in servers:
        for resource in server.offers.resources[:_MAX_LISTED]:
            words = resource.title or resource.name or resource.description
            yield f"{server.name}:{plain_line(resource.uri, 400)}", plain_line(words, 80), False
        for template in server.offers.templates[:_MAX_LISTED]:
            start = template.uri_template.partition("{")[0]
            words = f"{template.title or template.name or 'template'}: {template.uri_template}"
            yield f"{server.name}:{plain_line(start, 400)}", plain_line(words, 80), True


async def _complete(query: str, servers: McpServers) -> list[FileHit]:
    name, _, uri = query.partition(":")
    server = servers.get(name)
    if server is None or not server.offers.completes:
        return []
    asked = [_complete_template(server, template, uri) for template in server.offers.templates]
    try:
        async with asyncio.timeout(MAX_SERVER_SECONDS):
            return [hit for found in await asyncio.gather(*asked) for hit in found]
    except TimeoutError:
        return []


async def _complete_template(server: McpServer, template: ResourceTemplateOffer, uri: str) -> list[FileHit]:
    """Complete a template with exactly one variable, at its end: otherwise its value cannot be told from the rest."""
    from agentcli.mcp.connection import McpFailure

    start, variable = template.uri_template.partition("{")[0], _VARIABLE.findall(template.uri_template)
    if len(variable) != 1 or not template.uri_template.endswith("}") or not uri.startswith(start):
        return []
    try:
        values = await server.complete("resource", template.uri_template, variable[0], uri.removeprefix(start), {})
    except McpFailure:
        return []
    words = plain_line(template.title or template.name, 80)
    return [FileHit(f"{server.name}:{plain_line(start + value, 400)}", detail=words) for value in values]
