"""The one-line title of a call; paths below the session's folder are shown relative to it."""

from __future__ import annotations

from pathlib import Path

from agentcli.core.messages import Json
from agentcli.tools.base import Tool

_PATHS = ("file_path", "notebook_path", "path")


def title_of(tool: Tool, input: Json, root: Path) -> str:
    """The title. `root`: where the session started, not the current directory: a title must stay correct after a
    `cd`."""
    title, folder = tool.title(input), f"{root}/"
    for name in _PATHS:
        path = input.get(name)
        if isinstance(path, str) and path.startswith(folder) and ".." not in path:
            title = title.replace(path, path[len(folder) :] or ".", 1)
    return title
