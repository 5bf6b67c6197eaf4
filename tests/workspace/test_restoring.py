"""Restoring an earlier state of the files: exact, with the user's changes kept, and undone as one step."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agentcli.workspace import listing
from agentcli.workspace.base import RestoreMark, RestorePlan, UndoChoices, UndoReport
from tests.support.examples import EXAMPLES
from tests.workspace.folders import State, Work, git, state_of, working
from tests.workspace.test_properties import act

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("1\n2\n3\n4\n5\n")
    return folder


async def restore(work: Work, since: int, choices: UndoChoices | None = None) -> UndoReport:
    return await work.history.restore(since, choices or UndoChoices(), RestoreMark("p", 0, with_conversation=False))


async def plan(work: Work, since: int) -> RestorePlan:
    return await work.history.restore_plan(since, UndoChoices())


def texts(found: RestorePlan) -> str:
    assert not found.diff.problem
    return "".join(folder.text for folder in found.diff.folders)


@pytest.mark.parametrize("seed", range(EXAMPLES // 3))
async def test_any_state_comes_back_exactly_and_undoing_that_gives_the_former_one(seed: int, tmp_path: Path) -> None:
    rng = random.Random(2000 + seed)
    root = tmp_path / "project"
    root.mkdir()
    for _act in range(rng.randrange(12)):
        act(rng, root)
    states: dict[int, State] = {}
    async with working(tmp_path / "state", root) as work:
        for _submission in range(3):
            number = (await work.history.submissions())[-1].number + 1 if states else 1
            states[number] = state_of(root)
            async with work.submission():
                for _call in range(rng.randrange(1, 3)):
                    for _act in range(rng.randrange(1, 6)):
                        act(rng, root)
                    await work.before()
        for _jump in range(4):
            now, since = state_of(root), rng.choice(list(states))
            number = (await work.history.submissions())[-1].number + 1
            report = await restore(work, since)
            assert report.kept == ()
            assert state_of(root) == states[since], f"before submission {since}"
            if state_of(root) == now:
                continue
            if rng.random() < 0.5:
                assert (await work.undo()).done
                assert state_of(root) == now
                assert (await work.redo()).done
                assert state_of(root) == states[since]
            # It is a state like any other: what it left can be returned to.
            states[number] = now


@pytest.mark.parametrize("seed", range(EXAMPLES // 3))
async def test_what_the_user_changed_between_submissions_stays(seed: int, tmp_path: Path) -> None:
    rng = random.Random(3000 + seed)
    root = tmp_path / "project"
    for name in ("agent", "mine"):
        (root / name).mkdir(parents=True)
    for _act in range(8):
        act(rng, root / "agent")
    before = state_of(root / "agent")
    async with working(tmp_path / "state", root) as work:
        for _submission in range(3):
            async with work.submission():
                for _act in range(4):
                    act(rng, root / "agent")
            for _act in range(3):
                act(rng, root / "mine")
        mine = state_of(root / "mine")
        await restore(work, 1)
        assert state_of(root / "agent") == before
        assert state_of(root / "mine") == mine


async def test_lines_of_the_user_between_submissions_stay_and_the_plan_shows_what_would_change(
    work: Work, project: Path
) -> None:
    file = project / "a.txt"
    async with work.submission():
        file.write_text("ONE\n2\n3\n4\n5\n")
    file.write_text("ONE\n2\nmine\n4\n5\n")
    async with work.submission():
        file.write_text("ONE\n2\nmine\n4\nFIVE\n")
        (project / "new.txt").write_text("new\n")
    file.write_text("ONE\nmine too\nmine\n4\nFIVE\n")
    found = await plan(work, 1)
    shown = texts(found)
    for line in ("-ONE\n+1\n", "-FIVE\n+5\n", "-new\n"):
        assert line in shown
    assert " mine\n" in shown
    assert found.merged == (str(file),)
    assert not found.questions.conflicts
    report = await restore(work, 1)
    assert file.read_text() == "1\nmine too\nmine\n4\n5\n"
    assert report.merged == (str(file),)
    assert not (project / "new.txt").exists()
    assert (await plan(work, 1)).is_empty
    await work.undo()
    assert file.read_text() == "ONE\nmine too\nmine\n4\nFIVE\n"
    assert (project / "new.txt").read_text() == "new\n"


async def test_lines_that_both_changed_are_left_until_the_user_chooses(work: Work, project: Path) -> None:
    file = project / "a.txt"
    for line in ("TWO", "II"):
        async with work.submission():
            file.write_text(f"1\n{line}\n3\n4\n5\n")
    file.write_text("1\nmine\n3\n4\n5\n")
    found = await plan(work, 1)
    (conflict,) = found.questions.conflicts
    assert (conflict.clashes[0].now, conflict.clashes[0].replaced) == ("mine\n", "2\n")
    assert (await restore(work, 1)).kept[0].is_open
    assert file.read_text() == "1\nmine\n3\n4\n5\n"
    await restore(work, 1, UndoChoices({str(file): "replace"}))
    assert file.read_text() == "1\n2\n3\n4\n5\n"
    await work.undo()
    assert file.read_text() == "1\nmine\n3\n4\n5\n"


async def test_an_undone_submission_is_not_undone_twice(work: Work, project: Path) -> None:
    file = project / "a.txt"
    async with work.submission():
        file.write_text("one\n")
    async with work.submission():
        (project / "b.txt").write_text("b")
    await work.undo()
    await restore(work, 1)
    assert file.read_text() == "1\n2\n3\n4\n5\n"
    assert [path.name for path in project.iterdir()] == ["a.txt"]
    await work.undo()
    assert file.read_text() == "one\n"


async def test_a_later_process_and_a_later_branch_return_to_what_a_restoration_left(
    project: Path, tmp_path: Path
) -> None:
    states: list[State] = []
    async with working(tmp_path / "state", project) as work:
        for text in ("one\n", "two\n"):
            async with work.submission():
                (project / "a.txt").write_text(text)
            states.append(state_of(project))
        await restore(work, 1)
    async with working(tmp_path / "state", project) as work:
        async with work.submission():
            (project / "other.txt").write_text("another branch")
        numbers = [one.number for one in await work.history.submissions() if one.restored is not None]
        await restore(work, numbers[0])
        assert state_of(project) == states[-1]
        news = await work.history.take_undo_news()
        assert [one.is_restore for one in news] == [True, True]


async def test_commits_and_branches_stay_and_are_named_before(work: Work, project: Path) -> None:
    for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-qm", "one")):
        git(project, *arguments)
    async with work.submission():
        (project / "a.txt").write_text("agent\n")
    git(project, "checkout", "-qb", "feature")
    git(project, "commit", "-qam", "two")
    head = git(project, "rev-parse", "HEAD")
    (note,) = (await plan(work, 1)).notes
    assert f"feature at {head[:10]}; then: main at " in note
    await restore(work, 1)
    assert git(project, "rev-parse", "HEAD") == head
    assert (project / "a.txt").read_text() == "1\n2\n3\n4\n5\n"


async def test_staged_entries_are_restored_and_come_back(work: Work, project: Path) -> None:
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        git(project, *arguments)
    work.history.begin("p")
    await work.before(command="sed -i s/1/one/ a.txt; git add a.txt")
    (project / "a.txt").write_text("one\n2\n3\n4\n5\n")
    git(project, "add", "a.txt")
    await work.history.after_change()
    await work.history.end()
    assert "git's index" in " ".join((await plan(work, 1)).notes)
    report = await restore(work, 1)
    assert report.index == (str(project / "a.txt"),)
    assert git(project, "status", "--short") == ""
    await work.undo()
    assert git(project, "status", "--short") == "M  a.txt"


async def test_files_without_a_copy_and_deleted_snapshots_are_named(
    work: Work, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_COPIED", 100)
    monkeypatch.setattr(listing, "ALWAYS_COPIED", 100)
    (project / "large.bin").write_bytes(b"x" * 200)
    async with work.submission():
        (project / "large.bin").write_bytes(b"y" * 200)
        (project / "a.txt").write_text("agent\n")
    found = await plan(work, 1)
    assert [(Path(one.path).name, one.reason) for one in found.kept] == [("large.bin", "too large, no copy kept")]
    (record,) = await work.history.submissions()
    before = record.before[str(project)]
    record.before[str(project)] = type(before)("0" * 39 + "1", before.empty, before.uncovered, before.nested)
    gone = await plan(work, 1)
    assert "have been deleted" in gone.diff.problem
    assert not (await restore(work, 1)).done
    assert (project / "a.txt").read_text() == "agent\n"


async def test_nothing_is_restored_while_a_background_call_runs(work: Work, project: Path) -> None:
    async with work.submission():
        (project / "a.txt").write_text("agent\n")
    await work.before()
    assert "background agent" in (await plan(work, 1)).diff.problem
    assert not (await restore(work, 1)).done


async def test_a_folder_that_lost_its_last_file_is_known_as_empty_at_once(work: Work, project: Path) -> None:
    (project / "hollow").mkdir()
    (project / "hollow" / "last.txt").write_text("x")
    async with work.submission():
        (project / "hollow" / "last.txt").unlink()
    (record,) = await work.history.submissions()
    assert record.after is not None
    assert record.after[str(project)].empty == {"hollow"}
