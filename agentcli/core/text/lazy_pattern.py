"""Regular expressions that are compiled at their first use.

Compiling those of all modules took a tenth of a headless start, and most of them are not used in a run."""

from __future__ import annotations

import re
from typing import Any, cast


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`, with the methods of a pattern. Do not pass the result to functions of `re`."""
    return cast(re.Pattern[str], _LazyPattern(text, flags))


def lazy_bytes_pattern(text: bytes) -> re.Pattern[bytes]:
    return cast(re.Pattern[bytes], _LazyPattern(text, 0))


_USUAL = ("fullmatch", "match", "search", "sub", "subn", "split", "findall", "finditer", "pattern", "flags")


class _LazyPattern:
    def __init__(self, text: str | bytes, flags: int) -> None:
        self._made_from: tuple[Any, int] = text, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._made_from)
        # From now on attribute lookup does not reach this method.
        for method in _USUAL:
            self.__dict__[method] = getattr(compiled, method)
        return getattr(compiled, name)
