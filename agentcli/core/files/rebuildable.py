"""Names of folders that a tool can rebuild: caches, installed packages and build output."""

CACHES = frozenset(
    {".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__", ".tox", ".nox", ".hypothesis", "htmlcov"}
    | {"node_modules"}
)
OUTPUT = frozenset(
    {"dist", "build", "target", "out", "coverage", ".cache", ".next", ".nuxt", ".svelte-kit", ".angular", ".turbo"}
    | {".parcel-cache", ".gradle", ".dart_tool"}
)
"""Names that may also hold the user's work; rebuildable only if git ignores them and tracks nothing in them."""
