"""Old copies are deleted, new ones never."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agentcli.workspace import folders
from agentcli.workspace.folders import KEEP_SECONDS, prune, shrink
from tests.workspace.folders import working

pytestmark = pytest.mark.anyio


def aged(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


async def changed(state: Path, project: Path, session: str) -> None:
    async with working(state, project, session=session) as work, work.submission():
        (project / f"{session}.txt").write_text(session * 100)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    return folder


async def test_sessions_older_than_thirty_days_are_pruned_and_others_can_still_be_undone(
    project: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    await changed(state, project, "old")
    await changed(state, project, "new")
    snapshots = state / "snapshots"
    (place,) = (snapshots / "folders").iterdir()
    aged(place / "refs" / "snapshots" / "old", KEEP_SECONDS + 60)
    aged(snapshots / "sessions" / "old.jsonl", KEEP_SECONDS + 60)
    aged(snapshots / "pruned", 2 * 86_400)
    async with working(state, project, session="new") as work:
        async with work.submission():
            (project / "b.txt").write_text("b")
        assert work.history._pruning is not None
        await work.history._pruning
        assert [path.name for path in (place / "refs" / "snapshots").iterdir()] == ["new"]
        assert [path.name for path in (snapshots / "sessions").iterdir()] == ["new.jsonl"]
        assert (await work.undo()).deleted == (str(project / "b.txt"),)
        assert (await work.undo()).deleted == (str(project / "new.txt"),)
    async with working(state, project, session="old") as work:
        assert not (await work.undo()).done


async def test_snapshots_of_an_unused_folder_are_deleted(project: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    await changed(state, project, "old")
    (place,) = (state / "snapshots" / "folders").iterdir()
    for path in (place / "index", place / "refs" / "snapshots" / "old"):
        aged(path, KEEP_SECONDS + 60)
    (state / "snapshots" / "pruned").unlink()
    await prune(state / "snapshots", [])
    assert not place.exists()


async def test_pruning_runs_at_most_once_a_day(project: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    await changed(state, project, "old")
    (place,) = (state / "snapshots" / "folders").iterdir()
    for path in (place / "index", place / "refs" / "snapshots" / "old"):
        aged(path, KEEP_SECONDS + 60)
    await prune(state / "snapshots", [])
    assert place.exists()


async def test_a_shadow_that_has_grown_too_large_keeps_the_last_days_only(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    await changed(state, project, "older")
    await changed(state, project, "newer")
    (place,) = (state / "snapshots" / "folders").iterdir()
    aged(place / "refs" / "snapshots" / "older", 5 * 86_400)
    assert not shrink(place, time.time())
    monkeypatch.setattr(folders, "MAX_SHADOW_SIZE", 10)
    assert shrink(place, time.time())
    assert [path.name for path in (place / "refs" / "snapshots").iterdir()] == ["newer"]


async def test_undo_reports_deleted_copies(project: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    await changed(state, project, "old")
    (place,) = (state / "snapshots" / "folders").iterdir()
    for path in (place / "objects").rglob("*"):
        if path.is_file():
            path.unlink()
    async with working(state, project, session="old") as work:
        report = await work.undo()
    assert not report.done
    assert "have been deleted" in report.text
    assert (project / "old.txt").exists()
