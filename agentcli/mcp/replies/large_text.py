"""Process texts of tens of megabytes in a thread without stopping the event loop.

A single operation on such a text holds the interpreter's lock for tens of milliseconds, up to seconds. Here it is
split, so that other threads can run in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentcli.core.text.plaintext import ControlStripper, plain_text

PIECE = 64 * 1024
"""Characters that are processed at once; a longer text counts as large."""
_BLOCK = 1024 * 1024


def pieces_of(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def joined(pieces: Iterable[str]) -> str:
    """Like `"".join`, which copies all of them at once."""
    text = ""
    block: list[str] = []
    size = 0
    for piece in pieces:
        block.append(piece)
        size += len(piece)
        if size >= _BLOCK:
            text += "".join(block)  # in place: nothing else refers to the text
            block, size = [], 0
    text += "".join(block)
    return text


def plain_large_text(text: str) -> str:
    """Like `plain_text`, in pieces."""
    if len(text) <= PIECE:
        return plain_text(text)
    stripper = ControlStripper()
    return joined([*map(stripper.feed, pieces_of(text)), stripper.finish()])
