"""Which shell runs a command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcli.tools.shell.bash import Bash
from tests.tools.running import context_in, run, text_of

pytestmark = pytest.mark.anyio


async def test_a_bash_in_a_working_directory_is_never_the_shell(tmp_path: Path) -> None:
    planted = tmp_path / ".venv" / "bin" / "bash"
    planted.parent.mkdir(parents=True)
    planted.write_text("#!/bin/sh\necho planted\n")
    planted.chmod(0o755)
    for path in (f"{planted.parent}:{os.environ['PATH']}", str(planted.parent)):
        context = context_in(tmp_path, environ={"PATH": path})
        assert text_of(await run(Bash(), context, command="echo real")) == "real"


async def test_the_system_bash_is_used_when_the_project_is_the_root_folder(tmp_path: Path) -> None:
    if not any(Path(folder, "bash").exists() for folder in ("/bin", "/usr/bin")):
        pytest.skip("bash is not installed where systems have it")
    context = context_in(tmp_path, working_dirs=(Path("/"),))
    assert text_of(await run(Bash(), context, command="[[ a == a ]] && echo real")) == "real"
