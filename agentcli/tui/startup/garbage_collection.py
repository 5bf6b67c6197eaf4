"""How often Python looks for garbage, so that nobody feels it.

A start makes a quarter of a million objects that stay, so it goes without looking (see `__main__`). Afterwards few are
made, and a pause of 30 ms for a hundred thousand of them, which may come between a key and its paint, is worth nothing.
"""

from __future__ import annotations

import gc

YOUNG = 8_000
"""Objects that are looked through at a time: about 2 ms."""
STEPS = (4, 50)


def stays() -> None:
    """All that is there by now stays: it is not looked through again. Once only, or what a session left stays too."""
    gc.freeze()


def settle() -> None:
    gc.freeze()
    gc.set_threshold(YOUNG, *STEPS)
