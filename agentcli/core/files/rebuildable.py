"""Folders that a tool can rebuild: caches, installed packages, build output and virtual environments."""

import os

CACHES = frozenset(
    {".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__", ".tox", ".nox", ".hypothesis", "htmlcov"}
    | {"node_modules"}
)
OUTPUT = frozenset(
    {"dist", "build", "target", "out", "coverage", ".cache", ".next", ".nuxt", ".svelte-kit", ".angular", ".turbo"}
    | {".parcel-cache", ".gradle", ".dart_tool"}
)
"""Names that may also hold the user's work; rebuildable only if git ignores them and tracks nothing in them."""
_ENVIRONMENT = frozenset(
    {"pyvenv.cfg", "bin", "include", "lib", "lib64", "share", "etc", "man", "Scripts", "Include", "Lib"}
    | {".gitignore", ".lock", "CACHEDIR.TAG"}
)


def is_virtual_environment(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder has a `pyvenv.cfg` and nothing else that tools do not put there: any folder of the user's could
    have been given such a file."""
    try:
        names = set(os.listdir(folder))  # noqa: PTH208 - many folders, names only
    except OSError:
        return False
    return "pyvenv.cfg" in names and names <= _ENVIRONMENT
