"""Parse terminal input into tokens. Pure: no file descriptors, no clock of its own, no Textual.

Decides where a key, a paste and a terminal report begin and end, and what is garbage. `translation` names the keys.
Garbage (unknown or incomplete sequences, invalid UTF-8, mouse reports in unrequested formats) is dropped and never
becomes text.
"""

from __future__ import annotations

import codecs
import re

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_text

PASTE_END = b"\x1b[201~"
SEQUENCE_SECONDS = 0.25
"""Maximum time until the rest of an unambiguous sequence: over ssh a packet may end in the middle."""
AMBIGUOUS_SECONDS = 0.05
"""The same for beginnings that are also keys with Alt: `ESC O`, `ESC ]`."""
PASTE_SECONDS = 0.5
"""A paste that pauses for this long is delivered as far as it has arrived."""
TYPED_AT_ONCE = 16
"""Bytes. After a pause in a paste, a longer chunk still belongs to the paste; a shorter one was typed."""
MAX_PASTE = 64 * 1024 * 1024
MAX_SEQUENCE = 4096
"""Bytes. A longer sequence is discarded."""


@frozen
class TypedText:
    """Typed characters, including control characters (keys with Ctrl), without escape sequences."""

    text: str


@frozen
class Sequence:
    """A complete escape sequence that may be a key (`ESC [ A`, `ESC b`) or a mouse report (`ESC [ < …`)."""

    text: str


@frozen
class Escape:
    """The Esc key alone."""


@frozen
class Pasted:
    """Pasted text, without control characters other than line breaks and tabs."""

    text: str


@frozen
class Focus:
    gained: bool


@frozen
class Background:
    """The terminal's background colour, components from 0 to 255."""

    red: int
    green: int
    blue: int


@frozen
class ColourScheme:
    """The terminal reports a switch to a dark or light colour scheme."""

    dark: bool


@frozen
class ModeReport:
    mode: int
    setting: int
    """0: mode not recognised; 1, 2: set, reset; 3, 4: permanently set, permanently reset."""


@frozen
class TerminalReply:
    """An unused report: cursor position, device attributes, keyboard flags."""

    text: str


Token = TypedText | Sequence | Escape | Pasted | Focus | Background | ColourScheme | ModeReport | TerminalReply

_CSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_CSI_BEGUN = re.compile(rb"\x1b\[[0-?]*[ -/]*\Z")
_CSI_HALF = re.compile(rb"\x1b\[[0-?]*[ -/]*")
_SS3 = re.compile(rb"\x1bO[0-9;]*[@-~]")
_SS3_BEGUN = re.compile(rb"\x1bO[0-9;]*\Z")
_STRING_BEGUN = re.compile(rb"\x1b(?:\](?:[0-9]|\Z)|P(?:[0-9>!]|\Z)|_(?:G|\Z))")
"""OSC, DCS and APC strings of terminal replies; otherwise these letters after ESC are keys with Alt."""
_STRING_BODY = re.compile(rb"[^\x00-\x1f\x7f]*")
_TAIL = re.compile(rb"\[(?:[0-9;:]*[A-HPQRSZu~]|<[0-9;]+[Mm]|\?[0-9;]+(?:\$y|[uc]))")
_COLOUR = re.compile(rb"11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?")
_MODE = re.compile(r"\x1b\[\?(\d{1,5});(\d)\$y")
_POSITION = re.compile(r"\x1b\[(\d+);(\d+)R")
_ANSWER = re.compile(r"\x1b\[(?:[?>=][\d;]*[cu]|\??[\d;]*[nt]|\?[\d;]*R)")
_MAX_MODIFIER = 16


