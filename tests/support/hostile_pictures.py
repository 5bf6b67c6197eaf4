"""Pictures that take far more time to decode than their size suggests."""

from __future__ import annotations


def endless_jpeg(passes: int) -> bytes:
    """A progressive picture of so many passes; each has 20 bytes and takes time for all of its pixels."""

    def segment(marker: int, body: bytes) -> bytes:
        return bytes((0xFF, marker)) + (len(body) + 2).to_bytes(2, "big") + body

    width = height = 1_500
    blocks = ((width + 7) // 8) ** 2
    frame = b"\x08" + height.to_bytes(2, "big") + width.to_bytes(2, "big") + b"\x01\x01\x11\x00"
    tables = [b"\x00" + b"\x01" + bytes(15) + b"\x00", b"\x10" + b"\x01" + bytes(15) + b"\xe0"]
    first = segment(0xDA, b"\x01\x01\x00\x00\x00\x00") + bytes((blocks + 7) // 8)
    # One code for "the next 32767 blocks are unchanged", twice.
    later = segment(0xDA, b"\x01\x01\x00\x01\x3f\x00") + b"\x7f\xfe\xff\x00\xff\x00"
    head = segment(0xDB, b"\x00" + bytes([1] * 64)) + segment(0xC2, frame)
    return b"\xff\xd8" + head + b"".join(segment(0xC4, each) for each in tables) + first + later * passes + b"\xff\xd9"
