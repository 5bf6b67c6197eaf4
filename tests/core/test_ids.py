"""Ids are random and valid; timestamps are those of the wall clock."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from agentcli.core.ids import RandomIds, SystemClock


def test_ids_are_version_4_uuids_and_never_the_same() -> None:
    made = [RandomIds().new() for _id in range(1_000)]
    assert len(set(made)) == len(made)
    assert all(str(uuid.UUID(one)) == one and uuid.UUID(one).version == 4 for one in made)
    assert {uuid.UUID(one).variant for one in made} == {uuid.RFC_4122}


def test_a_timestamp_is_the_time_in_milliseconds() -> None:
    clock = SystemClock()
    before = datetime.now(UTC)
    text = clock.timestamp()
    assert text.endswith("Z")
    assert len(text) == len("2026-11-17T13:00:02.403Z")
    assert before - timedelta(milliseconds=1) < datetime.fromisoformat(text) <= datetime.now(UTC)
