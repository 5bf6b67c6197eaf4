"""Path checks for permissions: link resolution, containment, protection and pattern matching.

Reads the file system (links), never changes it. Everything is compared by components of resolved paths.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from agentcli.core.files import access
from agentcli.core.frozen import frozen
from agentcli.core.text.patterns import escape_glob, glob_regex, is_within_limits
from agentcli.shell.protected_names import is_fixed, needs_asking


def real_path(path: str) -> str:
    """Resolve links in a path; for a missing file, in its existing parents."""
    try:
        return access.real_path(path)
    except ValueError:
        # No file can have such a name (NUL, lone surrogate), but words of a command can.
        return path


def has_other_names(path: str) -> bool:
    """Whether a file has several hard links: a write through one name changes the others, including those outside."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


def is_inside(path: str, folders: Iterable[Path]) -> bool:
    """Whether a resolved path is one of the folders or below it."""
    return access.is_below(path, map(access.real_path, folders))


def is_protected(path: str, *, scripts: bool = True) -> bool:
    """Whether another program later runs or obeys this file. Decided by name, so it also covers missing files.

    `scripts=False` excludes the asking tier of `protected_names`, which commands name in order to read or run it.
    """
    components = [component for component in path.lower().split("/") if component]
    return bool(components) and (is_fixed(components) or (scripts and needs_asking(components)))


class Resolved(dict[str, str]):
    """Cache of resolved paths for one decision: links may change after it."""

    def __missing__(self, path: str) -> str:
        found = self[path] = real_path(path)
        return found


@functools.lru_cache(maxsize=1_024)
def _expression(base: str, pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    # A deny pattern that exceeds the matching limits matches everything below its folder.
    everything = pattern == "**" or (ignore_case and not is_within_limits(pattern))
    body = "(?:/.*)?" if everything else f"/{glob_regex(pattern)}(?:/.*)?"
    return re.compile(re.escape(base.rstrip("/")) + body, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


MAX_PATH_LENGTH = 8_192
"""In characters: twice what Linux can open. Bounds the cost of matching."""


@frozen
class PathPattern:
    """A gitignore-like pattern: `//absolute`, `~/home`, `/from-the-settings-root`, or relative to `cwd`.

    A pattern without a slash matches at any depth; one that matches a folder matches everything below it.
    """

    spec: str
    cwd: Path
    root: Path
    home: Path | None = None

    def matches(self, path: str, *, strict: bool, resolve: Callable[[str], str] = real_path) -> bool:
        """Whether the pattern matches a path. `resolve` may cache results for one decision."""
        if len(path) > MAX_PATH_LENGTH:
            return not strict
        expressions = self.expressions(strict=strict, resolve=resolve)
        results = (any(e.fullmatch(given) for e in expressions) for given in (os.path.normpath(path), resolve(path)))
        return all(results) if strict else any(results)

    def expressions(self, *, strict: bool, resolve: Callable[[str], str] = real_path) -> tuple[re.Pattern[str], ...]:
        base, pattern = self._split_anchor()
        if base is None:
            return ()
        # A folder that is itself reached through a link must match under both of its names.
        bases = {os.path.normpath(base), resolve(str(base))}
        return tuple(_expression(name, pattern, ignore_case=not strict) for name in bases)

    def _split_anchor(self) -> tuple[Path | None, str]:
        spec = self.spec.rstrip("/") or self.spec
        if spec.startswith("//"):
            return self._climb(Path("/"), spec.lstrip("/"))
        if spec == "~" or spec.startswith("~/"):
            return self._climb(self.home, spec[2:] or "**")
        if spec.startswith("/"):
            return self._climb(self.root, spec[1:] or "**")
        if spec.startswith(("./", "../")):
            return self._climb(self.cwd, spec)
        if spec == ".":
            return self.cwd, "**"
        return self.cwd, spec if "/" in spec or spec == "**" else f"**/{spec}"

    @staticmethod
    def _climb(base: Path | None, pattern: str) -> tuple[Path | None, str]:
        """Strip leading `./` and `../` from the pattern and apply the latter to the base."""
        while base is not None and pattern.startswith(("./", "../")):
            climbs = pattern.startswith("../")
            base, pattern = (base.parent if climbs else base), pattern[3 if climbs else 2 :]
        return base, pattern or "**"


_MAX_ENTRIES = 2_000
_MAX_MATCHES = 2_000


def expand_pattern(pattern: str, folder: str) -> list[str] | None:
    """Every name that a shell might expand a pattern to, possibly too many; None if there are too many to list.

    A bracket expression matches any character here, because its meaning depends on the locale.
    """
    if len(pattern) > MAX_PATH_LENGTH:
        return None
    # Within brackets, [:lower:], [.x.] and [=x=] have a closing bracket of their own.
    loosened = re.sub(r"\[[!^]?\]?(?:\[([:.=])\w+\1\]|\[(?![:.=])|[^\]/\[])*\]", "?", pattern)
    if "**" in loosened or "[" in loosened:
        return None
    absolute = loosened.startswith("/")
    found = ["/" if absolute else ""]
    for component in loosened.strip("/").split("/"):
        if not re.search(r"[*?]", component):
            found = [os.path.join(prefix, component) for prefix in found]  # noqa: PTH118
            continue
        literal = re.sub(r"[^*?]+", lambda found: escape_glob(found[0]), component)
        expression = re.compile(glob_regex(literal), re.DOTALL)
        matches: list[str] = []
        for prefix in found:
            names = _names(os.path.join(folder, prefix))  # noqa: PTH118
            if names is None:
                return None
            # No directory listing contains these two, but before version 5.2 bash matches them with a pattern such as
            # .*
            fitting = (name for name in (*names, ".", "..") if expression.fullmatch(name))
            matches += [os.path.join(prefix, n) for n in fitting if component[0] == "." or n[0] != "."]  # noqa: PTH118
            if len(matches) > _MAX_MATCHES:
                return None
        found = matches
    return [name for name in found if os.path.lexists(os.path.join(folder, name))]  # noqa: PTH118


def _names(folder: str) -> list[str] | None:
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > _MAX_ENTRIES:
                    return None
    except OSError:
        return []
    return names
