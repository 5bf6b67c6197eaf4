"""Marked processes are found at every moment of their lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentcli.core.processes.orphan_processes import CALL_VARIABLE, find_marked, marked, new_mark


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_a_process_is_found_while_it_starts_another_program(tmp_path: Path) -> None:
    (tmp_path / "again.sh").write_text(f"exec sh {tmp_path}/again.sh\n")
    mark = new_mark()
    environ = marked({"PATH": os.environ["PATH"]}, CALL_VARIABLE, mark)
    # One in twenty looks falls into an exec.
    with subprocess.Popen(["sh", str(tmp_path / "again.sh")], env=environ) as process:
        while not find_marked(mark):
            pass
        found = [find_marked(mark) for _look in range(300)]
        process.kill()
    assert found == [[process.pid]] * 300
