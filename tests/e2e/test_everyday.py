"""Ordinary read-only work through the whole program, in a fresh home and a real repository: nothing is refused."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from agentcli.sandbox.linux.probe import probe
from tests.e2e.program import Ended, Program
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

READS = [
    "git status",
    "git log --oneline -5",
    "git log -3 --stat",
    "git diff",
    "git show --stat HEAD",
    "git show HEAD:src/app.py",
    "git branch -a",
    "git ls-files",
    "git blame src/app.py",
    "git log --oneline | head -3",
    "git diff HEAD -- src/app.py",
    "grep -rn 'def ' src",
    "grep -n TODO -r . --include='*.py'",
    "grep -rn hello .",
    "rg 'def ' src",
    "rg --files",
    "find . -name '*.py' -not -path './.git/*'",
]


@pytest.fixture
def project(program: Program) -> Program:
    work = program.work
    (work / "src").mkdir()
    files = {"README.md": "hello\n", ".env": "SECRET=1\n", ".gitignore": ".env\n", "src/app.py": "def add(): ...\n"}
    for name, text in files.items():
        (work / name).write_text(text)
    identity = ("-c", "user.name=n", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(["git", *identity, *arguments], cwd=work, check=True, capture_output=True)
    return program


async def run(program: Program, commands: list[str], *flags: str) -> Ended:
    calls = reply(*(call("Bash", command=command) for command in commands))
    async with LoopbackServer(calls, "Done.") as server:
        program.talk_to(server.url)
        return await program.run("-p", "look", "--output-format", "stream-json", "--verbose", *flags)


def results(ended: Ended) -> list[str]:
    blocks = (frame["message"]["content"] for frame in ended.frames if frame["type"] == "user")
    found = (block for content in blocks for block in content if isinstance(block, dict))
    return [json.dumps(block["content"]) for block in found if block["type"] == "tool_result"]


def refused(ended: Ended) -> list[str]:
    return [denial["tool_input"]["command"] for denial in ended.frames[-1]["permission_denials"]]


async def test_read_only_commands_run_without_a_question(project: Program) -> None:
    ended = await run(project, READS)
    assert len(results(ended)) == len(READS)
    assert refused(ended) == []


async def test_they_also_run_in_plan_mode_and_beside_a_denied_file_which_searches_do_not_show(project: Program) -> None:
    flags = ("--permission-mode", "plan", "--settings", '{"permissions": {"deny": ["Read(./.env)"]}}')
    ended = await run(project, [*READS, "grep -rn SECRET .", "rg -uu SECRET", "touch new.txt"], *flags)
    shown = results(ended)
    assert len(shown) == len(READS) + 3
    # Without a sandbox nothing hides the denied file from a search of the whole folder.
    asked = set() if probe(os.environ, (), None).works else {"grep -rn hello ."}
    assert set(refused(ended)).intersection(READS) == asked
    assert "SECRET=1" not in "".join(shown)
    assert "keep exploring with calls that only read" in shown[-1]
    assert "ExitPlanMode" in shown[-1]
    assert not (project.work / "new.txt").exists()
