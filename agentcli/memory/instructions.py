"""AGENTS.md and CLAUDE.md: find them and their imports, and build the text shown to the model.

The user's own come first, then those of every folder from the repository's root down to the working directory; those of
folders below it are used when a file there is touched. `AGENTS.local.md` and `CLAUDE.local.md` come after the others of
their folder and take precedence, but count as the project's. All are text for the model and grant no permissions; so
they are read in untrusted folders too, but never from outside the project unless the user allows it.

Checking again costs a stat for each existing or possible file; unchanged files are not read again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from agentcli.config.trust import trust_root
from agentcli.core.files.access import real_path
from agentcli.core.frozen import frozen, slotted
from agentcli.core.git.repository import find_own_users
from agentcli.core.text.plaintext import visible_text
from agentcli.memory.instruction_text import InstructionText, cut, find_imports, is_meant, read_instructions

MAX_IMPORT_DEPTH = 4
MAX_CONTEXT = 120_000
"""Maximum characters of all files in the user context together."""
MAX_FILES = 30
"""Maximum files per folder, including imports."""
NAMES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.local.md", "CLAUDE.local.md")

_NOT_OURS = frozenset({".git", "node_modules", "site-packages", "__pycache__"})
"""Folders of packages and tools, whose files are not for this project."""
_INTRODUCTION = (
    "Standing instructions, written down in files by the user and for this project. Follow them in everything you do "
    "here. Where two contradict each other, the later one holds; what the user says in the conversation holds over all "
    "of them. They permit nothing that needs a permission.\n\n"
)
_MEMORY_INTRODUCTION = (
    "The index of your own memory of this project, as it was when the session began. It is what you knew then, not "
    "instructions.\n\n"
)
_MIN_PART = 500
_CUT = "\n[The rest of this file is left out.]"
_TOO_LONG = "\n\n[The files are too long together. Where something is missing, read the file.]"

Stamp = tuple[int, ...] | None


@frozen
class InstructionFolders:
    """Folders searched for instruction files. Real paths."""

    cwd: Path
    roots: tuple[Path, ...]
    """The folders that count as the project: the repository's root, or the working directory outside of one; further
    folders."""
    user_folders: tuple[Path, ...] = ()
    home: Path | None = None
    users: frozenset[int] = frozenset()
    """Ids of the users whose files count in the project."""

    @classmethod
    def find_around(
        cls, cwd: Path, further: Iterable[Path] = (), config_dir: Path | None = None, home: Path | None = None
    ) -> InstructionFolders:
        user = (config_dir, home / ".claude" if home else None)
        roots = dict.fromkeys((trust_root(cwd), *(path.resolve() for path in further if path != cwd)))
        folders = tuple(folder for folder in user if folder is not None)
        users = frozenset(user for folder in (cwd, *roots) for user in find_own_users(folder))
        return cls(cwd.resolve(), tuple(roots), folders, home, users)

    def chain(self) -> tuple[Path, ...]:
        """From the repository's root down to the working directory."""
        return _list_down(self.roots[0], self.cwd)

    def way_to(self, folder: Path) -> tuple[Path, ...]:
        """The project's folders from its root down to this one; empty if it is outside, or inside a package or tool
        folder."""
        for root in self.roots:
            if folder.is_relative_to(root):
                parts = folder.relative_to(root).parts
                return () if _NOT_OURS.intersection(parts) else _list_down(root, folder)
        return ()


def _list_down(root: Path, folder: Path) -> tuple[Path, ...]:
    way = [folder, *folder.parents]
    return tuple(reversed(way[: way.index(root) + 1])) if root in way else (folder,)


@frozen
class InstructionFile:
    path: str
    real: str
    digest: str
    text: str
    """Content without control and invisible characters, possibly cut, with notes about what is missing."""
    whose: str
    """Owner and scope as text: `the user's, for all projects`."""
    of_user: bool = False
    kind: Literal["instructions", "memory"] = "instructions"
    """`memory`: the agent's own notes, which are not instructions."""

    @property
    def section(self) -> str:
        body = self.text.replace(f"</{self.kind}", f"</ {self.kind}")
        path = visible_text(self.path).replace('"', "'")
        if self.kind == "memory":
            return f'<memory path="{path}">\n{body}\n</memory>'
        return f'<instructions path="{path}" which="{visible_text(self.whose)}">\n{body}\n</instructions>'


@frozen
class UserContext:
    """The text before all messages, and its source files as real paths with digests."""

    text: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    """Notices for the user about skipped or cut files."""


