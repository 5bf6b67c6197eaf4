"""Folders that the user trusts, and the trusted content.

Trust belongs to the root of a repository, or to the folder itself outside of one; a repository inside another is a
separate root and has to be trusted separately. Trust covers the content: for each file that can make agentcli
run or allow something, a hash is stored, and a new or changed file revokes the trust until the user has
reviewed it. Until then only its deny and ask rules apply.

Only files are read: no program is started to inspect a folder, except git's own parser for its configuration.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentcli.config.files import SIZE_LIMIT, change_entries, read_entries
from agentcli.config.paths import PROJECT_FOLDER, Paths, project_folder
from agentcli.config.trust_effects import MAX_NAMED, named_paths
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.files.access import Reason, Unread, read_bounded, real_path
from agentcli.core.frozen import frozen
from agentcli.core.git.repository import repository_root
from agentcli.core.text.plaintext import terminal_line

_FILES = ("settings.json", "settings.local.json")
_FOREIGN_FILES = (".mcp.json", ".claude/settings.json", ".claude/settings.local.json")
_FOLDERS = (
    f"{PROJECT_FOLDER}/hooks",
    f"{PROJECT_FOLDER}/plugins",
    f"{PROJECT_FOLDER}/skills",
    f"{PROJECT_FOLDER}/commands",
    f"{PROJECT_FOLDER}/agents",
    f"{PROJECT_FOLDER}/output-styles",
    ".claude/hooks",
    ".claude/skills",
    ".claude/commands",
    ".claude/agents",
    ".claude/output-styles",
    ".agents/skills",
)
_MAX_FILES = 2_000
_MAX_NAMED_BYTES = 64 * 1024 * 1024
_MAX_STORE_BYTES = 16 * 1024 * 1024
UNREADABLE = "unreadable"
"""Placeholder hash of a file that is irregular, too large or outside the folder. Never trusted."""


@frozen
class TrustedContent:
    """A file that can make agentcli run or allow something."""

    name: str
    """Path relative to the root."""
    digest: str
    text: str = ""
    """The content of which `digest` is the hash, for display. Bytes that are not UTF-8 are escaped."""
    named: bool = False
    """Whether it is here because a command of the configuration names it."""


@frozen
class TrustState:
    root: Path
    known: bool
    """Whether the user has ever trusted this root."""
    parts: tuple[TrustedContent, ...]
    changed: tuple[str, ...]
    """Names of files that are new or changed since then; all files for an unknown root."""
    own: bool = False
    """Whether the root is not trusted, but contains only rules that the user saved through agentcli."""
    named: tuple[str, ...] = ()
    """Paths that commands of the configuration may name, relative to the root, whether they exist or not."""
    git_programs: tuple[str, ...] = ()
    """Settings and hooks by which git would run programs, for display; only in a state made for review."""

    @property
    def trusted(self) -> bool:
        return self.known and not self.changed

    @property
    def usable(self) -> bool:
        """Whether its settings apply: the root is trusted, or the user saved all of them through agentcli."""
        return (self.known or self.own) and not self.changed

    @property
    def needs_answer(self) -> bool:
        """Whether the user has to review the files before any of them is used."""
        return bool(self.parts) and not self.usable

    @property
    def unshowable(self) -> tuple[str, ...]:
        """Names of files whose content cannot be shown; they prevent trusting the folder."""
        return tuple(part.name for part in self.parts if part.digest == UNREADABLE)

    def digests(self) -> dict[str, str]:
        """Hashes by absolute path, so that a later reader can require the same content."""
        return {os.path.normpath(self.root / part.name): part.digest for part in self.parts}


def trust_root(cwd: Path) -> Path:
    """The folder to which trust belongs: the root of the innermost repository, or the folder itself."""
    folder = real_path(cwd)
    return repository_root(folder) or Path(folder)


def parts_of(cwd: Path) -> tuple[TrustedContent, ...]:
    """All files below the root that can make agentcli run or allow something when it is started in this folder."""
    return _parts(cwd, trust_root(cwd))[0]


def _parts(
    cwd: Path, root: Path, user_files: Sequence[Path] = ()
) -> tuple[tuple[TrustedContent, ...], tuple[str, ...]]:
    """The files, and the paths that their commands and those of the user's own settings name."""
    here = cwd.resolve()
    folder = project_folder(here)
    paths = [folder / name for name in _FILES]
    paths += [root / name for name in _FOREIGN_FILES]
    for name in _FOLDERS:
        paths += _files_below(root / name, root)
    found = (_part(path, root) for path in paths)
    parts = [part for part in found if part is not None and not _is_empty(part)]
    # In the user's own home folder the named files are the user's, too.
    own = (read_bounded(path, SIZE_LIMIT) for path in user_files if not path.is_relative_to(root))
    # The user's files first, so that a repository cannot fill the list.
    texts = [data.decode("utf-8", "replace") for data in own if isinstance(data, bytes)]
    texts += [part.text for part in parts if part.name.endswith(".json")]
    named, known = named_paths(texts, root, here), {part.name for part in parts}
    if len(named) > MAX_NAMED:
        parts.append(TrustedContent(f"more than {MAX_NAMED} named files", UNREADABLE, named=True))
        named = named[:MAX_NAMED]
    parts += [part for name in named if name not in known and (part := _read_named_part(root / name, root)) is not None]
    return tuple(parts), tuple(named)


