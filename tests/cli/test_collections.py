"""Pauses for garbage in headless runs: short, however long the conversation is."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

from agentcli.__main__ import ALLOCATIONS_BETWEEN_COLLECTIONS, COLLECTIONS_AFTER_START, bound_collections


def check_that_collections_look_only_at_what_came_since() -> None:
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
    gc.callbacks.append(bound_collections)
    looked_at: list[int] = []
    gc.callbacks.append(lambda phase, _info: looked_at.append(len(gc.get_objects())) if phase == "start" else None)
    kept: list[list[int]] = [[] for _each in range(3 * ALLOCATIONS_BETWEEN_COLLECTIONS)]
    assert gc.get_freeze_count() > 2 * ALLOCATIONS_BETWEEN_COLLECTIONS
    assert gc.get_threshold() == COLLECTIONS_AFTER_START
    assert 0 < max(looked_at) <= 10 * COLLECTIONS_AFTER_START[0], looked_at
    assert len(kept) == 3 * ALLOCATIONS_BETWEEN_COLLECTIONS


def test_collections_look_only_at_what_came_since() -> None:
    """In a Python of its own: thresholds are those of the whole process."""
    code = f"import {__name__} as checks; checks.{check_that_collections_look_only_at_what_came_since.__name__}()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