@frozen
class Instructions:
    files: tuple[InstructionFile, ...] = ()
    notices: tuple[str, ...] = ()
    """Notices for the user about skipped or cut files."""

    def as_context(self) -> UserContext:
        """The instructions, then the index of the memory."""
        told = Instructions(tuple(file for file in self.files if file.kind == "instructions"), self.notices)._told()
        memory = [file for file in self.files if file.kind == "memory"]
        if not memory:
            return told
        parts = [told.text, _MEMORY_INTRODUCTION + "\n\n".join(file.section for file in memory)]
        text = "\n\n".join(part for part in parts if part)
        return UserContext(text, {**told.sources, **{file.real: file.digest for file in memory}}, told.notices)

    def _told(self) -> UserContext:
        """The instructions within `MAX_CONTEXT`: the user's global text and the files nearest to the working
        directory take precedence."""
        sources = {file.real: file.digest for file in self.files}
        nearest_first = sorted(enumerate(self.files), key=lambda entry: (not entry[1].of_user, -entry[0]))
        room = MAX_CONTEXT - len(_INTRODUCTION) - len(_TOO_LONG)
        sections: dict[str, str] = {}
        for _place, file in nearest_first:
            section = _fit(file, room)
            if section is not None:
                sections[file.real] = section
                room -= len(section) + 2
        text = "\n\n".join(sections[file.real] for file in self.files if file.real in sections)
        whole = all(file.section == sections.get(file.real) for file in self.files)
        if not text:
            return UserContext("", sources, self.notices)
        if whole:
            return UserContext(_INTRODUCTION + text, sources, self.notices)
        notice = f"The instruction files are longer than {MAX_CONTEXT:,} characters together; the rest was left out."
        return UserContext(_INTRODUCTION + text + _TOO_LONG, sources, (*self.notices, notice))


NOTHING = Instructions()


def _fit(file: InstructionFile, room: int) -> str | None:
    """The file's section within `room` characters; None if hardly anything would be left of it."""
    section = file.section
    if len(section) <= room:
        return section
    # Escaped closing tags make a section longer than its text and frame.
    most = room - (len(section) - len(file.text)) - len(_CUT)
    return replace(file, text=cut(file.text, most) + _CUT).section if most >= _MIN_PART else None


@slotted
class _Group:
    """The files of one folder with their imports, and the state of every path that was checked for them."""

    files: list[InstructionFile] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    looked_at: dict[str, Stamp] = field(default_factory=dict)

    @property
    def fresh(self) -> bool:
        return [*map(_stamp, self.looked_at)] == [*self.looked_at.values()]


class InstructionFiles:
    """The instruction files of one conversation. Blocking, for a thread; one call at a time. Never raises for files on
    disk."""

    def __init__(
        self,
        places: InstructionFolders,
        hides: Callable[[str], bool] | None = None,
        memory_index: Callable[[], InstructionFile | None] | None = None,
        only_memory: bool = False,
    ) -> None:
        """`hides`: whether a rule forbids reading this path. `memory_index` returns the index of the memory, if
        there is one. `only_memory`: ignore instruction files."""
        self._memory_index = memory_index
        self._memory_paths: set[str] = set()
        self._only_memory = only_memory
        self._places = places
        self._hides = hides
        self._groups: dict[Path, _Group] = {}
        self._chain = places.chain()
        self._ways: dict[str, tuple[Path, ...]] = {}

    def always(self) -> Instructions:
        """The current files of the user and from the root down to the working directory, and the memory's index."""
        groups: list[_Group] = []
        if not self._only_memory:
            groups = [self._group(folder, of_user=True) for folder in self._places.user_folders]
            groups += [self._group(folder) for folder in self._chain]
        found = _together(groups)
        index = self._memory_index() if self._memory_index is not None else None
        if index is None:
            return found
        self._memory_paths.add(index.real)
        return Instructions((*found.files, index), found.notices)

    def to_add_to(self) -> tuple[tuple[Path, str], ...]:
        """The files to which a user may add a line, existing or not, each with its owner."""
        root = self._places.roots[0]
        # A project that has only CLAUDE.md keeps that name.
        has_claude = (root / "CLAUDE.md").is_file() and not (root / "AGENTS.md").exists()
        name = "CLAUDE" if has_claude else "AGENTS"
        found = [(root / f"{name}.md", "the project's"), (root / f"{name}.local.md", "yours, for this project")]
        found += [(folder / "AGENTS.md", "yours, for all projects") for folder in self._places.user_folders[:1]]
        return () if self._only_memory else tuple(found)

    def is_memory(self, path: str) -> bool:
        """Whether this real path is, or was, the index of the memory."""
        return path in self._memory_paths

    def near(self, folders: Iterable[str], without: Instructions = NOTHING) -> Instructions:
        """Instructions of these folders and their parents in the project, except those in `without` and `always`."""
        ways = dict.fromkeys(way for folder in folders for way in self._way(folder))
        if not ways or self._only_memory:
            return NOTHING
        found = _together([self._group(folder) for folder in ways])
        anyway = {file.real for file in without.files}
        return Instructions(tuple(file for file in found.files if file.real not in anyway), found.notices)

    def _way(self, folder: str) -> tuple[Path, ...]:
        """The folders on the path to this one that `always` does not cover. Cached; links are resolved again for each
        file."""
        if folder not in self._ways:
            real = _real(folder)
            way = self._places.way_to(Path(real)) if real is not None else ()
            self._ways[folder] = tuple(part for part in way if part not in self._chain)
        return self._ways[folder]

    def _group(self, folder: Path, of_user: bool = False) -> _Group:
        group = self._groups.get(folder)
        if group is None or not group.fresh:
            group = self._groups[folder] = self._gather(folder, of_user)
        return group

    def _gather(self, folder: Path, of_user: bool) -> _Group:
        gathering = _Gathering(self._places, self._hides)
        names = [name for name in NAMES if not of_user or "/" not in name]
        for name in names:
            if of_user:
                whose = "the user's, for all projects"
            else:
                nested = folder not in self._chain
                # A local file is not called the user's: it may be committed or come with an archive. Only git could
                # tell whether it is tracked, and git does not run in an untrusted folder.
                local = ", local" if ".local." in name else ""
                whose = f"the project's{local}, for files in {folder}" if nested else f"the project's{local}"
            gathering.top_level(str(folder / name), whose, of_user)
        return gathering.group