def _read_named_part(path: Path, root: Path) -> TrustedContent | None:
    """A file that a command names; None for a folder, a file outside the root, and one that does not exist."""
    real = Path(os.path.realpath(path))
    if not real.is_file() or not real.is_relative_to(root):
        return None
    data, name = read_bounded(real, _MAX_NAMED_BYTES), os.path.relpath(path, root)
    if isinstance(data, Unread):
        return TrustedContent(name, UNREADABLE, named=True)
    try:
        text = data.decode() if len(data) <= SIZE_LIMIT else ""
    except UnicodeDecodeError:
        text = ""
    return TrustedContent(name, content_digest(data), text or f"({len(data):,} bytes, not shown)", named=True)


def _is_empty(part: TrustedContent) -> bool:
    return part.name.endswith(".json") and part.digest != UNREADABLE and is_empty_json(part.text)


def is_empty_json(text: str) -> bool:
    """Whether a settings file has no content: such a file is treated like one that does not exist."""
    return "".join(text.split()) in ("", "{}")


def _files_below(folder: Path, root: Path) -> list[Path]:
    """The files of a folder in a fixed order. A folder that is not searched (a link, outside the root, too many files)
    is listed itself; as it is not a file, it cannot be trusted."""
    if _is_missing(folder):
        return []
    if not Path(os.path.realpath(folder)).is_relative_to(root):
        return [folder]
    found = []
    for top, folders, names in os.walk(folder):
        found += [Path(top, name) for name in names]
        found += [path for name in folders if (path := Path(top, name)).is_symlink()]
        if len(found) > _MAX_FILES:
            break
    return sorted(found) if len(found) <= _MAX_FILES else [folder]


def _part(path: Path, root: Path) -> TrustedContent | None:
    if _is_missing(path):
        return None
    name = os.path.relpath(path, root)
    try:
        # Not `Path.resolve`: for circular links it raises something other than OSError.
        inside = Path(os.path.realpath(path)).is_relative_to(root)
    except OSError:
        return TrustedContent(name, UNREADABLE)
    data = read_bounded(path, SIZE_LIMIT)
    if isinstance(data, Unread):
        return None if data.reason is Reason.MISSING else TrustedContent(name, UNREADABLE)
    if not inside:
        return TrustedContent(name, UNREADABLE)
    return TrustedContent(name, content_digest(data), data.decode("utf-8", errors="backslashreplace"))


