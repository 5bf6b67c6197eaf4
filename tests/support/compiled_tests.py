"""Compile the test modules of a new checkout on all processors, before the one process that collects them needs them.

Rewriting 10,000 assertions takes 20 s of CPU. What is compiled already is left alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from _pytest.assertion.rewrite import PYC_TAIL, get_cache_dir

_FEW = 40
"""Modules that are left to the process that collects them."""
_MOST_HELPERS = 8


def compile_in_parallel(folder: Path) -> None:
    paths = sorted(path for path in folder.rglob("test_*.py") if not _is_compiled(path))
    if len(paths) < _FEW:
        return
    count = min(os.cpu_count() or 1, _MOST_HELPERS)
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:xdist"]
    # Collecting a module again reports why it cannot be imported.
    helpers = [
        subprocess.Popen(
            [*collect, *map(str, _share(paths, number, count))],
            cwd=folder.parent,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in range(count)
    ]
    for helper in helpers:
        helper.wait()


def _is_compiled(path: Path) -> bool:
    compiled = get_cache_dir(path) / f"{path.stem}{PYC_TAIL}"
    return compiled.exists() and compiled.stat().st_mtime >= path.stat().st_mtime


def _share(paths: list[Path], number: int, count: int) -> Iterator[Path]:
    """The files of helper `number`, of about the same size together as those of each other one."""
    sizes = [path.stat().st_size for path in paths]
    share = sum(sizes) / count
    for path, before in zip(paths, accumulate(sizes, initial=0), strict=False):
        if number <= before / share < number + 1:
            yield path
