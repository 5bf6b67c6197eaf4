"""Names with underscores in Markdown text, which are no emphasis.

CommonMark reads `__init__.py` as a bold "init" and drops the underscores. A single word that looks like a name stays as
written; emphasis that is clearly meant (`__two words__`, `__Note:__`, `_word_`) stays emphasis.
"""

from __future__ import annotations

import re
from typing import Any

_WORD = re.compile(r"_+[^\W_]\w*")
_EMPHASISED_WORD = re.compile(r"_[^\W_]+_?")
"""One underscore on one side or on both, none inside: `_word_`, or the beginning of `_several words_`."""
_BEFORE_NAME = frozenset("./\\@$-")
_AFTER_NAME = re.compile(r"[(\[/\\=]|[-.:]\w")


def name_end(text: str, start: int) -> int:
    """Return the end of the name that begins with the underscore at `start`, or `start` if none begins there."""
    before = text[start - 1 : start] if start else ""
    found = _WORD.match(text, start)
    if found is None or before == "_" or before.isalnum():
        return start
    word, end = found.group(), found.end()
    if word.startswith("__") and not word.endswith("_"):
        return end if "_" in word.strip("_") else start  # `__two words__` begins like `__private`
    if _EMPHASISED_WORD.fullmatch(word) and before not in _BEFORE_NAME and not _AFTER_NAME.match(text, end):
        return start
    return end


def keep_name(state: Any, silent: bool) -> bool:
    """Inline rule for markdown-it, to be placed before its emphasis: a name becomes text."""
    end = name_end(state.src, state.pos) if state.src[state.pos] == "_" else state.pos
    if not state.pos < end <= state.posMax:
        return False
    if not silent:
        state.pending += state.src[state.pos : end]
    state.pos = end
    return True
