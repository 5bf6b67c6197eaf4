"""Untrusted text without anything that a terminal would obey or hide.

Owns the one definition of "control sequence" and of "hidden character" that tools and front ends share:

- `terminal_text`: text of several lines for a terminal. Nothing is lost: what cannot be seen is spelled out.
- `terminal_line`: a name or a value for a terminal, where a line break would start a line that looks like ours.
- `plain_line`: a title or a notice; cut, blanks collapsed, control sequences removed.
- `plain_text`, `ControlStripper`: output of programs, without control sequences. `visible_text`: one for one, so that
  columns stay true; hidden characters stay.
- `last_states`, `continue_output`: rows that carriage returns overwrite, in output as it arrives.
- `show_command`, `show_name`: what the user is asked to approve, complete.
- `json_for_terminal`: JSON with the same characters escaped, which parsers read as the original.

Works on pieces as they arrive, because output of any size passes through with constant memory. Must never interpret a
sequence (colours, cursor): a caller that renders colours does so before.
"""

from __future__ import annotations

import re
import unicodedata

from agentcli.core.text.patterns import lazy_bytes_pattern, lazy_pattern

TAB = 8
"""Cells from one tab stop to the next, as in terminals; git and compilers align their output to that."""
_HELD_BACK_LIMIT = 4096
"""Length beyond which a control string is not waited for: only its introducer is dropped and its body becomes text."""

_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])"
_BODY = rf"[^\x07\x1b\x90\x98\x9c-\x9f]{{0,{_HELD_BACK_LIMIT}}}"
"""The body of a control string. Another introducer ends it, so that a flood of them is not scanned again for each."""
_SEQUENCE = lazy_pattern(
    rf"{_STRING}{_BODY}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[ -/]*[0-Z\\\]^-~]"  # all other escapes, and the introducer of a string that never ends
    r"|[^\n\x08]\x08"  # overstrike
)
_CSI = lazy_pattern(r"\x1b\[[0-?]*[ -/]*[@-~]")
_CSI_BYTES = lazy_bytes_pattern(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_C1_BYTES = lazy_bytes_pattern(rb"\xc2[\x80-\x9f]")
_PLAIN_BYTES = bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100)) + b"\t\n"
_UNFINISHED = lazy_pattern(rf"(?:{_STRING}{_BODY}\x1b?|(?:\x1b\[|\x9b)[0-?]*[ -/]*|\x1b[ -/]*|\r)\Z")
_CONTROL = lazy_pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")
_SUSPICIOUS = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_VISIBLE = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
_VISIBLE |= {0x7F: "\u2421"} | dict.fromkeys(range(0x80, 0xA0), "\ufffd")

_PICTURE = "\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_JOINING = "\u0600-\u08ff\u0900-\u0dff"
"""Scripts that use joiners between letters: Arabic and those of India."""
_HIDDEN_CLASS = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN_TEXT = (
    f"[{_HIDDEN_CLASS}]"
    f"|(?<![{_PICTURE}{_JOINING}\ufe0f])[\u200c\u200d]|[\u200c\u200d](?![{_PICTURE}{_JOINING}])"
    f"|(?<![{_PICTURE}\u00a9\u00ae\u203c\u2049\u2122\u2139\u3030\u303d\u3297\u3299])\ufe0f(?!\u20e3)"
)
_HIDDEN = lazy_pattern(_HIDDEN_TEXT)
"""Direction controls, zero widths, fillers, line separators, tags, selectors, lone surrogates, stray joiners."""
_JOINERS = "\u200c\u200d\ufe0f"
_MAY_HIDE = lazy_pattern(f"[\u200c\u200d\ufe0f{_HIDDEN_CLASS}]")
"""Every character that the pattern above can match; much faster on text without any."""
_UNSAFE_IN_JSON = lazy_pattern(f"[\x7f-\x9f]|{_HIDDEN_TEXT}")
_MAY_BE_UNSAFE_IN_JSON = lazy_pattern(f"[\x7f-\x9f\u200c\u200d\ufe0f{_HIDDEN_CLASS}]")

