"""How often Python looks for garbage, so that nobody feels it.

A start makes a quarter of a million objects that stay, so it goes without looking (see `__main__`). Afterwards a pause,
which may come between a key and its paint, must not grow with the conversation: what a look through all objects has
left is frozen, so that the next one takes only what came later. Frozen objects that have become garbage since are found
while the user is away.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping

YOUNG = 8_000
"""Objects that are looked through at a time: about 2 ms."""
STEPS = (2, 1)
"""Before the middle and the oldest generation are looked through: at most some 50,000 objects, about 30 ms."""
AWAY_SECONDS = 60.0
"""Without a key for so long, the user is away."""
_GROWTH = 1.5
"""All objects are looked through when there are so many times as many as the last time."""

_looked_through = 0
"""Frozen objects after the last look through all."""
_session_left = False


def stays() -> None:
    """All that is there by now stays: it is not looked through again. Once only, or what a session left stays too."""
    gc.freeze()


def settle() -> None:
    """From now on pauses stay short, however many objects there are."""
    global _looked_through
    gc.freeze()
    gc.set_threshold(YOUNG, *STEPS)
    _looked_through = gc.get_freeze_count()
    if _freeze_rest not in gc.callbacks:
        gc.callbacks.append(_freeze_rest)


def session_left() -> None:
    """A session was closed: its objects are garbage, however few they are."""
    global _session_left
    _session_left = True


def look_through_all() -> bool:
    """Find garbage among frozen objects too, if there may be much. A third of a second: for a user who is away."""
    global _looked_through, _session_left
    if _freeze_rest not in gc.callbacks or (not _session_left and gc.get_freeze_count() < _looked_through * _GROWTH):
        return False
    gc.unfreeze()
    gc.collect()
    _looked_through, _session_left = gc.get_freeze_count(), False
    return True


def _freeze_rest(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
