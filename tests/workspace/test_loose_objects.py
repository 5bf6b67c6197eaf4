"""Objects of a shadow repository, read with and without git."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from agentcli.workspace import shadow as shadow_module
from agentcli.workspace.git import EMPTY_TREE
from agentcli.workspace.shadow import Shadow
from agentcli.workspace.trees import LooseObjects, NotLoose

pytestmark = pytest.mark.anyio
PATHS = ["a", "a.b", "z/q/x", "x/y/é", "x/y", "x", "gone", "made/in/here", "mode"]


@pytest.fixture
async def trees(tmp_path: Path) -> tuple[Shadow, str, str]:
    """A folder before and after files became folders, folders files, and a name between both in the order of paths."""
    root = tmp_path / "project"
    (root / "x" / "y").mkdir(parents=True)
    (root / "x" / "y" / "é").write_text("one\n")
    (root / "z" / "q").mkdir(parents=True)
    (root / "z" / "q" / "x").write_text("same\n")
    for name in ("a", "a.b", "gone", "mode"):
        (root / name).write_text(f"{name}\n")
    program = shutil.which("git")
    assert program is not None
    shadow = Shadow(program, root, tmp_path / "state", "index.1")
    (tmp_path / "state").mkdir()
    shadow.open()
    before = (await shadow.take(60)).tree
    (root / "a").unlink()
    (root / "a").mkdir()
    (root / "a" / "file").write_text("below\n")
    shutil.rmtree(root / "x" / "y")
    (root / "x" / "y").symlink_to("../mode")
    (root / "gone").unlink()
    (root / "mode").chmod(0o755)
    (root / "made" / "in").mkdir(parents=True)
    (root / "made" / "in" / "here").write_text("")
    return shadow, before, (await shadow.take(60)).tree


async def test_trees_that_are_made_at_the_same_time_do_not_mix(trees: tuple[Shadow, str, str]) -> None:
    shadow, before, after = trees
    wanted = [await shadow.entries(tree, [path]) for tree in (before, after) for path in PATHS]
    wanted = [entries for entries in wanted if entries]
    made = await asyncio.gather(*map(shadow.tree_of, wanted))
    assert [await shadow.entries(tree, PATHS) for tree in made] == wanted


async def test_reading_a_tree_leaves_the_lock_of_a_running_snapshot(
    trees: tuple[Shadow, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shadow, before, _after = trees
    monkeypatch.setattr(shadow_module, "_without_git", _never)
    lock = shadow.place / "index.1.lock"
    lock.touch()
    assert await shadow.entries(before, ["a"])
    await shadow.patch(EMPTY_TREE, before, 1000)
    assert lock.exists()


async def _never(_read: object) -> None:
    """Let git read everything."""


async def read_all(shadow: Shadow, before: str, after: str) -> list[object]:
    """Everything that can be asked about two trees; the order of the paths counts."""
    answers: list[object] = []
    for one, other in ((before, after), (after, before), (EMPTY_TREE, after), (before, EMPTY_TREE)):
        answers.append(list((await shadow.compare(one, other)).items()))
    for tree in (before, after, EMPTY_TREE):
        entries = dict(sorted((await shadow.entries(tree, PATHS)).items()))
        answers += [await shadow.folders(tree), entries, await shadow.holds(tree)]
        answers += [files async for files in shadow.old_files(entries)]
    return answers


async def test_every_answer_is_the_same_as_that_of_git(
    trees: tuple[Shadow, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = await read_all(*trees)
    monkeypatch.setattr(shadow_module, "_without_git", _never)
    assert answers == await read_all(*trees)
    assert len(answers) > 12


async def test_packed_objects_are_read_by_git(trees: tuple[Shadow, str, str]) -> None:
    shadow, before, after = trees
    answers = await read_all(*trees)
    for tree in (before, after):
        shadow.hold("session", tree)
    await shadow.tidy(60)
    with pytest.raises(NotLoose):
        LooseObjects(shadow.place / "objects").tree(before)
    assert answers == await read_all(*trees)
