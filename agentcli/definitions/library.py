"""All definitions of a session. Looking again costs a stat per file; what has not changed is not read again.

Blocking: call `refresh` in a thread. The order is fixed, since names go into requests: by name. A definition of the
same name in a stronger place wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from agentcli.config.trust import content_digest
from agentcli.core.bounded_read import Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.definitions.files import (
    AgentFile,
    CommandFile,
    Definition,
    Origin,
    Parse,
    SkillFile,
    StyleFile,
    parse_agent,
    parse_command,
    parse_skill,
    parse_style,
)
from agentcli.definitions.folders import KINDS, DefinitionFolder, DefinitionPlaces, Kind
from agentcli.definitions.frontmatter import parse_document

LARGEST_FILE = 256 * 1024
MOST_FILES = 500
"""Per folder; further files are a problem, not a slow start."""
_DEEPEST = 4
_PARSE: Mapping[Kind, Parse[Any]] = {
    "commands": parse_command,
    "skills": parse_skill,
    "agents": parse_agent,
    "output-styles": parse_style,
}
_Stamp = tuple[int, int, int]


@frozen
class DefinitionProblem:
    """A file that is not used, or not all of it."""

    label: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.label}:{self.line}: {self.text}"


@frozen
class _Read:
    stamp: _Stamp
    definition: Definition | None
    problems: tuple[DefinitionProblem, ...]


class Library:
    def __init__(self, places: DefinitionPlaces) -> None:
        self._places = places
        self._read: dict[Path, _Read] = {}
        self.commands: Mapping[str, CommandFile] = {}
        self.skills: Mapping[str, SkillFile] = {}
        self.agents: Mapping[str, AgentFile] = {}
        self.styles: Mapping[str, StyleFile] = {}
        self.problems: tuple[DefinitionProblem, ...] = ()
        self.loaded = False
        """Whether `refresh` was called since the folders were set."""
        self.reserved: frozenset[str] = frozenset()
        """Names of built-in slash commands, which files cannot replace."""
        self._refreshing = Lock()

    @property
    def places(self) -> DefinitionPlaces:
        return self._places

    def move(self, places: DefinitionPlaces) -> None:
        """Use other folders from the next `refresh` on, e.g. after the user has trusted the project."""
        self._places = places
        self._read.clear()
        self.loaded = False

    def refresh(self) -> bool:
        """Look at the folders again; returns whether a definition or a problem changed. Never raises."""
        with self._refreshing:
            return self._refresh()

    def _refresh(self) -> bool:
        before = (self.commands, self.skills, self.agents, self.styles, self.problems)
        problems: list[DefinitionProblem] = []
        found: dict[Kind, dict[str, Definition]] = {}
        seen: dict[Path, _Read] = {}
        for kind in KINDS:
            named = found.setdefault(kind, {})
            for folder in self._places.folders(kind):
                for name, path, label in _files(kind, folder, problems):
                    one = self._one(kind, name, path, Origin(path, folder.scope, label))
                    if one is None:
                        continue
                    seen[path] = one
                    problems += one.problems
                    if one.definition is not None:
                        named.setdefault(one.definition.name, one.definition)
        self._read = seen
        problems += self._shadowed(found)
        ordered: Any = {kind: dict(sorted(named.items())) for kind, named in found.items()}
        self.commands, self.skills = ordered["commands"], ordered["skills"]
        self.agents, self.styles = ordered["agents"], ordered["output-styles"]
        self.problems = tuple(problems)
        self.loaded = True
        return before != (self.commands, self.skills, self.agents, self.styles, self.problems)

    def _shadowed(self, found: Mapping[Kind, Mapping[str, Definition]]) -> Iterator[DefinitionProblem]:
        for kind in ("commands", "skills"):
            for one in found[kind].values():
                if one.name in self.reserved and getattr(one, "for_user", True):
                    text = f"/{one.name} is a built-in command, so this {kind[:-1]} is not in the menu. Rename it."
                    yield DefinitionProblem(one.origin.label, 1, text)

    def untrusted_command(self, name: str) -> str:
        """The project's file for a command that is not used because the folder is not trusted; "" if there is none."""
        if self._places.trusted:
            return ""
        parts = name.lower().split(":")
        for folder in self._places.project("commands"):
            if folder.path.joinpath(*parts[:-1], f"{parts[-1]}.md").is_file():
                return f"{folder.label}/{'/'.join(parts)}.md"
        return ""

    def watched_folders(self) -> tuple[Path, ...]:
        """The folders in which a change can add, change or remove a definition."""
        return tuple(folder.path for kind in KINDS for folder in self._places.folders(kind))

    def _one(self, kind: Kind, name: str, path: Path, origin: Origin) -> _Read | None:
        try:
            status = path.stat()
        except OSError:
            return None
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._read.get(path)
        if known is not None and known.stamp == stamp:
            return known
        data = read_bounded(path, LARGEST_FILE)
        if isinstance(data, Unread):
            return _Read(stamp, None, (DefinitionProblem(origin.label, 1, f"Not read: {data.reason.value}."),))
        digests = self._places.trusted_digests
        if origin.scope == "project" and digests is not None:
            approved = digests.get(os.path.normpath(path)) == content_digest(data)
            origin = Origin(origin.path, origin.scope, origin.label, approved)
        document = parse_document(data.decode("utf-8", errors="replace"))
        problems = [DefinitionProblem(origin.label, each.line, each.text) for each in document.problems]
        try:
            definition = _PARSE[kind](name, document, origin)
        except ValueError as error:
            return _Read(stamp, None, (*problems, DefinitionProblem(origin.label, 1, str(error))))
        return _Read(stamp, definition, tuple(problems))


def _files(kind: Kind, folder: DefinitionFolder, problems: list[DefinitionProblem]) -> Iterator[tuple[str, Path, str]]:
    """Name, path and label of each definition file of a folder, in a fixed order."""
    paths = _skills(folder.path) if kind == "skills" else _markdown(folder.path, _DEEPEST)
    for count, path in enumerate(paths):
        if count == MOST_FILES:
            problems.append(DefinitionProblem(folder.label, 1, f"More than {MOST_FILES} files; the rest is ignored."))
            return
        below = path.relative_to(folder.path)
        parts = below.parent.parts if kind == "skills" else below.with_suffix("").parts
        # Only commands have namespaces; an agent in a sub-folder keeps its own name.
        name = ":".join(parts) if kind == "commands" else parts[-1]
        yield name, path, f"{folder.label}/{below}"


def _skills(folder: Path) -> Iterator[Path]:
    for entry in _entries(folder):
        path = Path(entry.path, "SKILL.md")
        if _is_folder(entry) and path.is_file():
            yield path


def _markdown(folder: Path, depth: int) -> Iterator[Path]:
    for entry in _entries(folder):
        if _is_folder(entry):
            if depth > 1 and not entry.is_symlink():
                yield from _markdown(Path(entry.path), depth - 1)
        elif entry.name.endswith(".md"):
            yield Path(entry.path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError:
        return []
