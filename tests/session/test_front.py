"""The fingerprint of requests in the session file: one line per change, which older readers skip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.core.messages import Json
from agentcli.session import journal
from agentcli.session.load import load_session, read_records
from agentcli.session.store import SessionStore
from tests.session.conversations import OTHER_ID, SESSION_ID, FixedClock, workplace
from tests.session.test_store import file_of, file_size_limit, prompt, texts

HIGH: Json = {"model": "model-a", "effort": "high", "tools": [["Read", "12ab"]]}
LOW: Json = {**HIGH, "effort": "low"}


def fronts(path: Path) -> list[Json]:
    return [record["front"] for record in read_records(path) if record["type"] == "request-front"]


def begun(folder: Path) -> SessionStore:
    store = SessionStore.create(workplace(folder), SESSION_ID)
    store.record(prompt("hello"))
    return store


def test_a_changed_fingerprint_is_written_and_available_after_a_resume_and_in_a_fork(tmp_path: Path) -> None:
    store = SessionStore.create(workplace(tmp_path), SESSION_ID)
    store.note_front(HIGH)
    assert not file_of(store).exists(), "a fingerprint alone makes no session"
    store.record(prompt("hello"))
    for front in (HIGH, HIGH, LOW, LOW):
        store.note_front(dict(front))
    store.close()
    path = file_of(store)
    assert fronts(path) == [HIGH, LOW]
    again, loaded = SessionStore.resume(workplace(tmp_path), path)
    assert (loaded.front, loaded.front_version) == (LOW, workplace(tmp_path).version)
    again.note_front(LOW)
    again.close()
    fork, forked = SessionStore.fork(workplace(tmp_path), path, OTHER_ID)
    fork.record(prompt("on", "prompt-2"))
    fork.note_front(LOW)
    fork.close()
    assert forked.front == LOW
    assert fronts(path) == fronts(file_of(fork)) == [HIGH, LOW]
    assert texts(path) == ["hello"]


def test_another_version_writes_the_fingerprint_again(tmp_path: Path) -> None:
    store = begun(tmp_path)
    store.note_front(HIGH)
    store.close()
    again, _loaded = SessionStore.resume(replace(workplace(tmp_path), version="99.0"), file_of(store))
    again.note_front(HIGH)
    again.note_front(HIGH)
    again.close()
    assert fronts(file_of(store)) == [HIGH, HIGH]
    assert load_session(file_of(store)).front_version == "99.0"


def test_a_fingerprint_lost_to_a_full_disk_is_written_after_the_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "BUFFER_LIMIT", 2_000)
    clock = FixedClock()
    store = SessionStore.create(workplace(tmp_path, clock=clock), SESSION_ID)
    with file_size_limit(0):
        store.record(prompt("one"))
        store.note_front(HIGH)
        for number in range(10):
            store.record(prompt("x" * 500, f"prompt-{number}"))
    clock.now += journal.RETRY_SECONDS
    store.record(prompt("late", "prompt-late"))
    store.close()
    loaded = load_session(file_of(store))
    assert loaded.lost > 5
    assert (loaded.front, loaded.skipped) == (HIGH, 0)


def test_an_invalid_fingerprint_line_changes_nothing(tmp_path: Path) -> None:
    store = begun(tmp_path)
    store.note_front(HIGH)
    store.close()
    path = file_of(store)
    path.write_bytes(path.read_bytes() + b'{"type":"request-front","front":7}\n{"type":"request-front"}\n')
    loaded = load_session(path)
    assert (loaded.front, loaded.skipped) == (HIGH, 2)
