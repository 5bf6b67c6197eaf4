"""Pauses for garbage stay short as a conversation grows, and garbage is found all the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from agentcli.tui.startup import garbage_collection


class Link:
    def __init__(self) -> None:
        self.itself: Link | None = self


@pytest.fixture
def settled() -> Iterator[None]:
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    gc.collect()
    garbage_collection.settle()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks[:] = callbacks
        gc.unfreeze()


def test_what_a_look_through_all_objects_has_left_is_not_looked_at_again(settled: None) -> None:
    kept = [Link() for _each in range(1_000)]
    frozen = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() >= frozen + len(kept)
    assert not any(isinstance(each, Link) for each in gc.get_objects())


def test_frozen_garbage_is_found_once_a_session_was_left(settled: None) -> None:
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


def test_all_objects_are_looked_through_again_when_they_have_become_many(
    settled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage_collection, "_looked_through", gc.get_freeze_count() // 2)
    assert garbage_collection.look_through_all()
    assert not garbage_collection.look_through_all()
