"""`agentcli mcp serve` as another program sees it: a real process, the official client."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import forking_command

pytestmark = pytest.mark.anyio


class Person:
    """Answers the questions of the served session."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.questions: list[str] = []

    async def __call__(self, context: Any, params: Any) -> Any:
        from mcp_types import ElicitResult

        self.questions.append(params.message)
        return ElicitResult(action="accept", content={"answer": self.answer})


@asynccontextmanager
async def served(folder: Path, *flags: str, person: Person | None = None) -> AsyncGenerator[Any, None]:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    program, *words = forking_command("-m", "agentcli", "mcp", "serve", *flags)
    command = StdioServerParameters(command=program, args=words, env=environ, cwd=folder)
    with (folder.parent / "errors.txt").open("w") as errors:
        async with Client(stdio_client(command, errors), mode="legacy", elicitation_callback=person) as client:
            yield client


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "poem.txt").write_text("roses\nviolets\n")
    return folder


async def test_tools_are_listed_and_run_and_what_is_not_allowed_is_refused(project: Path) -> None:
    async with served(project) as client:
        listed = (await client.list_tools()).tools
        names = [tool.name for tool in listed]
        assert {"Read", "Write", "Edit", "Bash", "Glob", "Grep"} <= set(names)
        assert not {"Task", "AskUserQuestion", "ExitPlanMode", "WebSearch"} & set(names)
        assert {tool.name for tool in listed if tool.annotations.read_only_hint} >= {"Read", "Glob", "Grep"}
        assert not next(tool for tool in listed if tool.name == "Bash").annotations.read_only_hint
        read = await client.call_tool("Read", {"file_path": "poem.txt"})
        assert "violets" in text_of(read)
        assert not read.is_error
        refused = await client.call_tool("Write", {"file_path": "new.txt", "content": "x"})
        assert refused.is_error
        assert "Write" in text_of(refused)
        assert not (project / "new.txt").exists()
        outside = await client.call_tool("Read", {"file_path": "/etc/passwd"})
        assert outside.is_error
        unknown = await client.call_tool("Task", {"prompt": "x", "description": "x", "subagent_type": "explore"})
        assert unknown.is_error
        assert "The tools are: Read, " in text_of(unknown)
        assert "WebSearch" not in text_of(unknown)


async def test_the_users_of_the_calling_program_are_asked(project: Path) -> None:
    person = Person("Allow once")
    async with served(project, person=person) as client:
        written = await client.call_tool("Write", {"file_path": "new.txt", "content": "hello\n"})
        assert not written.is_error, text_of(written)
        assert (project / "new.txt").read_text() == "hello\n"
        assert "new.txt" in person.questions[0]
        person.answer = "Do not allow"
        refused = await client.call_tool("Write", {"file_path": "other.txt", "content": "x"})
        assert refused.is_error
        assert len(person.questions) == 2
        assert not (project / "other.txt").exists()


async def test_flags_give_rights_and_a_cancelled_command_is_stopped(project: Path) -> None:
    flags = ("--permission-mode", "bypassPermissions", "--sandbox", "off", "--tools", "Bash")
    async with served(project, *flags) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["Bash"]
        reports: list[str] = []

        async def report(progress: float, total: float | None, message: str | None) -> None:
            reports.append(message or "")

        command = "echo one; echo $$ > pid; sleep 600"
        call = asyncio.ensure_future(client.call_tool("Bash", {"command": command}, progress_callback=report))
        while not (project / "pid").exists() or not (project / "pid").read_text().strip():
            assert not call.done(), call.result()
            await asyncio.sleep(0.01)
        while not reports:
            await asyncio.sleep(0.01)
        pid = int((project / "pid").read_text())
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        while _runs(pid):
            await asyncio.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    return True
