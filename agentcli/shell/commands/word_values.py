"""Resolve markers in words for a given folder: `$PWD`, `$HOME`, `$TMPDIR` and pattern matches."""

from __future__ import annotations

import os
import re
from itertools import product
from typing import TYPE_CHECKING

from agentcli.shell.git_config import toplevel
from agentcli.shell.parser.strict_parser import Variant
from agentcli.shell.parser.words import (
    HOME,
    MATCH,
    MATCH_END,
    NOT_KNOWN,
    OF_THE_PLACE,
    PLAIN_TEXT,
    PWD,
    TEMP,
    TOPLEVEL,
    UNKNOWN,
    UNQUOTED,
    VARIES,
)
from agentcli.shell.paths import expanded_pattern

if TYPE_CHECKING:
    from agentcli.shell.command_context import CommandContext

_MAX_VARIANTS = 200
_MATCHED = re.compile(f"({UNQUOTED}*){MATCH}([^{MATCH_END}]*){MATCH_END}")
_OF_PLACE = re.compile(f"({UNQUOTED}*)([{PWD}{HOME}{TEMP}])")


class NotResolved(Exception):
    """Reason why a word cannot be resolved in a known folder."""


def depends_on_place(variant: Variant) -> bool:
    return any(map(OF_THE_PLACE.search, variant.words))


def resolved(variant: Variant, folder: str, seen: tuple[str, ...], place: CommandContext) -> list[Variant]:
    """All values that the words may have in `folder`. Loop patterns were expanded in one of the `seen` folders."""
    choices: list[list[str]] = []
    count = 1
    for index, word in enumerate(variant.words):
        values = _values(word, folder, seen, place) if OF_THE_PLACE.search(word) else [word]
        if index in variant.globs:
            _check_literal(word, folder, place)
        choices.append(values)
        count *= len(values)
        if count > _MAX_VARIANTS:
            raise NotResolved("its patterns match too many files to check")
    return [Variant(words, variant.globs) for words in product(*choices)]


def known_words(variant: Variant, folders: tuple[str, ...], place: CommandContext) -> tuple[str, ...] | None:
    """The words with `$PWD`, `$HOME` and `$TMPDIR` replaced; None if they differ by folder or stay unresolved."""
    if any(VARIES.search(word) or (TEMP in word and ".." in word) for word in variant.words):
        return None
    try:
        found = {one.words for folder in folders for one in resolved(variant, folder, (), place)}
    except NotResolved:
        return None
    words = found.pop() if len(found) == 1 else None
    return None if words is None or any(map(NOT_KNOWN.search, words)) else words


def _check_literal(word: str, folder: str, place: CommandContext) -> None:
    """Check that a value inside a pattern is not itself a pattern."""
    for _unquoted, marker in _OF_PLACE.findall(word):
        if re.search(r"[*?\[\]\\]", _value(marker, folder, place)):
            raise NotResolved("part of the pattern is unknown")


def _values(word: str, folder: str, seen: tuple[str, ...], place: CommandContext) -> list[str]:
    def replaced(found: re.Match[str]) -> str:
        return _checked(_value(found[2], folder, place), unquoted=bool(found[1]))

    texts = [_OF_PLACE.sub(replaced, word)]
    if TOPLEVEL in word:
        texts = [text.replace(TOPLEVEL, top) for text in texts for top in _toplevels(word, seen or (folder,))]
    while any(MATCH in text for text in texts):
        following: list[str] = []
        for text in texts:
            found = _MATCHED.search(text)
            if found is None:
                following.append(text)
                continue
            before, after, unquoted = text[: found.start()], text[found.end() :], bool(found[1])
            names, kept = _matches(found[2], seen or (folder,), place)
            following += (before + _checked(name, unquoted=unquoted) + after for name in names)
            if kept:
                # Unquoted it is a pattern again, and a different one if text is added to it.
                if unquoted and (before or after):
                    raise NotResolved("an unquoted variable can expand to several words")
                following.append(before + found[2] + after)
        texts = list(dict.fromkeys(following))
        if len(texts) > _MAX_VARIANTS:
            raise NotResolved("its patterns match too many files to check")
    return texts


def _toplevels(word: str, folders: tuple[str, ...]) -> list[str]:
    """The repository's folder, and the empty text in case git fails."""
    # Unquoted, the empty text would be no word at all, and `cd` alone goes to the home folder.
    if f"{UNQUOTED}{TOPLEVEL}" in word:
        raise NotResolved("git may print no folder, and the substitution is not quoted")
    return [*dict.fromkeys(toplevel(folder) or UNKNOWN for folder in folders), ""]


def _value(marker: str, folder: str, place: CommandContext) -> str:
    if marker == PWD:
        return folder
    value = (place.home or os.environ.get("HOME", "")) if marker == HOME else place.temp
    if not value.startswith("/"):
        raise NotResolved(f"the value of {'$HOME' if marker == HOME else '$TMPDIR'} is unknown")
    return value


def _matches(pattern: str, folders: tuple[str, ...], place: CommandContext) -> tuple[list[str], bool]:
    """The names that a loop pattern matches, and whether the shell may find none and keep the pattern."""
    found: list[str] = []
    kept = False
    for folder in folders:
        path = os.path.join(folder, pattern)  # noqa: PTH118
        if place.locate(path) != path:
            raise NotResolved("the pattern's matches in the temp folder are unknown")
        names = expanded_pattern(pattern, folder)
        if names is None:
            raise NotResolved(f"the pattern {pattern} matches too many files to check")
        # The list may contain too many names: a bracket matches any character here.
        kept = kept or not names or "[" in pattern or all(os.path.basename(n) in (".", "..") for n in names)  # noqa: PTH119
        found += names
    return found, kept


def _checked(value: str, *, unquoted: bool) -> str:
    if unquoted and not PLAIN_TEXT.fullmatch(value):
        raise NotResolved("an unquoted variable can expand to several words")
    return value
