"""Bytes of a text file as text and back, without losing its encoding, byte order mark or line ends."""

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
_NO_TEXT = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f-\x9f]")


@frozen
class Decoded:
    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @property
    def newline(self) -> str | None:
        """The file's line end if it has only one kind; None if it is mixed or has no line end at all."""
        pairs, feeds = self.text.count("\r\n"), self.text.count("\n")
        if feeds == 0 or 0 < pairs < feeds:
            return None
        return "\r\n" if pairs else "\n"

    def encode(self, text: str) -> bytes | None:
        """Text in this file's encoding; None if it has characters that the encoding lacks."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError:
            return None


def decode(data: bytes) -> Decoded | None:
    """None for what is not text, or not in an encoding from which the same bytes can be made again."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return Decoded(data[len(mark) :].decode(encoding), encoding, mark)
            except UnicodeDecodeError:
                return None
    if b"\x00" in data:
        return None
    try:
        return Decoded(data.decode("utf-8"))
    except UnicodeDecodeError:
        # Latin-1 takes any byte; the control characters are what tells text from anything else.
        return None if _NO_TEXT.search(data) else Decoded(data.decode("latin-1"), "latin-1")


def looks_binary(sample: bytes) -> bool:
    """Whether the beginning of something is mostly not text in any encoding that is shown here."""
    if not sample or any(sample.startswith(mark) for mark, _encoding in _MARKS):
        return False
    text = sample.decode("utf-8", errors="replace")
    odd = sum(1 for char in text if char == "\ufffd" or (char < " " and char not in "\t\n\r\x1b\x08\x0c\x07"))
    return odd > len(text) * 0.1 if "\x00" in text else odd > len(text) * 0.3
