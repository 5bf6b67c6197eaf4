"""Untrusted text without anything that a terminal would obey.

Owns the one definition of "control sequence" that tools and front ends share. Works on pieces as they arrive,
because output of any size passes through with constant memory. Must never interpret a sequence (colours, cursor):
whoever wants to render colours does that before, on purpose.
"""

from __future__ import annotations

import re

_HELD_BACK_LIMIT = 4096
"""A control string longer than this is not waited for: only its introducer is dropped and its body becomes text."""

_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])"
_BODY = rf"[^\x07\x1b\x90\x98\x9c-\x9f]{{0,{_HELD_BACK_LIMIT}}}"
"""Of a control string. Another introducer ends it: a flood of them would otherwise be looked through again for each."""
_SEQUENCE = re.compile(
    rf"{_STRING}{_BODY}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[ -/]*[0-Z\\\]^-~]"  # all other escapes, and the introducer of a string that never ends
    r"|[^\n\x08]\x08"  # overstrike
)
_UNFINISHED = re.compile(rf"(?:{_STRING}{_BODY}\x1b?|(?:\x1b\[|\x9b)[0-?]*[ -/]*|\x1b[ -/]*|\r)\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")
_SUSPICIOUS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_VISIBLE = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
_VISIBLE |= {0x7F: "\u2421"} | dict.fromkeys(range(0x80, 0xA0), "\ufffd")

_KEY = re.compile(r"sk-ant-[A-Za-z0-9_-]{20,}")


class ControlStripper:
    """Removes control sequences from text that comes in pieces. A lone carriage return becomes a line break."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        if self._held:
            text, self._held = self._held + text, ""
        if not _SUSPICIOUS.search(text):
            return text
        # Only the end can be unfinished; looking further back would make long lines quadratic.
        start = max(0, len(text) - _HELD_BACK_LIMIT - 2)
        unfinished = _UNFINISHED.search(text, start)
        if unfinished:
            text, self._held = text[: unfinished.start()], unfinished.group()
        return _strip(text)

    def finish(self) -> str:
        held, self._held = self._held, ""
        return _strip(held)


def _strip(text: str) -> str:
    text = _SEQUENCE.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", text)


def plain_text(text: str) -> str:
    """The text without control sequences and control characters other than line breaks and tabs."""
    return _strip(text) if _SUSPICIOUS.search(text) else text


def plain_line(text: str, limit: int = 200) -> str:
    """One line of plain text for a title: line breaks become spaces, the end is cut at `limit` characters."""
    line = " ".join(plain_text(text[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def is_lone_key(text: str) -> bool:
    """Whether a text is an API key and nothing else: then it was pasted into the wrong place, and is to be neither sent
    nor kept nor shown."""
    return _KEY.fullmatch(text.strip()) is not None


def has_key(text: str) -> bool:
    """Whether an API key stands anywhere in it: then it is not written to where nobody needs it (`/login sk-…`)."""
    return _KEY.search(text) is not None


def visible_text(text: str) -> str:
    """The text with control characters replaced one for one by symbols, so that columns and counts stay true."""
    return text.translate(_VISIBLE) if _SUSPICIOUS.search(text) else text
