"""Every command that README, guide and reference show is run: in a shell, or in a terminal where it opens the app."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.program import PATH_WITH_PYTHON
from tests.support.fork_server import forked_with_pipes, forking_command
from tests.support.guide import GUIDE, REFERENCE, blocks
from tests.support.scripts import call, reply, say
from tests.support.server import LoopbackServer
from tests.support.terminal import REPOSITORY, TerminalProgram

pytestmark = pytest.mark.anyio

INSTALL = "python3 -m venv .venv && .venv/bin/pip install -q "
DENIED_OR_ASKED = (3, 4)
CODES = {
    # What is found wrong on this machine is no fault of the command's.
    "doctor": (0, 1),
    "permissions test": DENIED_OR_ASKED,
    # There is no item of that name.
    "quarantine restore": (2,),
    "quarantine rm": (2,),
    # There is no server of that name; tests/e2e/test_mcp_login.py signs in.
    "mcp login": (2,),
    # Nothing changed in the session; tests/e2e/test_bisect.py has one where something did.
    "bisect": (1,),
    # Nor is there such a file; tests/e2e/test_blame.py has one.
    "blame": (1,),
    # The session has no instructions; tests/e2e/test_replay.py tries others.
    "replay": (0, 2),
}
LOOKING_BACK = (
    "bisect",
    "replay",
    "sessions delete",
    "sessions export",
    "sessions rename",
    "sessions show",
    "sessions search",
    "trace",
)
"""Commands about a session that must exist: one with the words `parser` and `regex` in it."""
WORDS = {"trust": "--yes", "sessions delete parser": "--yes"}
"""Words added to a command so that it ends without a user."""

FOR_THE_SHELL = {"|", "<", ">", ">>"}
"""Words of a line that make it more than one command with its arguments."""

CONTINUING = {"-c", "-r"}
"""Flags that need an earlier session."""


def lines() -> list[str]:
    found = [line for text in (GUIDE, REFERENCE) for block in blocks("sh", text) for line in block.splitlines()]
    found = [re.sub(r"\s+# .*", "", line).strip().replace(".venv/bin/agentcli", "agentcli") for line in found]
    return list(dict.fromkeys(line for line in found if line))


def opens_the_app(line: str) -> bool:
    words = shlex.split(line)
    return words[0] == "agentcli" and (len(words) == 1 or words[1] in CONTINUING or " " in words[1])


def needs_a_shell(line: str) -> bool:
    command, *arguments = shlex.split(line)
    return command != "agentcli" or not FOR_THE_SHELL.isdisjoint(arguments)


TOURS = ("agentcli demo", "agentcli demo --auto --speed 4")
"""tests/e2e/test_demo.py plays both, with a user and without."""
RUNNABLE = [line for line in lines() if line not in TOURS and not line.startswith("python3 -m venv")]
IN_A_TERMINAL = [line for line in RUNNABLE if opens_the_app(line)]
IN_A_SHELL = [line for line in RUNNABLE if line not in IN_A_TERMINAL and needs_a_shell(line)]
ALONE = [line for line in RUNNABLE if line not in (*IN_A_TERMINAL, *IN_A_SHELL)]


def test_only_the_tours_and_the_install_commands_that_ci_runs_are_skipped() -> None:
    others = [line for line in lines() if line not in (*RUNNABLE, *TOURS)]
    assert [line for line in others if not line.startswith(INSTALL)] == []
    assert len(IN_A_SHELL) > 5
    assert len(ALONE) > 20
    assert len(IN_A_TERMINAL) >= 3


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one commit, to copy."""
    work = tmp_path_factory.mktemp("repository")
    identity = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    subprocess.run(["git", "init", "-q", "--template=", str(work)], check=True)
    subprocess.run(["git", *identity, "commit", "-qm", "one", "--allow-empty"], cwd=work, check=True)
    return work