def _is_missing(path: Path) -> bool:
    """Whether there is no such file, the usual case. A dangling link exists, and so does a path that cannot be
    inspected."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False


def content_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class TrustStore:
    """The file of trusted folders; without a state folder nothing is saved."""

    def __init__(self, state_dir: Path | None, home: Path | None = None, user_files: Sequence[Path] = ()) -> None:
        """`user_files`: settings of the user, whose commands may name files of a project."""
        self._path = state_dir / "trust.json" if state_dir is not None else None
        """None: nothing is saved."""
        self._home = home.resolve() if home is not None else None
        self._user_files = tuple(user_files)

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> TrustStore:
        paths, home = Paths.from_environ(environ), environ.get("HOME")
        user_files = [] if paths.user_settings is None else [paths.user_settings]
        user_files += [Path(home, ".claude", "settings.json")] if home else []
        return cls(paths.state_dir, Path(home) if home else None, user_files)

    @property
    def path(self) -> Path | None:
        return self._path

    def state_for_review(self, cwd: Path) -> TrustState:
        """The state with all that a trust question shows. Runs git if there is something to ask."""
        from agentcli.core.git.settings import git_programs

        state = self.state(cwd)
        return state if state.trusted else replace(state, git_programs=tuple(git_programs(state.root)))

    def state(self, cwd: Path) -> TrustState:
        root = trust_root(cwd)
        parts, named = _parts(cwd, root, self._user_files)
        entry = self._read().get(str(root))
        digests: Mapping[str, Any] = entry.get("parts", {}) if isinstance(entry, dict) else {}
        changed = tuple(
            part.name for part in parts if part.digest == UNREADABLE or digests.get(part.name) != part.digest
        )
        own = isinstance(entry, dict) and entry.get("own") is True
        return TrustState(root, isinstance(entry, dict) and not own, parts, changed, own, named)

    def trust(self, state: TrustState) -> None:
        """Trust a root with exactly the content in `state`, which the user has seen. Raises `AgentError`."""
        if state.root == self._home or state.root.parent == state.root:
            raise UsageError(
                f"{state.root} contains more than one project and cannot be trusted permanently. "
                "Trust the project's own folder, or use --trust for a single run."
            )
        if state.unshowable:
            names = ", ".join(map(terminal_line, state.unshowable))
            raise UsageError(
                f"Not trusted: {names} cannot be shown, because it is not a regular file inside the folder or is too "
                "large. Remove it, then try again; or use --trust for a single run."
            )
        self._remember(state.root, {part.name: part.digest for part in state.parts})

    def trust_own_change(self, before: TrustState, path: Path, old: str | None, new: str) -> None:
        """Keep a root usable after agentcli itself has changed one of its files. The root must have been usable or
        empty before. Raises `AgentError`.

        Only this file becomes trusted: others may have changed in the meantime. `old` and `new`: hashes of the content
        on which the change was based (None: no file, or an empty one) and of the written content."""
        name = os.path.relpath(path, before.root)
        known = {part.name: part.digest for part in before.parts}
        if (before.usable or not before.parts) and known.get(name) == old:
            self._remember(before.root, {name: new}, own=not before.known)

    def trust_copy(self, original: TrustState, copy: Path) -> None:
        """Trust another checkout of a trusted root, if all content in it is trusted in the original. Raises
        `AgentError`."""
        known = {(part.name, part.digest) for part in original.parts}
        parts, _named = _parts(copy, trust_root(copy), self._user_files)
        if original.trusted and all((part.name, part.digest) in known for part in parts):
            self._remember(trust_root(copy), {part.name: part.digest for part in parts})

    def _remember(self, root: Path, digests: Mapping[str, str], *, own: bool = False) -> None:
        with self._change() as folders:
            entry = folders.get(str(root))
            old = entry.get("parts") if isinstance(entry, dict) else None
            parts = {**(old if isinstance(old, dict) else {}), **digests}
            folders[str(root)] = {"parts": parts, "own": True} if own else {"parts": parts}

    def distrust(self, root: Path) -> bool:
        """Remove a root; returns whether it was known."""
        with self._change() as folders:
            return folders.pop(str(root), None) is not None

    def roots(self) -> list[Path]:
        return sorted(Path(name) for name in self._read())

    def _read(self) -> dict[str, Any]:
        return read_entries(self._path, "folders", _MAX_STORE_BYTES)

    @contextmanager
    def _change(self) -> Iterator[dict[str, Any]]:
        if self._path is None:
            raise AgentError("Trust cannot be saved: there is no home folder. Use --trust for a single run.")
        try:
            with change_entries(self._path, "folders", _MAX_STORE_BYTES) as folders:
                yield folders
        except OSError as error:
            raise AgentError(f"Trust cannot be saved: {error.strerror}: {self._path}.") from error
