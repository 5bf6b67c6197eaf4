"""Parse terminal input: bytes to tokens, tokens to Textual's messages. No file descriptors, no clock of its own.

`InputFilter` decides where a key, a paste and a terminal reply begin and end, and what is garbage. Garbage (unknown or
incomplete sequences, invalid UTF-8, mouse reports in unrequested formats) is dropped and never becomes text.
`Translation` names the keys with Textual's key tables and parses mouse reports, but does not use its state machine: the
tokens are already complete sequences.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from textual import events
from textual._xterm_parser import XTermParser
from textual.keys import Keys
from textual.message import Message

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


class Token(NamedTuple):
    kind: Literal["typed", "sequence", "pasted", "reply"]
    """typed: characters, including control characters (keys with Ctrl), without escape sequences. sequence: a complete
    escape sequence of a key or a mouse report, or ESC alone. pasted: text without control characters other than line
    breaks and tabs. reply: a report of the terminal."""
    text: str


_CSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_CSI_BEGUN = re.compile(rb"\x1b\[[0-?]*[ -/]*\Z")
_CSI_HALF = re.compile(rb"\x1b\[[0-?]*[ -/]*")
_SS3 = re.compile(rb"\x1bO[0-9;]*[@-~]")
_SS3_BEGUN = re.compile(rb"\x1bO[0-9;]*\Z")
_STRING_BEGUN = re.compile(rb"\x1b(?:\](?:[0-9]|\Z)|P(?:[0-9>!]|\Z)|_(?:G|\Z))")
"""OSC, DCS and APC strings of terminal replies; otherwise these letters after ESC are keys with Alt."""
_STRING_BODY = re.compile(rb"[^\x00-\x1f\x7f]*")
_TAIL = re.compile(rb"\[(?:[0-9;:]*[A-HPQRSZu~]|<[0-9;]+[Mm]|\?[0-9;]+(?:\$y|[uc]))")
_C1 = re.compile("[\x80-\x9f]")
_REPLY = re.compile(
    r"\x1b\[(?:\?\d{1,5};\d\$y|[?>=][\d;]*[cu]|\??[\d;]*[nt]|\?[\d;]*R"
    r"|(?!1;(?:[2-9]|1[0-6])R)\d+;\d+R)"  # `ESC [ 1 ; 2 R` is Shift+F3: the cursor's position is never queried
    r"|\x1b\]11;rgba?:[0-9a-fA-F/]+(?:\x07|\x1b\\)"
)
"""Reports of modes, keyboard flags, devices, sizes, the cursor's position and the background colour."""
MAX_KEY = 64
"""No key has a longer sequence."""


class InputFilter:
    """Feed it bytes as they arrive; call `tick` after `deadline`. Times are seconds of any monotonic clock."""

    def __init__(self, escape_seconds: float) -> None:
        self._escape_seconds = escape_seconds
        self.deadline: float | None = None
        self._held = b""
        """An incomplete sequence, starting with its ESC."""
        self._paste: bytearray | None = None
        self._paste_paused = False
        self._lone_escape_until = 0.0
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def feed(self, data: bytes, now: float) -> list[Token]:
        tokens: list[Token] = []
        if now < self._lone_escape_until and not self._held and _TAIL.match(data):
            # The rest of a sequence whose ESC arrived alone and was taken for the key. Nobody types that fast.
            data = b"\x1b" + data
        self._lone_escape_until = 0.0
        before, self._held = self._held, b""
        if not before:
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
        held, self._held = self._held, b""
        if held == b"\x1b":
            self._lone_escape_until = now + AMBIGUOUS_SECONDS
        is_key = held == b"\x1b" or (len(held) == 2 and held[1:] in b"O]P_")
        return [Token("sequence", held.decode())] if is_key else []

    def _feed_keys(self, data: bytes, now: float, tokens: list[Token], *, resumed: bool) -> bytes:
        """Parse `data` up to the beginning of a paste; return the bytes after that."""
        position = 0
        while position < len(data):
            escape = data.find(b"\x1b", position)
            if escape != position:
                end = len(data) if escape < 0 else escape
                self._type(data[position:end], tokens, final=escape >= 0)
                position = end
                continue
            length = _sequence_length(data, position)
            if length == 0:
                self._hold(data[position:], now, resumed=resumed and position == 0)
                return b""
            self.deadline = None
            sequence = data[position : position + length]
            position += length
            if sequence == b"\x1b[200~":
                self._paste, self._paste_paused = bytearray(), False
                return data[position:]
            if (token := _make_token(sequence)) is not None:
                tokens.append(token)
        return b""

    def _type(self, data: bytes, tokens: list[Token], *, final: bool) -> None:
        text = _C1.sub("", self._decoder.decode(data, final))
        if text:
            tokens.append(Token("typed", text))

    def _hold(self, data: bytes, now: float, *, resumed: bool) -> None:
        self._held = data
        if self.deadline is not None and resumed and len(data) > 2:
            return  # A sequence has one deadline, however many chunks it arrives in.
        if data == b"\x1b":
            wait = self._escape_seconds
        else:
            wait = AMBIGUOUS_SECONDS if len(data) == 2 and data[1:] in b"O]P_" else SEQUENCE_SECONDS
        self.deadline = now + wait

    def _feed_paste(self, data: bytes, now: float, tokens: list[Token]) -> bytes:
        assert self._paste is not None
        paste = self._paste
        # The end marker may have begun in an earlier chunk.
        look_from = max(0, len(paste) - len(PASTE_END) + 1)
        if self._paste_paused and len(data) <= TYPED_AT_ONCE and PASTE_END not in paste[look_from:] + data:
            self._paste, self.deadline = None, None
            tokens.extend(_split_paste(paste))
            return data
        paste += data
        self._paste_paused = False
        end = paste.find(PASTE_END, look_from)
        if end < 0:
            self.deadline = now + PASTE_SECONDS
            return b""
        rest = bytes(paste[end + len(PASTE_END) :])
        del paste[end:]
        self._paste, self.deadline = None, None
        tokens.extend(_split_paste(paste))
        return rest

    def _take_paste(self) -> list[Token]:
        """Take the paste so far, except for a possible beginning of the end marker."""
        assert self._paste is not None
        kept = next((size for size in range(len(PASTE_END) - 1, 0, -1) if self._paste.endswith(PASTE_END[:size])), 0)
        taken = self._paste[: len(self._paste) - kept]
        self._paste = self._paste[len(taken) :]
        return _split_paste(taken)


