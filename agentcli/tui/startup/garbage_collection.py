"""Tunes Python's garbage collector so that its pauses are not noticeable.

Start-up creates a quarter of a million objects that stay alive, so it runs without collection (see `__main__`).
Afterwards a pause, which may fall between a key and its repaint, must not grow with the conversation: objects that
survive a full collection are frozen, so that the next one only examines newer objects. Frozen objects that have become
garbage since are collected while the user is away.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping

YOUNG = 8_000
"""Threshold of the young generation: number of objects examined at a time, about 2 ms."""
STEPS = (2, 1)
"""Thresholds of the middle and the oldest generation: a collection examines at most about 50,000 objects, 30 ms."""
AWAY_SECONDS = 60.0
"""Time without a key after which the user counts as away."""
_GROWTH = 1.5
"""All objects are collected again when their number has grown by this factor."""

_collected = 0
"""Number of frozen objects after the last collection of all objects."""
_session_closed = False


def freeze_all() -> None:
    """Freeze all current objects, so that they are not examined again. Call it only once: later it would also keep the
    garbage of a closed session."""
    gc.freeze()


def shorten_pauses() -> None:
    """Keep pauses short from now on, however many objects there are."""
    global _collected
    gc.freeze()
    gc.set_threshold(YOUNG, *STEPS)
    _collected = gc.get_freeze_count()
    if _freeze_rest not in gc.callbacks:
        gc.callbacks.append(_freeze_rest)


def mark_session_closed() -> None:
    """Note that a session was closed: its objects are garbage, however few they are."""
    global _session_closed
    _session_closed = True


def collect_all() -> bool:
    """Collect frozen objects too, if there may be much garbage; return whether it was done. Takes a third of a second,
    so call it while the user is away."""
    global _collected, _session_closed
    if _freeze_rest not in gc.callbacks or (not _session_closed and gc.get_freeze_count() < _collected * _GROWTH):
        return False
    gc.unfreeze()
    gc.collect()
    _collected, _session_closed = gc.get_freeze_count(), False
    return True


def _freeze_rest(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
