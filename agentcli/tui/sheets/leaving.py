"""One rule for leaving every dialog, picker and page, whatever is in it.

Esc closes what is open inside (a search, a line for typing), else the dialog. Ctrl+C closes the dialog at once,
whatever is open inside. Either way a question is declined, never approved. Ctrl+C twice, Ctrl+D twice and `/exit` quit
the app as they do in the conversation; while a text is typed Ctrl+D deletes in it.
"""

from __future__ import annotations

from textual.message import Message

EXIT_WORDS = ("exit", "quit")
TOLD_SECONDS = 2.0


class QuitWanted(Message):
    """`/exit` was typed into a dialog."""


def is_exit(text: str, found: bool) -> bool:
    """Whether a search is meant as the command `/exit`: the slash may have opened the search. `found`: there are
    matches, so that the word may be what is looked for."""
    word = text.strip()
    return word.removeprefix("/") in EXIT_WORDS and (word.startswith("/") or not found)
