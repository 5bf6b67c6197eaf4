"""Pauses for garbage stay short as a conversation grows, and garbage is found all the same.

The checks run in a Python of their own: a test run has millions of objects, and each look through them takes seconds.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

from agentcli.tui.startup import garbage_collection


class Link:
    def __init__(self) -> None:
        self.itself: Link | None = self


def keep_what_is_left_out_of_the_next_look() -> None:
    kept = [Link() for _each in range(1_000)]
    frozen = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() >= frozen + len(kept)
    assert not any(isinstance(each, Link) for each in gc.get_objects())


def find_frozen_garbage_once_a_session_was_left() -> None:
    link: Link | None = Link()
    gone = weakref.ref(link)
    gc.collect()
    link = None
    gc.collect()
    assert gone() is not None
    assert not garbage_collection.look_through_all(), "there is not much of it"
    garbage_collection.session_left()
    assert garbage_collection.look_through_all()
    assert gone() is None
    assert not garbage_collection.look_through_all()


def look_through_all_when_they_have_become_many() -> None:
    garbage_collection._looked_through = gc.get_freeze_count() // 2
    assert garbage_collection.look_through_all()
    assert not garbage_collection.look_through_all()


def check_all() -> None:
    gc.collect()
    garbage_collection.settle()
    keep_what_is_left_out_of_the_next_look()
    find_frozen_garbage_once_a_session_was_left()
    look_through_all_when_they_have_become_many()


def test_garbage_is_frozen_found_once_a_session_was_left_and_looked_through_when_it_is_much() -> None:
    code = f"import {__name__} as checks; checks.check_all()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
