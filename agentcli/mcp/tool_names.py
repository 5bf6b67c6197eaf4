"""Names of MCP servers' tools and prompts for the model, for rules and for commands: `mcp__server__tool`.

The server's part contains no `__`, so that the first one after the prefix always separates the two.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping

PREFIX = "mcp__"
LONGEST_NAME = 128
_LONGEST_SERVER = 60
_DIGEST = 8
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_UNDERSCORES = re.compile(r"__+")


def server_part(server: str) -> str:
    """A server's name as it is written in the names of its tools."""
    cleaned = _UNDERSCORES.sub("_", _OTHER.sub("_", server)).strip("_")
    return _shortened(cleaned, _LONGEST_SERVER, server) or "server"


def tool_name(server: str, tool: str) -> str:
    """The name of a server's tool, unless another tool has the same; see `tool_names`."""
    return _named(server_part(server), tool)


def split_name(name: str) -> tuple[str, str] | None:
    """The server's part and the tool's part; None if it is not such a name. The tool's part of `mcp__server` is
    empty."""
    if not name.startswith(PREFIX):
        return None
    server, _, tool = name.removeprefix(PREFIX).partition("__")
    return (server, tool) if server else None


def server_parts(servers: Iterable[str], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Each server's part, all distinct. Pass all configured servers, so that it does not depend on which are connected.

    `known`: parts of servers that keep them.
    """
    return _distinct(servers, server_part, known)


def tool_names(part: str, tools: Iterable[str]) -> dict[str, str]:
    """The name of each tool of one server (`part`: see `server_parts`), all distinct, regardless of their order."""
    return _distinct(tools, lambda tool: _named(part, tool))


def _named(part: str, tool: str) -> str:
    start = f"{PREFIX}{part}__"
    return start + (_shortened(_OTHER.sub("_", tool), LONGEST_NAME - len(start), tool) or "tool")


def _shortened(cleaned: str, longest: int, original: str) -> str:
    if len(cleaned) <= longest:
        return cleaned
    digest = hashlib.blake2b(original.encode("utf-8", "surrogatepass"), digest_size=_DIGEST // 2).hexdigest()
    return f"{cleaned[: longest - _DIGEST - 1]}_{digest}"


def _distinct(
    originals: Iterable[str], name_of: Callable[[str], str], known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Make names distinct. Among originals with the same name, the one that needs no change keeps it, else the first in
    sorted order; the others get a number."""
    known = known or {}
    names = {original: name_of(original) for original in originals if original not in known}
    taken = {name: original for original, name in known.items()}
    for original in sorted(names, key=lambda each: (not names[each].endswith(each), each)):
        name, number = names[original], 2
        while name in taken:
            suffix = f"_{number}"
            name, number = names[original][: LONGEST_NAME - len(suffix)] + suffix, number + 1
        taken[name] = original
    by_original = {original: name for name, original in taken.items()}
    return {original: by_original[original] for original in (*known, *names)}
