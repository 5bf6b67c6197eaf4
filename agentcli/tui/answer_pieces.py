"""Find the answer items that continue an answer of the previous reply (one answer can span several replies)."""

from __future__ import annotations

from agentcli.core.answers import AnswerTracker
from agentcli.core.messages import Message, Origin


class AnswerPieces:
    """Call `take` with every message of the conversation, and `joint` for every text block of a reply."""

    def __init__(self) -> None:
        self._tracker = AnswerTracker()
        self._tail = ""
        self._first: tuple[str, int] | None = None
        """Message id and index of the first text block of the current reply."""

    def take(self, message: Message) -> None:
        self._tracker.take(message)
        if message.origin is Origin.REPLY and not message.is_copy:
            text = message.text
            self._tail = text[len(text.rstrip("\n")) :]

    def joint(self, message_id: str, index: int, text: str) -> str | None:
        """Line breaks between this block and the answer it continues; None if it starts a new answer."""
        if not self._tracker.unfinished or not text.strip():
            return None
        if self._first is None or self._first[0] != message_id:
            self._first = (message_id, index)
        if self._first[1] != index:
            return None
        return self._tail + text[: len(text) - len(text.lstrip("\n"))]
