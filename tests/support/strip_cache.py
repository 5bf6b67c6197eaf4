"""Let rows of the screen do without caches of their own.

Textual gives every row six caches, for rows that are painted again and again: most of what it takes to make one. A test
paints a row once or twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.segment import Segment
from textual.strip import Strip


class _NoCache:
    """Keeps nothing, for all rows."""

    def get(self, _key: object, default: Any = None) -> Any:
        return default

    def __setitem__(self, key: object, value: object) -> None:
        pass


_NOTHING = _NoCache()


def _make(self: Strip, segments: Iterable[Segment], cell_length: int | None = None) -> None:
    self._segments = list(segments)
    self._cell_length = cell_length
    self._divide_cache = self._crop_cache = self._style_cache = self._filter_cache = _NOTHING  # type: ignore[assignment]
    self._line_length_cache = self._crop_extend_cache = self._offsets_cache = _NOTHING  # type: ignore[assignment]
    self._render_cache = self._link_ids = self._cell_count = None


def install() -> None:
    Strip.__init__ = _make  # type: ignore[method-assign]
