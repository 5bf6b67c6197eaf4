"""When session lines reach the disk: beside the next request between two turns, before the result at the end."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from agentcli.core.events import MessageAppended, RequestStarted
from agentcli.core.messages import Message, Origin, TextBlock
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from tests.session.conversations import SESSION_ID, workplace
from tests.support.fakes import bench
from tests.support.scripts import call, reply, say
from tests.support.virtual import run_virtual


class SlowDisk:
    """A disk that has nothing before it is released."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.released = threading.Event()
        self.synced: list[int] = []
        """Size of the file at the end of each synchronisation."""
        patch.setattr(os, "fdatasync", self._sync)

    def _sync(self, descriptor: int) -> None:
        assert self.released.wait(10)
        self.synced.append(os.fstat(descriptor).st_size)


def prompt(text: str) -> MessageAppended:
    return MessageAppended(message=Message("user", (TextBlock(text),), text, Origin.PROMPT))


def a_store(folder: Path) -> SessionStore:
    return SessionStore.create(workplace(folder), SESSION_ID)


def notices(store: SessionStore) -> list[str]:
    return list(iter(store.take_notice, None))


def test_a_slow_disk_does_not_hold_up_later_lines_and_closing_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, store = SlowDisk(monkeypatch), a_store(tmp_path)
    store.record(prompt("one"))
    store.sync_soon()
    store.record(prompt("two"))
    assert store.path is not None
    assert len(load_session(store.path).messages) == 2
    disk.released.set()
    store.close()
    assert disk.synced[-1] == store.path.stat().st_size


def test_an_explicit_sync_waits_for_the_one_in_the_thread_and_adds_what_came_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, store = SlowDisk(monkeypatch), a_store(tmp_path)
    store.record(prompt("one"))
    store.sync_soon()
    store.record(prompt("two"))
    disk.released.set()
    store.sync()
    assert store.path is not None
    assert len(disk.synced) == 2
    assert disk.synced[-1] == store.path.stat().st_size
    store.sync()
    assert len(disk.synced) == 2
    store.close()


def test_a_failure_in_the_thread_is_reported_with_the_next_line_which_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = a_store(tmp_path)

    def fail(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store.record(prompt("one"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        store.sync_soon()
        store.sync()
    assert "the disk is full" in notices(store)[0]
    assert store.problem is not None
    store.record(prompt("two"))
    store.close()
    assert store.path is not None
    assert [message.text for message in load_session(store.path).messages] == ["one", "two"]


def test_a_file_removed_before_the_thread_looks_is_noticed(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    store.record(prompt("one"))
    assert store.path is not None
    store.path.unlink()
    store.sync_soon()
    store.sync()
    assert "removed" in notices(store)[0]
    store.close()


def test_the_next_request_does_not_wait_for_the_disk_and_the_result_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, store = SlowDisk(monkeypatch), a_store(tmp_path)
    seen: list[int] = []

    async def main() -> None:
        b = bench(reply(call("Read", file_path="none")), reply(say("Done.")), store=store)
        async with b.engine:
            async for event in b.engine.submit("go"):
                if isinstance(event, RequestStarted) and event.turn == 2:
                    seen.append(len(disk.synced))
                    disk.released.set()
            assert store.path is not None
            assert disk.synced[-1] == store.path.stat().st_size

    run_virtual(main)
    assert seen == [0]
