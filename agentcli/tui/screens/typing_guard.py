"""Prevents accidental answers: keys typed while a dialog appears belong to the prompt, not to the dialog."""

from __future__ import annotations

from collections.abc import Callable

PAUSE = 0.4
"""Seconds without typing before a key counts as an answer; no user reads and answers faster."""
_MIDST = 1.5
"""Seconds: a user who typed this shortly before the dialog is in mid-sentence and may only be pausing."""


class TypingGuard:
    """From `begin` on ignores keys until the user has paused; after that every key counts, however fast."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open = True
        self._last = 0.0
        self._held = False
        self._in_text = False
        """Whether the user is typing a text, to which a digit or Enter may belong."""
        self.pause = PAUSE

    def begin(self, typed: float, has_text: bool) -> None:
        """`typed`: time of the last key press before the dialog, on the same clock. `has_text`: whether the prompt
        contains text."""
        self._open = False
        self._last = self._clock()
        if self._last - typed < _MIDST:
            self.pause = 2 * PAUSE
            self._in_text = has_text

    def holds(self) -> bool:
        """Whether a key pressed now must not answer."""
        return not self._is_over()

    def takes(self, character: str | None) -> bool:
        """Whether a key that must not answer belongs to the user's text. A digit or Enter on its own is an answer
        given too early: it must not become a prompt."""
        starts_text = character is not None and not (character.isdecimal() or character.isspace())
        if not (self._in_text or starts_text):
            return False
        self.hold()
        return True

    def hold(self) -> None:
        """Require another pause, because the user is typing again."""
        self._open = False
        self._last = self._clock()
        self._held = self._in_text = True

    @property
    def holding(self) -> bool:
        """Whether a key was ignored and the next one would be too."""
        return self._held and not self._is_over()

    def _is_over(self) -> bool:
        self._open = self._open or self._clock() - self._last >= self.pause
        return self._open
