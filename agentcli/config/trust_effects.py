"""List the programs, addresses and variables in a folder's files, for trust questions.

The files are also shown in full. JSON can spell the same text in many ways; this is the text that would be used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agentcli.config.trust import TrustState
from agentcli.core.files.bounded_json import parse_json
from agentcli.core.frozen import frozen

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""A reference to an environment variable in an MCP server's entry, with an optional default."""


@frozen
class TrustEffects:
    """Effects of the files, each with the name of its file."""

    programs: tuple[tuple[str, str], ...] = ()
    addresses: tuple[tuple[str, str], ...] = ()
    """Addresses of MCP servers."""
    variables: tuple[tuple[str, str], ...] = ()
    """Names of the user's environment variables passed to MCP servers in arguments, variables, addresses or headers."""
    git: tuple[tuple[str, str], ...] = ()
    """Programs that git runs for its commands in this repository. agentcli's own git does not run them."""

    def titled(self) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
        return (
            ("Programs it would start:", self.programs),
            ("Addresses it would contact:", self.addresses),
            ("Environment variables of yours that its servers would get:", self.variables),
            ("Git settings and hooks that can run programs:", self.git),
        )


def effects_of(state: TrustState) -> TrustEffects:
    found: dict[str, dict[tuple[str, str], None]] = {"program": {}, "address": {}, "variable": {}}
    for part in state.parts:
        if not part.name.endswith(".json"):
            continue
        try:
            value = parse_json(part.text.removeprefix("\ufeff"))
        except ValueError:
            continue
        for kind, text in _effects(value):
            found[kind][text, part.name] = None
    git = tuple((text, ".git") for text in state.git_programs)
    return TrustEffects(tuple(found["program"]), tuple(found["address"]), tuple(found["variable"]), git)


def _effects(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _effects(item)
    elif isinstance(value, dict):
        if isinstance(command := value.get("command"), str):
            arguments = value.get("args")
            yield "program", " ".join([command, *(map(str, arguments) if isinstance(arguments, list) else ())])
        for name, item in value.items():
            if name == "mcpServers" and isinstance(item, dict):
                yield from _of_servers(item)
            yield from _effects(item)


def _of_servers(servers: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for entry in servers.values():
        if not isinstance(entry, dict):
            continue
        if isinstance(helper := entry.get("headersHelper"), str):
            yield "program", helper
        if isinstance(url := entry.get("url"), str):
            yield "address", url
        yield from (("variable", name) for name in variables_in(entry))


def variables_in(value: object) -> tuple[str, ...]:
    """Names of the environment variables to which an entry refers."""
    return tuple(dict.fromkeys(_named(value)))


def _named(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from (match.group(1) for match in VARIABLE.finditer(value))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _named(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _named(item)