def _split_paste(data: bytearray) -> list[Token]:
    text = plain_text(data.decode("utf-8", "replace"))
    return [Token("pasted", text)] if text else []


def _sequence_length(data: bytes, start: int) -> int:
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
    # A key with Alt: one character.
    size = 1 if second[0] < 0xC0 else 2 if second[0] < 0xE0 else 3 if second[0] < 0xF0 else 4
    return 1 + size if len(data) >= start + 1 + size else 0


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


def _make_token(sequence: bytes) -> Token | None:
    """Token of a sequence; None for garbage."""
    try:
        text = sequence.decode()
    except UnicodeDecodeError:
        return None
    if _REPLY.fullmatch(text):
        return Token("reply", text)
    if (text[1:2] in ("]", "P", "_") and len(text) > 2) or text.startswith("\x1b[M"):
        return None
    if text.startswith("\x1b[") and not (2 < len(text) <= MAX_KEY and "@" <= text[-1] <= "~"):
        return None
    return Token("sequence", text)


_SURROGATE = re.compile("[\ud800-\udfff]").search


@dataclass
class BackgroundColour(Message):
    """The terminal's reply with its background colour, components from 0 to 255."""

    rgb: tuple[int, int, int]

    @classmethod
    def parse(cls, reply: str) -> BackgroundColour:
        """Parse `ESC ] 11 ; rgb:1/22/3333 BEL`. Raises ValueError."""
        parts = reply.rstrip("\x07\x1b\\").partition(":")[2].split("/")[:3]
        red, green, blue = (int(part, 16) * 255 // (16 ** len(part) - 1) for part in parts)
        return cls((red, green, blue))

    @property
    def is_light(self) -> bool:
        red, green, blue = self.rgb
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue >= 128


class Translation:
    """Translates tokens. Keeps the state that mouse reports depend on."""

    def __init__(self) -> None:
        self._parser = XTermParser()

    def messages(self, found: Iterable[Token]) -> Iterator[Message]:
        for token in found:
            try:
                yield from self._messages(token)
            except (ValueError, OverflowError):
                continue  # out-of-range numbers that no terminal sends

    def _messages(self, token: Token) -> list[Message]:
        match token.kind:
            case "typed":
                return [event for character in token.text for event in self._keys(character)]
            case "pasted":
                return [events.Paste(token.text)]
            case "reply":
                return [BackgroundColour.parse(token.text)] if token.text.startswith("\x1b]11;") else []
        return self._sequence(token.text)

    def _sequence(self, text: str) -> list[Message]:
        if text in ("\x1b[I", "\x1b[O"):
            return [events.AppFocus() if text == "\x1b[I" else events.AppBlur()]
        if text == "\x1b":
            return [events.Key("escape", "\x1b")]
        if text.startswith("\x1b[<"):
            report = self._parser.parse_mouse_code(text)
            return [] if report is None else [report]
        found: list[Message] = [*self._keys(text)]
        if found or len(text) != 2:
            return found
        # ESC and a character: the key with Alt. It types nothing, so it has no character.
        plain = [event.key.removeprefix("alt+") for event in self._parser._sequence_to_key_events(text[1], alt=True)]
        return [events.Key(f"alt+{name}", None) for name in plain if name != Keys.Ignore]

    def _keys(self, text: str) -> list[events.Key]:
        found = self._parser._sequence_to_key_events(text)
        return [event for event in found if event.key != Keys.Ignore and not _SURROGATE(event.character or "")]