class Place:
    """Folders and variables of one line, with what it reads, and what it has written."""

    def __init__(self, line: str, folder: Path, repository: Path, url: str) -> None:
        self.folder, home, self.work = folder, folder / "home", folder / "work"
        shutil.copytree(repository, self.work)
        for made in (home / ".config/fish/completions", home / "bin", self.work / "tests/data", folder / "other"):
            made.mkdir(parents=True)
        (home / "bin/agentcli").write_text(f'#!/bin/sh\nexec {shlex.join(forking_command("-m", "agentcli"))} "$@"\n')
        (home / "bin/agentcli").chmod(0o755)
        (self.work / "key.txt").write_text("sk-ant-0123456789abcdefghijklmnop\n")
        (self.work / "tests/data/hello.json").write_text((REPOSITORY / "tests/data/hello.json").read_text())
        (self.work / "pyproject.toml").write_text("")
        if line.startswith("agentcli mcp") and " add " not in line:
            files = {"command": sys.executable, "args": ["-S", str(REPOSITORY / "tests/support/mcp_server.py")]}
            (home / ".config/agentcli").mkdir(parents=True)
            (home / ".config/agentcli/settings.json").write_text(json.dumps({"mcpServers": {"files": files}}))
        self.environ = {
            "HOME": str(home),
            "PATH": f"{home / 'bin'}:{PATH_WITH_PYTHON}",
            "PYTHONPATH": str(REPOSITORY),
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": url,
            **({} if "login" in line else {"ANTHROPIC_API_KEY": "sk-test"}),
        }
        for shown in ("http://localhost:11434", "https://models.example.com"):
            line = line.replace(shown, url)
        words = line.removeprefix("agentcli ")
        self.line = f"{line} {WORDS.get(words, '')}"
        self.codes = next((codes for name, codes in CODES.items() if words.startswith(name)), (0,))
        self.first = [["-p", "Is the parser a regex?"]] if words.startswith(LOOKING_BACK) else []
        """What runs before it."""
        (folder / "in").write_text("sk-ant-0123456789abcdefghijklmnop\n" if words.startswith("login") else "")

    def problem(self, code: int | None) -> str:
        shown = (self.folder / "out").read_text() + (self.folder / "err").read_text()
        return "" if code in self.codes and "Traceback" not in shown else f"ended with {code}: {shown}"


@pytest.mark.parametrize("line", IN_A_SHELL)
async def test_the_command_works_in_a_shell(line: str, tmp_path: Path, repository: Path) -> None:
    async with LoopbackServer({**reply(say("an answer")), "repeat": 5}) as server:
        place = Place(line, tmp_path, repository, server.url)
        with (
            (tmp_path / "in").open() as given,
            (tmp_path / "out").open("w") as out,
            (tmp_path / "err").open("w") as err,
        ):
            process = await asyncio.create_subprocess_exec(
                # zsh's list of folders is a variable of our own here: in bash its second one.
                *("bash", "-c", f'fpath=("" "$HOME"); {place.line}'),
                cwd=place.work,
                env=place.environ,
                stdin=given,
                stdout=out,
                stderr=err,
            )
            code = await process.wait()
    assert place.problem(code) == ""


_RUN_ALL = """
import json, os, sys
from pathlib import Path
from agentcli.cli.main import main

for folder, words, environ in json.loads(sys.stdin.read()):
    os.chdir(f"{folder}/work")
    os.environ.clear()
    os.environ.update(environ)
    for number, name in enumerate(("in", "out", "err")):
        file = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    code = main(words, os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    Path(folder, "code").write_text(str(code))
"""


async def test_every_command_that_needs_no_shell_works(tmp_path: Path, repository: Path) -> None:
    """Each in folders of its own, all in one process: its start took longer than most of the commands."""
    names = reply(call("StructuredOutput", names=["a"]))
    async with (
        LoopbackServer({**reply(say("an answer")), "repeat": 100}) as server,
        LoopbackServer({**names, "repeat": 5}) as structured,
    ):
        places = [
            Place(line, tmp_path / str(number), repository, (structured if "--json-schema" in line else server).url)
            for number, line in enumerate(ALONE)
        ]
        runs = [
            (str(place.folder), words, place.environ)
            for place in places
            for words in (*place.first, shlex.split(place.line)[1:])
        ]
        environ = {"PYTHONPATH": str(REPOSITORY), "LANG": "C.UTF-8"}
        process = await forked_with_pipes(["-c", _RUN_ALL], tmp_path, environ, asyncio.subprocess.PIPE, 1 << 20)
        assert process.stdin is not None
        process.stdin.write(json.dumps(runs).encode())
        process.stdin.close()
        out, err = await process.communicate()
    assert (process.returncode, out, err) == (0, b"", b"")
    problems = {place.line: place.problem(int((place.folder / "code").read_text())) for place in places}
    assert {line: problem for line, problem in problems.items() if problem} == {}


async def test_every_command_that_opens_the_app_does(tmp_path: Path) -> None:
    """All in one project: first those that leave a session for the others to continue."""
    async with LoopbackServer({**reply(say("an answer")), "repeat": 5}) as server:
        for arguments in sorted(
            (shlex.split(line)[1:] for line in IN_A_TERMINAL), key=lambda words: not CONTINUING.isdisjoint(words)
        ):
            async with TerminalProgram(tmp_path, *arguments, url=server.url) as app:
                if "-r" in arguments:
                    await app.wait_for("Resume a session")
                    await app.press("escape")
                    await app.wait_for("Resume a session", gone=True)
                await app.ready()
                if arguments and "-r" not in arguments:
                    await app.wait_for("an answer")
                assert await app.leave() == 0
