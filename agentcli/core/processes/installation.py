"""The files that run agentcli: interpreter, standard library, site-packages and scripts. Read from `sys`.

Anyone who can write there runs code in agentcli itself, outside any sandbox, at the next import or start. So the
permission policy asks before a tool writes there in every mode, and the sandbox mounts it read-only for commands, even
inside a working directory (the README installs into `.venv` of a project).

Not included: the source folder of an editable install. Developing agentcli with agentcli must work, so that source is a
project like any other. A user who accepts edits there without approval accepts that agentcli runs them.

Not prevented: a command that replaces a link in the project to the installation (`.venv` as a link). The installation
itself stays unchanged, but the next start through that link runs its new target.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentcli.core.files.access import is_below, real_path

_SITE_FOLDERS = frozenset({"site-packages", "dist-packages"})
_SHARED_PREFIXES = ("/", "/usr", "/usr/local", "/opt", "/opt/homebrew", "/opt/local")
"""Prefixes that contain more than Python: only the parts that Python uses count."""
_ENVIRONMENT_PARTS = ("bin", "Scripts", "lib", "lib64", "Lib", "include", "pyvenv.cfg")
_SCRIPTS = ("agentcli", "rg", "python", "python3")


def library_folders() -> list[str]:
    """The folders on the path with agentcli's dependencies, in order."""
    folders = [entry for entry in sys.path if entry.startswith("/") and _name_of(entry) in _SITE_FOLDERS]
    root = package_root()
    if str(root) not in folders and not (root / "pyproject.toml").is_file():
        folders.append(str(root))
    return folders


def package_root() -> Path:
    """The folder that contains the package `agentcli`."""
    return Path(__file__).parents[3]


def installation_paths(working_dirs: Iterable[Path] = (), home: Path | None = None) -> tuple[Path, ...]:
    """Existing files and folders, resolved.

    A prefix counts as a whole unless it is shared or contains a working directory (pip puts sources into `.venv/src`):
    then only the parts that Python uses.
    """
    # Every start needs it; pathlib would take three times as long.
    inside = [real_path(folder) for folder in working_dirs]
    shared = set(_SHARED_PREFIXES)
    if home is not None:
        real = real_path(home)
        shared |= {real, f"{real}/.local", *map(str, Path(real).parents)}
    libraries = library_folders()
    found = [sys.executable, str(Path(os.__file__).parent), *libraries]
    found.append(getattr(sys, "_base_executable", "") or sys.executable)
    for prefix in _prefixes():
        if prefix in shared:
            found += (f"{prefix}/bin/{name}" for name in _SCRIPTS)
        elif any(is_below(folder, [prefix]) for folder in inside):
            found += (f"{prefix}/{name}" for name in _ENVIRONMENT_PARTS)
        else:
            found.append(prefix)
    for library in libraries:
        # lib/python3.x/site-packages of a shared prefix, such as ~/.local
        found += (f"{Path(library).parent.parent.parent}/bin/{name}" for name in _SCRIPTS[:2])
    return tuple(map(Path, _outermost(found)))


def is_installed(path: str, installation: Sequence[Path]) -> bool:
    real = Path(real_path(path))
    return any(real.is_relative_to(part) for part in installation)


def _prefixes() -> list[str]:
    named = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    # Without `site` an interpreter does not know about its virtual environment.
    around = Path(sys.executable).parent.parent
    if (around / "pyvenv.cfg").is_file():
        named.append(str(around))
    return list(dict.fromkeys(map(real_path, dict.fromkeys(named))))


def _outermost(paths: Iterable[str]) -> list[str]:
    real = {real_path(path) for path in dict.fromkeys(paths) if os.path.lexists(path)}
    kept: list[str] = []
    for path in sorted(real, key=lambda path: path.split("/")):
        if not is_below(path, kept[-1:]):
            kept.append(path)
    return kept


def _name_of(entry: str) -> str:
    return entry.rstrip("/").rpartition("/")[2]
