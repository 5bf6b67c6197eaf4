"""Processes are started in one module, so that its rules (absolute path, clean environment) apply to all programs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.tables import each_row

PACKAGE = Path(__file__).parent.parent / "agentcli"
THE_ONE = "core/processes/own_programs.py"
"""Also starts the commands of the model and the user for `core/processes/child.py`."""

MODULES = frozenset({"subprocess", "multiprocessing", "pty", "popen2", "_posixsubprocess", "webbrowser"})
FUNCTIONS = frozenset(
    {"create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell", "ProcessPoolExecutor"}
    | {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"}
    | {f"exec{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")}
    | {f"spawn{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")}
)
COMMON_WORDS = frozenset({"system", "popen", "fork", "startfile"})
"""Also names of harmless methods, so they count only as functions of `os`."""
_COMMON = rf"(?:{'|'.join(sorted(COMMON_WORDS))})\b"
MENTIONED = re.compile(
    rf"\b(?:{'|'.join(sorted(MODULES | FUNCTIONS - COMMON_WORDS))})\b"
    rf"|\b(?:os|posix)\s*\.\s*{_COMMON}|\bimport\b(?:\s*\([^)]*|[^\n]*)\b{_COMMON}"
)
"""Parsing everything would take seconds."""
STARTERS = ("start_program(", "start_program_async(", "run_helper(")


def starts(source: str) -> Iterator[str]:
    """What in a module starts a process, or imports something that does; types alone do not count."""
    if not MENTIONED.search(source):
        return
    tree = ast.parse(source)
    only_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in only_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").partition(".")[0] in MODULES:
                yield f"from {node.module}"
            yield from (alias.name for alias in node.names if alias.name in FUNCTIONS)
            if node.module == "asyncio":
                yield from (alias.name for alias in node.names if alias.name == "subprocess")
        elif isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
            of_os = isinstance(node.value, ast.Name) and node.value.id in ("os", "posix")
            if of_os or node.attr not in COMMON_WORDS:
                yield node.attr


def test_no_other_module_starts_a_process() -> None:
    found = {
        str(path.relative_to(PACKAGE)): names
        for path in sorted(PACKAGE.rglob("*.py"))
        if (names := list(starts(path.read_text(encoding="utf-8"))))
    }
    assert set(found) == {THE_ONE}, "start programs with agentcli.core.processes.own_programs"


@each_row(
    "source",
    [
        "import subprocess",
        "from subprocess import run",
        "import asyncio.subprocess, subprocess as s",
        "import asyncio\nasync def f():\n    await asyncio.create_subprocess_shell('x')",
        "from asyncio import create_subprocess_exec",
        "from asyncio import subprocess",
        "import os\nos.system('x')",
        "from os import path, system",
        "from os import (\n    path,\n    system,\n)",
        "import os\nos.execv('x', [])",
        "from os import posix_spawn",
        "import asyncio\nasyncio.get_running_loop().subprocess_exec(f, 'x')",
        "from concurrent.futures import ProcessPoolExecutor",
        "def f():\n    import pty",
    ],
)
def test_the_check_sees_every_way_to_start_one(source: str) -> None:
    assert list(starts(source))


def test_the_modules_that_run_programs_are_listed() -> None:
    """`start_program` takes any absolute path, so each caller has to be looked at: `core/processes/child.py` passes on
    the commands of the model, the user, hooks and MCP servers, `tui/status/command.py` that of the settings,
    `mcp/http_transport.py` that of a server's configuration, the others run programs of our own."""
    callers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(name in text for text in (path.read_text(encoding="utf-8"),) for name in STARTERS)
        and not path.match(THE_ONE)
    }
    assert callers == {
        "mcp/http_transport.py",
        "providers/credentials.py",
        "core/processes/child.py",
        "core/processes/orphan_processes.py",
        "tools/worker.py",
        "tui/status/command.py",
        "workspace/git.py",
    }