class InputFilter:
    """Feed it bytes as they arrive; call `tick` after `deadline`. Times are seconds of any monotonic clock."""

    def __init__(self, escape_seconds: float) -> None:
        self._escape_seconds = escape_seconds
        self.deadline: float | None = None
        self._held = b""
        """An incomplete sequence, starting with its ESC."""
        self._paste: bytearray | None = None
        self._paste_paused = False
        self._swallowing: re.Pattern[bytes] | None = None
        """Pattern for the rest of a sequence that is too long and is being discarded."""
        self._lone_escape_until = 0.0
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def feed(self, data: bytes, now: float) -> list[Token]:
        tokens: list[Token] = []
        if now < self._lone_escape_until and not self._held and _TAIL.match(data):
            # The rest of a sequence whose ESC arrived alone and was taken for the key. Nobody types that fast.
            data = b"\x1b" + data
        self._lone_escape_until = 0.0
        before, self._held = self._held, b""
        if not before and self._swallowing is None:
            self.deadline = None
        while data or before:
            if self._paste is not None:
                data = self._feed_paste(before + data, now, tokens)
            else:
                data = self._feed_keys(before + data, now, tokens, resumed=bool(before))
            before = b""
        return tokens

    def tick(self, now: float) -> list[Token]:
        """Decide after the deadline: a lone ESC is the key, an incomplete sequence is dropped."""
        if self.deadline is None or now < self.deadline:
            return []
        self.deadline = None
        if self._paste is not None:
            self._paste_paused = True
            return self._take_paste()
        held, self._held, self._swallowing = self._held, b"", None
        if held == b"\x1b":
            self._lone_escape_until = now + AMBIGUOUS_SECONDS
            return [Escape()]
        if len(held) == 2 and held[1:] in b"O]P_":
            return [Sequence(held.decode())]
        return []

    def _feed_keys(self, data: bytes, now: float, tokens: list[Token], *, resumed: bool) -> bytes:
        """Parse `data` up to the beginning of a paste; return the bytes after that."""
        position = 0
        if self._swallowing is not None:
            position = self._swallow(data, now)
        while position < len(data):
            escape = data.find(b"\x1b", position)
            if escape != position:
                end = len(data) if escape < 0 else escape
                self._type(data[position:end], tokens, final=escape >= 0)
                position = end
                continue
            length = self._sequence_length(data, position)
            if length == 0:
                self._hold(data[position:], now, resumed=resumed and position == 0)
                return b""
            if self._emit(data[position : position + length], tokens):
                return data[position + length :]
            position += length
        return b""

    def _type(self, data: bytes, tokens: list[Token], *, final: bool) -> None:
        text = self._decoder.decode(data, final)
        if any("\x80" <= character <= "\x9f" for character in text):
            text = "".join(character for character in text if not "\x80" <= character <= "\x9f")
        if text:
            tokens.append(TypedText(text))

    def _sequence_length(self, data: bytes, start: int) -> int:
        """Length of the sequence that begins with the ESC at `start`; 0 if it is incomplete."""
        second = data[start + 1 : start + 2]
        if not second:
            return 0
        if second == b"[":
            return _csi_length(data, start)
        if second == b"O":
            if match := _SS3.match(data, start):
                return len(match.group())
            return 0 if _SS3_BEGUN.match(data, start) else 2
        if second in b"]P_" and _STRING_BEGUN.match(data, start):
            return _string_length(data, start)
        if second == b"\x1b":
            return 1
        return _with_alt_length(data, start)

    def _hold(self, data: bytes, now: float, *, resumed: bool) -> None:
        if len(data) > MAX_SEQUENCE:
            self._swallowing = _CSI_HALF if data[1:2] == b"[" else _STRING_BODY
            data = b""
        self._held = data
        if self.deadline is not None and resumed and len(data) > 2:
            return  # A sequence has one deadline, however many chunks it arrives in.
        if data == b"\x1b":
            wait = self._escape_seconds
        else:
            wait = AMBIGUOUS_SECONDS if len(data) == 2 and data[1:] in b"O]P_" else SEQUENCE_SECONDS
        self.deadline = now + wait

    def _swallow(self, data: bytes, now: float) -> int:
        if self.deadline is None:
            self.deadline = now + SEQUENCE_SECONDS
        if self._swallowing is _CSI_HALF:
            match = _CSI_HALF.match(b"\x1b[" + data)
            end = match.end() - 2 if match else 0
            finals = 1
        else:
            match = _STRING_BODY.match(data)
            end = match.end() if match else 0
            finals = 2 if data[end : end + 2] == b"\x1b\\" else int(data[end : end + 1] == b"\x07")
        if end < len(data):
            self._swallowing, self.deadline = None, None
            end += finals
        return end

    def _emit(self, sequence: bytes, tokens: list[Token]) -> bool:
        self.deadline = None
        if sequence == b"\x1b[200~":
            self._paste, self._paste_paused = bytearray(), False
            return True
        token = _classified(sequence)
        if token is not None:
            tokens.append(token)
        return False

    def _feed_paste(self, data: bytes, now: float, tokens: list[Token]) -> bytes:
        assert self._paste is not None
        paste = self._paste
        # The end marker may have begun in an earlier chunk.
        look_from = max(0, len(paste) - len(PASTE_END) + 1)
        if self._paste_paused and len(data) <= TYPED_AT_ONCE and PASTE_END not in paste[look_from:] + data:
            self._paste, self.deadline = None, None
            tokens.extend(_pasted(paste))
            return data
        paste += data
        self._paste_paused = False
        end = paste.find(PASTE_END, look_from)
        if end < 0:
            self.deadline = now + PASTE_SECONDS
            if len(paste) > MAX_PASTE:
                tokens.extend(self._take_paste())
            return b""
        rest = bytes(paste[end + len(PASTE_END) :])
        del paste[end:]
        self._paste, self.deadline = None, None
        tokens.extend(_pasted(paste))
        return rest

    def _take_paste(self) -> list[Token]:
        """Take the paste so far, except for a possible beginning of the end marker."""
        assert self._paste is not None
        kept = next((size for size in range(len(PASTE_END) - 1, 0, -1) if self._paste.endswith(PASTE_END[:size])), 0)
        taken = self._paste[: len(self._paste) - kept]
        self._paste = self._paste[len(taken) :]
        return _pasted(taken)


