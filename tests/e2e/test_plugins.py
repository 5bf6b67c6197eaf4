"""Plugins of the program as users have it: a project's never runs untrusted, and its tool works once trusted."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.e2e.program import REPOSITORY, Program
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio


async def test_a_projects_plugin_runs_only_after_trust_and_its_tool_works(program: Program) -> None:
    folder = program.work / ".agentcli/plugins"
    folder.mkdir(parents=True)
    shutil.copy(REPOSITORY / "tests/data/plugins/word_count.py", folder)
    path = folder / "word_count.py"
    path.write_text(f"open({str(program.work / 'ran')!r}, 'a').close()\n{path.read_text()}")
    turn = [reply(call("word_count", text="one two")), "Done."]
    async with LoopbackServer(*turn * 3) as server:
        program.talk_to(server.url)
        assert "There is no tool called 'word_count'." in (await results(program, []))[0]
        assert not (program.work / "ran").exists()
        assert (await program.run("plugins", "list")).code == 0
        assert not (program.work / "ran").exists()
        assert (await program.run("trust", "--yes")).code == 0
        assert await results(program, ["word_count"]) == ["2"]
        assert (program.work / "ran").exists()
        listed = await program.run("plugins", "list", "--json")
        assert json.loads(listed.out)[0]["adds"] == ["tool word_count"]


async def results(program: Program, plugins: list[str]) -> list[str]:
    """The results of a run that says that it uses these plugins."""
    ended = await program.run("-p", "go", "--output-format", "stream-json", "--verbose", "--no-session-persistence")
    assert ended.code == 0, ended.err
    assert [one["name"] for one in ended.frames[0]["plugins"]] == plugins
    found = [frame["message"]["content"] for frame in ended.frames if frame["type"] == "user"]
    texts = [block["content"] for content in found if isinstance(content, list) for block in content]
    return [text if isinstance(text, str) else text[0]["text"] for text in texts]
