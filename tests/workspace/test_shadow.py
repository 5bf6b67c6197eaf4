"""Trees of a shadow repository."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from agentcli.workspace.git import EMPTY_TREE
from agentcli.workspace.shadow import Shadow

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


async def test_reading_a_tree_leaves_the_lock_of_a_running_snapshot(trees: tuple[Shadow, str, str]) -> None:
    shadow, before, after = trees
    lock = shadow.place / "index.1.lock"
    lock.touch()
    assert await shadow.entries(before, ["a"])
    assert await shadow.compare(before, after)
    await shadow.patch(EMPTY_TREE, before, 1000)
    assert lock.exists()


async def test_packed_objects_give_the_same_answers(trees: tuple[Shadow, str, str]) -> None:
    shadow, before, after = trees

    async def read_all() -> list[object]:
        entries = await shadow.entries(after, PATHS)
        files = [file async for files in shadow.old_files(entries) for file in files]
        return [await shadow.compare(before, after), await shadow.compare(EMPTY_TREE, after), entries, files]

    loose = await read_all()
    for tree in (before, after):
        shadow.hold("session", tree)
    await shadow.tidy(60)
    assert await read_all() == loose
