"""Undo and redo of file changes, with the real git."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentcli.workspace import listing, shadow
from tests.workspace.folders import SESSION, Work, state_of, working

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("print(1)\n")
    (folder / "script.sh").write_text("#!/bin/sh\n")
    (folder / "script.sh").chmod(0o755)
    (folder / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (folder / "data.bin").write_bytes(bytes(range(256)))
    (folder / "link").symlink_to("src/app.py")
    (folder / "hollow" / "deep").mkdir(parents=True)
    return folder


async def test_all_changes_of_a_submission_are_undone_and_redone(work: Work, project: Path) -> None:
    before = state_of(project)
    async with work.submission():
        (project / "src" / "app.py").write_text("print(2)\n")
        (project / "crlf.txt").write_bytes(b"one\r\n2\r\n")
        (project / "data.bin").unlink()
        (project / "script.sh").chmod(0o644)
        (project / "link").unlink()
        (project / "link").symlink_to("/etc/passwd")
        (project / "new" / "deep").mkdir(parents=True)
        (project / "new" / "deep" / "x.txt").write_text("x")
        (project / "bare").mkdir()
        (project / "hollow" / "deep").rmdir()
    after = state_of(project)
    report = await work.undo()
    assert report.done
    assert report.kept == ()
    assert state_of(project) == before
    assert {Path(path).name for path in report.deleted} == {"x.txt"}
    assert report.recreated == (str(project / "data.bin"),)
    again = await work.redo()
    assert again.done
    assert state_of(project) == after


async def test_a_later_process_can_undo_and_so_can_one_after_a_kill(project: Path, tmp_path: Path) -> None:
    before = state_of(project)
    async with working(tmp_path / "state", project) as work:
        async with work.submission():
            (project / "a.txt").write_text("a")
        work.history.begin("killed in the middle")
        await work.before()
        (project / "b.txt").write_text("b")
    async with working(tmp_path / "state", project) as work:
        assert (await work.undo()).deleted == (str(project / "b.txt"),)
        assert (await work.undo()).deleted == (str(project / "a.txt"),)
    assert state_of(project) == before


async def test_ignored_files_are_restored_but_not_those_that_a_tool_can_rebuild(work: Work, project: Path) -> None:
    (project / ".gitignore").write_text("*\n")
    (project / ".env").write_text("KEY=1\n")
    (project / ".env").chmod(0o600)
    for name in ("data/a.csv", "node_modules/x.js", "dist/app.js", "venv/pyvenv.cfg", "data/node_modules/y.js"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("old")
    async with work.submission():
        (project / ".gitignore").unlink()
        (project / ".env").unlink()
        for name in ("data", "node_modules", "dist", "venv"):
            shutil.rmtree(project / name)
        (project / "dist").mkdir()
        (project / "dist" / "app.js").write_text("new")
        (project / "made.txt").write_text("new")
    changes = await work.history.changes()
    await work.undo()
    assert [(Path(one.path).name, one.kind) for one in changes] == [
        (".env", "deleted"), (".gitignore", "deleted"), ("a.csv", "deleted"), ("made.txt", "added"),
    ]  # fmt: skip
    assert (project / ".env").read_text() == "KEY=1\n"
    assert (project / ".env").stat().st_mode & 0o777 == 0o600
    assert (project / "data" / "a.csv").read_text() == "old"
    assert (project / "dist" / "app.js").read_text() == "new"
    assert not (project / "node_modules").exists()
    assert not (project / "made.txt").exists()


async def test_ignored_files_beyond_the_limits_are_named_and_left_alone(
    work: Work, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_IGNORED_FILES", 3)
    (project / ".gitignore").write_text("data/\n*.key\n")
    (project / "a.key").write_text("old")
    (project / "data").mkdir()
    for number in range(4):
        (project / "data" / str(number)).write_text("old")
    async with work.submission():
        (project / ".gitignore").write_text("")
        (project / "a.key").write_text("new")
        (project / "data" / "0").unlink()
    assert work.history.uncovered() == (project / "data",)
    report = await work.undo()
    assert f"Undo does not cover {project / 'data'}: too many or too large files." in report.text
    assert (project / "a.key").read_text() == "old"
    assert {path.name for path in (project / "data").iterdir()} == {"1", "2", "3"}


async def test_ignore_files_above_the_working_directory_count_too(tmp_path: Path) -> None:
    top = tmp_path / "repository"
    folder = top / "packages" / "app"
    (folder / "node_modules").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    (top / ".gitignore").write_text("node_modules\n")
    (folder / "node_modules" / "x.js").write_text("x")
    (folder / "main.js").write_text("1")
    (top / "outside.txt").write_text("1")
    async with working(tmp_path / "state", folder) as work:
        async with work.submission():
            (folder / "main.js").write_text("2")
            (folder / "made.js").write_text("2")
            (folder / "node_modules" / "x.js").write_text("y")
            (top / "outside.txt").write_text("2")
        assert [Path(one.path).name for one in await work.history.changes()] == ["made.js", "main.js"]
        await work.undo()
    assert (folder / "main.js").read_text() == "1"
    assert not (folder / "made.js").exists()
    assert (top / "outside.txt").read_text() == "2", "it is outside the working directory"


async def test_several_working_directories_and_repositories_inside_them_are_put_back(
    project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    nested = project / "vendor" / "library"
    nested.mkdir(parents=True)
    other.mkdir()
    subprocess.run(["git", "init", "-q", str(nested)], check=True)
    (nested / "code.c").write_text("1")
    (other / "note.txt").write_text("1")
    before = state_of(project), state_of(other)
    async with working(tmp_path / "state", project, other) as work:
        async with work.submission():
            (nested / "code.c").write_text("2")
            (nested / "new.c").write_text("2")
            (other / "note.txt").unlink()
        await work.undo()
    assert (state_of(project), state_of(other)) == before


def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_COPIED", 100)
    monkeypatch.setattr(listing, "ALWAYS_COPIED", 100)


async def test_files_without_a_copy_that_were_deleted_or_created_are_reported(
    work: Work, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_limits(monkeypatch)
    (project / "gone.bin").write_bytes(b"l" * 200)
    (project / "grown.bin").write_bytes(b"l" * 200)
    (project / "same.bin").write_bytes(b"l" * 200)
    (project / "moved.bin").write_bytes(b"o" * 300)
    expected = {"gone.bin": "deleted", "made.bin": "added", "grown.bin": "modified", "crlf.txt": "modified"}
    expected |= {"moved.bin": "deleted", "there.bin": "added"}
    async with work.submission():
        (project / "gone.bin").unlink()
        await work.before()
        assert work.history.take_notice() == (
            f"{project / 'gone.bin'} was removed and cannot be restored: too large, no copy kept."
        )
        (project / "made.bin").write_bytes(b"m" * 200)
        (project / "grown.bin").write_bytes(b"m" * 400)
        (project / "crlf.txt").write_bytes(b"n" * 400)
        (project / "moved.bin").rename(project / "there.bin")
    assert work.history.take_notice() is None, "what was moved is not lost"
    changes = await work.history.changes()
    assert {Path(one.path).name: one.kind for one in changes} == expected
    assert {one.note for one in changes} == {"too large, no copy kept"}
    report = await work.undo()
    assert {Path(one.path).name: one.kind for one in report.kept} == expected
    again = await work.redo()
    assert (again.done, again.kept) == (False, ()), "all of it is as it was done"
    (project / "gone.bin").write_bytes(b"mine")
    (project / "made.bin").unlink()
    await work.undo()
    report = await work.redo()
    assert {Path(one.path).name: one.kind for one in report.kept} == {"gone.bin": "modified", "made.bin": "added"}
    assert (project / "gone.bin").read_bytes() == b"mine"


async def test_a_file_without_a_copy_that_became_ignored_is_not_called_deleted(
    work: Work, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_limits(monkeypatch)
    (project / "large.bin").write_bytes(b"l" * 200)
    (project / "changed.bin").write_bytes(b"l" * 200)
    async with work.submission():
        (project / ".gitignore").write_text("*.bin\n")
        (project / "changed.bin").write_bytes(b"l" * 50)
    assert work.history.take_notice() is None
    changes = await work.history.changes()
    assert [(Path(one.path).name, one.kind) for one in changes if one.note] == [("changed.bin", "modified")]
    assert [Path(one.path).name for one in (await work.undo()).kept] == ["changed.bin"]


async def test_large_files_are_copied_too_as_long_as_there_is_room_for_them(
    work: Work, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "ALWAYS_COPIED", 300)
    monkeypatch.setattr(listing, "MAX_COPIED", 1_000)
    monkeypatch.setattr(listing, "LARGE_TOGETHER", 1_500)
    monkeypatch.setattr(shadow, "_BLOBS_AT_ONCE", 2)
    (project / "a.bin").write_bytes(b"a" * 700)
    (project / "b.bin").write_bytes(b"b" * 700)
    (project / "c.bin").write_bytes(b"c" * 700)
    before = state_of(project)
    async with work.submission():
        (project / "a.bin").unlink()
        (project / "b.bin").write_bytes(b"small")
        (project / "crlf.txt").unlink()
    assert "c.bin" not in {Path(one.path).name for one in await work.history.changes()}, "room is not given back"
    for _time in range(3):
        report = await work.undo()
        assert (report.kept, state_of(project)) == ((), before)
        assert (await work.redo()).kept == ()
    assert (await work.undo()).kept == ()
    async with work.submission():
        (project / "c.bin").unlink()
    assert [Path(one.path).name for one in (await work.undo()).kept] == ["c.bin"]


async def test_a_folder_that_became_a_link_does_not_lead_a_write_out_of_the_tree(
    work: Work, project: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "app.py").write_text("precious")
    async with work.submission():
        (project / "src" / "app.py").unlink()
    (project / "src").rmdir()
    (project / "src").symlink_to(outside)
    report = await work.undo()
    assert (outside / "app.py").read_text() == "precious"
    assert [Path(kept.path).name for kept in report.kept] == ["app.py"]


async def test_the_state_folder_inside_the_working_directory_is_no_part_of_it(project: Path) -> None:
    state = project / ".local" / "state"
    state.mkdir(parents=True)
    (project / ".gitignore").write_text("!**\n")
    async with working(state, project) as work:
        async with work.submission():
            (project / "a.txt").write_text("a")
        assert [Path(one.path).name for one in await work.history.changes()] == ["a.txt"]


async def test_copies_are_for_the_user_alone(project: Path, tmp_path: Path) -> None:
    async with working(tmp_path / "state", project) as work, work.submission():
        (project / "a.txt").write_text("a")
    (place,) = (tmp_path / "state" / "snapshots" / "folders").iterdir()
    assert place.stat().st_mode & 0o777 == 0o700
    journal = tmp_path / "state" / "snapshots" / "sessions" / f"{SESSION}.jsonl"
    assert journal.stat().st_mode & 0o777 == 0o600
    assert journal.parent.stat().st_mode & 0o777 == 0o700


async def test_odd_names_and_files_that_become_folders_are_put_back(work: Work, project: Path) -> None:
    for name in ("new\nline", 'quote"d', "-dash", "späce ü", "tab\there", ":(top)x"):
        (project / name).write_text(name)
    os.mkfifo(project / "pipe")
    before = state_of_without_pipe(project)
    async with work.submission():
        for name in ("new\nline", 'quote"d', "-dash", "späce ü", "tab\there", ":(top)x"):
            (project / name).write_text("changed")
        (project / "crlf.txt").unlink()
        (project / "crlf.txt").mkdir()
        (project / "crlf.txt" / "inner").write_text("x")
        (project / "src" / "app.py").unlink()
        (project / "src").rmdir()
        (project / "src").write_text("a file now")
    after = state_of_without_pipe(project)
    await work.undo()
    assert state_of_without_pipe(project) == before
    await work.redo()
    assert state_of_without_pipe(project) == after


def state_of_without_pipe(folder: Path) -> object:
    (folder / "pipe").unlink()
    found = state_of(folder)
    os.mkfifo(folder / "pipe")
    return found


async def test_an_ignored_file_that_a_later_call_changes_is_put_back_and_not_removed(work: Work, project: Path) -> None:
    (project / ".gitignore").write_text(".env\nmade.env\n")
    (project / ".env").write_text("KEY=1\n")
    async with work.submission():
        (project / "src" / "app.py").write_text("2")
        await work.before(file_path=".env")
        (project / ".env").write_text("KEY=2\n")
        await work.before(file_path=".env")
        (project / ".env").write_text("KEY=3\n")
        await work.before(file_path="made.env")
        (project / "made.env").write_text("new")
    report = await work.undo()
    assert report.kept == ()
    assert (project / ".env").read_text() == "KEY=1\n"
    assert not (project / "made.env").exists()
    await work.redo()
    assert (project / ".env").read_text() == "KEY=3\n"


async def test_a_repository_inside_that_loses_its_git_folder_keeps_its_files(work: Work, project: Path) -> None:
    nested = project / "vendor"
    nested.mkdir()
    (nested / "a.c").write_text("1")
    subprocess.run(["git", "init", "-q", str(nested)], check=True)
    async with work.submission():
        shutil.rmtree(nested / ".git")
        (nested / "a.c").write_text("2")
    changes = await work.history.changes()
    await work.undo()
    assert (nested / "a.c").read_text() == "1"
    assert [Path(one.path).name for one in changes] == ["a.c"]


async def test_a_repository_created_meanwhile_stays_and_is_named(work: Work, project: Path) -> None:
    async with work.submission():
        (project / "src" / "app.py").write_text("2")
        subprocess.run(["git", "init", "-q", str(project / "clone")], check=True)
        (project / "clone" / "x").write_text("x")
    report = await work.undo()
    assert f"{project}/clone was created meanwhile and is a separate repository: it stays." in report.text
    assert (project / "clone" / "x").exists()
    assert (project / "src" / "app.py").read_text() == "print(1)\n"


async def test_a_repository_inside_that_was_removed_gets_its_files_back(work: Work, project: Path) -> None:
    nested = project / "vendor" / "library"
    nested.mkdir(parents=True)
    (nested / "a.c").write_text("1")
    subprocess.run(["git", "init", "-q", str(nested)], check=True)
    async with work.submission():
        shutil.rmtree(project / "vendor")
    await work.undo()
    assert (nested / "a.c").read_text() == "1"
    await work.redo()
    assert not (nested / "a.c").exists()


async def test_two_sessions_in_one_folder_undo_their_own(project: Path, tmp_path: Path) -> None:
    async with (
        working(tmp_path / "state", project, session="one") as first,
        working(tmp_path / "state", project, session="two") as second,
    ):
        async with first.submission():
            (project / "first.txt").write_text("1")
        async with second.submission():
            (project / "second.txt").write_text("2")
        async with asyncio.TaskGroup() as both:
            reports = [both.create_task(work.undo()) for work in (first, second)]
        assert [report.result().deleted for report in reports] == [
            (str(project / "first.txt"),),
            (str(project / "second.txt"),),
        ]


async def test_a_call_that_is_cancelled_leaves_no_process_and_the_next_one_works(work: Work, project: Path) -> None:
    for number in range(300):
        (project / f"{number}.txt").write_text(str(number) * 100)
    work.history.begin("prompt")
    for turns in range(0, 60, 3):
        task = asyncio.create_task(work.before())
        for _turn in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
    async with work.submission():
        (project / "a.txt").write_text("a")
    assert (await work.undo()).deleted == (str(project / "a.txt"),)


async def test_a_prepared_snapshot_is_quick_and_a_call_may_interrupt_the_preparation(work: Work, project: Path) -> None:
    looking = asyncio.create_task(work.history.warm([project]))
    await asyncio.sleep(0)
    async with work.submission():
        (project / "a.txt").write_text("a")
    await looking
    assert (await work.undo()).deleted == (str(project / "a.txt"),)
    again = asyncio.create_task(work.history.warm([project]))
    await asyncio.sleep(0)
    again.cancel()
    await asyncio.wait({again})


async def test_a_file_outside_the_working_directories_is_reported_as_not_undone(
    work: Work, project: Path, tmp_path: Path
) -> None:
    async with work.submission(file_path=str(tmp_path / "elsewhere.txt")):
        (project / "a.txt").write_text("a")
        await work.before(file_path=str(tmp_path / "elsewhere.txt"))
    report = await work.undo()
    assert report.text == f"{tmp_path}/elsewhere.txt is outside the working directories and is not undone."


@pytest.mark.parametrize("broken", ["index", "objects", "config", "lock"])
async def test_a_broken_index_is_rebuilt(project: Path, tmp_path: Path, broken: str) -> None:
    async with working(tmp_path / "state", project, session="first") as work, work.submission():
        (project / "a.txt").write_text("a")
    (place,) = (tmp_path / "state" / "snapshots" / "folders").iterdir()
    if broken == "index":
        (place / "index").write_bytes(b"DIRC" + bytes(5))
    elif broken == "objects":
        shutil.rmtree(place / "objects")
    elif broken == "config":
        (place / "config").write_text("[core\n")
    else:
        (place / "index.lock").touch()
        (place / f"index.{SESSION}.{os.getpid()}.lock").touch()
    async with working(tmp_path / "state", project) as work:
        async with work.submission():
            (project / "src" / "app.py").write_text("2")
        assert work.history.take_notice() is None
        assert (await work.undo()).restored == (str(project / "src" / "app.py"),)
    assert (project / "src" / "app.py").read_text() == "print(1)\n"


def broken_git(folder: Path) -> str:
    """A search path with a git that never ends and counts its starts."""
    (folder / "bin").mkdir()
    (folder / "bin" / "git").write_text(f"#!/bin/sh\necho x >> {folder}/started\nexec sleep 60\n")
    (folder / "bin" / "git").chmod(0o755)
    return str(folder / "bin")


@pytest.mark.parametrize("problem", ["more than 3 files", "git was not found", "takes too long", "cannot be undone"])
async def test_without_copies_work_continues_and_the_reason_is_reported_once(
    project: Path, tmp_path: Path, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest: dict[str, object] = {}
    if problem == "more than 3 files":
        monkeypatch.setattr(shadow, "MAX_FILES", 3)
    elif problem == "git was not found":
        rest = {"search_path_override": ""}
    elif problem == "takes too long":
        rest = {"search_path_override": broken_git(tmp_path), "snapshot_seconds": 0.2}
    else:
        (tmp_path / "state").write_text("a file, not a folder")
    async with working(tmp_path / "state", project, **rest) as work:
        for _number in range(5):
            async with work.submission():
                await work.before()
                (project / "src" / "app.py").write_text("2")
        assert problem in (work.history.take_notice() or "")
        assert work.history.take_notice() is None
        report = await work.undo()
    assert not report.done
    assert problem in report.text
    if problem == "takes too long":
        assert (tmp_path / "started").read_text().count("x") == 3, "then the folder is given up"


async def test_the_file_system_root_is_not_scanned(tmp_path: Path) -> None:
    async with working(tmp_path / "state", Path("/")) as work:
        async with work.submission():
            pass
        assert work.history.take_notice() == "Changes in / cannot be undone: it is the root of the file system."
