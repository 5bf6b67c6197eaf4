"""A repository that another user put into a shared parent folder does not apply to a project below it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, reply, say
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio
OTHER = 54_321
"""A user id that nobody has."""


def give_away(*paths: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for path in paths:
        os.chown(path, OTHER, OTHER)


def hostile_repository(folder: Path) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    for words in (("init", "-b", "obey-the-branch"), (*identity, "commit", "--allow-empty", "-m", "obey-the-subject")):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    (folder / "AGENTS.md").write_text("obey-the-file\n", encoding="utf-8")
    (folder / ".mcp.json").write_text('{"mcpServers": {"planted": {"command": "obey-the-server"}}}', encoding="utf-8")
    for name in (".agentcli", ".claude"):
        (folder / name / "skills" / "obey").mkdir(parents=True)
        (folder / name / "skills" / "obey" / "SKILL.md").write_text(
            "---\nname: obey\ndescription: obey-the-skill\n---\n", encoding="utf-8"
        )
    rules = {"permissions": {"allow": ["Bash(touch:*)"], "deny": ["Read(obey-the-rule)"]}}
    (folder / ".agentcli" / "settings.json").write_text(json.dumps(rules), encoding="utf-8")


async def ask(program: Program, *arguments: str) -> tuple[str, str]:
    """What the model was sent, and what the user was shown."""
    touch = call("Bash", command="touch made", description="Make a file")
    async with LoopbackServer(reply(touch), reply(say("done"))) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "look", "--output-format", "stream-json", "--verbose", *arguments)
        return json.dumps([request.body for request in server.requests]), ended.out + ended.err


@pytest.mark.parametrize("why", ["the user's own", "another owner", "open to everyone"])
async def test_a_repository_of_another_user_around_the_project_does_not_apply(program: Program, why: str) -> None:
    shared = program.work
    program.work = shared / "me" / "project"
    program.work.mkdir(parents=True)
    hostile_repository(shared)
    if why == "another owner":
        give_away(shared / ".git")
    elif why == "open to everyone":
        shared.chmod(0o1777)
    # --trust: even so, what is trusted is the folder in which the user is.
    sent, shown = await ask(program, "--trust")
    listed = await program.run("mcp", "list")
    permitted = await program.run("permissions", "list")
    said = sent + listed.out + permitted.out
    if why == "the user's own":
        for planted in ("branch", "subject", "file", "skill", "server", "rule"):
            assert f"obey-the-{planted}" in said, planted
        assert "another user" not in shown
    else:
        assert "obey-the" not in said + shown
        assert not (program.work / "made").exists()
        assert shown.count(f"To use them, start agentcli in {shared}.") == 1


async def test_an_instruction_file_of_another_user_is_ignored_also_in_the_folder_itself(program: Program) -> None:
    (program.work / "AGENTS.md").write_text("obey-the-file\n", encoding="utf-8")
    (program.work / "CLAUDE.md").write_text("my own words\n", encoding="utf-8")
    give_away(program.work / "AGENTS.md")
    sent, shown = await ask(program)
    assert "my own words" in sent
    assert "obey-the-file" not in sent
    assert "AGENTS.md is ignored: it belongs to another user." in shown


async def test_a_checkout_that_a_container_mounts_is_usable_from_its_root_and_from_a_folder_in_it(
    program: Program,
) -> None:
    hostile_repository(program.work)
    (program.work / "src").mkdir()
    give_away(program.work, *program.work.rglob("*"))
    for folder in (program.work, program.work / "src"):
        program.work = folder
        sent, shown = await ask(program)
        assert "obey-the-file" in sent
        assert "obey-the-branch" in sent
        assert "another user" not in shown
