"""Which session was cut off, by its end and by the lock file that its process left."""

from __future__ import annotations

import os
import time
from pathlib import Path

from agentcli.core.events import Event, MessageAppended
from agentcli.core.messages import Message, Origin, TextBlock
from agentcli.session.base import Store
from agentcli.session.cut_off import MAX_AGE_SECONDS, take_cut_off
from agentcli.session.find import WINDOW
from agentcli.session.store import SessionStore
from tests.session.conversations import result, workplace


def prompt(text: str) -> Event:
    return MessageAppended(message=Message("user", (TextBlock(text),), "1", Origin.PROMPT))


def killed(folder: Path, letter: str, *events: Event, age: float = 0.0, parent: str = "") -> Path:
    """The session of a process that was killed after these events."""
    store = SessionStore.create(workplace(folder), f"{letter * 8}-0000-4000-8000-000000000000", parent)
    for event in events:
        store.record(event)
    store.close()
    assert store.path is not None
    lock = store.path.with_suffix(".lock")
    lock.touch()
    written = time.time() - age
    os.utime(store.path, (written, written))
    return lock


def taken(folder: Path) -> str:
    found = take_cut_off(folder / "state", folder)
    return "" if found is None else found.label


def test_each_session_that_was_cut_off_is_returned_once_the_newest_first(tmp_path: Path) -> None:
    assert taken(tmp_path) == ""
    killed(tmp_path, "a", prompt("older"), age=20)
    killed(tmp_path, "b", prompt("newer"), age=10)
    assert [taken(tmp_path) for _start in range(3)] == ["newer", "older", ""]
    assert list(tmp_path.rglob("*.lock")) == []


def test_the_end_of_the_last_submission_is_not_required_to_fit_the_window(tmp_path: Path) -> None:
    killed(tmp_path, "a", prompt("first"), result(), prompt("second " * WINDOW))
    assert taken(tmp_path) == "first"


def test_sessions_that_were_not_cut_off_are_not_returned(tmp_path: Path) -> None:
    killed(tmp_path, "a", prompt("idle"), result())
    killed(tmp_path, "b", prompt("long ago"), age=MAX_AGE_SECONDS + 60)
    killed(tmp_path, "c", prompt("a sub-agent's"), parent="aaaaaaaa-0000-4000-8000-000000000000")
    killed(tmp_path, "d", prompt("ended in order")).unlink()
    killed(tmp_path, "e", prompt("without its file")).with_suffix(".jsonl").unlink()
    assert taken(tmp_path) == ""


def test_a_session_that_another_process_has_open_is_left_alone(tmp_path: Path) -> None:
    store: Store = SessionStore.create(workplace(tmp_path), "aaaaaaaa-0000-4000-8000-000000000000")
    store.record(prompt("still working"))
    assert taken(tmp_path) == ""
    assert len(list(tmp_path.rglob("*.lock"))) == 1
    store.close()


def test_a_session_of_a_folder_with_the_same_key_is_left_to_that_folder(tmp_path: Path) -> None:
    lock = killed(tmp_path / "a-b", "a", prompt("there"))
    here = tmp_path / "a" / "b"
    here.mkdir(parents=True)
    assert take_cut_off(tmp_path / "a-b" / "state", here) is None
    assert lock.exists()


def test_a_submission_that_a_signal_ended_counts_although_it_has_an_end(tmp_path: Path) -> None:
    store = SessionStore.create(workplace(tmp_path), "aaaaaaaa-0000-4000-8000-000000000000")
    store.record(prompt("go"))
    store.mark_cut_off()
    store.record(result())
    store.close()
    assert [taken(tmp_path) for _start in range(2)] == ["go", ""]
