"""Sub-agents of the assembled engine: their context, tools, rights, files and transcripts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentcli.commands.line import run_command
from agentcli.core import events as ev
from agentcli.core.errors import UsageError
from agentcli.core.messages import Json
from agentcli.core.permission import Need, PermissionMode
from agentcli.session.find import list_sessions
from tests.support.assembled import Assembled
from tests.support.fakes import only, result_of
from tests.support.guide import block_with
from tests.support.scripts import call, pause, reply

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha\n")
    return folder


def task(prompt: str = "CHILD look", **rest: Any) -> Json:
    return call("Task", description="look around", prompt=prompt, **rest)


async def test_an_agent_works_in_its_own_context_and_reports(project: Path) -> None:
    replies: list[Json | str] = [
        reply(task(subagent_type="explore")),
        reply(call("Read", file_path="a.txt")),
        "There is alpha.",
        "The agent found alpha.",
    ]
    async with Assembled(project, replies) as run:
        events = await run.run("find it")
        assert result_of(events).text == "The agent found alpha."
        assert run.results == ["There is alpha."]
        child = [event for event in events if event.agent == "explore-1"]
        assert isinstance(child[0], ev.AgentStarted)
        assert isinstance(child[-1], ev.AgentFinished)
        assert child[-1].status == "completed"
        assert "Read" in [event.name for event in only(child, ev.ToolStarted)]
        main, first, *_ = run.requests
        assert first["model"] == "claude-haiku-5-5"
        assert "You explore a code base" in str(first["system"])
        assert "Write" not in [tool["name"] for tool in first["tools"]]
        assert len(first["messages"]) == 1
        assert main["tools"] == run.requests[-1]["tools"]
        assert set(run.engine.costs.spending.by_agent.by_model) == {"main", "explore-1"}


async def test_the_transcript_of_an_agent_is_a_hidden_session_that_can_be_resumed(project: Path) -> None:
    async with Assembled(project, [reply(task()), "Worked.", "Done."]) as run:
        events = await run.run()
        started = only(events, ev.AgentStarted)[0]
        state_dir = project.parent / "home" / ".local" / "state" / "agentcli"
        listed = [info.session_id for info in list_sessions(state_dir, project)]
        assert listed == [run.engine.session_id]
        everything = {info.session_id: info for info in list_sessions(state_dir, project, agents=True)}
        assert everything[started.session_id].parent == run.engine.session_id
        assert everything[started.session_id].title == "general-1: look around"
    async with Assembled(project, ["Still here."], options={"resume": started.session_id}) as again:
        assert [message.text for message in again.log][:2] == ["CHILD look", "Worked."]
        await again.run("and now?")


async def test_a_resumed_session_knows_which_reports_are_lost_and_uses_no_id_again(project: Path) -> None:
    replies: list[Json | str] = [
        reply(task("SLOW", subagent_type="explore", run_in_background=True), task("QUICK", subagent_type="explore")),
        reply(pause(1_000), "Late.", match="SLOW"),
        reply("Quick.", match="QUICK"),
        "Waiting.",
    ]
    async with Assembled(project, replies) as run:
        await run.run()
        session_id = run.engine.session_id
    more: list[Json | str] = [
        reply(task("AGAIN", subagent_type="explore")),
        reply("Found.", match="AGAIN"),
        "Done.",
        "Still done.",
    ]
    async with Assembled(project, more, options={"resume": session_id}) as again:
        events = await again.run("and now?")
        await again.run("and then?")
        assert [event.agent for event in only(events, ev.AgentStarted)] == ["explore-3"]
        lost = [message.text for message in again.log if "agentcli was closed before the report" in message.text]
        assert len(lost) == 1
        assert "explore-1" in lost[0]


async def test_changes_of_agents_belong_to_the_prompt_and_are_undone_with_it(project: Path) -> None:
    replies: list[Json | str] = [
        reply(task("PART A"), task("PART B")),
        reply(call("Write", file_path="one.txt", content="1\n"), match="PART A"),
        reply(call("Write", file_path="two.txt", content="2\n"), match="PART B"),
        reply("Written.", match="You work on one task", repeat=2),
        "Done.",
    ]
    async with Assembled(project, replies) as run:
        await run.run()
        assert {event.agent for event in run.asked} == {"general-1", "general-2"}
        assert (project / "one.txt").read_text() == "1\n"
        changed = {Path(change.path).name for change in await run.engine.files.changes()}
        assert changed == {"one.txt", "two.txt"}
        report = await run.engine.files.undo()
        assert report.done
        assert not (project / "one.txt").exists()
        assert not (project / "two.txt").exists()


async def test_a_background_agent_that_works_on_is_undone_separately(project: Path) -> None:
    replies: list[Json | str] = [
        reply(task(run_in_background=True)),
        reply(pause(0.3), call("Write", file_path="late.txt", content="1\n"), match="CHILD"),
        reply("Written.", match="You work on one task"),
        "Started.",
    ]
    async with Assembled(project, replies, options={"permission_mode": PermissionMode.ACCEPT_EDITS}) as run:
        await run.run()
        later: list[ev.Event] = []
        while not only(later, ev.AgentFinished):
            later += await run.engine.background.wait_for_changes()
        assert (project / "late.txt").exists()
        assert (await run.engine.files.undo()).done
        assert not (project / "late.txt").exists()


async def test_an_agent_defined_by_a_file(project: Path) -> None:
    (project / ".agentcli" / "agents").mkdir(parents=True)
    (project / ".agentcli" / "agents" / "reviewer.md").write_text(
        "---\ndescription: Reviews changes.\ntools: Read, Grep\nmodel: opus\nmax-turns: 2\n---\nYou review.\n"
    )
    replies: list[Json | str] = [reply(task(subagent_type="reviewer")), reply("Fine.", match="You review"), "Done."]
    async with Assembled(project, replies) as run:
        await run.run()
        main, child, _last = run.requests
        assert "- reviewer: Reviews changes." in str(main["messages"])
        assert [tool["name"] for tool in child["tools"]] == ["Read", "Grep"]
        assert "opus" in child["model"]
        assert child["system"][0]["text"].startswith("You review.")
        assert str(project) in str(child["system"])
        assert run.results == ["Fine."]


async def test_a_read_only_agent_runs_only_commands_that_read(project: Path) -> None:
    replies: list[Json | str] = [
        reply(task(subagent_type="explore")),
        reply(call("Bash", command="cat a.txt"), call("Bash", command="touch b.txt")),
        "Read it.",
        "Done.",
    ]
    async with Assembled(project, replies) as run:
        events = await run.run()
        read, refused = (one.result.text for one in only(events, ev.ToolFinished) if one.agent)
        assert "alpha" in read
        assert "This agent changes nothing" in refused
        assert run.asked == []
        assert not (project / "b.txt").exists()


async def test_instruction_files_reach_agents_and_their_reads_are_their_own(project: Path) -> None:
    (project / "AGENTS.md").write_text("Use tabs.\n")
    replies: list[Json | str] = [
        reply(call("Read", file_path="a.txt")),
        reply(task()),
        reply(call("Write", file_path="a.txt", content="beta\n")),
        "It was not read.",
        "Done.",
    ]
    async with Assembled(project, replies) as run:
        events = await run.run()
        assert "Use tabs." in str(run.requests[2]["messages"])
        assert only(events, ev.ToolFinished)[1].result.is_error
        assert (project / "a.txt").read_text() == "alpha\n"


async def test_the_definition_in_the_guide_works(project: Path) -> None:
    definition = block_with("markdown", "Reviews a change for bugs")
    (project / ".agentcli" / "agents").mkdir(parents=True)
    (project / ".agentcli" / "agents" / "reviewer.md").write_text(definition)
    replies: list[Json | str] = [reply(task(subagent_type="reviewer")), reply("Fine.", match="You review"), "Done."]
    async with Assembled(project, replies) as run:
        await run.run()
        assert run.results == ["Fine."]
        assert [tool["name"] for tool in run.requests[1]["tools"]] == ["Read", "Bash", "Glob", "Grep"]
        assert run.engine.session.definitions is not None
        assert run.engine.session.definitions.problems == ()
        said = await run.follow(run_command(run.engine, "agents", ""))
        assert "reviewer  Reviews a change for bugs before it is committed" in result_of(said).text
        assert ".agentcli/agents/reviewer.md · Read, Grep, Glob, Bash · your model" in result_of(said).text


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


async def test_an_agent_can_work_in_a_worktree_that_is_kept_if_it_has_changes(project: Path) -> None:
    git(project, "init", "-q", "-b", "main")
    git(project, "add", ".")
    git(project, "commit", "-qm", "one")
    replies: list[Json | str] = [
        reply(task("CHANGE it", isolation="worktree"), task("READ it", isolation="worktree")),
        reply(call("Write", file_path="b.txt", content="new\n"), call("Bash", command="cat b.txt"), match="CHANGE"),
        reply(call("Read", file_path="a.txt"), match="READ"),
        reply("Ended.", match="You work on one task", repeat=2),
        "Done.",
    ]
    async with Assembled(project, replies) as run:
        events = await run.run()
        started = {one.agent: Path(one.worktree) for one in only(events, ev.AgentStarted)}
        kept = {one.agent: one.worktree for one in only(events, ev.AgentFinished)}
        changed, read = started["general-1"], started["general-2"]
        assert kept == {"general-1": str(changed), "general-2": ""}
        assert not (project / "b.txt").exists()
        assert (changed / "b.txt").read_text() == "new\n"
        assert not read.exists()
        assert f"[Its changes are in the worktree {changed}, branch agentcli/" in run.results[0]
        assert run.results[1] == "Ended."
        # The report refers to it, so the session may read it without a question.
        policy, need = run.engine.permissions.policy, Need("read", str(changed / "b.txt"))
        assert policy.decide("Read", {}, (need,), project, (project,)).behavior == "allow"
        # One question, about the write; the user's answer and the mode are the session's.
        assert [(one.agent, one.name) for one in run.asked] == [("general-1", "Write")]
        assert str(changed) in next(
            str(body["system"]) for body in run.requests if "CHANGE" in str(body["messages"][0])
        )
        assert not (await run.engine.files.undo()).done
        of_agents = [body for body in run.requests if "You work on one task" in str(body["system"])]
        assert all("git worktree of your own" in str(body["system"]) for body in of_agents)
        assert "git worktree of your own" not in str(run.requests[0]["system"])


async def test_an_agent_with_the_skill_tool_gets_the_list_of_skills(project: Path) -> None:
    (project / ".agentcli" / "skills" / "release").mkdir(parents=True)
    (project / ".agentcli" / "skills" / "release" / "SKILL.md").write_text(
        "---\ndescription: Use for a new version\n---\nTag it.\n"
    )
    replies: list[Json | str] = [
        reply(task("ALL tools"), task("FEW tools", subagent_type="explore")),
        reply(call("Skill", skill="release"), match="ALL tools"),
        reply("Looked.", match="FEW tools"),
        reply("Tagged.", match="You work on one task"),
        "Done.",
    ]
    async with Assembled(project, replies) as run:
        await run.run()
        told = {
            name: "- release: Use for a new version" in str(body["messages"])
            for name in ("ALL tools", "FEW tools")
            for body in run.requests
            if name in str(body["messages"][0])
        }
        assert told == {"ALL tools": True, "FEW tools": False}


async def test_without_a_repository_there_is_no_worktree(project: Path) -> None:
    async with Assembled(project, [reply(task(isolation="worktree")), "Done."]) as run:
        await run.run()
        assert "needs a git repository" in run.results[0]
        assert run.engine.agents.running == []


def bare(value: Any) -> Any:
    """A request without the marks of the prompt cache."""
    if isinstance(value, dict):
        return {key: bare(one) for key, one in value.items() if key != "cache_control"}
    return [bare(one) for one in value] if isinstance(value, list) else value


async def test_a_fork_begins_with_the_same_prefix(project: Path) -> None:
    (project / "AGENTS.md").write_text("Use tabs.\n")
    replies: list[Json | str] = [
        reply(call("Read", file_path="a.txt")),
        reply("I fork.", task("Count the letters.", subagent_type="fork")),
        reply(call("Read", file_path="AGENTS.md")),
        "Five letters.",
        "Done.",
    ]
    async with Assembled(project, replies) as run:
        events = await run.run()
        assert run.results[-1] == "Five letters."
        _first, before, forked, _again, after = map(bare, run.requests)
        for part in ("system", "tools", "model"):
            assert before[part] == forked[part] == after[part]
        shared, last = before["messages"], forked["messages"][len(before["messages"]) - 1]
        assert forked["messages"][: len(shared) - 1] == shared[:-1]
        assert last["content"][: len(shared[-1]["content"])] == shared[-1]["content"]
        assert "Count the letters." in last["content"][-1]["text"]
        assert after["messages"][: len(shared)] == shared
        assert "Count the letters." not in str(after["messages"][:-2])
        started = only(events, ev.AgentStarted)[0]
    async with Assembled(project, ["Here."], options={"resume": started.session_id}) as again:
        assert "Five letters." in [message.text for message in again.log]
        await again.run()


REVIEWER = (
    '{"Reviewer": {"description": "Reviews.", "prompt": "You review.", "tools": ["Read", "Grep"], "maxTurns": 3}}'
)


async def test_agents_of_the_flag_can_be_started(tmp_path: Path) -> None:
    started = call("Task", description="a review", prompt="look", subagent_type="reviewer")
    replies: list[Json | str] = [reply(started), reply("Fine.", match="You review"), "Done."]
    async with Assembled(tmp_path, replies, options={"agents": REVIEWER}) as run:
        events = await run.run()
        assert only(events, ev.SessionStarted)[0].agents == ["explore", "fork", "general", "plan", "reviewer"]
        assert run.results == ["Fine."]
        assert [tool["name"] for tool in run.requests[1]["tools"]] == ["Read", "Grep"]


async def test_a_session_can_run_as_an_agent(tmp_path: Path) -> None:
    async with Assembled(tmp_path, ["Fine."], options={"agents": REVIEWER, "agent": "reviewer"}) as run:
        await run.run()
        assert [tool["name"] for tool in run.requests[0]["tools"]] == ["Read", "Grep"]
        assert run.requests[0]["system"][0]["text"].startswith("You review.")
        assert "Your last message is your report" not in str(run.requests[0]["system"])


async def test_a_session_as_a_read_only_agent_has_no_tool_that_changes_something(tmp_path: Path) -> None:
    async with Assembled(tmp_path, ["Fine."], options={"agent": "plan"}) as run:
        await run.run()
        assert not {"Bash", "Write", "Edit"} & {tool["name"] for tool in run.requests[0]["tools"]}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"agent": "nobody"}, "There is no agent called 'nobody'. There are: explore, general, plan."),
        ({"agent": "fork"}, "There is no agent called 'fork'."),
        ({"agents": "{"}, "--agents is not JSON"),
        ({"agents": "[]"}, "one entry per agent"),
        ({"agents": '{"x": 1}'}, "--agents: x needs an object"),
        ({"agents": '{"x": {"prompt": "You."}}'}, "description must be a text and is needed"),
        ({"agents": '{"x": {"description": "d", "prompt": "p", "tools": "Read"}}'}, "tools must be a list"),
        ({"agents": '{"x": {"description": "d", "prompt": "p", "maxTurns": 0}}'}, "maxTurns must be a number"),
    ],
)
async def test_mistakes_are_explained(options: Json, text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=text.replace("?", r"\?")):
        async with Assembled(tmp_path, [], options=options):
            pass