_OVERWRITTEN = lazy_pattern(r"^[^\n]*\r(?!\n|\Z)", re.MULTILINE)
_RETURNS = lazy_pattern(r"\r\r+")
_REPLACED = lazy_pattern(r"^[^\n]*\r", re.MULTILINE)

_KEY = lazy_pattern(r"sk-ant-[A-Za-z0-9_-]{20,}")


class ControlStripper:
    """Removes control sequences from text that arrives in pieces. A lone carriage return becomes a line break."""

    def __init__(self) -> None:
        self._held = ""

    @property
    def held(self) -> str:
        """The unfinished sequence at the end of the text so far."""
        return self._held

    def feed(self, text: str) -> str:
        if self._held:
            text, self._held = self._held + text, ""
        if not _SUSPICIOUS.search(text):
            return text
        # Only the end can be unfinished; searching further back would make long lines quadratic.
        start = max(0, len(text) - _HELD_BACK_LIMIT - 2)
        unfinished = _UNFINISHED.search(text, start)
        if unfinished:
            text, self._held = text[: unfinished.start()], unfinished.group()
        return _strip(text)

    def finish(self) -> str:
        held, self._held = self._held, ""
        return _strip(held)


def _strip(text: str) -> str:
    if "\x1b[" in text and not _SUSPICIOUS.search(coloured := _CSI.sub("", text)):
        return coloured  # the usual case, several times as fast
    text = _SEQUENCE.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", text)


def plain_bytes(data: bytes) -> bytes | None:
    """UTF-8 without its colours; None if it has other control sequences, for which `ControlStripper` is needed.

    Most output has none or only colours, and checking bytes is several times as fast as checking text.
    """
    controls = data.translate(None, _PLAIN_BYTES)
    if controls.strip(b"\x1b"):
        return None
    plain = _CSI_BYTES.sub(b"", data) if controls else data
    if controls and b"\x1b" in plain:
        return None
    # Checked last: removing a colour can join the bytes around it to one character.
    return None if b"\xc2" in plain and _C1_BYTES.search(plain) else plain


def plain_text(text: str) -> str:
    """The text without control sequences and control characters other than line breaks and tabs."""
    return _strip(text) if _SUSPICIOUS.search(text) else text


def last_states(text: str) -> str:
    """Keep only the last state of every row that a carriage return restarts. A carriage return at the end of the text
    or before a line break overwrites nothing."""
    return _OVERWRITTEN.sub("", _RETURNS.sub("\r", text)) if "\r" in text else text


def continue_output(before: str, more: str) -> str:
    """The output of a running tool with the next `ToolProgressed.text`, which replaces the unfinished last row if it
    begins with a carriage return."""
    if "\r" not in more:
        return before + more
    row = before.rfind("\n") + 1
    return before[:row] + _REPLACED.sub("", before[row:] + more)


