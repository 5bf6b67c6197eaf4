"""/rewind: conversation, files or both, to before or after any prompt, and back."""

from __future__ import annotations

import json
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agentcli.commands.line import run_command
from agentcli.core.events import PermissionRequested
from agentcli.core.messages import Json
from agentcli.history.steps import Step, StepChoice, StepList
from agentcli.session import recent_messages
from tests.history.test_tree import Desk, texts_sent, write
from tests.support.cacheserver import CacheServer
from tests.support.fakes import collect
from tests.support.scripts import call, provider_on, reply, transport_for
from tests.workspace.folders import git, state_of

pytestmark = pytest.mark.anyio


def bash(command: str) -> Json:
    return reply(call("Bash", command=command))


def edit(name: str, old: str, new: str) -> Json:
    return reply(call("Edit", file_path=name, old_string=old, new_string=new))


def said(body: Json) -> str:
    """The messages, without the marks of the prompt cache."""
    texts = json.dumps(body["messages"], ensure_ascii=False)
    return re.sub(r', "cache_control": \{[^}]*\}', "", texts)


class PageDesk(Desk):
    """With pages: `keys` are the choices made there, as a key and the label of a row."""

    has_pages = True
    keys: list[tuple[str, str]]
    seen: list[StepList]

    hinted = ""

    def hint(self, text: str) -> None:
        self.hinted = text

    async def page(self, kind: str, *data: Any) -> Any:
        (steps,) = data
        assert kind == "steps"
        self.seen.append(steps)
        if not self.keys:
            return None
        key, label = self.keys.pop(0)
        row = next(step for step in steps.load() if step.label == label)
        assert any(action.key == key and action.applies(row) for action in steps.actions)
        return StepChoice(key, row)


async def tab(steps: StepList, name: str, row: Step) -> str:
    found: Any = next(one for one in steps.tabs if one.name == name).read(row)
    return "\n".join(part.text for part in (await found if hasattr(found, "__await__") else found))


def three_prompts() -> list[Json | str]:
    return [
        *(write("a.txt", "1\n2\n3\n4\n5\n"), "One."),
        *(edit("a.txt", "2\n", "two\n"), "Two."),
        *(bash("echo x > made.txt; mkdir hollow; chmod +x a.txt; ln -s a.txt link"), "Three."),
    ]


async def test_both_go_back_and_both_return(tmp_path: Path) -> None:
    async with CacheServer(*three_prompts(), "Differently.") as server, Desk(tmp_path, server.url) as desk:
        states = []
        for text in ("First", "Second", "Third"):
            states.append(state_of(desk.folder))
            await desk.prompt(text)
        last = state_of(desk.folder)
        listed = await desk.command("rewind")
        assert listed.splitlines()[:2] == ["1  First", "   1 file +5 −0 · just now"]
        assert "by command" in listed

        report = await desk.command("rewind 2 both", "both")
        assert "-two\n+2" in report, "the difference is shown before"
        assert "The conversation continues before “Second”. 2 prompts stay as a branch." in report
        assert "/rewind undo takes this back." in report
        ((title, choices),) = desk.asked
        assert title == "Go back to before “Second”?"
        assert [choice.value for choice in choices] == ["both"]
        assert state_of(desk.folder) == states[1]
        assert await texts_sent(desk.engine) == ["First"]
        assert desk.prefilled == "Second"

        said_undo = await desk.command("rewind undo")
        assert "where it was before the last rewind" in said_undo
        assert state_of(desk.folder) == last
        assert await texts_sent(desk.engine) == ["First", "Second", "Third"]

        await desk.command("rewind 1 after both", "both")
        assert state_of(desk.folder) == states[1]
        await desk.prompt("Another second")
        # What was sent before is sent again byte for byte, and the model is told nothing that it need not know.
        second = server.bodies[2]["messages"]
        assert said(server.bodies[-1]).startswith(said({"messages": second[:-1]})[:-1])
        assert "Second" not in said(server.bodies[-1])
        assert "put files back" not in said(server.bodies[-1])


