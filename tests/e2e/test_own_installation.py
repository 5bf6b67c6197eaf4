"""agentcli installed in the project's own `.venv`, as in the README, and a model that tries to change it.

What runs agentcli runs outside of the sandbox: a module, a `.pth` file or a program that a tool could put there would
be run at the next PDF, search or start.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agentcli.sandbox.linux.probe import probe
from agentcli.tools.search.ripgrep import NOT_FOUND
from tests.e2e.program import REPOSITORY, Program, Running
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer
from tests.tools.documents.test_read_kinds import pdf_of

pytestmark = pytest.mark.anyio


class Installed(Program):
    """A project with agentcli in its `.venv`, first on the PATH."""

    is_fresh = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environment = self.work / ".venv"
        venv.EnvBuilder(symlinks=True).create(self.environment)
        self.site = next(self.environment.glob("lib/python*/site-packages"))
        libraries = sysconfig.get_path("purelib")
        (self.site / "installed.pth").write_text(f"{libraries}\n{REPOSITORY}\n")
        self.bin = self.environment / "bin"
        # Nothing but what the system has: no ripgrep of the machine.
        self.environ["PATH"] = f"{self.bin}:/usr/bin:/bin"
        del self.environ["PYTHONPATH"]
        self.ran = folder / "ran"

    @property
    def command(self) -> list[str]:
        return [str(self.bin / "python"), "-m", "agentcli"]

    def plant_module(self, name: str) -> None:
        """Records which process has loaded it."""
        record = f"import sys; open({str(self.ran)!r}, 'a').write(repr(sys.orig_argv) + chr(10))\n"
        (self.site / name).write_text(record)

    def plant_program(self, name: str, text: str = "") -> None:
        program = self.bin / name
        program.write_text(f"#!/bin/sh\necho {name} >> {self.ran}\n{text}\n")
        program.chmod(0o755)

    @property
    def loaded(self) -> list[str]:
        return self.ran.read_text().splitlines() if self.ran.exists() else []

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path in sorted(self.environment.rglob("*")):
            if "__pycache__" not in path.parts and (path.is_symlink() or path.is_file()):
                found[str(path)] = path.readlink() if path.is_symlink() else path.read_bytes()
        return found

    async def play(self, *replies: Any, mode: str = "acceptEdits") -> list[str]:
        """Run a script; what the tools answered."""
        arguments, variables = self._run_of("script", replies, mode)
        self.environ |= variables
        ended = await self.run(*arguments)
        assert ended.code == 0, ended
        return _results(ended.frames)

    async def play_in_modes(self, scripts: Mapping[str, Sequence[Any]], *more: str) -> dict[str, list[str]]:
        """Run a script in each mode, in one process: its start takes longer than they do."""
        runs = [self._run_of(mode, replies, mode) for mode, replies in scripts.items()]
        process = await asyncio.create_subprocess_exec(
            *(str(self.bin / "python"), "-c", _RUN_ALL, json.dumps([[[*words, *more], new] for words, new in runs])),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.work,
            env=self.environ,
        )
        ended = await Running(process).finish()
        assert ended.code == 0, ended
        frames, results = ended.frames, {}
        for mode in scripts:
            end = next(at for at, frame in enumerate(frames) if frame["type"] == "result") + 1
            results[mode] = _results(frames[:end])
            frames = frames[end:]
        assert frames == []
        return results

    def _run_of(self, name: str, replies: Sequence[Any], mode: str) -> tuple[list[str], dict[str, str]]:
        """Arguments and further variables of a run."""
        script = self.home / f"{name}.json"
        script.write_text(json.dumps([*replies, {"text": "Done."}]))
        arguments = ["-p", "go", "--output-format", "stream-json", "--verbose", "--permission-mode", mode]
        return arguments, {"AGENTCLI_SCRIPT": str(script)}


_RUN_ALL = """
import json, os, sys
from agentcli.cli.main import main
for arguments, variables in json.loads(sys.argv[1]):
    os.environ.update(variables)
    assert main(arguments, os.environ) == 0
