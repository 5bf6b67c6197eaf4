"""Which servers and tools the user has switched on or off in a project. Stored in the state folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

from agentcli.config.atomic import locked, replace_file
from agentcli.core.errors import AgentError
from agentcli.core.files.bounded_json import parse_json
from agentcli.core.files.bounded_read import read_bounded
from agentcli.core.frozen import frozen

CHOICES_FILE = "mcp-choices.json"
_LARGEST = 4 * 1024 * 1024


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
        servers, tools = _mapping(project, "servers"), _mapping(project, "tools")
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
        with self._changing() as project:
            project["servers"] = {**_mapping(project, "servers"), name: on}

    def save_tools(self, server: str, disabled: frozenset[str]) -> None:
        """Store the disabled tools of a server. Raises `AgentError`."""
        with self._changing() as project:
            project["tools"] = {**_mapping(project, "tools"), server: sorted(disabled)}

    def forget(self) -> bool:
        """Remove all choices of the project; returns whether there were any. Raises `AgentError`."""
        with self._changing() as project:
            had_some = bool(project)
            project.clear()
        return had_some

    def _read(self) -> dict[str, Any]:
        try:
            document = parse_json(read_bounded(self._path, _LARGEST) or b"{}") if self._path is not None else {}
        except ValueError:
            return {}
        return _mapping(document, "projects")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        if self._path is None:
            yield {}
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(self._path):
                projects = self._read()
                project = dict(_mapping(projects, self._root))
                yield project
                projects[self._root] = project
                kept = {root: choices for root, choices in projects.items() if choices}
                data = json.dumps({"version": 1, "projects": kept}, indent=1).encode()
                replace_file(self._path, data, 0o600)
        except OSError as error:
            raise AgentError(f"The choice cannot be saved: {error.strerror}: {self._path}.") from error


def _mapping(value: object, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
