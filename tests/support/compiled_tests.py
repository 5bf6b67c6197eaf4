"""Compile the modules of a new checkout on all processors, before the one process that collects the tests needs them.

pytest rewrites 10,000 assertions for that: 12 s of CPU here, 25 s with the garbage collector on. What is compiled
already is left alone.

    python -m tests.support.compiled_tests FILE…    (started by `compile_in_parallel`)
"""

from __future__ import annotations

import compileall
import contextlib
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from _pytest.assertion import rewrite

_FEW = 40
"""Modules that are left to the process that collects them."""
_MAX_HELPERS = 8


def compile_in_parallel(repository: Path) -> None:
    paths = sorted(path for path in repository.glob("tests/**/test_*.py") if not _is_compiled(path))
    if len(paths) < _FEW:
        return
    paths += sorted(path for path in repository.glob("agentcli/**/*.py"))
    paths += sorted(path for path in repository.glob("tests/**/*.py") if not _is_rewritten(path))
    count = min(os.cpu_count() or 1, _MAX_HELPERS)
    helpers = [
        # A module that cannot be compiled is reported when it is collected.
        subprocess.Popen(
            [sys.executable, "-m", __name__, *map(str, _share(paths, number, count))],
            cwd=repository,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in range(count)
    ]
    for helper in helpers:
        helper.wait()


def _is_rewritten(path: Path) -> bool:
    return path.name.startswith("test_") or path.name == "conftest.py"


def _is_compiled(path: Path) -> bool:
    compiled = _compiled(path)
    return compiled.exists() and compiled.stat().st_mtime >= path.stat().st_mtime


def _compiled(path: Path) -> Path:
    return rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"


def _share(paths: list[Path], number: int, count: int) -> Iterator[Path]:
    """The files of helper `number`, which together take about as long as those of each other one."""
    costs = [path.stat().st_size * (10 if _is_rewritten(path) else 1) for path in paths]
    share = sum(costs) / count
    for path, before in zip(paths, accumulate(costs, initial=0), strict=False):
        if number <= before / share < number + 1:
            yield path


# ------------------------------------------------------------------------------------------------------ in a helper


def _compile(path: Path) -> None:
    if not _is_rewritten(path):
        compileall.compile_file(path, quiet=2)
        return
    digest, code = rewrite._rewrite_test(path, None)  # type: ignore[arg-type]
    target = _compiled(path)
    target.parent.mkdir(exist_ok=True)
    incomplete = target.with_suffix(f".{os.getpid()}")
    with incomplete.open("wb") as file:
        rewrite._write_pyc_fp(file, digest, code)
    incomplete.replace(target)


if __name__ == "__main__":
    gc.disable()
    for name in sys.argv[1:]:
        with contextlib.suppress(SyntaxError):
            _compile(Path(name))
