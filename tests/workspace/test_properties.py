"""Any changes in any order: undo restores the exact tree, redo the other one, and later edits stay."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.support.examples import EXAMPLES
from tests.workspace.folders import state_of, working

pytestmark = pytest.mark.anyio

NAMES = ["a", "b", "c.txt", "d d", "é"]
FOLDERS = ["", "x/", "x/y/", "z/"]
CONTENTS = [b"", b"one\n", b"one\r\ntwo\r\n", b"\0\1\2", "ü\n".encode("utf-16"), b"x" * 5000]


def act(rng: random.Random, root: Path) -> None:
    """One thing that a tool or a shell command may do."""
    path = root / (rng.choice(FOLDERS) + rng.choice(NAMES))
    match rng.randrange(8):
        case 0 | 1 | 2:
            _cleared(path)
            if _parents(path, root):
                path.write_bytes(rng.choice(CONTENTS) + bytes([rng.randrange(256)]))
        case 3:
            _cleared(path)
        case 4:
            if path.is_file() and not path.is_symlink():
                path.chmod(rng.choice([0o644, 0o755]))
        case 5:
            _cleared(path)
            if _parents(path, root):
                path.symlink_to(rng.choice(["a", "/etc/passwd", "nowhere", "x"]))
        case 6:
            _cleared(path)
            if _parents(path, root):
                path.mkdir()
        case 7:
            other = root / (rng.choice(FOLDERS) + rng.choice(NAMES))
            if os.path.lexists(path) and not other.is_relative_to(path) and not path.is_relative_to(other):
                _cleared(other)
                if _parents(other, root) and os.path.lexists(path):
                    path.rename(other)


def _cleared(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def _parents(path: Path, root: Path) -> bool:
    """Make the folders above; false where a link is in the way: such changes are not made here."""
    for parent in reversed(path.parent.relative_to(root).parents):
        if (root / parent).is_symlink():
            return False
    if path.parent.is_symlink():
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return not any((root / part).is_symlink() for part in path.parent.relative_to(root).parents)


@pytest.mark.parametrize("seed", range(EXAMPLES // 3))
async def test_undo_gives_back_the_exact_tree_and_redo_the_other(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    root = tmp_path / "project"
    root.mkdir()
    for _act in range(rng.randrange(12)):
        act(rng, root)
    states = [state_of(root)]
    async with working(tmp_path / "state", root) as work:
        for _submission in range(3):
            async with work.submission():
                for _call in range(rng.randrange(1, 4)):
                    for _act in range(rng.randrange(1, 6)):
                        act(rng, root)
                    await work.before()
            if state_of(root) != states[-1]:
                states.append(state_of(root))
        for state in reversed(states[:-1]):
            report = await work.undo()
            assert report.kept == ()
            assert state_of(root) == state
        assert not (await work.undo()).done
        for state in states[1:]:
            assert (await work.redo()).kept == ()
            assert state_of(root) == state
        assert not (await work.redo()).done


@pytest.mark.parametrize("seed", range(EXAMPLES // 3))
async def test_later_changes_of_the_user_are_never_lost(seed: int, tmp_path: Path) -> None:
    rng = random.Random(1000 + seed)
    root = tmp_path / "project"
    root.mkdir()
    for _act in range(10):
        act(rng, root)
    async with working(tmp_path / "state", root) as work:
        async with work.submission():
            for _act in range(8):
                act(rng, root)
        left = state_of(root)
        for _act in range(4):
            act(rng, root)
        mine = {path: value for path, value in state_of(root).items() if left.get(path) != value}
        report = await work.undo()
        after = state_of(root)
    for path, value in mine.items():
        if value[0] != "folder":
            assert after.get(path) == value, path
    assert all(kept.reason for kept in report.kept)