"""


def _results(frames: Sequence[dict[str, Any]]) -> list[str]:
    contents = [frame["message"]["content"] for frame in frames if frame["type"] == "user"]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return [json.dumps(block) for block in blocks if block.get("type") == "tool_result"]


def _wheel(folder: Path) -> Path:
    """The smallest package that pip installs."""
    wheel = folder / "planted-1.0-py3-none-any.whl"
    information = "planted-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("planted.py", "x = 1\n")
        archive.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{information}/RECORD", f"planted.py,,\n{information}/METADATA,,\n{information}/WHEEL,,\n")
    return wheel


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path.resolve())


async def test_no_mode_lets_a_tool_write_to_the_installation_but_beside_it(installed: Installed) -> None:
    installed.work.joinpath("link").symlink_to(installed.site)
    before = installed.state()
    site = str(installed.site.relative_to(installed.work))
    targets = (f"{site}/zz.pth", f"{site}/sitecustomize.py", f"{site}/pypdf/__init__.py", "link/zz.pth")
    targets += (".venv/bin/jq", ".venv/new/file.py")
    writes = [call("Write", file_path=name, content="import os") for name in targets]
    edit = call("Edit", file_path=".venv/pyvenv.cfg", old_string="home = ", new_string="home = /evil")
    scripts = {
        mode: (
            reply(call("Read", file_path=".venv/pyvenv.cfg")),
            reply(*writes, edit, call("Write", file_path=f"lib/{mode}.py", content="x = 1\n")),
        )
        for mode in ("acceptEdits", "bypassPermissions", "dontAsk")
    }
    results = await installed.play_in_modes(scripts, "--allowedTools", "Write,Edit,Read")
    assert installed.state() == before
    for mode in scripts:
        refused = [result for result in results[mode] if "installation that runs agentcli" in result]
        assert len(refused) == len(targets) + 1, results[mode]
        assert (installed.work / f"lib/{mode}.py").read_text() == "x = 1\n"


async def test_a_sandboxed_command_cannot_change_the_installation(installed: Installed) -> None:
    if not (ability := probe(os.environ, (), None)).works:
        pytest.skip(f"no sandbox here: {ability.problem}")
    # Sandboxed commands do not see the libraries of a checkout below the temp folder.
    shutil.copytree(Path(sysconfig.get_path("purelib")) / "pip", installed.site / "pip")
    before = installed.state()
    site = installed.site.relative_to(installed.work)
    python = f"{installed.bin}/python -c"
    commands = [
        f"echo 'import os' > {site}/zz.pth",
        f"{python} \"open('{site}/sitecustomize.py', 'w')\"",
        f"mkdir {site}/pypdf; touch {site}/pypdf/__init__.py; echo x >> .venv/pyvenv.cfg",
        "mv .venv old; mkdir .venv; rm -rf .venv",
        "rm -f .venv/bin/python; ln -sf /bin/true .venv/bin/python; cp /bin/true .venv/bin/jq",
        f"ln {site}/installed.pth hard && echo x > hard; chmod 777 .venv/bin",
    ]
    wheel = _wheel(installed.work)
    commands.append(f"{installed.bin}/python -m pip install --no-index --no-deps --no-compile {wheel}")
    results = await installed.play(
        *(reply(call("Bash", command=command)) for command in commands), mode="bypassPermissions"
    )
    assert len(results) == len(commands)
    assert installed.state() == before
    assert "part of the installation that runs agentcli" in results[1]
    assert "part of the installation that runs agentcli" in results[-1], results[-1]
    assert not (installed.work / "old").exists()


async def test_helpers_load_nothing_that_was_planted_in_site_packages(installed: Installed) -> None:
    """Files planted earlier by any means: the interpreters that agentcli starts do not load them."""
    (installed.work / "a.pdf").write_bytes(pdf_of("Text of the page"))
    installed.plant_module("zz.pth")
    installed.plant_module("sitecustomize.py")
    installed.plant_module("usercustomize.py")
    results = await installed.play(reply(call("Read", file_path="a.pdf")), reply(call("Glob", pattern="**/*.pdf")))
    assert "Text of the page" in results[0]
    assert NOT_FOUND in results[1] or "a.pdf" in results[1]  # the system may have a ripgrep of its own
    # By the program itself, when its user started it, and by no process that it started.
    assert installed.loaded
    assert all("agentcli" in line and "-I" not in line for line in installed.loaded), installed.loaded


async def test_libraries_and_ripgrep_are_those_of_the_installation(installed: Installed) -> None:
    """`python -m` puts the current folder first, and many imports come late."""
    Image.new("RGB", (20, 20), "white").save(installed.work / "picture.png")
    for name in ("PIL", "pypdf", "httpx2"):
        (installed.work / f"{name}.py").write_text(f"open({str(installed.ran)!r}, 'a').write('{name} ')\n")
    own = Path(sys.executable).parent / "rg"
    if own.exists():
        shutil.copy(own, installed.bin / "rg")
    (installed.work / "a.txt").write_text("a needle\n")
    image, found = await installed.play(
        reply(call("Read", file_path="picture.png"), call("Grep", pattern="needle", output_mode="content"))
    )
    assert "image" in image
    assert installed.loaded == []
    if not own.exists():
        pytest.skip("ripgrep did not come with this environment")
    assert "a needle" in found


async def test_programs_planted_in_the_environment_never_run(installed: Installed) -> None:
    """The README's `.venv/bin` is first on the PATH. Which of these a model may write is another question."""
    for name in ("git", "rg", "bash", "sh", "bwrap", "jq", "cat", "tr", "env", "ps", "grep", "less", "uname"):
        installed.plant_program(name)
    (installed.bin / "rg").unlink()
    key = installed.home / "key"
    key.write_text("sk-of-the-helper\n")
    settings = installed.home / ".config/agentcli/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"apiKeyHelper": f"cat {key} | tr -d '\\n'"}))
    del installed.environ["ANTHROPIC_API_KEY"]
    async with LoopbackServer(reply(call("Write", file_path="a.txt", content="a")), "Done.") as server:
        installed.talk_to(server.url)
        ended = await installed.run("-p", "go", "--permission-mode", "acceptEdits")
        assert ended.code == 0, ended
        assert {request.headers["x-api-key"] for request in server.requests} == {"sk-of-the-helper"}
    doctor = await installed.run("doctor")
    assert "git" in doctor.out, doctor
    assert installed.loaded == []
