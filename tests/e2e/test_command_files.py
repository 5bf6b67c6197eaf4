"""Commands, skills and output styles on the whole program, with the examples of the guide."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.program import Program
from tests.support.guide import GUIDE
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio


def example(program: Program, name: str) -> str:
    """Write the file that the guide shows; returns the block that follows it there."""
    found = re.search(rf"`{re.escape(name)}`:\n\n```markdown\n(.*?)```\n(?:\n```\w+\n(.*?)```)?", GUIDE, re.DOTALL)
    assert found is not None, name
    path = program.work / name
    path.parent.mkdir(parents=True)
    path.write_text(found.group(1))
    return (found.group(2) or "").strip()


def git(program: Program, *arguments: str) -> None:
    identity = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=program.work, check=True, capture_output=True)


async def test_a_command_is_filled_in_and_its_shell_command_run(program: Program) -> None:
    (program.work / "a.txt").write_text("one\n")
    git(program, "init", "-q")
    for text in ("first", "second"):
        (program.work / "a.txt").write_text(f"{text} line\n")
        git(program, "add", "a.txt")
        git(program, "commit", "-qm", text)
    typed = example(program, ".agentcli/commands/review.md")
    async with LoopbackServer("Looks good.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "--trust", typed, stdin=b"$1 is not filled in here")
        assert (ended.code, ended.out, ended.err) == (0, "Looks good.\n", "")
        sent = json.dumps(server.bodies[0]["messages"])
        assert "Review this change." in sent
        assert "-first line" in sent
        assert "+second line" in sent
        assert "$1 is not filled in here" in sent
        assert "argument-hint" not in sent


async def test_the_menu_shows_a_command_of_an_untrusted_folder_with_the_reason(tmp_path: Path) -> None:
    async with app_with(tmp_path) as (app, server):
        await app.ready()
        path = app.work / ".agentcli/commands/deploy.md"
        path.parent.mkdir(parents=True)
        path.write_text("Deploy it.")
        await app.type("/deplo")
        await app.wait_for("not available: this folder is not trusted; /trust reviews it (project)")
        await app.press("enter")
        await app.wait_for("/deploy is not available: this folder is not trusted")
        assert server.bodies == []
        assert await app.leave() == 0


async def test_a_project_command_is_ignored_until_the_folder_is_trusted(program: Program) -> None:
    example(program, ".agentcli/commands/review.md")
    async with LoopbackServer("Done.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "/review HEAD")
        assert ended.code == 1
        assert "this folder is not trusted, so .agentcli/commands/review.md is not used" in ended.err
        assert server.bodies == []
        listed = await program.run("-p", "--output-format", "stream-json", "hi")
        assert "review" not in listed.frames[0]["slash_commands"]


async def test_a_skill_is_listed_loaded_and_kept_when_the_session_is_continued(program: Program) -> None:
    example(program, ".agentcli/skills/release/SKILL.md")
    async with LoopbackServer(reply(call("Skill", skill="release")), "Tagged.", "Again.") as server:
        program.talk_to(server.url)
        first = await program.run("-p", "--trust", "--output-format", "stream-json", "publish it")
        assert first.code == 0, first.err
        assert first.frames[0]["skills"] == ["release"]
        late = program.work / ".agentcli/skills/late/SKILL.md"
        late.parent.mkdir()
        late.write_text("---\ndescription: Use it later\n---\nLate.")
        assert (await program.run("-p", "--trust", "-c", "once more")).code == 0
    before, loaded, after = (body["messages"] for body in server.bodies)
    assert "- release: Use when asked to publish a new version" in json.dumps(before)
    assert "Run the tests, then tag." not in json.dumps(before)
    assert "Run the tests, then tag." in json.dumps(loaded)
    assert "- late: Use it later" in json.dumps(after[-1])
    for body in server.bodies[1:]:
        assert (body["system"], body["tools"]) == (server.bodies[0]["system"], server.bodies[0]["tools"])
        assert _texts(body["messages"])[: len(before)] == _texts(before)
    assert _texts(after)[: len(loaded)] == _texts(loaded)


def _texts(messages: list[dict[str, object]]) -> list[str]:
    """Messages without their cache marks, which move to the end of the conversation."""
    return [re.sub(r', "cache_control": \{[^}]*\}', "", json.dumps(message)) for message in messages]


async def test_an_output_style_is_in_the_system_prompt(program: Program) -> None:
    setting = example(program, ".agentcli/output-styles/teacher.md")
    async with LoopbackServer("What do you think?") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "--trust", "--settings", setting, "--output-format", "stream-json", "hi")
        assert ended.frames[0]["output_style"] == "teacher"
    assert "Lead the user to the answer" in json.dumps(server.bodies[0]["system"])
