"""Test modules that are compiled ahead of pytest (tests/support/compiled_tests.py)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from _pytest.assertion import rewrite


def test_pytest_reads_what_was_compiled_ahead(tmp_path: Path) -> None:
    good, bad = tmp_path / "test_good.py", tmp_path / "test_bad.py"
    shutil.copy(__file__, good)
    bad.write_text("def")
    command = [sys.executable, "-m", "tests.support.compiled_tests", str(bad), str(good)]
    subprocess.run(command, cwd=Path(__file__).parents[1], check=True)
    reasons: list[str] = []
    compiled = rewrite.get_cache_dir(good) / f"test_good{rewrite.PYC_TAIL}"
    assert rewrite._read_pyc(good, compiled, reasons.append) is not None, reasons
    assert not list(tmp_path.rglob("test_bad*.pyc"))
