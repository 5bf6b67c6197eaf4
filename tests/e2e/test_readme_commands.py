"""Every command that the README shows is run: in a shell, or in a terminal where it opens the app."""

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
from tests.support.fork_server import PipedProcess, forked_with_pipes, forking_command
from tests.support.scripts import call, reply, say
from tests.support.server import LoopbackServer
from tests.support.terminal import REPOSITORY, TerminalProgram, earlier_session

pytestmark = pytest.mark.anyio

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
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
}
WORDS = {"demo --auto --speed 4": "--speed 100", "trust": "--yes"}
"""Words added to a command so that it ends without a user, and soon."""

FOR_THE_SHELL = {"|", "<", ">", ">>"}
"""Words of a line that make it more than one command with its arguments."""


def lines() -> list[str]:
    found = [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
    found = [re.sub(r"\s+# .*", "", line).strip().replace(".venv/bin/agentcli", "agentcli") for line in found]
    return list(dict.fromkeys(line for line in found if line))


def opens_the_app(line: str) -> bool:
    words = shlex.split(line)
    flags = {"-c", "-r"}
    return words[0] == "agentcli" and (len(words) == 1 or words[1] in flags or " " in words[1])


TOUR = "agentcli demo"
"""Needs a terminal and a user: tests/e2e/test_demo.py plays it."""
RUNNABLE = [line for line in lines() if line != TOUR and not line.startswith("python3 -m venv")]
IN_A_SHELL = [line for line in RUNNABLE if not opens_the_app(line)]
IN_A_TERMINAL = [line for line in RUNNABLE if opens_the_app(line)]


def test_only_the_tour_and_the_install_commands_that_ci_runs_are_skipped() -> None:
    others = [line for line in lines() if line not in (*RUNNABLE, TOUR)]
    assert [line for line in others if not line.startswith(INSTALL)] == []
    assert len(IN_A_SHELL) > 25
    assert len(IN_A_TERMINAL) >= 3


async def start(line: str, work: Path, environ: dict[str, str]) -> asyncio.subprocess.Process | PipedProcess:
    """Run the line in bash, or fork the program when the line is nothing but `agentcli` and its arguments."""
    command, *arguments = shlex.split(line)
    if command == "agentcli" and FOR_THE_SHELL.isdisjoint(arguments):
        words = ["-m", "agentcli", *arguments]
        return await forked_with_pipes(words, work, environ, asyncio.subprocess.PIPE, 1 << 20)
    return await asyncio.create_subprocess_exec(
        # zsh's list of folders is a variable of our own here: in bash its second one.
        *("bash", "-c", f'fpath=("" "$HOME"); {line}'),
        cwd=work,
        env=environ,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one commit, to copy."""
    work = tmp_path_factory.mktemp("repository")
    identity = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    subprocess.run(["git", "init", "-q", "--template=", str(work)], check=True)
    subprocess.run(["git", *identity, "commit", "-qm", "one", "--allow-empty"], cwd=work, check=True)
    return work


@pytest.mark.parametrize("line", IN_A_SHELL)
async def test_the_command_works_in_a_shell(line: str, tmp_path: Path, repository: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    shutil.copytree(repository, work)
    for folder in (home / ".config/fish/completions", home / "bin", work / "tests/data", tmp_path / "other"):
        folder.mkdir(parents=True)
    (home / "bin/agentcli").write_text(f'#!/bin/sh\nexec {shlex.join(forking_command("-m", "agentcli"))} "$@"\n')
    (home / "bin/agentcli").chmod(0o755)
    (work / "key.txt").write_text("sk-ant-0123456789abcdefghijklmnop\n")
    (work / "tests/data/hello.json").write_text((REPOSITORY / "tests/data/hello.json").read_text())
    (work / "pyproject.toml").write_text("")
    if line.startswith("agentcli mcp") and " add " not in line:
        files = {"command": sys.executable, "args": ["-S", str(REPOSITORY / "tests/support/mcp_server.py")]}
        (home / ".config/agentcli").mkdir(parents=True)
        (home / ".config/agentcli/settings.json").write_text(json.dumps({"mcpServers": {"files": files}}))
    answer = reply(call("StructuredOutput", names=["a"])) if "--json-schema" in line else reply(say("an answer"))
    async with LoopbackServer({**answer, "repeat": 5}) as server:
        environ = {
            "HOME": str(home),
            "PATH": f"{home / 'bin'}:{PATH_WITH_PYTHON}",
            "PYTHONPATH": str(REPOSITORY),
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": server.url,
            **({} if "login" in line else {"ANTHROPIC_API_KEY": "sk-test"}),
        }
        for shown in ("http://localhost:11434", "https://models.example.com"):
            line = line.replace(shown, server.url)
        words = line.removeprefix("agentcli ")
        more = next((more for name, more in WORDS.items() if words == name), "")
        process = await start(f"{line} {more}", work, environ)
        key = b"sk-ant-0123456789abcdefghijklmnop\n" if words.startswith("login") else b""
        assert process.stdin is not None
        process.stdin.write(key)
        process.stdin.close()
        out, err = await process.communicate()
    expected = next((codes for name, codes in CODES.items() if words.startswith(name)), (0,))
    assert process.returncode in expected, (out + err).decode()
    assert b"Traceback" not in out + err


@pytest.mark.parametrize("line", IN_A_TERMINAL)
async def test_the_command_opens_the_app(line: str, tmp_path: Path) -> None:
    async with LoopbackServer({**reply(say("an answer")), "repeat": 5}) as server:
        if "-c" in shlex.split(line) or "-r" in shlex.split(line):
            await earlier_session(tmp_path, "the first one", reply(say("an answer")))
        async with TerminalProgram(tmp_path, *shlex.split(line)[1:], url=server.url) as app:
            if "-r" in shlex.split(line):
                await app.wait_for("Resume a session")
                await app.press("escape")
                await app.wait_for("Resume a session", gone=True)
            await app.ready()
            if len(shlex.split(line)) > 1 and "-r" not in shlex.split(line):
                await app.wait_for("an answer")
            assert await app.leave() == 0
