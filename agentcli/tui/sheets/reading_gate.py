"""Whether the whole body of a dialog has been on the screen: until then nothing in it can be allowed."""

from __future__ import annotations


class ReadingGate:
    """Opens when the last line of a content was on the screen, and closes when the content changes.

    A jump to the end counts: it is a decision of the user, and hundreds of lines are not read one page at a time. A
    window that became smaller afterwards does not close it again.
    """

    def __init__(self) -> None:
        self._read: object = object()
        self.insists = False
        """An answer was refused because of it: the hint is painted stronger."""

    def note(self, content: object, rows: int, below: int) -> None:
        """`rows` lines of `content` are on the screen, and `below` more follow."""
        if rows > 0 and below == 0:
            self._read = content
            self.insists = False

    def is_open(self, content: object) -> bool:
        return self._read == content
