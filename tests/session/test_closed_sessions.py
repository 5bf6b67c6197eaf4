"""Sessions that no process has open: renamed in place, deleted with what belongs to them, and never through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcli.core.events import MessageAppended
from agentcli.core.ids import SequentialIds, SystemClock
from agentcli.core.messages import Message, Origin, TextBlock
from agentcli.history.removal import DAY_SECONDS, SessionRemover, apply_retention
from agentcli.session.base import SessionBusy, SessionContext, session_path
from agentcli.session.closed_sessions import rename_session
from agentcli.session.find import WINDOW, describe_session, list_sessions
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from agentcli.workspace.folders import shrink
from tests.session.conversations import result, workplace
from tests.workspace.folders import working

STATE = "state"


def id_of(letter: str) -> str:
    return f"{letter * 8}-0000-4000-8000-000000000000"


def stored(
    folder: Path, letter: str, *, title: str = "", generated: bool = False, parent: str = "", age_days: float = 0.0
) -> Path:
    """A session with one prompt and large tool output."""
    store = SessionStore.create(workplace(folder), id_of(letter), parent)
    store.record(MessageAppended(message=Message("user", (TextBlock(f"prompt {letter}"),), "1", Origin.PROMPT)))
    if title:
        store.set_title(title, generated=generated)
    results = store.results_dir()
    assert results is not None
    (results / "output.txt").write_text("x" * 5_000)
    store.record(result())
    store.close()
    assert store.path is not None
    written = store.path.stat().st_mtime
    os.utime(store.path, (written - age_days * DAY_SECONDS,) * 2)
    return store.path


def rename(path: Path, title: str) -> None:
    rename_session(path, title, SystemClock(), SequentialIds(5))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_renamed_session_keeps_its_time_and_is_found_by_its_new_name(tmp_path: Path) -> None:
    path = stored(tmp_path, "a", title="old", age_days=3)
    modified = path.stat().st_mtime_ns
    rename(path, "the parser")
    info = describe_session(path)
    assert info is not None
    assert (info.title, info.is_named, path.stat().st_mtime_ns) == ("the parser", True, modified)
    assert load_session(path).title == "the parser"
    assert not path.with_suffix(".lock").exists()


def test_a_name_after_a_torn_line_is_read_and_a_session_that_was_cut_off_is_still_offered(tmp_path: Path) -> None:
    path = stored(tmp_path, "a")
    with path.open("ab") as file:
        file.write(b'{"type":"assist')
    path.with_suffix(".lock").touch()
    rename(path, "torn")
    assert load_session(path).title == "torn"
    assert path.with_suffix(".lock").exists()


def test_a_session_that_is_open_is_neither_renamed_nor_deleted(tmp_path: Path) -> None:
    path = stored(tmp_path, "a")
    store, _loaded = SessionStore.resume(workplace(tmp_path, first_id=9), path)
    before = path.read_bytes()
    for change in (lambda: rename(path, "x"), lambda: SessionRemover(tmp_path / STATE).remove(path)):
        with pytest.raises(SessionBusy, match="is open"):
            change()
    assert path.read_bytes() == before
    store.close()
    rename(path, "x")


def test_a_deleted_session_takes_its_output_and_its_agents_with_it_and_nothing_else(tmp_path: Path) -> None:
    path = stored(tmp_path, "a")
    stored(tmp_path, "b", parent=id_of("a"))
    stored(tmp_path, "c", parent=id_of("b"))
    other = stored(tmp_path, "d")
    freed = SessionRemover(tmp_path / STATE).remove(path)
    assert names(path.parent) == [id_of("d"), other.name]
    assert freed > 3 * 5_000


def test_what_a_copy_of_a_deleted_session_needs_stays(tmp_path: Path) -> None:
    path = stored(tmp_path, "a")
    store, _loaded = SessionStore.fork(workplace(tmp_path, first_id=9), path, id_of("b"))
    store.close()
    remover = SessionRemover(tmp_path / STATE)
    remover.remove(path)
    assert not path.exists()
    assert (path.with_suffix("") / "tool-results" / "output.txt").exists()


@pytest.mark.parametrize("what", ["session", "results", "project"])
def test_nothing_is_deleted_through_a_link(tmp_path: Path, what: str) -> None:
    path = stored(tmp_path, "a")
    outside = tmp_path / "outside"
    real = {"session": path, "results": path.with_suffix(""), "project": path.parent}[what]
    real.rename(outside)
    real.symlink_to(outside)
    kept = sorted(tmp_path.rglob("*"))
    with pytest.raises(OSError):
        SessionRemover(tmp_path / STATE).remove(path)
    assert sorted(tmp_path.rglob("*")) == kept


def test_old_sessions_are_deleted_once_a_day_but_not_those_with_a_name_or_in_use(tmp_path: Path) -> None:
    stored(tmp_path, "a", age_days=31)
    stored(tmp_path, "b", age_days=31, title="Generated", generated=True)
    stored(tmp_path, "c", age_days=31, title="mine")
    stored(tmp_path, "d", age_days=29)
    in_use, _loaded = SessionStore.resume(workplace(tmp_path, first_id=9), stored(tmp_path, "e", age_days=31))
    count, freed = apply_retention(tmp_path / STATE, 30)
    assert (count, freed > 10_000) == (2, True)
    left = [info.session_id[0] for info in list_sessions(tmp_path / STATE, tmp_path)]
    assert sorted(left) == ["c", "d", "e"]
    stored(tmp_path, "f", age_days=31)
    assert apply_retention(tmp_path / STATE, 30) == (0, 0)
    in_use.close()


def test_a_name_given_long_ago_is_listed_after_a_long_conversation(tmp_path: Path) -> None:
    """The list reads only the beginning and the end of a file."""
    path = stored(tmp_path, "a")
    store, _loaded = SessionStore.resume(workplace(tmp_path, first_id=9), path)
    for number, title in enumerate(("", "in the middle", "")):
        if title:
            store.set_title(title, generated=True)
        text = "long " * WINDOW
        store.record(MessageAppended(message=Message("user", (TextBlock(text),), str(50 + number), Origin.PROMPT)))
    store.record(result())
    store.close()
    info = describe_session(path)
    assert info is not None
    assert (info.title, info.is_title_generated) == ("in the middle", True)


@pytest.mark.anyio
async def test_the_snapshots_of_a_deleted_session_go_and_those_of_others_stay(tmp_path: Path) -> None:
    project, state = tmp_path / "project", tmp_path / STATE
    project.mkdir()
    place = SessionContext(state, project, SystemClock(), SequentialIds(1), "1.0")
    for letter in "ab":
        store = SessionStore.create(place, id_of(letter))
        store.record(MessageAppended(message=Message("user", (TextBlock("p"),), "1", Origin.PROMPT)))
        store.close()
        async with working(state, project, session=id_of(letter)) as work, work.submission():
            (project / f"{letter}.txt").write_text(letter * 100)
    SessionRemover(state).remove(session_path(state, project, id_of("a")))
    (shadow,) = (state / "snapshots" / "folders").iterdir()
    assert names(shadow / "refs" / "snapshots") == [id_of("b")]
    assert names(state / "snapshots" / "sessions") == [f"{id_of('b')}.jsonl"]
    assert [shrink(shadow, 0.0), shrink(shadow, 0.0)] == [True, False]
    async with working(state, project, session=id_of("b")) as work:
        assert (await work.undo()).deleted == (str(project / "b.txt"),)
