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
    assert not garbage_collection.collect_all(), "there is not much of it"
    garbage_collection.mark_session_closed()
    assert garbage_collection.collect_all()
    assert gone() is None
    assert not garbage_collection.collect_all()


def collect_all_when_they_have_become_many() -> None:
    garbage_collection._collected = gc.get_freeze_count() // 2
    assert garbage_collection.collect_all()
    assert not garbage_collection.collect_all()


def check_all() -> None:
    gc.collect()
    garbage_collection.shorten_pauses()
    keep_what_is_left_out_of_the_next_look()
    find_frozen_garbage_once_a_session_was_left()
    collect_all_when_they_have_become_many()


def test_garbage_is_frozen_found_once_a_session_was_left_and_looked_through_when_it_is_much() -> None:
    code = f"import {__name__} as checks; checks.check_all()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
