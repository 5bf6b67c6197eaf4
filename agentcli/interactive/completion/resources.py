"""Complete resources of MCP servers after an `@`, together with files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agentcli.core.text.fuzzy import fuzzy_match
from agentcli.core.text.plaintext import plain_line
from agentcli.interactive.completion.sources import FileHit, FileSource, FoundFiles

if TYPE_CHECKING:
    from agentcli.mcp.protocol import ResourceTemplateOffer
    from agentcli.mcp.server import McpServer
    from agentcli.mcp.servers import McpServers

LIMIT_SECONDS = 2.0
_MAX_LISTED = 5_000
_VARIABLE = re.compile(r"\{([A-Za-z0-9_]+)\}")


class MentionSource:
    """Finds files and resources of connected servers; only resources if the query names a server. `aclose` it."""

    def __init__(self, servers: Callable[[], McpServers | None], files: FileSource | None = None) -> None:
        """`files`: None until there is an engine to list them."""
        self._files = files
        self._servers = servers
        self._completed: dict[tuple[int, str], list[FileHit]] = {}
        """Cached completions of template variables by server version and query."""

    async def use(self, files: FileSource) -> None:
        """Replace the source of files."""
        before, self._files = self._files, files
        if before is not None:
            await before.aclose()

    async def aclose(self) -> None:
        if self._files is not None:
            await self._files.aclose()

    def begin(self) -> None:
        self._completed.clear()
        if self._files is not None:
            self._files.begin()

    async def _found_files(self, query: str, limit: int) -> FoundFiles:
        return FoundFiles([]) if self._files is None else await self._files.files(query, limit)

    async def files(self, query: str, limit: int) -> FoundFiles:
        servers = self._servers()
        if servers is None:
            return await self._found_files(query, limit)
        names_server = servers.get(query.partition(":")[0]) is not None and ":" in query
        found = [*await self._from_templates(query, servers), *resource_hits(query, servers, limit)]
        files = FoundFiles([]) if names_server else await self._found_files(query, limit)
        both = [*files.hits[: limit - min(len(found), limit // 2)], *_distinct(found)]
        # Fuzzy matches among many files must not hide a resource that contains the query as a whole.
        hits = sorted(both, key=lambda hit: query.lower() not in f"{hit.path} {hit.detail}".lower())[:limit]
        return FoundFiles(hits, files.is_complete, files.note)

    async def _from_templates(self, query: str, servers: McpServers) -> list[FileHit]:
        """Let servers complete a template's variable if the query ends in it."""
        key = (servers.version, query)
        if key not in self._completed:
            self._completed = {} if len(self._completed) > 100 else self._completed
            self._completed[key] = await _complete(query, servers)
        return self._completed[key]


def resource_hits(query: str, servers: McpServers, limit: int) -> list[FileHit]:
    """Resources and templates whose address, name or title matches, best first."""
    ranked: list[tuple[int, int, FileHit]] = []
    for place, (path, about, is_open) in enumerate(_list(servers)):
        match = fuzzy_match(query, path) if query else None
        if query and match is None:
            other = fuzzy_match(query, about)
            if other is None:
                continue
            ranked.append((-other.score + 10, place, FileHit(path, is_open, (), about)))
        else:
            score, positions = (match.score, match.positions) if match is not None else (0, ())
            ranked.append((-score, place, FileHit(path, is_open, positions, about)))
    return [hit for _score, _place, hit in sorted(ranked, key=lambda each: each[:2])][:limit]


def _list(servers: McpServers) -> Iterator[tuple[str, str, bool]]:
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
        async with asyncio.timeout(LIMIT_SECONDS):
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


def _distinct(hits: list[FileHit]) -> list[FileHit]:
    by_path: dict[str, FileHit] = {}
    for hit in hits:
        by_path.setdefault(hit.path, hit)
    return list(by_path.values())
