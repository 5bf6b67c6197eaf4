"""Deferred imports stay deferred: a start imports only what it uses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.program import REPOSITORY, Program
from tests.support.scripts import reply, say
from tests.support.server import LoopbackServer

HEAVY = {"anthropic", "typer", "rich", "textual", "pydantic", "prompt_toolkit", "jsonschema", "mcp", "watchfiles"}
HEAVY |= {"httpx2", "httpcore2", "anyio"}
OWN_MODULES = 370
"""How many modules of agentcli, and of h11, may be imported before the request of a headless run is sent. About ten
less on a quiet machine: on a busy one, work in the background imports some of its own before that."""
BEFORE_REQUEST = """import os, sys
from agentcli.providers.body import BodyEncoder
from agentcli.cli.main import main
encode, before = BodyEncoder.encode, []
def counting(self, body):
    before.extend(name for name in sys.modules if name.partition(".")[0] in ("agentcli", "h11"))
    return encode(self, body)
BodyEncoder.encode = counting
"""


def modules_after(code: str) -> set[str]:
    line = f"import sys; before = set(sys.modules); {code}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, check=True, cwd=REPOSITORY, timeout=30
    )
    return set(done.stdout.split("\n")[-2].split())


def outside(modules: set[str]) -> set[str]:
    tops = {name.partition(".")[0] for name in modules}
    return {top for top in tops if top not in sys.stdlib_module_names and top != "agentcli"}


def test_the_version_costs_no_import_of_other_packages() -> None:
    assert outside(modules_after("from agentcli.__main__ import print_version; print_version()")) == set()


def test_the_package_itself_costs_nothing() -> None:
    assert modules_after("import agentcli") <= {"__future__", "agentcli", "typing"} | modules_after("import typing")


def test_parsing_flags_is_standard_library_only() -> None:
    assert outside(modules_after("from agentcli.cli.flags import parse; parse(['-p', 'x', '--model=m'])")) == set()


def test_the_table_of_slash_commands_imports_no_command() -> None:
    found = {
        name for name in modules_after("import agentcli.commands.registry") if name.startswith("agentcli.commands.")
    }
    assert found == {f"agentcli.commands.{name}" for name in ("base", "registry")}


def test_the_version_is_printed_by_both_flags() -> None:
    for flag in ("-v", "--version"):
        done = subprocess.run(
            [sys.executable, "-m", "agentcli", flag], capture_output=True, text=True, cwd=REPOSITORY, timeout=30
        )
        assert (done.returncode, done.stderr) == (0, "")
        number, name = done.stdout.split()
        assert name == "(agentcli)"
        assert number.count(".") == 2


@pytest.mark.anyio
async def test_a_headless_run_imports_nothing_heavy_and_little_before_its_request(program: Program) -> None:
    code = (
        f"{BEFORE_REQUEST}import json\n"
        "code = main(['-p', 'hi', '--output-format', 'stream-json'], os.environ)\n"
        "modules = sorted({name.partition('.')[0] for name in sys.modules})\n"
        "print(json.dumps({'code': code, 'modules': modules, 'before': len(before)}))\n"
    )
    async with LoopbackServer(reply(say("hi"))) as server:
        program.talk_to(server.url)
        import asyncio

        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code),
            env=program.environ,
            cwd=program.work,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _err = await process.communicate()
    last = json.loads(out.splitlines()[-1])
    assert last["code"] == 0
    assert HEAVY & set(last["modules"]) == set()
    assert 0 < last["before"] <= OWN_MODULES
