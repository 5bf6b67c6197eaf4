"""The folders in which definitions are searched, in order of precedence.

Those of the project count only if it is trusted. A file that has changed since it was trusted is still read,
because it is only text, but its permissions do not count until the user has trusted it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

from agentcli.config.paths import PROJECT_FOLDER
from agentcli.config.trust import trust_root
from agentcli.core.frozen import frozen

Kind = Literal["commands", "skills", "agents", "output-styles"]
Scope = Literal["project", "user", "plugin", "built-in"]
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
        return self.of_all_kinds()[kind]

    def of_all_kinds(self) -> Mapping[Kind, tuple[DefinitionFolder, ...]]:
        """The same for each kind, in less time: every prompt asks, and the project's root is looked for once."""
        return _folders(trust_root(self.cwd) if self.trusted else None, self.config_dir, self.home)

    def project(self, kind: Kind) -> tuple[DefinitionFolder, ...]:
        return _of_project(trust_root(self.cwd), kind)


@lru_cache(maxsize=4)
def _folders(
    root: Path | None, config_dir: Path | None, home: Path | None
) -> Mapping[Kind, tuple[DefinitionFolder, ...]]:
    return {
        kind: (*(_of_project(root, kind) if root is not None else ()), *_of_user(config_dir, home, kind))
        for kind in KINDS
    }


def _of_project(root: Path, kind: Kind) -> tuple[DefinitionFolder, ...]:
    return tuple(DefinitionFolder(root / name, "project", name) for name in _names(kind, PROJECT_FOLDER))


def _of_user(config_dir: Path | None, home: Path | None, kind: Kind) -> Iterator[DefinitionFolder]:
    if config_dir is not None:
        yield DefinitionFolder(config_dir / kind, "user", _at_home(config_dir / kind, home))
    if home is not None:
        for name in _names(kind):
            yield DefinitionFolder(home / name, "user", f"~/{name}")


def _at_home(path: Path, home: Path | None) -> str:
    return f"~/{path.relative_to(home)}" if home is not None and path.is_relative_to(home) else str(path)


def _names(kind: Kind, *own: str) -> tuple[str, ...]:
    """The folder names of a kind: `own` first, then those of other agents."""
    foreign = (".claude", ".agents") if kind == "skills" else (".claude",)
    return tuple(f"{folder}/{kind}" for folder in (*own, *foreign))
