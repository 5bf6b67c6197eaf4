"""Workers of pytest-xdist that are forked from one process (tests/support/forked_workers.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_CONFTEST = """
from tests.support import forked_workers

def pytest_xdist_setupnodes(config, specs):
    forked_workers.start(config, specs)
"""
_TESTS = """
import os
from pathlib import Path

_IMPORTED_BY = os.getpid()
with Path(__file__).with_name("imported").open("a") as file:
    file.write("once\\n")

def test_crashes():
    os._exit(3)

def test_fails():
    print("printed by a failing test")
    assert [1] == [2]

def test_is_in_a_worker(tmp_path):
    assert os.getpid() != _IMPORTED_BY
    assert f"popen-{os.environ['PYTEST_XDIST_WORKER']}" in str(tmp_path)

def test_passes():
    pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_workers_share_what_one_process_collected_and_report_as_workers_do(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_some.py").write_text(_TESTS)
    (tmp_path / "test_unreadable.py").write_text("import a_module_that_is_missing")
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:hypothesispytest", f"--rootdir={tmp_path}"],
        cwd=tmp_path,
        env={**own, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert "2 failed, 2 passed, 1 error" in result.stdout, result.stdout + result.stderr
    assert "crashed while running 'test_some.py::test_crashes'" in result.stdout
    assert "assert [1] == [2]" in result.stdout
    assert "printed by a failing test" in result.stdout
    assert "No module named 'a_module_that_is_missing'" in result.stdout
    assert (tmp_path / "imported").read_text() == "once\n"
