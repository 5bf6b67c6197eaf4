"""Undo with a user who edits too: their changes during and after a prompt stay."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from agentcli.workspace.base import UndoChoices
from tests.support.examples import EXAMPLES
from tests.workspace.folders import Work, state_of, working

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("one\ntwo\nthree\nfour\n")
    (folder / "other.txt").write_text("other\n")
    return folder


async def test_a_file_that_changes_while_no_call_runs_is_the_users(work: Work, project: Path) -> None:
    notes = project / "notes.txt"
    async with work.submission(command="change notes.txt"):
        notes.write_text("one\nTWO\nthree\nfour\n")
        await work.history.after_change()
        notes.write_text("one\nTWO\nthree\nmine\n")
        (project / "mine.txt").write_text("mine\n")
        (project / "other.txt").unlink()
        (project / "folder").mkdir()
        await work.before()
        notes.write_text("ONE\nTWO\nthree\nmine\n")
        (project / "agents.txt").write_text("x\n")
        await work.history.after_change([str(notes), str(project / "agents.txt")])
    assert [Path(one.path).name for one in await work.history.changes()] == ["agents.txt", "notes.txt"]
    [found] = (await work.history.diff("prompt", [project])).folders
    assert "mine.txt" not in found.text
    mixed = state_of(project)
    report = await work.undo()
    assert report.merged == report.restored == (str(notes),)
    assert report.deleted == (str(project / "agents.txt"),)
    assert notes.read_text() == "one\ntwo\nthree\nmine\n"
    assert sorted(path.name for path in project.iterdir()) == ["folder", "mine.txt", "notes.txt"]
    assert (await work.redo()).done
    assert state_of(project) == mixed
    notes.write_text("ONE\nTWO\n3\nmine\n")
    await work.undo()
    assert notes.read_text() == "one\ntwo\n3\nmine\n"
    await work.redo()
    assert notes.read_text() == "ONE\nTWO\n3\nmine\n"


async def test_a_change_that_no_call_can_have_made_is_the_users(work: Work, project: Path) -> None:
    async with work.submission():
        (project / "notes.txt").write_text("agent\n")
        (project / "other.txt").write_text("mine\n")
        await work.history.after_change([str(project / "notes.txt")])
        await work.before()
        (project / "made").mkdir()
        (project / "made" / "a").write_text("a")
        (project / "other.txt").write_text("mine again\n")
        await work.history.after_change()
    report = await work.undo()
    assert [Path(kept.path).name for kept in report.kept] == ["other.txt"]
    assert (project / "notes.txt").read_text() == "one\ntwo\nthree\nfour\n"
    assert (project / "other.txt").read_text() == "mine again\n", "the user is at work on it"
    assert not (project / "made").exists()


async def test_changes_during_a_background_command_stay_unless_undone_on_request(work: Work, project: Path) -> None:
    async with work.submission(command="change notes.txt"):
        (project / "notes.txt").write_text("agent\n")
        await work.history.after_change(background=True)
        (project / "other.txt").write_text("whose?\n")
    report = await work.undo()
    assert [(Path(kept.path).name, kept.is_open) for kept in report.kept] == [("other.txt", True)]
    assert "may be your change" in report.kept[0].reason
    assert (project / "other.txt").read_text() == "whose?\n"
    report = await work.undo(UndoChoices(otherwise="replace"))
    assert report.restored == (str(project / "other.txt"),)
    assert (project / "other.txt").read_text() == "other\n"
    await work.redo()
    assert (project / "other.txt").read_text() == "whose?\n"


@pytest.mark.parametrize(
    ("command", "is_doubtful"),
    [
        ("make", True),
        ("make my-other.txt other.txt.bak lib/other.txt", True),
        ("cat other.txt | sh", False),
        ("python3 -c \"open('./other.txt')\"", False),
    ],
)
async def test_a_file_changed_during_a_command_is_ambiguous_unless_named(
    project: Path, tmp_path: Path, command: str, is_doubtful: bool
) -> None:
    async with working(tmp_path / "state", project) as work, work.submission(command=command):
        (project / "other.txt").write_text("whose?\n")
        (project / "notes.txt").unlink()
        (project / "made.txt").write_text("made\n")
        await work.history.after_change()
        await work.before(command="make")
        (project / "made.txt").write_text("made again\n")
        await work.history.after_change()
    async with working(tmp_path / "state", project) as work:
        plan = await work.history.plan(again=False)
        assert plan.doubtful == ((str(project / "other.txt"),) if is_doubtful else ())
        assert plan.commands == ((command,) if is_doubtful else ())
        report = await work.undo(UndoChoices(dict.fromkeys(plan.doubtful, "keep")))
        assert [kept.is_open for kept in report.kept] == ([False] if is_doubtful else [])
    assert (project / "other.txt").read_text() == ("whose?\n" if is_doubtful else "other\n")
    assert (project / "notes.txt").exists()
    assert not (project / "made.txt").exists()


@pytest.mark.parametrize(
    ("choice", "expected"),
    [(None, "one\nMINE\nTHREE\nfour\n"), ("keep", "one\nMINE\nthree\nfour\n"), ("replace", "one\ntwo\nthree\nfour\n")],
)
async def test_lines_that_both_changed_need_a_choice(
    work: Work, project: Path, choice: str | None, expected: str
) -> None:
    notes = project / "notes.txt"
    async with work.submission():
        notes.write_text("one\nTWO\nTHREE\nfour\n")
    notes.write_text("one\nMINE\nTHREE\nfour\n")
    before = state_of(project)
    plan = await work.history.plan(again=False)
    (conflict,) = plan.conflicts
    assert [(one.line, one.now, one.replaced) for one in conflict.clashes] == [(2, "MINE\n", "two\n")]
    assert state_of(project) == before, "a plan changes nothing"
    report = await work.undo(UndoChoices({str(notes): choice} if choice else {}))  # type: ignore[dict-item]
    assert notes.read_text() == expected
    assert [kept.is_open for kept in report.kept] == ([] if choice else [True])
    assert (await work.redo()).done is bool(choice)
    assert state_of(project) == before


async def test_a_file_that_was_left_alone_can_be_decided_afterwards(project: Path, tmp_path: Path) -> None:
    notes = project / "notes.txt"
    async with working(tmp_path / "state", project) as work:
        async with work.submission():
            (project / "other.txt").write_text("first\n")
        async with work.submission():
            notes.write_text("one\nTWO\nTHREE\nfour\n")
            (project / "made.txt").write_text("agent\n")
        notes.write_text("one\nMINE\nTHREE\nfour\n")
        (project / "made.txt").write_text("agent\nmine\n")
        assert len((await work.undo()).kept) == 2
    async with working(tmp_path / "state", project) as work:
        report = await work.undo(UndoChoices(otherwise="replace"))
        assert (report.restored, report.deleted) == ((str(notes),), (str(project / "made.txt"),))
        assert notes.read_text() == "one\ntwo\nthree\nfour\n"
        assert (project / "other.txt").read_text() == "first\n", "the prompt before is not touched"
        await work.redo()
        assert notes.read_text() == "one\nMINE\nTHREE\nfour\n"
        assert (project / "made.txt").read_text() == "agent\nmine\n"


async def test_links_binaries_and_modes_are_not_merged(work: Work, project: Path) -> None:
    (project / "data.bin").write_bytes(b"\0one\ntwo\n")
    (project / "run.sh").write_text("a\nb\n")
    async with work.submission():
        (project / "data.bin").write_bytes(b"\0ONE\ntwo\n")
        (project / "run.sh").chmod(0o755)
        (project / "other.txt").unlink()
        (project / "other.txt").symlink_to("notes.txt")
    (project / "data.bin").write_bytes(b"\0ONE\nmine\n")
    (project / "run.sh").write_text("a\nmine\n")
    (project / "other.txt").unlink()
    (project / "other.txt").symlink_to("data.bin")
    report = await work.undo()
    assert {Path(kept.path).name for kept in report.kept} == {"data.bin", "other.txt"}
    assert (project / "other.txt").readlink() == Path("data.bin")
    assert (project / "run.sh").read_text() == "a\nmine\n"
    assert not (project / "run.sh").stat().st_mode & 0o111


async def test_an_undo_with_nothing_to_do_continues_with_the_previous_prompt(work: Work, project: Path) -> None:
    notes = project / "notes.txt"
    work.history.begin("first")
    await work.before()
    (project / "other.txt").write_text("first\n")
    await work.history.end()
    work.history.begin("second")
    await work.before()
    notes.write_text("second\n")
    await work.history.end()
    notes.write_text("one\ntwo\nthree\nfour\n")
    report = await work.undo()
    assert (report.done, report.prompt_id) == (True, "first")
    assert (project / "other.txt").read_text() == "other\n"
    (project / "other.txt").write_text("first\n")
    report = await work.redo()
    assert not report.done
    report = await work.undo()
    assert report.prompt_id == "first"


async def test_agentclis_own_files_are_no_part_of_undo_and_diff(work: Work, project: Path) -> None:
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    own = project / ".agentcli"
    async with work.submission():
        own.mkdir()
        for name in (".gitignore", "settings.json", "settings.local.json"):
            (own / name).write_text("{}\n")
    assert not (await work.undo()).done
    async with work.submission():
        (own / "settings.local.json").write_text("[]\n")
        (own / "skills").mkdir()
        (own / "skills" / "x.md").write_text("x")
    assert [Path(one.path).name for one in await work.history.changes()] == ["x.md"]
    for scope in ("prompt", "session"):
        [found] = (await work.history.diff(scope, [project])).folders
        assert "x.md" in found.text
        assert "settings" not in found.text
    assert (await work.undo()).deleted == (str(own / "skills" / "x.md"),)
    assert sorted(path.name for path in own.iterdir()) == [".gitignore", "settings.json", "settings.local.json"]


@pytest.mark.parametrize("seed", range(EXAMPLES // 3))
async def test_any_interleaving_of_edits_to_distinct_lines_leaves_exactly_the_users(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    root = tmp_path / "project"
    root.mkdir()
    names = ["a.txt", "b.txt"]
    count = rng.randrange(4, 14)
    texts = {name: [f"{name} line {number}" for number in range(count)] for name in names}
    expected = {name: list(lines) for name, lines in texts.items()}
    owner = {(name, number): rng.choice("au") for name in names for number in range(count)}

    def save() -> None:
        for name, lines in texts.items():
            (root / name).write_text("".join(f"{line}\n" for line in lines if line))

    def edit(who: str, step: int) -> None:
        for place in rng.sample(sorted(owner), rng.randrange(1, 4)):
            name, number = place
            if owner[place] == who:
                new = rng.choice([f"{who} {step}\n{who} more {step}", f"{who} {name} {number} {step}", ""])
                texts[name][number] = new
                if who == "u":
                    expected[name][number] = new
        save()

    save()
    async with working(tmp_path / "state", root) as work:
        work.history.begin("prompt")
        for step in range(rng.randrange(1, 6)):
            await work.before()
            edit("a", step)
            await work.history.after_change([str(root)])
            if rng.random() < 0.6:
                edit("u", step)
        await work.history.end()
        if rng.random() < 0.5:
            edit("u", 99)
        mixed = state_of(root)
        report = await _undone(work)
        assert report == ()
        for name in names:
            assert (root / name).read_text() == "".join(f"{line}\n" for line in expected[name] if line)
        await work.redo()
        assert state_of(root) == mixed


async def _undone(work: Work) -> tuple[object, ...]:
    return (await work.undo()).kept
