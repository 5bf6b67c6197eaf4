"""A session started in the home folder: places of credentials stay closed to every tool without an answer."""

from __future__ import annotations

import json
import os

import pytest

from agentcli.sandbox.linux.probe import probe
from tests.e2e.program import Program
from tests.support.scripts import call, reply, say
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio
SECRET = "the-key-itself"


@pytest.mark.parametrize("sandbox", ["off", "on"])
async def test_no_tool_shows_credentials_unasked_in_a_session_in_the_home_folder(
    program: Program, sandbox: str
) -> None:
    program.work = program.home
    (program.home / ".ssh").mkdir()
    (program.home / ".ssh" / "id_rsa").write_text(f"{SECRET}\n", encoding="utf-8")
    (program.home / ".from-next-year").mkdir()
    (program.home / ".from-next-year" / "token").write_text(f"{SECRET}\n", encoding="utf-8")
    (program.home / "notes.txt").write_text("the-key is elsewhere\n", encoding="utf-8")
    calls = [
        call("Read", file_path=str(program.home / ".ssh" / "id_rsa")),
        call("Read", file_path=str(program.home / ".from-next-year" / "token")),
        call("Grep", pattern="the-key", output_mode="content"),
        call("Glob", pattern="**/id_*"),
        call("Bash", command="cat .ssh/id_rsa", description="Look"),
        call("Bash", command="grep -r the-key .", description="Look"),
        call("Write", file_path=str(program.home / ".ssh" / "authorized_keys"), content="mine\n"),
    ]
    async with LoopbackServer(*(reply(each) for each in calls), reply(say("done"))) as server:
        program.talk_to(server.url)
        await program.run("-p", "look", "--permission-mode", "acceptEdits", "--sandbox", sandbox)
        sent = json.dumps(server.requests[-1].body)
    assert SECRET not in sent
    assert "id_rsa:1" not in sent
    assert "the-key is elsewhere" in sent
    assert not (program.home / ".ssh" / "authorized_keys").exists()


async def test_a_command_reads_no_entry_of_the_home_folder_that_is_not_known_to_be_harmless(program: Program) -> None:
    if not (ability := probe(os.environ, (), None)).works:
        pytest.skip(f"no sandbox here: {ability.problem}")
    names = (".jupyter/x.json", ".config/code-server/config.yaml", ".vnc/passwd", ".android/adbkey", ".xonsh_history")
    for name in names:
        (program.home / name).parent.mkdir(parents=True, exist_ok=True)
        (program.home / name).write_text(SECRET, encoding="utf-8")
    for name in (".cargo/bin/tool", ".own-tool/bin/tool"):
        (program.home / name).parent.mkdir(parents=True)
        (program.home / name).write_text("#!/bin/sh\necho it works\n", encoding="utf-8")
        (program.home / name).chmod(0o755)
    (program.home / ".own-tool" / "token").write_text(SECRET, encoding="utf-8")
    program.environ["PATH"] += f":{program.home}/.own-tool/bin"
    commands = ["grep -rs . ~; cat ~/.own-tool/token ~/.xonsh_history; ls", "tool && ~/.cargo/bin/tool"]
    calls = [reply(call("Bash", command=command, description="Look")) for command in commands]
    async with LoopbackServer(*calls, reply(say("done"))) as server:
        program.talk_to(server.url)
        await program.run("-p", "look", "--allowedTools", "Bash", "--sandbox", "on")
        sent = json.dumps(server.requests[-1].body)
    assert SECRET not in sent
    assert "it works\\nit works" in sent


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("work", ".agentcli/skills"),
        ("work", ".agents/skills"),
        ("work", ".agentcli/commands"),
        ("home", ".agentcli/skills"),
        ("home", ".agentcli/commands"),
    ],
)
async def test_a_definition_folder_that_links_to_credentials_opens_nothing(
    program: Program, place: str, folder: str
) -> None:
    if not (ability := probe(os.environ, (), None)).works:
        pytest.skip(f"no sandbox here: {ability.problem}")
    keys = program.home / ".ssh"
    (keys / "inner").mkdir(parents=True)
    for name in ("id_rsa", "notes.md", "inner/SKILL.md"):
        (keys / name).write_text(f"---\nname: planted\ndescription: {SECRET}\n---\n{SECRET}\n", encoding="utf-8")
    program.work = program.home if place == "home" else program.work
    link = program.work / folder
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(keys)
    code = 'from pathlib import Path; print((Path.home() / (".s" + "sh") / "id_rsa").read_text())'
    calls = [
        call("Bash", command=f"python3 -c '{code}'", description="Look"),
        call("Read", file_path=f"{folder}/id_rsa"),
        call("Read", file_path=f"{folder}/inner/SKILL.md"),
    ]
    async with LoopbackServer(*(reply(each) for each in calls), reply(say("done"))) as server:
        program.talk_to(server.url)
        await program.run("-p", "look", "--trust", "--allowedTools", "Bash", "--sandbox", "on")
        sent = json.dumps(server.requests[-1].body)
    assert SECRET not in sent
    assert "is kept from commands" in sent, "the command has run"


async def test_rules_of_a_trusted_project_and_of_its_skills_open_no_credentials(program: Program) -> None:
    (program.home / ".ssh").mkdir()
    (program.home / ".ssh" / "id_rsa").write_text(SECRET, encoding="utf-8")
    rules = ["Read(~/**)", "Read", "Grep", "Bash(python3 *)", "Env(python3:AWS_SECRET_ACCESS_KEY)"]
    (program.work / ".agentcli" / "skills" / "k").mkdir(parents=True)
    settings = {"permissions": {"allow": rules}}
    (program.work / ".agentcli" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    skill = f"---\nname: k\ndescription: Look.\nallowed-tools: {', '.join(rules)}\n---\nLook.\n"
    (program.work / ".agentcli" / "skills" / "k" / "SKILL.md").write_text(skill, encoding="utf-8")
    program.environ["AWS_SECRET_ACCESS_KEY"] = SECRET
    calls = [
        call("Skill", skill="k"),
        call("Read", file_path="~/.ssh/id_rsa"),
        call("Grep", pattern=".", path="~/.ssh", output_mode="content"),
        call("Bash", command="python3 -c 'import os; print(\"ran\", os.environ)'"),
    ]
    async with LoopbackServer(*(reply(each) for each in calls), reply(say("done"))) as server:
        program.talk_to(server.url)
        await program.run("-p", "look", "--trust")
        sent = json.dumps(server.requests[-1].body["messages"])
    assert SECRET not in sent
    assert "ran environ" in sent
