"""Engines that record a real session file, with the virtual time of their loop in its lines."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json
from agentcli.session.base import Rewind, SessionContext
from agentcli.session.store import SessionStore
from tests.session.conversations import SESSION_ID
from tests.support.fakes import Bench, bench

_START = datetime(2026, 11, 19, 10, tzinfo=UTC)


class RecordingClock:
    """The wall clock runs with the loop, `ahead` seconds before it."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def timestamp(self) -> str:
        now = _START + timedelta(seconds=self.monotonic() + self.ahead)
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def session_file(folder: Path) -> Path:
    return next((folder / "state").glob(f"sessions/*/{SESSION_ID}.jsonl"))


def recorded(folder: Path, *replies: Json | str, clock: RecordingClock | None = None, **rest: Any) -> Bench:
    """As `bench`, with a session file below this folder."""
    place = SessionContext(folder / "state", folder, clock or RecordingClock(), SequentialIds(500_000), "1.0")
    return bench(*replies, store=SessionStore.create(place, SESSION_ID), **rest)


def recorded_again(
    folder: Path, *replies: Json | str, rewind: Rewind | None = None, clock: RecordingClock | None = None, **rest: Any
) -> Bench:
    """Another process that resumes the session of `recorded`."""
    place = SessionContext(folder / "state", folder, clock or RecordingClock(), SequentialIds(900_000), "1.0")
    store, loaded = SessionStore.resume(place, session_file(folder), rewind=rewind)
    return bench(*replies, store=store, log=tuple(loaded.messages), ids=SequentialIds(800_000), **rest)
