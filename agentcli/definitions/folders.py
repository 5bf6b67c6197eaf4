"""The folders in which definitions are searched, in order of precedence.

Those of the project count only if it is trusted (S1). A file that has changed since it was trusted is still read,
because it is only text, but its permissions do not count until the user has trusted it again (S2).
"""

from __future__ import annotations

from collections.abc import Mapping
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

    def folders(self, kind: Kind) -> tuple[DefinitionFolder, ...]:
        return (*(self.project(kind) if self.trusted else ()), *self.user(kind))

    def project(self, kind: Kind) -> tuple[DefinitionFolder, ...]:
        root = trust_root(self.cwd)
        return tuple(DefinitionFolder(root / name, "project", name) for name in _names(kind, PROJECT_FOLDER))

    def user(self, kind: Kind) -> tuple[DefinitionFolder, ...]:
        found = []
        if self.config_dir is not None:
            found.append(DefinitionFolder(self.config_dir / kind, "user", self._at_home(self.config_dir / kind)))
        if self.home is not None:
            found += [DefinitionFolder(self.home / name, "user", f"~/{name}") for name in _names(kind)]
        return tuple(found)

    def _at_home(self, path: Path) -> str:
        inside = self.home is not None and path.is_relative_to(self.home)
        return f"~/{path.relative_to(self.home)}" if inside and self.home is not None else str(path)


def _names(kind: Kind, *own: str) -> tuple[str, ...]:
    """The folder names of a kind: `own` first, then those of other agents."""
    foreign = (".claude", ".agents") if kind == "skills" else (".claude",)
    return tuple(f"{folder}/{kind}" for folder in (*own, *foreign))