async def test_files_alone_go_back_and_the_model_is_told(tmp_path: Path) -> None:
    async with CacheServer(*three_prompts(), "Seen.", "Again.") as server, Desk(tmp_path, server.url) as desk:
        for text in ("First", "Second", "Third"):
            await desk.prompt(text)
        last = state_of(desk.folder)
        report = await desk.command("rewind 1 after files", "files")
        assert "Files as they were after “First”" in report
        assert (desk.folder / "a.txt").read_text() == "1\n2\n3\n4\n5\n"
        assert await texts_sent(desk.engine) == ["First", "Second", "Third"]
        await desk.prompt("Go on")
        assert "The user put files back to an earlier state." in said(server.bodies[-1])
        await desk.command("rewind undo")
        assert state_of(desk.folder) == last
        await desk.prompt("And now")
        assert "took back that files were put back" in said(server.bodies[-1])


async def test_the_conversation_alone_goes_back_and_returns_without_files(tmp_path: Path) -> None:
    async with CacheServer(*three_prompts()) as server, Desk(tmp_path, server.url) as desk:
        for text in ("First", "Second", "Third"):
            await desk.prompt(text)
        last = state_of(desk.folder)
        assert "Files are as they were." in await desk.command("rewind 3 conversation", "conversation")
        assert await texts_sent(desk.engine) == ["First", "Second"]
        await desk.command("rewind undo")
        assert await texts_sent(desk.engine) == ["First", "Second", "Third"]
        assert state_of(desk.folder) == last
        await desk.command("rewind 1 conversation", "conversation")
        assert "has no prompts" in await desk.command("rewind")
        await desk.command("rewind undo")
        assert await texts_sent(desk.engine) == ["First", "Second", "Third"]


async def test_lines_that_both_changed_are_asked_about_and_cancelling_changes_nothing(tmp_path: Path) -> None:
    async with CacheServer(*three_prompts()) as server, Desk(tmp_path, server.url) as desk:
        for text in ("First", "Second", "Third"):
            await desk.prompt(text)
        file = desk.folder / "a.txt"
        file.write_text("1\nmine\n3\n4\nfive\n")
        mine = state_of(desk.folder)
        report = await desk.command("rewind 2 files")
        assert state_of(desk.folder) == mine
        assert "You are asked about your own changes in a.txt." in report
        desk.answers = ["replace"]
        await desk.command("rewind 2 files", "files")
        questions = [event.title for event in desk.shown if isinstance(event, PermissionRequested)]
        assert questions == ["Rewind: you changed a.txt too"]
        assert file.read_text() == "1\n2\n3\n4\nfive\n"
        await desk.command("rewind undo")
        assert state_of(desk.folder) == mine


async def test_a_branch_is_switched_to_with_its_files(tmp_path: Path) -> None:
    script = [*three_prompts(), write("b.txt", "other\n"), "Four."]
    async with CacheServer(*script) as server, Desk(tmp_path, server.url) as desk:
        for text in ("First", "Second", "Third"):
            await desk.prompt(text)
        third = state_of(desk.folder)
        await desk.command("rewind 2 both", "both")
        await desk.prompt("Other")
        other = state_of(desk.folder)
        for name, texts, state in (
            ("Third", ["First", "Second", "Third"], third),
            ("Other", ["First", "Other"], other),
        ):
            number = 1 + next(place for place, row in enumerate(await desk.drawn()) if name in row)
            report = await desk.command(f"tree {number}", "after", "both")
            assert "Files as they were then" in report
            assert await texts_sent(desk.engine) == texts
            assert state_of(desk.folder) == state


