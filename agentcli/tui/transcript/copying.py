"""Maps screen cells to source text, for copying a selection and finding the word under the mouse.

The copied text is the source: no gutters, no padding, and wrapped lines are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from textual.geometry import Offset
from textual.selection import Selection

from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.glyphs import clusters
from agentcli.tui.transcript.stack import StackEntry, place

_INSIDE_WORDS = "_-./~@:+%#&=?"
"""Characters that belong to a word, so that a double click selects paths, addresses and flags."""


def snap(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a range of cells to whole characters, so that no wide character is cut in half."""
    if text.isascii():
        return start, end
    for cluster in clusters(text):
        if cluster.left < start < cluster.right:
            start = cluster.left
        if cluster.left < end < cluster.right:
            end = cluster.right
    return start, end


def cut(text: str, start: int, end: int | None) -> str:
    if start <= 0 and end is None:
        return text
    found = [
        cluster for cluster in clusters(text) if cluster.right > max(0, start) and (end is None or cluster.left < end)
    ]
    return text[found[0].start : found[-1].end] if found else ""


def word_at(text: str, cell: int) -> tuple[int, int] | None:
    row = list(clusters(text))
    at = next((index for index, cluster in enumerate(row) if cluster.left <= cell < cluster.right), None)
    if at is None or text[row[at].start].isspace():
        return None
    if not _in_word(text[row[at].start]):
        return row[at].left, row[at].right
    first = last = at
    while first and _in_word(text[row[first - 1].start]):
        first -= 1
    while last + 1 < len(row) and _in_word(text[row[last + 1].start]):
        last += 1
    return row[first].left, row[last].right


def _in_word(character: str) -> bool:
    return character.isalnum() or character in _INSIDE_WORDS or ord(character) > 0x2FFF


def span(selection: Selection, entry: StackEntry, row: int) -> tuple[int, int | None] | None:
    """Selected cells of a row: start, and end (None: the rest of the row). None if nothing in it is selected."""
    here = place(entry, row)
    start, end = selection
    if (start is not None and here < start.y) or (end is not None and here > end.y):
        return None
    return (
        start.x if start is not None and here == start.y else 0,
        end.x if end is not None and here == end.y else None,
    )


def select(entry: StackEntry, row: int, start: int, end: int) -> Selection:
    where = place(entry, row)
    return Selection(Offset(start, where), Offset(end, where))


def selected_text(
    selection: Selection, entries: Iterable[StackEntry], lay_out: Callable[[StackEntry], Sequence[BlockLine]]
) -> str:
    """Source text of a selection. A completely selected block whose lines were dropped, because it is far from the
    view, contributes its raw source: laying out all such blocks would take seconds."""
    written: list[str] = []
    between = ""
    for entry in entries:
        first, last = span(selection, entry, 0), span(selection, entry, max(0, entry.rows - 1))
        if not _touches(selection, entry) or not entry.rows:
            continue
        if written:
            between = "\n" * (1 + entry.space)
        if entry.lines is None and first == last == (0, None):
            written += [between, entry.block.source.rstrip("\n")]
            between = "\n"
            continue
        for row, line in enumerate(lay_out(entry)):
            cells = span(selection, entry, row)
            if cells is None:
                continue
            start, end = cells
            left = line.indent
            written += [between, cut(line.text, start - left, None if end is None else end - left)]
            between = line.joint
    return "".join(written)


def _touches(selection: Selection, entry: StackEntry) -> bool:
    start, end = selection
    return (start is None or start.y <= place(entry, entry.rows - 1)) and (end is None or end.y >= place(entry, 0))