def plain_line(text: str, limit: int = 200) -> str:
    """One line for a title or notice: white space collapses, hidden characters are spelled out, cut at `limit`."""
    line = spell_hidden(" ".join(plain_text(text[: limit * 4]).split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def is_lone_key(text: str) -> bool:
    """Whether a text is only an API key, pasted into the wrong place: it must not be sent, stored or shown."""
    return _KEY.fullmatch(text.strip()) is not None


def has_key(text: str) -> bool:
    """Whether a text contains an API key: then it is not written to history files (`/login sk-…`)."""
    return _KEY.search(text) is not None


def visible_text(text: str) -> str:
    """Replace control characters one for one by symbols, so that columns and counts stay the same."""
    return text.translate(_VISIBLE) if _SUSPICIOUS.search(text) else text


def spell_hidden(text: str) -> str:
    """Spell out bidirectional controls, zero-width characters, line separators, tags and lone surrogates as
    `<U+202E>`."""
    if text.isascii() or not _MAY_HIDE.search(text):
        return text
    return _HIDDEN.sub(lambda found: f"<U+{ord(found.group()):04X}>", text)


def spell_hidden_in_piece(text: str) -> str:
    """`spell_hidden` for a piece of a stream: a joiner at its ends may belong to a split emoji."""
    if text.isascii():
        return text
    rest = text.lstrip(_JOINERS)
    inner = rest.rstrip(_JOINERS)
    return text[: len(text) - len(rest)] + spell_hidden(inner) + rest[len(inner) :]


def terminal_text(text: str) -> str:
    """Untrusted text for a terminal: control characters become symbols, hidden ones are spelled out. Line feeds and
    tabs stay."""
    return spell_hidden(visible_text(text))


def terminal_line(text: str) -> str:
    """A complete name or value on one line of a terminal: line feeds and tabs become symbols too."""
    return terminal_text(text).replace("\n", "\u240a").replace("\t", "\u2409")


def json_for_terminal(text: str) -> str:
    """JSON text with everything escaped that a terminal would obey or hide; it parses to the same value."""
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    return _UNSAFE_IN_JSON.sub(_json_escape, text) if _MAY_BE_UNSAFE_IN_JSON.search(text) else text


def _json_escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


_HIDING_CATEGORIES = frozenset(("Cf", "Zl", "Zp", "Zs", "Co", "Cn", "Cs"))
_UNPAINTED = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x13441, 0x13442, 0x16FE4, 0x1D159),
            *(*range(0x180B, 0x1810), *range(0xFE00, 0xFE0F), *range(0xE0100, 0xE01F0)),
        ),
    )
)
"""Characters that terminals do not paint: fillers, blanks, selectors (except that of emoji)."""
_LOOSE_HANGUL = lazy_pattern(r"(?<![\u1100-\u115e\u1161-\u11ff\ua960-\ua97c\uac00-\ud7ff])[\u1161-\u11ff\ud7b0-\ud7ff]")
"""Parts of a Hangul syllable without a start: zero width, and painted by few terminals."""
_EMOJI_STYLE = lazy_pattern("\ufe0f")
_MAX_MARKS = 8
"""Maximum combining marks on one letter; terminals drop further ones."""


def has_control_characters(command: str) -> bool:
    """Whether a command has control characters other than tab and line feed, which are not allowed."""
    return _SUSPICIOUS.search(command) is not None


def show_command(text: str) -> str:
    """The complete text for approval: invisible characters, unusual blanks and direction controls are spelled out. For
    other text, joined emoji may stay."""
    if text.isascii():
        return visible_text(text)
    text = _EMOJI_STYLE.sub(_keep_style, _LOOSE_HANGUL.sub(_spell_match, text))
    characters = set(text)
    hidden = {ord(character): _spell_out(character) for character in characters if _hides(character)}
    marks = re.escape("".join(character for character in characters if unicodedata.category(character)[0] == "M"))
    if marks:
        text = re.sub(f"(?<=[{marks}]{{{_MAX_MARKS}}})[{marks}]", _spell_match, text)
    return visible_text(text.translate(hidden))


def show_name(text: str) -> str:
    """A file name or path as `show_command` shows it, on one line."""
    return show_command(text).replace("\n", "\u240a").replace("\t", "\u2409")


def _hides(character: str) -> bool:
    return character in _UNPAINTED or (character != " " and unicodedata.category(character) in _HIDING_CATEGORIES)


def _spell_out(character: str) -> str:
    return f"<U+{ord(character):04X}>"


def _spell_match(found: re.Match[str]) -> str:
    return _spell_out(found[0])


def _keep_style(found: re.Match[str]) -> str:
    """Keep a style selector after a symbol, where it visibly selects a style; spell it out elsewhere, where it has no
    effect."""
    before = found.string[max(0, found.start() - 1) : found.start()]
    return found[0] if before and unicodedata.category(before) == "So" and not _hides(before) else _spell_out(found[0])
