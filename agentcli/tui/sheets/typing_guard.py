"""Tells an answer from the rest of a sentence: whoever types when a dialog comes up must not answer it by accident."""

from __future__ import annotations

from collections.abc import Callable

PAUSE = 0.4
"""So many seconds nobody may have typed before a key counts as an answer. Nobody reads and answers faster."""
_MIDST = 1.5
"""Who typed so shortly before the dialog came is in the midst of a sentence, and may well stop to think."""


class TypingGuard:
    """Once nobody has typed for the pause every key counts, however fast."""

    def __init__(self, clock: Callable[[], float], typed: Callable[[], float] | None, *, on: bool) -> None:
        """`typed` is when a key was last pressed before, in the time of `clock`."""
        self._clock = clock
        self._typed = typed
        self._open = not on
        self._last = clock()
        self._held = False
        self.pause = PAUSE

    def begin(self) -> None:
        self._last = self._clock()
        if self._typed is not None and self._last - self._typed() < _MIDST:
            self.pause = 2 * PAUSE

    def holds(self) -> bool:
        """Whether a key that is pressed now is still part of what was being typed."""
        if self._is_over():
            return False
        self._last = self._clock()
        self._held = True
        return True

    def hold(self) -> None:
        """Somebody types again: what is pressed from now on has to wait for a pause once more."""
        self._open = False
        self._last = self._clock()
        self._held = True

    @property
    def holding(self) -> bool:
        """A key was held back, and the next one would be."""
        return self._held and not self._is_over()

    def _is_over(self) -> bool:
        self._open = self._open or self._clock() - self._last >= self.pause
        return self._open