async def test_the_page_shows_prompts_calls_differences_and_what_restoring_would_do(tmp_path: Path) -> None:
    async with CacheServer(*three_prompts()) as server, PageDesk(tmp_path, server.url) as desk:
        desk.keys, desk.seen = [("enter", "Second"), ("enter", "Second")], []
        for text in ("First", "Second", "Third"):
            await desk.prompt(text)
        before = state_of(desk.folder)
        report = await desk.command("rewind", "show", "both")
        page, again = desk.seen
        assert (again.start, again.tabs[again.tab].name) == (page.load()[2].id, "Before it")
        rows = {step.label: step for step in page.load()}
        assert rows["First"].detail.startswith("1 file +5 −0")
        calls = [step for step in page.load() if step.parent == rows["Third"].id]
        assert [step.detail for step in calls] == ["3 files +2 −0"]
        assert "+x" in await tab(page, "Changes", rows["Third"])
        assert "+x" in await tab(page, "Changes", calls[0])
        assert "-2\n+two" in await tab(page, "Changes", rows["Second"])
        assert "Two." in await tab(page, "Prompt", rows["Second"])
        assert not next(action for action in page.actions if action.key == "a").applies(rows["Third"])
        assert "The conversation continues before “Second”" in report
        assert "No file would change" in await tab(page, "After it", rows["First"])
        await desk.command("rewind undo")
        assert state_of(desk.folder) == before


async def test_changes_by_sub_agents_are_counted_and_shown(tmp_path: Path) -> None:
    task = reply(call("Task", description="Make it", prompt="Write it"))
    script = [task, write("deep.txt", "1\n2\n"), "Done.", "All done."]
    async with CacheServer(*script) as server, PageDesk(tmp_path, server.url) as desk:
        desk.keys, desk.seen = [], []
        await desk.prompt("Delegate")
        await desk.command("rewind")
        (page,) = desk.seen
        prompt, *calls = page.load()
        assert prompt.detail.startswith("1 file +2 −0 (1 by sub-agent)")
        assert "+1\n+2" in await tab(page, "Changes", calls[-1])
        assert "-1\n-2" in await tab(page, "Before it", prompt)


async def test_git_is_named_and_stays(tmp_path: Path) -> None:
    async with CacheServer(*three_prompts()) as server, Desk(tmp_path, server.url) as desk:
        git(desk.folder, "init", "-q", "-b", "main")
        git(desk.folder, "commit", "-q", "--allow-empty", "-m", "zero")
        await desk.prompt("First")
        git(desk.folder, "checkout", "-qb", "feature")
        git(desk.folder, "add", ".")
        git(desk.folder, "commit", "-qm", "one")
        head = git(desk.folder, "rev-parse", "HEAD")
        report = await desk.command("rewind 1 both", "both")
        assert f"feature at {head[:10]}; then: main at " in report
        assert git(desk.folder, "rev-parse", "HEAD") == head
        assert not (desk.folder / "a.txt").exists()


async def test_without_snapshots_only_the_conversation_goes_back(tmp_path: Path) -> None:
    async with CacheServer(*three_prompts()) as server, Desk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        for objects in (tmp_path / ".local/state/agentcli/snapshots/folders").glob("*/objects"):
            for path in (one for one in objects.rglob("*") if one.is_file()):
                path.unlink()
        report = await desk.command("rewind 1 both")
        assert "The files cannot be restored" in report
        await desk.command("rewind 1", "conversation")
        assert [choice.value for choice in desk.asked[-1][1]] == ["conversation"]
        assert await texts_sent(desk.engine) == []
        assert (desk.folder / "a.txt").exists()


async def test_without_undo_that_is_said_and_only_the_conversation_goes_back(tmp_path: Path) -> None:
    (tmp_path / ".config/agentcli").mkdir(parents=True)
    (tmp_path / ".config/agentcli/settings.json").write_text('{"undo": false}')
    async with CacheServer(*three_prompts()) as server, Desk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.command("rewind 1", "conversation")
        ((_title, choices),) = desk.asked
        assert [choice.value for choice in choices] == ["conversation"]
        assert "there are no snapshots of them" in choices[0].detail
        assert await texts_sent(desk.engine) == []


