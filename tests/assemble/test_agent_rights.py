"""What sub-agents of the assembled engine may do, and what is left of their rights when they have ended."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options
from agentcli.assemble.environment import Environment
from agentcli.assemble.worktrees import ProjectWorktrees
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from tests.support.assembled import Assembled
from tests.support.fakes import only
from tests.support.scripts import call, pause, reply

pytestmark = pytest.mark.anyio

SKILL = "---\ndescription: Makes files\nallowed-tools: Bash(touch *)\n---\nMake files.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".claude/skills/files").mkdir(parents=True)
    (folder / ".claude/skills/files/SKILL.md").write_text(SKILL)
    return folder


def task(**rest: Any) -> Json:
    return call("Task", description="some work", prompt="CHILD work", **rest)


def child(*steps: Json) -> Json:
    return reply(*steps, match="CHILD work")


def commit(project: Path) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for arguments in (("init", "-q"), ("add", "-A"), (*author, "commit", "-qm", "first")):
        subprocess.run(["git", *arguments], cwd=project, check=True)


async def test_rights_of_a_skill_that_an_agent_loaded_are_not_its_parents(project: Path) -> None:
    replies: list[Json | str] = [
        reply(task()),
        child(call("Skill", skill="files")),
        reply(call("Bash", command="touch one.txt"), match="You work on one task"),
        reply("Made.", match="You work on one task"),
        reply(call("Bash", command="touch two.txt")),
        "Done.",
    ]
    async with Assembled(project, replies) as run:
        await run.run()
        assert (project / "one.txt").exists()
        assert [event.input["command"] for event in run.asked] == ["touch two.txt"]


async def test_rights_of_a_background_agent_end_with_it(project: Path) -> None:
    replies: list[Json | str] = [
        reply(task(run_in_background=True)),
        child(pause(0.3), call("Skill", skill="files")),
        reply("Made.", match="You work on one task"),
        "Started.",
        reply(call("Bash", command="touch late.txt")),
        "Done.",
    ]
    async with Assembled(project, replies) as run:
        await run.run()
        later: list[ev.Event] = []
        while not only(later, ev.AgentFinished):
            later += await run.engine.background.wait_for_changes()
        assert run.engine.permissions.entries() == []
        await run.run("again")
        assert [event.input["command"] for event in run.asked] == ["touch late.txt"]


@pytest.mark.parametrize("rule", ["Read(/secret/**)", "Read(//{project}/secret/**)", "Read(secret/**)"])
async def test_rules_of_local_settings_apply_to_the_copies_in_a_worktree(project: Path, rule: str) -> None:
    (project / "secret").mkdir()
    (project / "secret/key.txt").write_text("SECRET\n")
    (project / ".gitignore").write_text(".agentcli\n")
    (project / ".agentcli").mkdir()
    deny = [rule.replace("/{project}", str(project))]
    (project / ".agentcli/settings.local.json").write_text(json.dumps({"permissions": {"deny": deny}}))
    commit(project)
    calls = (
        call("Read", file_path="secret/key.txt"),
        call("Bash", command="cat secret/key.txt"),
        call("Grep", pattern="SECRET", output_mode="content"),
    )
    replies: list[Json | str] = [
        reply(task(isolation="worktree")),
        child(*calls),
        reply("Tried.", match="You work on one task"),
        "Done.",
    ]
    async with Assembled(project, replies) as run:
        events = await run.run()
        results = [event for event in only(events, ev.ToolFinished) if event.agent]
        assert [event.outcome for event in results] == ["denied", "denied", "done"]
        assert not any("SECRET\n" in event.result.text or ":SECRET" in event.result.text for event in results)


@pytest.mark.parametrize("rule", ["Task(Explore)", "Agent(explore)", "Task(EXP*)"])
async def test_rules_name_agents_in_any_case(project: Path, rule: str) -> None:
    replies: list[Json | str] = [reply(task(subagent_type="Explore")), "Done."]
    async with Assembled(project, replies, options={"disallowed_tools": (rule,)}) as run:
        events = await run.run()
        assert not only(events, ev.AgentStarted)


async def test_plan_mode_makes_no_worktree(project: Path) -> None:
    commit(project)
    replies: list[Json | str] = [reply(task(isolation="worktree")), "Done."]
    async with Assembled(project, replies, options={"permission_mode": PermissionMode.PLAN}) as run:
        await run.run()
        assert "which plan mode does not allow" in run.results[0]
        assert not (project / ".git/worktrees").exists()


async def test_the_model_of_a_task_has_no_control_characters(project: Path) -> None:
    replies: list[Json | str] = [reply(task(model="odd\x1b]0;x\x07")), child({"text": "Worked."}), "Done."]
    async with Assembled(project, replies) as run:
        (started,) = only(await run.run(), ev.AgentStarted)
        assert started.model.isprintable()
        assert run.requests[1]["model"].isprintable()


async def test_files_of_skills_are_protected(project: Path) -> None:
    calls = [call("Write", file_path=f"{folder}/skills/files/run.sh", content="x") for folder in (".agents", ".claude")]
    options = {"permission_mode": PermissionMode.ACCEPT_EDITS}
    async with Assembled(project, [reply(*calls), "Done."], options=options) as run:
        await run.run()
        assert len(run.asked) == 2


async def test_a_session_in_a_worktree_keeps_what_local_settings_deny(project: Path) -> None:
    (project / "secret").mkdir()
    (project / "secret/key.txt").write_text("SECRET\n")
    commit(project)
    (project / ".agentcli").mkdir()
    rules = {"deny": ["Read(/secret/**)", "Bash(make *)"], "ask": ["Bash(ls *)"], "allow": ["Bash(touch *)"]}
    (project / ".agentcli/settings.local.json").write_text(json.dumps({"permissions": rules}))
    environ = {"PATH": os.environ["PATH"], "HOME": str(project.parent / "home")}
    worktrees = ProjectWorktrees(Environment(Options(cwd=project, environ=environ, trust=True)))
    worktree = worktrees.open("fix")
    calls = (
        call("Read", file_path="secret/key.txt"),
        call("Bash", command="make all"),
        call("Bash", command="ls -l"),
        call("Bash", command="touch x"),
    )
    options = {"cwd": worktree.path, "trust": False}
    async with Assembled(project, [reply(*calls), "Done."], options=options) as run:
        events = await run.run()
        assert [event.input["command"] for event in run.asked] == ["ls -l", "touch x"]
        assert [event.outcome for event in only(events, ev.ToolFinished)] == ["denied", "denied", "done", "done"]
    worktrees.close(worktree)
