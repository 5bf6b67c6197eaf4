"""Let rows of the screen do without caches of their own.

Textual gives every row six caches, for rows that are painted again and again: most of what it takes to make one. A test
paints a row once or twice.
"""

from __future__ import annotations

from typing import Any

import textual.strip


class _NoCache:
    """Keeps nothing, for all rows."""

    def get(self, _key: object, default: Any = None) -> Any:
        return default

    def __setitem__(self, key: object, value: object) -> None:
        pass


_NOTHING = _NoCache()


def install() -> None:
    textual.strip.FIFOCache = lambda _size: _NOTHING  # type: ignore[misc, assignment]
