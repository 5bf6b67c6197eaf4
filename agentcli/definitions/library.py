"""All definitions of a session: where they are searched, and reading them again when files change.

Those of the project count only if it is trusted. A file that has changed since it was trusted is still read, because it
is only text, but its permissions do not count until the user has trusted it again. A refresh costs a stat per file;
unchanged files are not read again. Blocking: call `refresh` in a thread. Definitions are sorted by name, because names
are part of requests and need a fixed order. Of two with the same name, that of the folder with higher precedence wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from agentcli.config.paths import PROJECT_FOLDER
from agentcli.config.trust import content_digest, trust_root
from agentcli.core.files.access import Unread, is_below, read_bounded, real_path
from agentcli.core.frozen import frozen
from agentcli.definitions.files import (
    AgentFile,
    CommandFile,
    Definition,
    DefinitionOrigin,
    Parse,
    Scope,
    SkillFile,
    StyleFile,
    parse_agent,
    parse_command,
    parse_document,
    parse_skill,
    parse_style,
)

Kind = Literal["commands", "skills", "agents", "output-styles"]
KINDS: tuple[Kind, ...] = ("commands", "skills", "agents", "output-styles")


@frozen
class DefinitionFolder:
    path: Path
    scope: Scope
    label: str
    """Display name: `.claude/skills`, `~/.config/agentcli/skills`."""


@frozen
class DefinitionPlaces:
    """The folders of one session."""

    cwd: Path
    config_dir: Path | None = None
    home: Path | None = None
    trusted: bool = False
    """Whether the project's own definitions are used."""
    trusted_digests: Mapping[str, str] | None = None
    """Hashes of trusted contents by absolute path; None: any content counts, as with --trust."""
    masked: tuple[str, ...] = ()
    """Places of credentials, to which no link of the project may lead."""

    def folders(self, kind: Kind) -> tuple[DefinitionFolder, ...]:
        """The folders of a kind, highest precedence first."""
        found = [*self.project(kind)] if self.trusted else []
        if self.config_dir is not None:
            path = self.config_dir / kind
            found.append(DefinitionFolder(path, "user", _at_home(path, self.home)))
        if self.home is not None:
            found += [DefinitionFolder(self.home / name, "user", f"~/{name}") for name in _names(kind)]
        return tuple(found)

    def project(self, kind: Kind) -> tuple[DefinitionFolder, ...]:
        root = trust_root(self.cwd)
        return tuple(DefinitionFolder(root / name, "project", name) for name in _names(kind, PROJECT_FOLDER))


def _at_home(path: Path, home: Path | None) -> str:
    return f"~/{path.relative_to(home)}" if home is not None and path.is_relative_to(home) else str(path)


def _names(kind: Kind, *own: str) -> tuple[str, ...]:
    """The folder names of a kind: `own` first, then those of other agents."""
    foreign = (".claude", ".agents") if kind == "skills" else (".claude",)
    return tuple(f"{folder}/{kind}" for folder in (*own, *foreign))


MAX_FILE_BYTES = 256 * 1024
MAX_FILES = 500
"""Maximum files per folder; more are reported as a problem, so that they do not slow down the start."""
_MAX_DEPTH = 4
_PARSE: Mapping[Kind, Parse[Any]] = {
    "commands": parse_command,
    "skills": parse_skill,
    "agents": parse_agent,
    "output-styles": parse_style,
}
_Stamp = tuple[int, int, int]