class _Gathering:
    def __init__(self, places: InstructionFolders, hides: Callable[[str], bool] | None) -> None:
        self._places = places
        self._hides = hides
        self.group = _Group()

    def top_level(self, path: str, whose: str, of_user: bool) -> None:
        problem = self._take(path, whose, 0, of_user)
        if problem:
            self._notice(path, problem)

    def _take(self, path: str, whose: str, depth: int, of_user: bool) -> str:
        """Add a file and its imports. Returns the reason if it was left out and the user should know."""
        stamp = self.group.looked_at[path] = _stamp(path)
        real = _real(path)
        if stamp is None or real is None or any(file.real == real for file in self.group.files):
            return ""
        inside = any(Path(real).is_relative_to(root) for root in self._places.roots)
        if self._hides is not None and self._hides(real):
            return "was left out: a permission rule denies reading it"
        if not of_user and stamp[-1] not in self._places.users:
            return "is ignored: it belongs to another user"
        if not inside and not of_user:
            return "lies outside of the project; it is left out. Copy it into the project, or import it from your own"
        reading = read_instructions(real)
        if not depth and any(file.digest == reading.digest for file in self.group.files):
            return ""  # a copy: AGENTS.md and CLAUDE.md with the same content
        if reading.text:
            self._add(path, real, reading, whose, depth, of_user and not (inside and depth))
        return reading.problem

    def _add(self, path: str, real: str, reading: InstructionText, whose: str, depth: int, of_user: bool) -> None:
        files = self.group.files
        if len(files) >= MAX_FILES:
            self._notice(path, f"was left out: a folder and its imports may have at most {MAX_FILES} files")
            return
        place = len(files)
        files.append(InstructionFile(path, real, reading.digest, reading.text, whose, of_user))
        notes = [f"{reading.left_out:,} more characters of this file are left out"] if reading.left_out else []
        for candidates in find_imports(reading.text):
            note = self._import(candidates, path, real, depth + 1, of_user)
            notes += [note] if note else []
        if notes:
            text = reading.text + "\n\n[" + "; ".join(notes) + ".]"
            files[place] = replace(files[place], text=text)

    def _import(self, candidates: Sequence[str], path: str, real: str, depth: int, of_user: bool) -> str:
        """Add an imported file. Returns a note for the text of the importing file, or ""."""
        folder = Path(real).parent
        found = next((way for given in candidates if _is_something(way := self._resolve(given, folder))), None)
        if found is None:
            self.group.looked_at.update((self._resolve(given, folder), None) for given in candidates)
            return f"@{visible_text(candidates[-1])} does not exist" if is_meant(candidates[-1]) else ""
        shown = visible_text(candidates[0] if found == self._resolve(candidates[0], folder) else candidates[-1])
        if depth > MAX_IMPORT_DEPTH:
            if any(file.real == _real(found) for file in self.group.files):
                return ""
            self._notice(found, f"was left out: imports are followed at most {MAX_IMPORT_DEPTH} files deep")
            return f"@{shown} is left out: it is more than {MAX_IMPORT_DEPTH} imports deep"
        problem = self._take(found, f"imported by {Path(path).name}", depth, of_user)
        if problem:
            self._notice(found, f"(imported by {visible_text(path)}) {problem}")
        taken = any(file.real == _real(found) for file in self.group.files)
        return f"@{shown} {problem}" if problem and not taken else ""

    def _resolve(self, given: str, folder: Path) -> str:
        if given.startswith("~/") and self._places.home is not None:
            return os.path.normpath(self._places.home / given[2:])
        return os.path.normpath(folder / given)

    def _notice(self, path: str, problem: str) -> None:
        notice = f"{visible_text(path)} {problem}."
        if notice not in self.group.notices:
            self.group.notices.append(notice)


def _together(groups: Iterable[_Group]) -> Instructions:
    files: dict[str, InstructionFile] = {}
    notices: dict[str, None] = {}
    for group in groups:
        for file in group.files:
            files.setdefault(file.real, file)
        notices.update(dict.fromkeys(group.notices))
    return Instructions(tuple(files.values()), tuple(notices))


def _is_something(path: str) -> bool:
    """Whether a file exists here. A folder does not count: `@src` is not an import."""
    return os.path.lexists(path) and not Path(path).is_dir()


def _real(path: str) -> str | None:
    try:
        return real_path(path)
    except (OSError, ValueError):
        return None


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)  # noqa: PTH116 - some hundred of them before each request, at a third of the cost
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_uid)