def _pasted(data: bytearray) -> list[Token]:
    text = plain_text(data.decode("utf-8", "replace"))
    return [Pasted(text)] if text else []


def _csi_length(data: bytes, start: int) -> int:
    after = data[start + 2 : start + 3]
    if after == b"M":  # X10 mouse report: three arbitrary bytes follow
        return 6 if len(data) >= start + 6 else 0
    if after == b"[":  # function keys of the Linux console
        return 4 if len(data) >= start + 4 else 0
    if match := _CSI.match(data, start):
        return len(match.group())
    if _CSI_BEGUN.match(data, start):
        return 0
    half = _CSI_HALF.match(data, start)
    assert half is not None
    return len(half.group())


def _string_length(data: bytes, start: int) -> int:
    if len(data) == start + 2:
        return 0
    match = _STRING_BODY.match(data, start + 2)
    assert match is not None
    end = match.end()
    terminator = data[end : end + 2]
    if terminator in (b"", b"\x1b"):
        return 0
    if terminator == b"\x1b\\":
        return end + 2 - start
    if terminator[:1] == b"\x07":
        return end + 1 - start
    return end - start  # cut off by a control character, which is a separate key


def _with_alt_length(data: bytes, start: int) -> int:
    first = data[start + 1]
    size = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    return 1 + size if len(data) >= start + 1 + size else 0


def _classified(sequence: bytes) -> Token | None:
    if sequence == b"\x1b":
        return Escape()
    if sequence[1:2] in (b"]", b"P", b"_") and len(sequence) > 2:
        return _string_token(sequence)
    if sequence.startswith(b"\x1b[M"):
        return None
    try:
        text = sequence.decode()
    except UnicodeDecodeError:
        return None
    if not text.startswith("\x1b["):
        return Sequence(text)
    if text in ("\x1b[I", "\x1b[O"):
        return Focus(text == "\x1b[I")
    if (report := _report(text)) is not None:
        return report
    # Incomplete sequences are not keys, and no key is that long.
    return Sequence(text) if 2 < len(text) <= 64 and "@" <= text[-1] <= "~" else None


def _string_token(sequence: bytes) -> Token | None:
    colour = _COLOUR.match(sequence, 2)
    if sequence[1:2] != b"]" or colour is None:
        return None
    red, green, blue = (int(part, 16) * 255 // (16 ** len(part) - 1) for part in colour.groups())
    return Background(red, green, blue)


def _report(text: str) -> Token | None:
    if match := _MODE.fullmatch(text):
        return ModeReport(int(match[1]), int(match[2]))
    if text in ("\x1b[?997;1n", "\x1b[?997;2n"):
        return ColourScheme(dark=text[7] == "1")
    if match := _POSITION.fullmatch(text):
        # `ESC [ 1 ; 2 R` is also Shift+F3. The position is never queried, so it is more likely the key.
        is_key = match[1] == "1" and match[2].isdigit() and 2 <= int(match[2][:6]) <= _MAX_MODIFIER
        return None if is_key else TerminalReply(text)
    return TerminalReply(text) if _ANSWER.fullmatch(text) else None
