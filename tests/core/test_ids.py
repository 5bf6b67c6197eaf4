"""Ids are random and valid; timestamps are the wall clock's, whatever is reused between two of them."""

from __future__ import annotations

import os
import time
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from agentcli.core.ids import RandomIds, SystemClock


def test_ids_are_version_4_uuids_and_never_the_same() -> None:
    made = [RandomIds().new() for _id in range(1_000)]
    assert len(set(made)) == len(made)
    assert all(str(uuid.UUID(one)) == one and uuid.UUID(one).version == 4 for one in made)
    assert {uuid.UUID(one).variant for one in made} == {uuid.RFC_4122}


def test_a_forked_process_makes_ids_of_its_own() -> None:
    RandomIds().new()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, RandomIds().new().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 100).decode() != RandomIds().new()
    os.close(reader)


def test_a_timestamp_is_the_time_in_milliseconds() -> None:
    clock = SystemClock()
    before = datetime.now(UTC)
    text = clock.timestamp()
    assert text.endswith("Z")
    assert len(text) == len("2026-11-17T13:00:02.403Z")
    assert before - timedelta(milliseconds=1) < datetime.fromisoformat(text) <= datetime.now(UTC)


def test_timestamps_of_one_second_and_of_the_next_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    texts = []
    for nanoseconds in (1_000_000_000, 1_999_999_999, 2_000_000_000, 2_007_000_000):
        monkeypatch.setattr(time, "time_ns", lambda now=nanoseconds: now)
        texts.append(clock.timestamp()[17:])
    assert texts == ["01.000Z", "01.999Z", "02.000Z", "02.007Z"]


def test_a_timestamp_is_right_when_another_thread_makes_one_of_the_next_second(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shared(SystemClock):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "_second":
                super().__setattr__(name, (2, "1970-01-01T00:00:02"))

    monkeypatch.setattr(time, "time_ns", lambda: 1_999_000_000)
    assert Shared().timestamp() == "1970-01-01T00:00:01.999Z"
