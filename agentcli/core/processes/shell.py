"""Properties of a shell command's text for all layers. `permissions` analyses what a command does."""

from __future__ import annotations

import re
import unicodedata

from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.core.text.plaintext import visible_text

_CONTROL = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HIDING = frozenset(("Cf", "Zl", "Zp", "Zs", "Co", "Cn", "Cs"))
_BLANK = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x13441, 0x13442, 0x16FE4, 0x1D159),
            *(*range(0x180B, 0x1810), *range(0xFE00, 0xFE0F), *range(0xE0100, 0xE01F0)),
        ),
    )
)
"""Characters that terminals do not paint: fillers, blanks, selectors (except that of emoji)."""
_LOOSE = lazy_pattern(r"(?<![\u1100-\u115e\u1161-\u11ff\ua960-\ua97c\uac00-\ud7ff])[\u1161-\u11ff\ud7b0-\ud7ff]")
"""Parts of a Hangul syllable without a start: zero width, and painted by few terminals."""
_EMOJI_STYLE = lazy_pattern("\ufe0f")
_MAX_MARKS = 8
"""Maximum combining marks on one letter; terminals drop further ones."""


def has_control_characters(command: str) -> bool:
    """Whether a command has control characters other than tab and line feed, which are not allowed."""
    return _CONTROL.search(command) is not None


def shown_command(text: str) -> str:
    """The complete text for approval: invisible characters, unusual blanks and direction controls are spelled out. For
    other text, joined emoji may stay."""
    if text.isascii():
        return visible_text(text)
    text = _EMOJI_STYLE.sub(_show_style, _LOOSE.sub(_show, text))
    characters = set(text)
    hidden = {ord(character): _spell(character) for character in characters if _hides(character)}
    marks = re.escape("".join(character for character in characters if unicodedata.category(character)[0] == "M"))
    if marks:
        text = re.sub(f"(?<=[{marks}]{{{_MAX_MARKS}}})[{marks}]", _show, text)
    return visible_text(text.translate(hidden))


def shown_name(text: str) -> str:
    """A file name or path as `shown_command` shows it, on one line."""
    return shown_command(text).replace("\n", "\u240a").replace("\t", "\u2409")


def _hides(character: str) -> bool:
    return character in _BLANK or (character != " " and unicodedata.category(character) in _HIDING)


def _spell(character: str) -> str:
    return f"<U+{ord(character):04X}>"


def _show(found: re.Match[str]) -> str:
    return _spell(found[0])


def _show_style(found: re.Match[str]) -> str:
    """Keep a style selector after a symbol, where it visibly selects a style; spell it out elsewhere, where it has no
    effect."""
    before = found.string[max(0, found.start() - 1) : found.start()]
    return found[0] if before and unicodedata.category(before) == "So" and not _hides(before) else _spell(found[0])
