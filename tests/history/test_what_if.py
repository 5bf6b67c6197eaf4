"""/what-if: a prompt again with another model, in copies of the folders, and the choice between both results."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentcli.commands.front_end import Choice
from agentcli.commands.tree import read_tree
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from agentcli.history.replay.verify import describe, read_session, verify
from tests.history.test_tree import Desk, texts_sent, write
from tests.support.cacheserver import CacheServer
from tests.support.scripts import call, fails, pause, reply, say, think
from tests.support.validate import problems

pytestmark = pytest.mark.anyio

HAIKU = "claude-haiku-5-5"
CALC = "one\nright\nthree\n"
READ = reply(call("Read", file_path="calc.txt"))


def edit(old: str, new: str, path: str = "calc.txt") -> Json:
    return reply(call("Edit", file_path=path, old_string=old, new_string=new))


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def copies_in(temp: Path) -> list[Path]:
    return [path for path in temp.rglob("calc.txt") if path.is_file()] + list(temp.rglob("copies"))


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


class WhatIfDesk(Desk):
    """A project with a file; the question whether to run a what-if is answered with yes."""

    def __init__(self, folder: Path, url: str, **rest: Any) -> None:
        super().__init__(folder, url, **rest)
        (self.folder / "calc.txt").write_text(CALC)

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        if title.startswith("Run ") and self.picks[:1] != ["no"]:
            self.asked.append((title, list(choices)))
            return "run"
        return await super().choose(title, choices)


PRESENT = ("One.", READ, edit("right", "wrong"), "Present done.")
"""Two prompts, the second of which changes a file."""
OTHER = (READ, edit("right", "best"), write("new.txt", "added\n"), "Other done.")


async def test_both_results_are_shown_and_the_project_is_untouched(tmp_path: Path, temp: Path) -> None:
    async with CacheServer(*PRESENT, *OTHER) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Do it")
        before, spent = contents(desk.folder), desk.engine.costs.totals.cost_usd
        said = await desk.command(f"what-if {HAIKU}", "present")
        assert contents(desk.folder) == before
        assert await texts_sent(desk.engine) == ["First", "Do it"]
        assert "Hooks, MCP servers and web requests are real" in desk.asked[0][1][0].detail
        present, other = said.split("What if: model ")
        assert present.startswith("Present result: model opus-5-5 · cost $0.0")
        assert "turns 3 · files 1  +1 −1\n\nPresent done." in present
        assert "-right\n+wrong" in present
        assert other.startswith("haiku-5-5 · cost $0.0")
        assert "turns 4 · files 2  +2 −1\n\nOther done." in other
        assert "-right\n+best" in other
        assert "+added" in other
        assert said.endswith(
            "The present result stays, and no file was changed. The other one is a branch: /tree shows it."
        )
        # The same conversation was sent, up to the prompt.
        asked = server.bodies[4]
        assert asked["model"] == HAIKU
        assert asked["system"] == server.bodies[1]["system"]
        texts = [block.get("text") for message in asked["messages"] for block in message["content"]]
        assert texts[-1] == "Do it"
        assert all(problems(body) == [] for body in server.bodies)
        # The file is there as it was when the prompt was sent, under its usual name.
        assert "right" in str(server.bodies[5]["messages"][-1])
        # Its cost is that of the session.
        paid = [event.cost_usd or 0 for event in desk.shown if isinstance(event, ev.UsageReported)]
        assert len(paid) == 4
        assert desk.engine.costs.totals.cost_usd == pytest.approx(spent + sum(paid))
        assert not copies_in(temp)


async def test_the_other_result_is_taken_and_undone(tmp_path: Path, temp: Path) -> None:
    replies = (*PRESENT, *OTHER, "Three.")
    async with CacheServer(*replies) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Do it")
        # The user's own changes stay.
        (desk.folder / "calc.txt").write_text("ONE\nwrong\nthree\n")
        (desk.folder / "mine.txt").write_text("by hand\n")
        before, paid = contents(desk.folder), desk.engine.costs.session_totals.cost_usd
        said = await desk.command(f"what-if {HAIKU}", "other")
        assert "2 files changed. /rewind undo takes this back" in said
        taken = {"calc.txt": "ONE\nbest\nthree\n", "mine.txt": "by hand\n", "new.txt": "added\n"}
        assert contents(desk.folder) == taken
        paid += sum(event.cost_usd or 0 for event in desk.shown if isinstance(event, ev.UsageReported))
        assert desk.engine.costs.session_totals.cost_usd == pytest.approx(paid)
        assert await desk.drawn() == ["● First", "├─○ Do it", f"◉ [what-if {HAIKU}] Do it"]
        tree = await read_tree(desk.engine)
        assert "2 files +2 −1" in tree.rows[2].facts(tree.now)
        costs = [prompt.cost_usd for prompt in tree.timeline.prompts.values()]
        assert sum(costs) == pytest.approx(paid)
        await desk.prompt("Go on")
        body = server.bodies[-1]
        assert body["model"] == HAIKU
        assert problems(body) == []
        assert "Other done." in str(body["messages"])
        assert "Present done." not in str(body["messages"])
        assert str(temp) not in str(body["messages"])
        assert "Undid the changes of “Do it”" in await desk.command("undo")
        assert contents(desk.folder) == before
        assert not copies_in(temp)


@pytest.mark.parametrize(("answer", "line"), [("keep", "by hand"), ("replace", "best")])
async def test_the_user_is_asked_about_lines_that_both_changed(tmp_path: Path, answer: str, line: str) -> None:
    async with CacheServer(*PRESENT, *OTHER) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Do it")
        (desk.folder / "calc.txt").write_text("one\nby hand\nthree\n")
        desk.answers = [answer]
        await desk.command(f"what-if {HAIKU}", "other")
        assert contents(desk.folder) == {"calc.txt": f"one\n{line}\nthree\n", "new.txt": "added\n"}


@pytest.mark.parametrize("picked", ["other", "present"])
async def test_the_session_can_be_replayed_and_verified(tmp_path: Path, picked: str) -> None:
    async with CacheServer(*PRESENT, *OTHER, "Three.") as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Do it")
        await desk.command(f"what-if {HAIKU}", picked)
        await desk.prompt("Go on")
        path = desk.engine.session.store.path
        assert path is not None
    found = await verify(read_session(path))
    assert found.difference is None, "\n".join(describe(found))
    assert found.exit_code == 0
    assert any("by /what-if" in reason for reason in found.counts.apart)
    assert found.requests == (4 if picked == "present" else 5)


async def test_the_result_that_is_not_taken_stays_a_branch(tmp_path: Path) -> None:
    async with CacheServer(*PRESENT, *OTHER) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Do it")
        before = contents(desk.folder)
        assert "is a branch" in await desk.command(f"what-if {HAIKU} high", "present")
        assert contents(desk.folder) == before
        assert (await desk.drawn())[1:] == [f"├─○ [what-if {HAIKU} high] Do it", "◉ Do it"]
        assert server.bodies[4]["output_config"]["effort"] == "high"
        await desk.command("tree 2", "after")
        shown = [type(event).__name__ for event in desk.engine.take_history()]
        assert shown.count("ToolFinished") == 3


async def test_an_earlier_prompt_is_run_with_the_files_it_found(tmp_path: Path) -> None:
    replies = (READ, edit("right", "first"), "A.", edit("first", "second"), "B.", READ, edit("right", "best"), "C.")
    async with CacheServer(*replies) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Second")
        await desk.command(f"what-if {HAIKU} prompt 1", "other")
        assert contents(desk.folder) == {"calc.txt": "one\nbest\nthree\n"}
        assert await texts_sent(desk.engine) == ["First"]
        assert len(server.bodies[5]["messages"]) == 1
        await desk.command("undo")
        assert contents(desk.folder) == {"calc.txt": "one\nsecond\nthree\n"}


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
async def test_commands_see_the_copy_in_place_of_the_project(tmp_path: Path, temp: Path) -> None:
    command = f"cat {tmp_path}/project/calc.txt; echo more >> {tmp_path}/project/calc.txt; pwd; rm -rf ../project/gone"
    replies = (*PRESENT, reply(call("Bash", command=command)), write(f"{tmp_path}/project/b.txt", "b\n"), "Done.")
    async with CacheServer(*replies) as server, WhatIfDesk(tmp_path, server.url, sandbox="on", trust=True) as desk:
        (desk.folder / "gone").write_text("still here\n")
        await desk.prompt("First")
        await desk.prompt("Do it")
        before = contents(desk.folder)
        said = await desk.command(f"what-if {HAIKU}", "present")
        assert "Without a sandbox" not in desk.asked[0][1][0].detail
        assert contents(desk.folder) == before
        output = server.bodies[5]["messages"][-1]["content"][0]["content"]
        assert "right" in str(output)
        assert str(desk.folder) in str(output)
        assert "+more" in said
        assert "-still here" in said
        assert str(temp) not in said
        assert not copies_in(temp)


async def test_a_prompt_that_changed_nothing_is_run_on_the_files_as_they_are(tmp_path: Path) -> None:
    task = reply(call("Task", subagent_type="general", description="Write", prompt="Write it"))
    other = (task, write("new.txt", "by an agent\n"), "Written.", reply(think("About a file."), say("Other done.")))
    async with CacheServer("One.", *other, "Two.") as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.command(f"what-if {HAIKU}", "other")
        # Its sub-agents work in the copy too.
        assert contents(desk.folder) == {"calc.txt": CALC, "new.txt": "by an agent\n"}
        await desk.prompt("Go on")
        body = server.bodies[-1]
        assert problems(body) == []
        thinking = [
            block for message in body["messages"] for block in message["content"] if block["type"] == "thinking"
        ]
        assert [block["thinking"] for block in thinking] == ["About a file."]
        await desk.command("undo")
        assert contents(desk.folder) == {"calc.txt": CALC}


async def test_rewind_undo_takes_back_the_conversation_and_the_files(tmp_path: Path) -> None:
    async with CacheServer(*PRESENT, *OTHER) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Do it")
        before = contents(desk.folder)
        await desk.command(f"what-if {HAIKU}", "other")
        assert contents(desk.folder) != before
        await desk.command("rewind undo")
        assert contents(desk.folder) == before
        assert (await desk.drawn())[1:] == [f"├─○ [what-if {HAIKU}] Do it", "◉ Do it"]
        assert "Nothing was rewound" in await desk.command("rewind undo")


async def test_a_result_that_was_taken_can_be_asked_for_again(tmp_path: Path) -> None:
    third = (READ, edit("right", "third"), "Third done.")
    async with CacheServer(*PRESENT, *OTHER, *third) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Do it")
        await desk.command(f"what-if {HAIKU}", "other")
        said = await desk.command("what-if sonnet", "other")
        # Both are compared with the files that the prompt found.
        assert said.count("-right\n") == 2
        assert "right" in str(server.bodies[-2]["messages"][-1])
        assert contents(desk.folder) == {"calc.txt": "one\nthird\nthree\n"}
        assert "-third\n+right\n" in await desk.command("rewind 2 both")


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
@pytest.mark.parametrize("is_deleted", [True, False])
async def test_files_of_deny_rules_are_not_in_the_copies(tmp_path: Path, temp: Path, is_deleted: bool) -> None:
    command = f"for name in $(ls -A); do cat $name; done; cat $(ls -d {temp}/*/copies/0/*); echo x > made.txt"
    replies = (*PRESENT, reply(call("Bash", command=command)), "Done.")
    settings = '{"permissions": {"deny": ["Read(secret.txt)"]}}'
    async with (
        CacheServer(*replies) as server,
        WhatIfDesk(tmp_path, server.url, sandbox="on", trust=True, settings=settings) as desk,
    ):
        secret = desk.folder / "secret.txt"
        secret.write_text("TOKEN=hidden\n")
        await desk.prompt("First")
        await desk.prompt("Do it")
        if is_deleted:
            # The snapshot still has it, and the sandbox covers only what the project has.
            secret.unlink()
        kept = {} if is_deleted else {"secret.txt": "TOKEN=hidden\n"}
        said = await desk.command(f"what-if {HAIKU}", "other")
        assert "three" in str(server.bodies[-1]["messages"][-1])
        assert "TOKEN" not in str(server.bodies)
        assert "secret.txt" not in said
        assert contents(desk.folder) == {"calc.txt": CALC, "made.txt": "x\n", **kept}


async def test_a_failure_of_the_model_leaves_nothing(tmp_path: Path, temp: Path) -> None:
    async with CacheServer(*PRESENT, READ, fails(404)) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Do it")
        before = contents(desk.folder)
        said = await desk.command(f"what-if {HAIKU}", "other")
        assert said.startswith("The what-if failed. Nothing was changed. The agent what-if-1 failed: ")
        assert await desk.drawn() == ["● First", "◉ Do it"]
        assert contents(desk.folder) == before
        assert not copies_in(temp)


async def test_a_prompt_that_was_compacted_away_in_another_process_is_run_again(tmp_path: Path) -> None:
    replies = (*PRESENT, "A summary.", *OTHER)
    async with CacheServer(*replies) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Do it")
        async for event in desk.engine.compact(""):
            if isinstance(event, ev.PermissionRequested):
                desk.engine.answer(event.request_id, Answer("allow"))
        await desk.open_session(desk.engine.session_id)
        await desk.command(f"what-if {HAIKU}", "other")
        assert contents(desk.folder) == {"calc.txt": "one\nbest\nthree\n", "new.txt": "added\n"}
        assert "One." in str(server.bodies[5]["messages"])
        assert "A summary." not in str(server.bodies[5]["messages"])


async def test_without_copies_of_files_there_is_no_what_if(tmp_path: Path) -> None:
    async with CacheServer("One.") as server, WhatIfDesk(tmp_path, server.url, settings='{"undo": false}') as desk:
        assert "no prompt yet" in await desk.command(f"what-if {HAIKU}")
        await desk.prompt("First")
        assert "needs the copies of files that undo keeps" in await desk.command(f"what-if {HAIKU}")
        assert len(server.bodies) == 1


async def test_changes_outside_of_the_copy_are_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    replies = (*PRESENT, write(str(outside), "x"), "Done.")
    async with CacheServer(*replies) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Do it")
        await desk.command(f"what-if {HAIKU}", "present")
        assert not outside.exists()
        assert "only in its copy" in str(server.bodies[5]["messages"][-1])


@pytest.mark.parametrize("answer", ["take", "no"])
async def test_files_that_programs_obey_are_taken_only_after_a_question(tmp_path: Path, answer: str) -> None:
    other = (reply(call("Bash", command="echo 'touch x' > .envrc")), "Done.")
    async with CacheServer("One.", *other) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.command(f"what-if {HAIKU}", "other", answer)
        assert (desk.folder / ".envrc").exists() == (answer == "take")
        assert ".envrc" in desk.asked[-1][1][0].detail


async def test_esc_leaves_nothing(tmp_path: Path, temp: Path) -> None:
    replies = (*PRESENT, READ, reply(say("I "), call("Write", file_path="new.txt", content="x"), pause(60)))
    async with CacheServer(*replies) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Do it")
        before = contents(desk.folder)
        sessions = sorted((tmp_path / ".local/state/agentcli/sessions").rglob("*"))
        desk.stops_at = ev.ReplyStarted
        said = await desk.command(f"what-if {HAIKU}")
        assert said == "The what-if was stopped. Nothing was changed."
        assert contents(desk.folder) == before
        assert not copies_in(temp)
        assert sorted((tmp_path / ".local/state/agentcli/sessions").rglob("*")) == sessions
        assert await desk.drawn() == ["● First", "◉ Do it"]


async def test_esc_ends_it_while_the_files_are_copied(tmp_path: Path, temp: Path) -> None:
    async with CacheServer("One.") as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        desk.stops_at = ev.NoticeRaised
        assert await desk.command(f"what-if {HAIKU}") == "The what-if was stopped. Nothing was changed."
        assert not any(isinstance(event, ev.AgentStarted) for event in desk.shown)
        assert len(server.bodies) == 1
        assert not copies_in(temp)


async def test_the_next_start_removes_the_copies_of_a_killed_process(tmp_path: Path, temp: Path) -> None:
    from agentcli.sandbox.session_folder import SessionFolder

    killed = SessionFolder(temp)
    copy = killed.path / "copies/0/calc.txt"
    copy.parent.mkdir(parents=True)
    copy.write_text(CALC)
    assert stat.S_IMODE(killed.path.stat().st_mode) == 0o700
    # The lock goes with the process.
    os.close(killed._lock)
    killed._lock = -1
    async with CacheServer() as server, WhatIfDesk(tmp_path, server.url):
        assert not copies_in(temp)


async def test_questions_name_the_what_if(tmp_path: Path) -> None:
    async with CacheServer(*PRESENT, *OTHER) as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Do it")
        desk.engine.permissions.set_mode(PermissionMode.DEFAULT)
        desk.permission = Answer("allow")
        said = await desk.command(f"what-if {HAIKU}", "present")
        asked = [event for event in desk.shown if isinstance(event, ev.PermissionRequested)]
        assert [event.agent for event in asked] == ["what-if-1", "what-if-1"]
        assert asked[0].title.endswith("calc.txt")
        assert "+best" in said


async def test_mistakes_are_explained(tmp_path: Path) -> None:
    async with CacheServer("One.") as server, WhatIfDesk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        assert "Name another model" in await desk.command("what-if")
        assert "no model nonsense" in await desk.command("what-if nonsense")
        assert "from 1 to 1" in await desk.command(f"what-if {HAIKU} prompt 2")
        assert "the model and effort of this session" in await desk.command("what-if opus")
        assert await desk.command(f"what-if {HAIKU}", "no") == "Cancelled. Nothing was sent."
        assert len(server.bodies) == 1