@frozen
class DefinitionProblem:
    """A file that is not used, or not completely."""

    kind: Kind
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
        self._root: Path | None = None
        """The project's root, determined when first needed."""
        self._read: dict[str, _Read] = {}
        self.commands: Mapping[str, CommandFile] = {}
        self.skills: Mapping[str, SkillFile] = {}
        self.agents: Mapping[str, AgentFile] = {}
        self.styles: Mapping[str, StyleFile] = {}
        self.untrusted: Mapping[str, str] = {}
        """Commands of a project that is not trusted: names and files. Their content is not read."""
        self.problems: tuple[DefinitionProblem, ...] = ()
        self.loaded = False
        """Whether `refresh` was called since the folders were set."""
        self.version = 0
        """Incremented when a definition or a problem changes."""
        self.reserved: frozenset[str] = frozenset()
        """Names of built-in slash commands, which files cannot replace."""
        self._refreshing = Lock()

    @property
    def places(self) -> DefinitionPlaces:
        return self._places

    def move(self, places: DefinitionPlaces) -> None:
        """Use other folders from the next `refresh` on, e.g. after the user has trusted the project."""
        with self._refreshing:
            self._places, self._root = places, None
            self._read = {}
            self.loaded = False

    def refresh(self) -> bool:
        """Check the folders again; returns whether a definition or a problem has changed. Never raises."""
        with self._refreshing:
            return self._refresh()

    def _refresh(self) -> bool:
        problems: list[DefinitionProblem] = []
        found: dict[Kind, dict[str, Definition]] = {kind: {} for kind in KINDS}
        seen: dict[str, _Read] = {}
        for kind in KINDS:
            for folder in self._places.folders(kind):
                for path, status in _files(kind, folder, problems):
                    stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
                    one = self._read.get(path)
                    if one is None or one.stamp != stamp:
                        one = self._one(kind, folder, path, stamp)
                    seen[path] = one
                    problems += one.problems
                    if one.definition is not None:
                        found[kind].setdefault(one.definition.name, one.definition)
        problems += self._find_shadowed(found)
        # A file that was read again is a new object, even if its content is the same.
        same = [*map(id, seen.values())] == [*map(id, self._read.values())] and problems == [*self.problems]
        untrusted = {} if self._places.trusted else dict(sorted(self._find_untrusted()))
        changed, self.loaded = not (same and self.loaded and untrusted == self.untrusted), True
        self._read, self.problems, self.untrusted = seen, tuple(problems), untrusted
        if changed:
            self.version += 1
            ordered: Any = {kind: dict(sorted(named.items())) for kind, named in found.items()}
            self.commands, self.skills = ordered["commands"], ordered["skills"]
            self.agents, self.styles = ordered["agents"], ordered["output-styles"]
        return changed

    def watched_paths(self) -> list[str]:
        """The folders in which a change may add, change or remove a definition. Blocking."""
        found: list[str] = []
        for kind in KINDS:
            for folder in self._places.folders(kind):
                found += _folders_below(str(folder.path), 1 if kind == "skills" else _MAX_DEPTH - 1)
        for folder in () if self._places.trusted else self._places.project("commands"):
            found += _folders_below(str(folder.path), _MAX_DEPTH - 1)
        return found

    def _find_shadowed(self, found: Mapping[Kind, Mapping[str, Definition]]) -> Iterator[DefinitionProblem]:
        kinds: tuple[Kind, ...] = ("commands", "skills")
        for kind in kinds:
            for one in found[kind].values():
                if one.name in self.reserved and getattr(one, "for_user", True):
                    text = f"/{one.name} is a built-in command, so this {kind[:-1]} is not in the menu. Rename it."
                    yield DefinitionProblem(kind, one.origin.label, 1, text)

    def _find_untrusted(self) -> Iterator[tuple[str, str]]:
        for folder in self._places.project("commands"):
            for path, _status in _files("commands", folder, []):
                below = path.removeprefix(f"{folder.path}/")
                yield _name("commands", below).lower(), f"{folder.label}/{below}"

    def _is_inside(self, real: str) -> bool:
        self._root = self._root or trust_root(self._places.cwd)
        return is_below(real, (str(self._root),)) and not is_below(real, self._places.masked)

    def _one(self, kind: Kind, folder: DefinitionFolder, path: str, stamp: _Stamp) -> _Read:
        below = path.removeprefix(f"{folder.path}/")
        label = f"{folder.label}/{below}"
        real, is_project = real_path(path), folder.scope == "project"
        if is_project and not self._is_inside(real):
            problem = DefinitionProblem(
                kind, label, 1, "Not read: it is a link to a file outside the project or to credentials."
            )
            return _Read(stamp, None, (problem,))
        # A command could replace the file by a link meanwhile.
        data = read_bounded(real, MAX_FILE_BYTES, links=not is_project)
        if isinstance(data, Unread):
            return _Read(stamp, None, (DefinitionProblem(kind, label, 1, f"Not read: {data.reason.value}."),))
        digests = self._places.trusted_digests if is_project else None
        approved = digests is None or digests.get(os.path.normpath(path)) == content_digest(data)
        if folder.scope == "user" and real != path and self._is_inside(real):
            # A link into the project, where the model may edit it.
            approved = False
        document = parse_document(data.decode("utf-8", errors="replace"))
        problems = [DefinitionProblem(kind, label, each.line, each.text) for each in document.problems]
        try:
            origin = DefinitionOrigin(Path(path), folder.scope, label, approved)
            definition = _PARSE[kind](_name(kind, below), document, origin)
        except ValueError as error:
            return _Read(stamp, None, (*problems, DefinitionProblem(kind, label, 1, str(error))))
        return _Read(stamp, definition, tuple(problems))


def _name(kind: Kind, below: str) -> str:
    parts = below.removesuffix(".md").split("/")
    # Only commands have namespaces; an agent in a sub-folder keeps its own name.
    return ":".join(parts) if kind == "commands" else parts[-2] if kind == "skills" else parts[-1]


def _files(
    kind: Kind, folder: DefinitionFolder, problems: list[DefinitionProblem]
) -> Iterator[tuple[str, os.stat_result]]:
    """Each definition file of a folder with its status, in a fixed order."""
    top = str(folder.path)
    for count, path in enumerate(_skills(top) if kind == "skills" else _find_markdown(top, _MAX_DEPTH)):
        if count == MAX_FILES:
            problems.append(
                DefinitionProblem(kind, folder.label, 1, f"More than {MAX_FILES} files; the rest are ignored.")
            )
            return
        try:
            yield path, os.stat(path)  # noqa: PTH116 -- as text: paths of a hundred files would cost milliseconds
        except OSError:
            continue


def _skills(folder: str) -> Iterator[str]:
    for entry in _entries(folder):
        if _is_folder(entry):
            yield f"{entry.path}/SKILL.md"


def _find_markdown(folder: str, depth: int) -> Iterator[str]:
    for entry in _entries(folder):
        if _is_folder(entry):
            if depth > 1 and not entry.is_symlink():
                yield from _find_markdown(entry.path, depth - 1)
        elif entry.name.endswith(".md"):
            yield entry.path


def _folders_below(folder: str, depth: int) -> Iterator[str]:
    """A folder, whether it exists or not, and its sub-folders."""
    yield folder
    for entry in _entries(folder) if depth else ():
        if _is_folder(entry):
            yield from _folders_below(entry.path, depth - 1 if not entry.is_symlink() else 0)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError:
        return []


_FOLDER = Path(__file__).parent / "styles"


def all_styles(library: Library | None) -> dict[str, StyleFile]:
    """Built-in styles and those from files, by name. Blocking."""
    found = {name: _built_in(name) for name in ("concise", "explanatory")}
    if library is not None:
        found.update(library.styles)
    return dict(sorted(found.items()))


def _built_in(name: str) -> StyleFile:
    path = _FOLDER / f"{name}.md"
    origin = DefinitionOrigin(path, "built-in", "built-in")
    text = (read_bounded(path, MAX_FILE_BYTES) or b"").decode()
    return parse_style(name, parse_document(text), origin)
