"""Decode and encode text files without losing the encoding, byte order mark or line endings.

Text returned by `decode` always encodes to the same bytes; anything else is not treated as text. A guessed encoding
affects only the display, so it is used only if the bytes leave little doubt.
"""

from __future__ import annotations

import codecs
import re

from agentcli.core.frozen import frozen

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_C1 = re.compile(rb"[\x80-\x9f]")
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_SAMPLE = 1 << 16
_NAMES = {"cp932": "Shift_JIS", "euc_jp": "EUC-JP", "euc_kr": "EUC-KR", "gb18030": "GB18030", "cp1252": "Windows-1252"}


@frozen
class Decoded:
    text: str
    """Invalid bytes in a UTF-8 file are lone surrogates here; they are written back unchanged."""
    encoding: str = "utf-8"
    mark: bytes = b""
    invalid: int = 0
    """Number of bytes that are invalid in this encoding."""

    @property
    def newline(self) -> str | None:
        """The file's line ending if it has only one kind; None if it is mixed or has none."""
        pairs, feeds, returns = (self.text.count(end) for end in ("\r\n", "\n", "\r"))
        if feeds == 0:
            return "\r" if returns else None
        if 0 < pairs < feeds:
            return None
        return "\r\n" if pairs else "\n"

    @property
    def unusual(self) -> str | None:
        """Name of the encoding if it is not plain UTF-8, for a notice; else None."""
        name = _NAMES.get(self.encoding, "Latin-1" if self.encoding == "latin-1" else self.encoding.upper())
        if self.invalid:
            what = "byte that is" if self.invalid == 1 else "bytes that are"
            return f"UTF-8 with {self.invalid:,} {what} not valid, shown as \ufffd and kept as they are"
        if self.encoding == "utf-8":
            return None
        return f"{name} with a byte order mark" if self.mark else name

    def encode(self, text: str) -> bytes | None:
        """Encode text; None if it has characters that the encoding lacks."""
        try:
            return self.mark + text.encode(self.encoding, "surrogateescape" if self.invalid else "strict")
        except UnicodeEncodeError:
            return None

    def list_lacking(self, text: str) -> str:
        return "".join([char for char in dict.fromkeys(text) if self.encode(char) is None][:5])


def decode(data: bytes) -> Decoded | None:
    """Decode a file; None if it is not text, or if encoding would not reproduce the same bytes."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return Decoded(data[len(mark) :].decode(encoding), encoding, mark)
            except UnicodeDecodeError:
                if encoding != "utf-8":
                    return None
    if b"\x00" in data:
        return _wide(data)
    try:
        return Decoded(data.decode("utf-8"))
    except UnicodeDecodeError:
        return None if _CONTROL.search(data) else _decode_damaged(data) or _double_byte(data) or _single_byte(data)


def _wide(data: bytes) -> Decoded | None:
    """Decode UTF-16 without a mark: ASCII letters put NULs in every second position, and only there."""
    if len(data) % 2 or len(data) < 8:
        return None
    sample = data[:_SAMPLE]
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    half = max(1, len(sample) // 2)
    if odd >= 0.4 * half and even <= 0.01 * half:
        encoding = "utf-16-le"
    elif even >= 0.4 * half and odd <= 0.01 * half:
        encoding = "utf-16-be"
    else:
        return None
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    # Tables of small numbers have NULs in the same positions, but hardly ever only letters.
    if not all(char.isprintable() or char in "\t\n\r\x0c" for char in text[:_SAMPLE]):
        return None
    return Decoded(text, encoding)


def _decode_damaged(data: bytes) -> Decoded | None:
    """Decode UTF-8 with a few invalid bytes, e.g. a log of several programs: far more valid sequences than invalid
    bytes."""
    text = data.decode("utf-8", "surrogateescape")
    bad = len(text) - len(text.encode("utf-8", "ignore").decode("utf-8"))
    good = len(text) - bad - len(text.encode("ascii", "ignore"))
    if good < 3 * bad:
        return None
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    return Decoded(text[1:] if mark else text, "utf-8", mark, bad)


def _double_byte(data: bytes) -> Decoded | None:
    """Detect Japanese by its kana, Chinese and Korean by common characters. Never for a few isolated bytes."""
    sample = data[:_SAMPLE]
    runs = _HIGH_RUN.findall(sample)
    high = sum(map(len, runs))
    if high < 8:
        return None
    for encoding in ("cp932", "euc_jp"):
        text = sample.decode(encoding, "ignore")
        foreign = [char for char in text if char > "\x7f"]
        kana = sum("\u3041" <= char <= "\u30fa" for char in foreign)
        if kana >= 4 and kana >= 0.3 * len(foreign):
            return _decode_exactly(data, encoding)
    # In the other encodings both bytes are high, so characters form runs of even length.
    paired = [run for run in runs if len(run) % 2 == 0]
    leads = [lead for run in paired for lead in run[::2]]
    if sum(map(len, paired)) < 0.9 * high or sum(0xB0 <= lead <= 0xD7 for lead in leads) < 0.8 * len(leads):
        return None
    hangul = sum(0xB0 <= lead <= 0xC8 for lead in leads)
    return _decode_exactly(data, "euc_kr" if hangul >= 0.97 * len(leads) else "gb18030")


def _decode_exactly(data: bytes, encoding: str) -> Decoded | None:
    # Some encodings have two byte sequences for one character; such a file would change.
    try:
        text = data.decode(encoding)
        return Decoded(text, encoding) if text.encode(encoding) == data else None
    except UnicodeError:
        return None


def _single_byte(data: bytes) -> Decoded | None:
    if not _C1.search(data):
        return Decoded(data.decode("latin-1"), "latin-1")
    try:
        return Decoded(data.decode("cp1252"), "cp1252")
    except UnicodeDecodeError:
        return None


def looks_binary(sample: bytes) -> bool:
    """Whether a sample is mostly not text in any supported encoding."""
    if not sample or any(sample.startswith(mark) for mark, _encoding in _MARKS):
        return False
    text = sample.decode("utf-8", errors="replace")
    odd = sum(1 for char in text if char == "\ufffd" or (char < " " and char not in "\t\n\r\x1b\x08\x0c\x07"))
    return odd > len(text) * 0.1 if "\x00" in text else odd > len(text) * 0.3
