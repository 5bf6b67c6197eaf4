"""Instruction files in a conversation: sent when needed, once per change, with an unchanged prefix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.attachments.instructions import CHANGED, INSTRUCTIONS, NEW, ConversationInstructions
from agentcli.agent.attachments.state_notes import Composite
from agentcli.agent.file_changes import ChangedFiles
from agentcli.agent.loop_state import LoopState
from agentcli.assemble import Options, build_engine
from agentcli.context.edits import ContextEdit
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json, Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock, user_message
from agentcli.core.usage import Usage
from agentcli.memory.instructions import InstructionFiles, InstructionFolders, UserContext
from agentcli.tools.base import ToolContext
from agentcli.tools.documents.read import Read
from agentcli.tools.files.edit import Edit
from agentcli.tools.files.write import Write
from tests.support.fakes import bench, collect, only, result_of
from tests.support.scripts import call, provider_on, reply, transport_for
from tests.support.validate import problems

pytestmark = pytest.mark.anyio


def turn(name: str, is_error: bool = False, **input: Any) -> tuple[Message, Message]:
    called = Message("assistant", (ToolUseBlock("c", name, input),), "a", Origin.REPLY, usage=Usage(1))
    return called, Message("user", (ToolResultBlock("c", (TextBlock("ok"),), is_error),), "u", Origin.TOOL_RESULTS)


PROMPT = user_message("go", "p", Origin.PROMPT)
ANSWERED = (PROMPT, Message("assistant", (TextBlock("Yes?"),), "r", Origin.REPLY, usage=Usage(1)))
"""A conversation of which a request was made: what stands at its front stays."""
BOUNDARY = Message("user", (), "b", Origin.BOUNDARY)
SUMMARY = user_message("so far", "s", Origin.SUMMARY)
UNDO = ContextEdit(kind="undo_compaction", target="b", through="s")


class Project:
    """A repository, the conversation's view and log, and the messages for the model."""

    def __init__(self, folder: Path) -> None:
        (folder / ".git").mkdir()
        self.folder = folder
        self.context = ToolContext(cwd=folder, working_dirs=(folder,))
        self.log: tuple[Message, ...] = (PROMPT,)
        self.renewed: list[UserContext] = []
        self.notices: list[str] = []
        self.ids = SequentialIds()

    def put(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def begin(self, told: UserContext | None = None) -> ConversationInstructions:
        files = InstructionFiles(InstructionFolders.find_around(self.folder))
        told = told or files.always().as_context()
        self.view = ContextView(told.text)
        self.instructing = ConversationInstructions(
            files, {"": told}, self.ids, self.view, self.renew, self.notices.append
        )
        return self.instructing

    def renew(self, context: UserContext, boundary: str) -> None:
        self.renewed.append(context)
        self.view.set_user_context(context.text, boundary)

    async def told(self, *messages: Message) -> list[str]:
        """The texts for the model after these messages were added to the log, without their frame."""
        self.log += messages
        found = tuple(await self.instructing.collect(LoopState(self.log, self.context)))
        self.log += found
        return [message.text for message in found]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize(
    ("name", "input"),
    [
        ("Read", {"file_path": "web/app/x.ts"}),
        ("Edit", {"file_path": "web/app/x.ts"}),
        ("Write", {"file_path": "web/app/new/../x.ts"}),
        ("NotebookEdit", {"notebook_path": "web/app/x.ipynb"}),
        ("Glob", {"pattern": "*.ts", "path": "web/app"}),
        ("Grep", {"pattern": "x", "path": "web/app/x.ts"}),
    ],
)
async def test_touching_a_file_brings_the_instructions_on_the_way_to_it(
    project: Project, name: str, input: Json
) -> None:
    project.put("web/AGENTS.md", "use tabs")
    project.put("web/app/CLAUDE.md", "no jquery")
    project.put("server/AGENTS.md", "use go")
    project.put("web/app/x.ts", "")
    project.begin()
    assert await project.told() == []
    first, second = await project.told(*turn(name, **input))
    assert first.startswith(NEW)
    assert ("use tabs" in first, "no jquery" in second) == (True, True)
    assert project.log[-1].meta[INSTRUCTIONS] == {
        str(project.folder / "web/app/CLAUDE.md"): InstructionFiles(InstructionFolders.find_around(project.folder))
        .near([str(project.folder / "web/app")])
        .files[1]
        .digest
    }
    assert await project.told(*turn(name, **input)) == []


async def test_a_failed_call_attaches_no_instructions(project: Project) -> None:
    project.put("web/AGENTS.md", "use tabs")
    project.begin()
    assert await project.told(*turn("Read", is_error=True, file_path="web/x.ts")) == []


async def test_a_command_that_runs_in_a_folder_attaches_its_instructions(project: Project) -> None:
    project.put("web/AGENTS.md", "use tabs")
    project.begin()
    project.context = ToolContext(cwd=project.folder / "web", working_dirs=(project.folder,))
    assert len(await project.told()) == 1


async def test_a_changed_file_is_sent_once_at_the_end_and_the_prefix_stays(project: Project) -> None:
    project.put("AGENTS.md", "be brief")
    project.put("web/AGENTS.md", "use tabs")
    project.begin()
    await project.told(*turn("Read", file_path="web/x.ts"))
    before = project.view.messages(project.log)
    project.put("AGENTS.md", "be loud")
    project.put("web/AGENTS.md", "use spaces")
    loud, spaces = await project.told()
    assert loud.startswith(CHANGED)
    assert ("be loud" in loud, "use spaces" in spaces) == (True, True)
    assert project.view.messages(project.log)[: len(before)] == before
    assert await project.told(*turn("Read", file_path="web/x.ts")) == []
    project.put("AGENTS.md", "be brief")
    assert "be brief" in (await project.told())[0]


async def test_removed_and_new_files_are_reported(project: Project) -> None:
    project.put("AGENTS.md", "be brief")
    project.begin()
    project.log = ANSWERED
    (project.folder / "AGENTS.md").unlink()
    assert "AGENTS.md are gone" in (await project.told())[0]
    assert await project.told() == []
    project.put("AGENTS.md", "be brief")
    assert (await project.told())[0].startswith(NEW)
    project.put("CLAUDE.local.md", "be kind")
    assert "be kind" in (await project.told())[0]
    assert await project.told() == []


async def test_a_compaction_renews_the_user_context_and_repeats_nested_files(project: Project) -> None:
    project.put("AGENTS.md", "be brief")
    project.put("web/AGENTS.md", "use tabs")
    project.begin()
    await project.told(*turn("Read", file_path="web/x.ts"))
    project.put("AGENTS.md", "be loud")
    await project.told()
    told = await project.told(BOUNDARY, SUMMARY)
    assert [("use tabs" in text, "be loud" in text) for text in told] == [(True, False)]
    assert [context.text.count("be loud") for context in project.renewed] == [1]
    assert "be loud" in project.view.messages(project.log)[0].text
    assert await project.told(*turn("Read", file_path="web/x.ts")) == []
    assert len(project.renewed) == 1


async def test_undoing_a_compaction_reverts_the_renewed_user_context(project: Project) -> None:
    project.put("AGENTS.md", "be brief")
    project.begin()
    await project.told(*turn("Read", file_path="x"))
    before = project.view.messages(project.log)
    project.put("AGENTS.md", "be loud")
    assert await project.told(BOUNDARY, SUMMARY) == []
    assert "be loud" in project.view.messages(project.log)[0].text
    project.view.edit([UNDO])
    assert project.view.messages(project.log) == before
    assert "be loud" in (await project.told())[0]
    assert await project.told() == []


async def test_instructions_in_a_collapsed_span_are_sent_again(project: Project) -> None:
    project.put("web/AGENTS.md", "use tabs")
    project.begin()
    calls = turn("Read", file_path="web/x.ts")
    assert len(await project.told(*calls)) == 1
    project.view.edit([ContextEdit(kind="collapse", target="a", through=project.log[-1].id, text="read a file")])
    assert len(await project.told()) == 1
    assert await project.told() == []


async def test_a_resumed_session_does_not_repeat_instructions(project: Project) -> None:
    project.put("AGENTS.md", "be brief")
    project.put("web/AGENTS.md", "use tabs")
    project.begin()
    told = InstructionFiles(InstructionFolders.find_around(project.folder)).always().as_context()
    await project.told(*turn("Read", file_path="web/x.ts"))
    project.begin(UserContext(told.text, told.sources))
    assert await project.told() == []
    project.put("web/AGENTS.md", "use spaces")
    assert len(await project.told()) == 1


async def test_a_session_started_without_instructions_gets_them_at_the_end(project: Project) -> None:
    project.put("AGENTS.md", "be brief")
    project.begin(UserContext("", {}))
    project.log = ANSWERED
    assert "be brief" in (await project.told())[0]
    assert await project.told() == []


async def test_instructions_that_do_not_fit_at_once_are_sent_in_parts(project: Project) -> None:
    for name in "abcd":
        project.put(f"{name}/AGENTS.md", f"{name} line\n" * 6_000)
    project.begin()
    calls = [message for name in "abcd" for message in turn("Read", file_path=f"{name}/x")]
    counts = [len(await project.told(*calls)), *[len(await project.told()) for _more in range(4)]]
    assert counts == [1, 1, 1, 1, 0]
    assert len(project.notices) == 4


async def test_instructions_written_by_the_model_are_not_sent_back_to_it(project: Project) -> None:
    project.put("AGENTS.md", "be brief")
    project.begin()
    path = str(project.folder / "AGENTS.md")
    project.put("AGENTS.md", "be brief and kind")
    project.context.read_cache.note(path, b"be brief and kind")
    assert await project.told(*turn("Edit", file_path="AGENTS.md")) == []
    project.put("AGENTS.md", "be loud")
    assert len(await project.told()) == 1


async def test_the_prefix_is_identical_in_every_request(tmp_path: Path) -> None:
    """Even while the model and the user edit the instruction files."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("be brief\n")
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "AGENTS.md").write_text("use tabs\n")
    (tmp_path / "web" / "x.ts").write_text("x\n")
    files, ids = InstructionFiles(InstructionFolders.find_around(tmp_path)), SequentialIds(5)
    told = files.always().as_context()
    view = ContextView(told.text)
    instructing = ConversationInstructions(
        files, {"": told}, ids, view, lambda context, boundary: view.set_user_context(context.text, boundary)
    )
    attachments = Composite(ChangedFiles(ids, instructing.tells), instructing)
    agents, page = str(tmp_path / "AGENTS.md"), str(tmp_path / "web" / "x.ts")
    table = bench(
        reply(call("Read", file_path=page)),
        reply(call("Read", file_path=agents)),
        reply(call("Edit", file_path=agents, old_string="brief", new_string="kind")),
        "done",
        "fine",
        tools=[Read(), Edit(), Write()],
        attachments=attachments,
        view=view,
    )
    await table.run()
    (tmp_path / "AGENTS.md").write_text("be loud\n")
    await table.run()
    texts = [str(request["messages"]) for request in table.requests]
    assert [text.count("use tabs") for text in texts] == [0, 1, 1, 1, 1]
    assert [text.count("be loud") for text in texts] == [0, 0, 0, 0, 1]
    fronts = [request["messages"][0]["content"][0]["text"] for request in table.requests]
    assert fronts == [told.text] * 5
    assert "[Files that you have seen" not in texts[-1]
    await table.engine.aclose()


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cwd = folder / "repo"
        self.environ = {"HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"}
        (folder / "home" / ".config" / "agentcli").mkdir(parents=True)
        (self.cwd / ".git").mkdir(parents=True)
        (self.cwd / "web").mkdir()

    async def ask(self, *answers: Any, **options: Any) -> tuple[list[ev.Event], list[dict[str, Any]]]:
        transport = transport_for(*answers)
        given = {"sandbox": "off", **options}
        made = Options(cwd=self.cwd, environ=self.environ, provider=provider_on(transport), **given)
        async with build_engine(made) as engine:
            events = await collect(engine.submit("hello"))
        for request in transport.requests:
            assert list(problems(request)) == []
        return events, transport.requests


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def texts(request: dict[str, Any]) -> list[str]:
    return [block.get("text", "") for message in request["messages"] for block in message["content"] if "text" in block]


async def test_the_prefix_survives_a_resume_and_changes_come_at_the_end(home: Home) -> None:
    (home.folder / "home/.config/agentcli/AGENTS.md").write_text("be kind")
    (home.cwd / "AGENTS.md").write_text("be brief")
    (home.cwd / "web" / "AGENTS.md").write_text("use tabs")
    (home.cwd / "web" / "x.ts").write_text("x")
    events, first = await home.ask(reply(call("Read", file_path="web/x.ts")), "Hi.")
    front = texts(first[0])[0]
    assert front.index("be kind") < front.index("be brief")
    assert texts(first[1])[0] == front
    assert "use tabs" in texts(first[1])[-1]
    (home.cwd / "AGENTS.md").write_text("be loud")
    session = result_of(events).session_id
    _events, second = await home.ask("Still.", resume=session)
    assert texts(second[0])[: len(texts(first[1]))] == texts(first[1])
    assert "be loud" in texts(second[0])[-1]
    _events, third = await home.ask("Still.", resume=session)
    assert texts(third[0])[-1] == "hello"
    _events, forked = await home.ask("Still.", resume=session, fork_session=True)
    assert texts(forked[0])[0] == front


async def test_problems_are_reported_once_and_the_setting_turns_instructions_off(home: Home) -> None:
    (home.cwd / "AGENTS.md").write_bytes(b"\x00")
    (home.cwd / "CLAUDE.md").write_text("be brief")
    events, first = await home.ask("Hi.")
    assert [notice.text.split()[1:4] for notice in only(events, ev.NoticeRaised) if notice.code == "instructions"] == [
        ["is", "not", "a"]
    ]
    assert "be brief" in texts(first[0])[0]
    _events, off = await home.ask("Hi.", settings='{"instructionFiles": false}')
    assert texts(off[0]) == ["hello"]


@pytest.mark.parametrize("asked_between", [False, True])
async def test_undoing_a_compaction_restores_the_same_bytes_even_in_another_process(
    home: Home, asked_between: bool
) -> None:
    (home.cwd / "AGENTS.md").write_text("be brief")
    transport = transport_for("Hi. " * 400, "summary", *(["Between."] if asked_between else []), "Go.")
    made = Options(cwd=home.cwd, environ=home.environ, provider=provider_on(transport), sandbox="off")
    async with build_engine(made) as engine:
        await collect(engine.submit("hello " * 500))
        before = texts(transport.requests[0])
        (home.cwd / "AGENTS.md").write_text("be loud")
        assert only(await collect(engine.compact()), ev.ContextCompacted)
        if asked_between:
            await collect(engine.submit("between"))
            assert "be loud" in texts(transport.requests[-1])[0]
        assert not result_of(await collect(engine.perform(engine.context.undo_compaction()))).is_error
        session = engine.session_id
    _events, elsewhere = await home.ask("Go.", resume=session, fork_session=True)
    assert texts(elsewhere[0])[: len(before)] == before
    async with build_engine(replace(made, resume=session)) as engine:
        await collect(engine.submit("on"))
    again = texts(transport.requests[-1])
    assert again[: len(before)] == before
    assert "be loud" in again[-1]


async def test_a_skipped_nested_file_is_reported_to_the_user(home: Home) -> None:
    (home.cwd / "web" / "AGENTS.md").write_bytes(b"\0" * 100)
    (home.cwd / "web" / "page.html").write_text("<p>")
    events, _requests = await home.ask(reply(call("Read", file_path="web/page.html")), "Done.")
    told = [event for event in only(events, ev.NoticeRaised) if event.code == "instructions"]
    assert len(told) == 1
    assert "AGENTS.md" in told[0].text