async def test_a_prompt_in_the_part_of_a_long_session_that_was_not_loaded_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_messages, "MIN_EARLIER", 1)
    monkeypatch.setattr(recent_messages, "BEFORE_COMPACTION", 0)
    transport = transport_for(*three_prompts(), "A summary.", "Since.", "Onwards.")
    model = {"provider": provider_on(transport)}
    async with Desk(tmp_path, "", **model) as desk:
        states = []
        for text in ("First", "Second", "Third"):
            states.append(state_of(desk.folder))
            await desk.prompt(text)
        await collect(desk.engine.compact())
        await desk.prompt("Afterwards")
        last, session = state_of(desk.folder), desk.engine.session_id
    async with Desk(tmp_path, "", resume=session, **model) as desk:
        assert len(desk.engine.recent_messages) < desk.engine.message_count
        await desk.command("rewind 2 both", "both")
        assert await texts_sent(desk.engine) == ["First"]
        assert desk.prefilled == "Second"
        assert state_of(desk.folder) == states[1]
        await desk.command("rewind undo")
        assert state_of(desk.folder) == last
        await desk.prompt("Go on")
        assert "A summary." in said(transport.requests[-1])


async def test_that_background_commands_end_is_said_before(tmp_path: Path) -> None:
    serve = reply(call("Bash", command="sleep 300", run_in_background=True))
    async with CacheServer(serve, "It runs.") as server, Desk(tmp_path, server.url) as desk:
        await desk.prompt("Serve it")
        await desk.command("rewind 1 conversation")
        ((_title, (choice,)),) = desk.asked
        assert "stops what runs in the background" in choice.detail


async def test_esc_esc_before_the_first_prompt_is_no_error(tmp_path: Path) -> None:
    async with CacheServer() as server, PageDesk(tmp_path, server.url) as desk:
        assert await desk.command("rewind") == ""
        assert "no prompt yet" in desk.hinted


async def test_mistakes_are_explained(tmp_path: Path) -> None:
    async with CacheServer("One.") as server, Desk(tmp_path, server.url) as desk:
        assert "no prompt yet" in await desk.command("rewind")
        await desk.prompt("First")
        assert "There is no prompt 2" in await desk.command("rewind 2")
        assert "is not understood" in await desk.command("rewind 1 nothing")
        assert "at this point already" in await desk.command("rewind 1 after")
        assert "Nothing was rewound" in await desk.command("rewind undo")
        assert "cannot be restored" in await desk.command("rewind 1 files")


async def test_nothing_goes_back_while_a_prompt_runs(tmp_path: Path) -> None:
    async with CacheServer(*three_prompts()) as server, Desk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        async with aclosing(desk.engine.submit("Second")) as events:
            await anext(events)
            assert "still running" in await desk.command("rewind 1 both", "both")
            assert "still running" in await desk.command("rewind undo")
        assert (desk.folder / "a.txt").exists()


async def test_a_run_without_a_user_restores_files_and_leaves_conflicts(tmp_path: Path) -> None:
    async with CacheServer(*three_prompts()) as server:
        async with Desk(tmp_path, server.url) as desk:
            for text in ("First", "Second", "Third"):
                await desk.prompt(text)
            (desk.folder / "a.txt").write_text("1\nmine\n3\n4\n5\n")
            session = desk.engine.session_id
        async with Desk(tmp_path, server.url, resume=session) as desk:
            desk.engine.session.interactive = False

            async def run(line: str) -> str:
                events = await collect(run_command(desk.engine, *line.split(" ", 1)))
                return "\n".join(getattr(event, "text", "") for event in events)

            assert "1  First" in await run("rewind ")
            assert "Nothing was done." in await run("rewind 2")
            for what in ("conversation", "both"):
                assert "not available here" in await run(f"rewind 2 {what}")
            assert (desk.folder / "made.txt").exists()
            report = await run("rewind 2 files")
            assert "left alone, the same lines were changed later" in report
            assert (desk.folder / "a.txt").read_text() == "1\nmine\n3\n4\n5\n"
            assert not (desk.folder / "made.txt").exists()
            await run("rewind undo")
            assert (desk.folder / "made.txt").exists()
