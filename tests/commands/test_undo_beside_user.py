"""/undo and /redo on the assembled engine, with a user who edits files meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.engine import Engine
from agentcli.agent.toolcalls.calls import paths_of_command
from agentcli.commands.line import run_command
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from tests.commands.test_commands import engine_on, refused, said
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio

NOTES = "one\ntwo\nthree\nfour\n"
READ = reply(call("Read", file_path="notes.txt"))
EDIT = reply(call("Edit", file_path="notes.txt", old_string="two", new_string="TWO"))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    path = tmp_path / "project" / "notes.txt"
    path.write_text(NOTES)
    return path


async def submitted(engine: Engine, prompt: str, kind: type[ev.Event], name: str, act: Callable[[], object]) -> None:
    """Run a prompt; the user acts when a call of this tool has begun or ended."""
    async for event in engine.submit(prompt):
        if isinstance(event, kind) and getattr(event, "name", "") == name:
            act()


async def test_user_edits_between_two_calls_are_kept(tmp_path: Path, notes: Path) -> None:
    bash = reply(call("Bash", command="echo 1 > made.txt"))

    def types() -> None:
        notes.write_text(notes.read_text().replace("four", "my word"))
        (notes.parent / "mine.txt").write_text("mine\n")

    async with engine_on(tmp_path, READ, EDIT, bash, "Done.") as engine:
        await submitted(engine, "improve it", ev.ToolFinished, "Edit", types)
        diff = await said(engine, "/diff")
        assert "+TWO" in diff
        assert "mine.txt" not in diff
        assert "+my word" not in diff
        assert await said(engine, "/undo") == (
            "Undid the changes of “improve it”: 1 file restored around your own changes, 1 file removed.\n"
            "  M notes.txt  (your own changes stay)\n  D made.txt"
        )
        assert notes.read_text() == "one\ntwo\nthree\nmy word\n"
        assert (notes.parent / "mine.txt").exists()
        assert "1 file changed again, 1 file created again" in await said(engine, "/redo")
        assert notes.read_text() == "one\nTWO\nthree\nmy word\n"


@pytest.mark.parametrize(
    ("command", "is_named_only"),
    [
        ("sed -i s/two/TWO/ notes.txt", True),
        ("sleep 0; echo x >> notes.txt", True),
        ("mv notes.txt renamed.txt", True),
        ("python3 -c \"open('notes.txt', 'a').write('x')\"", False),
    ],
)
async def test_a_file_that_a_command_does_not_name_is_the_users(
    tmp_path: Path, notes: Path, command: str, is_named_only: bool
) -> None:
    other = notes.parent / "other.txt"
    other.write_text("before\n")
    async with engine_on(tmp_path, reply(call("Bash", command=command)), "Done.") as engine:
        await submitted(engine, "go", ev.ToolStarted, "Bash", lambda: other.write_text("mine\n"))
        said_then = await said(engine, "/undo")
        assert notes.read_text() == NOTES
        assert other.read_text() == "mine\n"
        assert ("may be your change" in said_then) is not is_named_only
        if not is_named_only:
            assert "1 file restored." in await said(engine, "/undo replace")
            assert other.read_text() == "before\n"


async def test_the_files_that_a_call_can_change_are_found_off_the_event_loop(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def watched(*arguments: Any) -> tuple[str, ...] | None:
        threads.append(threading.current_thread())
        return paths_of_command(*arguments)

    monkeypatch.setattr("agentcli.agent.toolcalls.calls.paths_of_command", watched)
    async with engine_on(tmp_path, reply(call("Bash", command="rm *.txt")), "Done.") as engine:
        await collect(engine.submit("go"))
    assert not notes.exists()
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


ANY_FILE = "echo hi > made.txt; python3 -c 'print(1)'"
FORMATTER = "import pathlib\nfor one in pathlib.Path('.').glob('*.txt'):\n    one.write_text(one.read_text().upper())\n"


async def test_an_edit_during_a_long_command_is_left_alone_and_reported(tmp_path: Path, notes: Path) -> None:
    async with engine_on(tmp_path, reply(call("Bash", command=ANY_FILE)), "Done.") as engine:
        await submitted(engine, "test it", ev.ToolStarted, "Bash", lambda: notes.write_text("mine\n"))
        assert await said(engine, "/undo") == (
            "Undid the changes of “test it”: 1 file removed, 1 file left alone.\n"
            "  ! notes.txt: left alone, it changed while a command ran and may be your change\n"
            "  D made.txt\n"
            "To decide about files left alone: /undo keep leaves your lines, /undo replace puts the version before the "
            "prompt in their place."
        )
        assert notes.read_text() == "mine\n"


@pytest.mark.parametrize(
    ("line", "is_reported"),
    [
        ("echo mine > mine.txt; echo mine >> notes.txt", False),
        ("python3 -c \"open('mine.txt', 'w').write('mine\\n'); open('notes.txt', 'a').write('mine\\n')\"", False),
        ("sh mine.sh", True),
    ],
)
async def test_changes_by_a_user_command_beside_the_agents_are_kept(
    tmp_path: Path, notes: Path, line: str, is_reported: bool
) -> None:
    project = notes.parent
    (project / "mine.sh").write_text("echo mine > mine.txt; echo mine >> notes.txt\n")
    wait = "echo 1 > first.made; python3 -c 'print(1)'; while [ ! -e go ]; do sleep 0.01; done; echo 2 > second.made"
    async with engine_on(tmp_path, reply(call("Bash", command=wait)), "Done.") as engine:
        async for event in engine.submit("build it"):
            if isinstance(event, ev.ToolStarted) and event.name == "Bash":
                while not (project / "first.made").exists():
                    await asyncio.sleep(0.01)
                await collect(engine.shell(line))
                await collect(engine.shell("touch go"))
        text = await said(engine, "/undo")
        assert notes.read_text() == f"{NOTES}mine\n"
        assert (project / "mine.txt").read_text() == "mine\n"
        assert not (project / "first.made").exists()
        assert not (project / "second.made").exists()
        assert ("notes.txt: left alone, it changed while a command ran and may be your change" in text) is is_reported
        if is_reported:
            await said(engine, "/undo replace")
            assert notes.read_text() == NOTES


@pytest.mark.parametrize("is_put_back", [True, False])
async def test_a_formatter_is_undone_with_one_question_for_all_files(
    tmp_path: Path, notes: Path, is_put_back: bool
) -> None:
    names = [f"{number}.txt" for number in range(30)]
    for name in names:
        (notes.parent / name).write_text("text\n")
    (notes.parent / "formatter").write_text(FORMATTER)
    bash = reply(call("Bash", command="python3 formatter"))
    async with engine_on(tmp_path, bash, "Done.", interactive=True) as engine:
        await collect(engine.submit("format it"))
        assert "+ONE" in await said(engine, "/diff")
        questions = []
        async for event in run_command(engine, "undo", ""):
            if isinstance(event, ev.PermissionRequested):
                questions.append(event)
                engine.answer(event.request_id, Answer("allow" if is_put_back else "deny"))
        (question,) = questions
        assert question.title == "Undo: restore 31 files that you may have edited?"
        assert "These files changed while `python3 formatter` ran:\n  0.txt\n" in question.reason
        assert "and 11 more" in question.reason
        assert {(notes.parent / name).read_text() for name in names} == {"text\n" if is_put_back else "TEXT\n"}
        assert notes.read_text() == (NOTES if is_put_back else NOTES.upper())
        if is_put_back:
            assert "31 files changed again" in await said(engine, "/redo")
            assert notes.read_text() == NOTES.upper()


async def test_a_file_of_the_agent_stays_the_agents_when_a_later_command_changes_it(
    tmp_path: Path, notes: Path
) -> None:
    (notes.parent / "formatter").write_text(FORMATTER)
    write = reply(call("Write", file_path="made.txt", content="made\n"))
    bash = reply(call("Bash", command="python3 formatter"))
    async with engine_on(tmp_path, READ, EDIT, write, bash, "Done.") as engine:
        await collect(engine.submit("go"))
        assert (notes.parent / "made.txt").read_text() == "MADE\n"
        text = await said(engine, "/undo")
        assert "left alone" not in text
        assert notes.read_text() == NOTES
        assert not (notes.parent / "made.txt").exists()


async def test_headless_a_file_with_the_same_lines_is_left_alone_and_can_be_forced(tmp_path: Path, notes: Path) -> None:
    async with engine_on(tmp_path, READ, EDIT, "Done.") as engine:
        await collect(engine.submit("improve it"))
        notes.write_text("one\nmine\nthree\nfour\n")
        assert await said(engine, "/undo") == (
            "No change of “improve it” was undone: 1 file left alone.\n"
            "  ! notes.txt: left alone, the same lines were changed later\n"
            "To decide about files left alone: /undo keep leaves your lines, /undo replace puts the version before the "
            "prompt in their place."
        )
        assert notes.read_text() == "one\nmine\nthree\nfour\n"
        assert "keep" in await refused(engine, "/undo everything")
        assert "1 file restored." in await said(engine, "/undo replace")
        assert notes.read_text() == NOTES
        await said(engine, "/redo")
        assert notes.read_text() == "one\nmine\nthree\nfour\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer("allow", updated_input={"choice": "keep"}), "one\nmine\nthree\nfour\n"),
        (Answer("allow", updated_input={"choice": "replace"}), NOTES),
        (Answer("deny"), "one\nmine\nthree\nfour\n"),
    ],
)
async def test_an_interactive_user_is_asked_with_both_versions(
    tmp_path: Path, notes: Path, answer: Answer, expected: str
) -> None:
    async with engine_on(tmp_path, READ, EDIT, "Done.", interactive=True) as engine:
        await collect(engine.submit("improve it"))
        notes.write_text("one\nmine\nthree\nfour\n")
        questions = []
        async for event in run_command(engine, "undo", ""):
            if isinstance(event, ev.PermissionRequested):
                questions.append(event)
                engine.answer(event.request_id, answer)
    (question,) = questions
    assert question.title == "Undo: you changed notes.txt too"
    assert question.display["clashes"] == [{"line": 2, "now": "mine\n", "other": "two\n"}]
    assert question.display["other_label"] == "before “improve it”"
    assert notes.read_text() == expected


@pytest.mark.parametrize("is_asked", [True, False])
async def test_an_undo_that_keeps_the_users_lines_stops_at_its_prompt(
    tmp_path: Path, notes: Path, is_asked: bool
) -> None:
    older = notes.parent / "older.txt"
    write = reply(call("Write", file_path="older.txt", content="x\n"))
    async with engine_on(tmp_path, write, "Done.", READ, EDIT, "Done.", interactive=is_asked) as engine:
        await collect(engine.submit("make it"))
        await collect(engine.submit("improve it"))
        notes.write_text("one\nmine\nthree\nfour\n")
        texts = []
        async for event in run_command(engine, "undo", "" if is_asked else "keep"):
            if isinstance(event, ev.PermissionRequested):
                engine.answer(event.request_id, Answer("allow", updated_input={"choice": "keep"}))
            elif isinstance(event, ev.NoticeRaised):
                texts.append(event.text)
        assert texts == [
            "No change of “improve it” was undone: 1 file left alone.\n  ! notes.txt: left alone, you kept your lines"
        ]
        assert notes.read_text() == "one\nmine\nthree\nfour\n"
        assert older.exists()
        assert (await said(engine, "/undo")).startswith("Undid the changes of “make it”: 1 file removed.")


async def test_an_answer_never_undoes_another_prompt_than_the_one_asked_about(tmp_path: Path, notes: Path) -> None:
    write = reply(call("Write", file_path="older.txt", content="x\n"))
    async with engine_on(tmp_path, write, "Done.", READ, EDIT, "Done.", interactive=True) as engine:
        await collect(engine.submit("make it"))
        await collect(engine.submit("improve it"))
        notes.write_text("one\nmine\nthree\nfour\n")
        async for event in run_command(engine, "undo", ""):
            if isinstance(event, ev.PermissionRequested):
                notes.write_text(NOTES)  # The user restores the file while the question is open.
                engine.answer(event.request_id, Answer("allow", updated_input={"choice": "replace"}))
        assert (notes.parent / "older.txt").exists()


async def test_an_undo_that_is_stopped_while_it_asks_changes_nothing(tmp_path: Path, notes: Path) -> None:
    replies = [READ, EDIT, reply(call("Write", file_path="made.txt", content="x")), "Done."]
    async with engine_on(tmp_path, *replies, interactive=True) as engine:
        await collect(engine.submit("improve it"))
        notes.write_text("one\nmine\nthree\nfour\n")
        async for event in run_command(engine, "undo", ""):
            if isinstance(event, ev.PermissionRequested):
                engine.abort()
        assert (notes.parent / "made.txt").exists()
        assert "1 file removed" in await said(engine, "/undo keep")


async def test_an_undo_with_nothing_to_do_names_the_prompt_that_it_undid(tmp_path: Path, notes: Path) -> None:
    write = reply(call("Write", file_path="made.txt", content="x"))
    async with engine_on(tmp_path, write, "Done.", READ, EDIT, "Done.") as engine:
        await collect(engine.submit("make it"))
        await collect(engine.submit("improve it"))
        notes.write_text(NOTES)
        assert (await said(engine, "/undo")).startswith("Undid the changes of “make it”: 1 file removed.")
        assert await refused(engine, "/undo") == "Nothing more to undo in this session."
        assert (await said(engine, "/redo")).startswith("Redid the changes of “make it”")
        assert await refused(engine, "/redo") == "Nothing to redo."


# --------------------------------------------------------------------------------------------------- the model's note


def notes_in(events: list[ev.Event]) -> list[str]:
    texts = [event.message.text for event in only(events, ev.MessageAppended)]
    return [text for text in texts if text.startswith("[The user")]


async def test_the_model_gets_one_note_with_the_net_effect(tmp_path: Path, notes: Path) -> None:
    write = reply(call("Write", file_path="made.txt", content="x"))
    edit_again = reply(call("Edit", file_path="notes.txt", old_string="TWO", new_string="2"))
    replies: list[Json | str] = [write, "Done.", READ, EDIT, "Done.", edit_again, "Good.", "I see.", "I see."]
    async with engine_on(tmp_path, *replies) as engine:
        await collect(engine.submit("make it"))
        await collect(engine.submit("improve it"))
        await said(engine, "/undo")
        await said(engine, "/redo")
        events = await collect(engine.submit("go on"))
        assert notes_in(events) == []
        (finished,) = only(events, ev.ToolFinished)
        assert not finished.result.is_error, "the file is as the model knows it"
        for line in ("/undo", "/undo", "/undo", "/redo"):
            await said(engine, line)
        (note,) = notes_in(await collect(engine.submit("and now")))
        assert "for “improve it” and “go on”." in note
        assert "make it" not in note
        assert str(notes) in note
        assert notes_in(await collect(engine.submit("and then"))) == []


async def test_the_note_does_not_call_a_file_restored_that_kept_changes_of_the_user(
    tmp_path: Path, notes: Path
) -> None:
    async with engine_on(tmp_path, READ, EDIT, "Done.", "Yes.") as engine:
        await collect(engine.submit("improve it"))
        notes.write_text(notes.read_text().replace("four", "my word"))
        assert "(your own changes stay)" in await said(engine, "/undo")
        (note,) = notes_in(await collect(engine.submit("go on")))
    assert f"As before, except that the user's own changes stay: {notes}." in note
    assert f"As before: {notes}" not in note


async def test_the_note_outlives_the_process(tmp_path: Path, notes: Path) -> None:
    async with engine_on(tmp_path, READ, EDIT, "Done.") as engine:
        await collect(engine.submit("improve it"))
        session = engine.session_id
    async with engine_on(tmp_path, resume=session) as engine:
        await said(engine, "/undo")
    again = reply(call("Edit", file_path="notes.txt", old_string="two", new_string="2"))
    async with engine_on(tmp_path, again, "Done.", resume=session) as engine:
        events = await collect(engine.submit("go on"))
    (note,) = notes_in(events)
    assert "The user undid the changes that you made to files for “improve it”." in note
    assert only(events, ev.ToolFinished)[0].result.is_error, "it has to be read again"
    assert not result_of(events).is_error


# ----------------------------------------------------------------------------------------------------- our own files


async def test_rules_that_are_saved_during_a_prompt_are_not_undone_and_not_seen_by_git(
    tmp_path: Path, notes: Path
) -> None:
    project = notes.parent
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    subprocess.run(["git", "-C", str(project), "add", "."], check=True)

    def status() -> str:
        return subprocess.check_output(["git", "-C", str(project), "status", "--porcelain"], text=True)

    before = status()
    touch = reply(call("Bash", command="touch made.txt"))
    replies = [touch, touch, "Done."]
    async with engine_on(tmp_path, *replies, interactive=True, permission_mode=PermissionMode.DEFAULT) as engine:
        answers = [Answer("allow"), Answer("allow", rules=("Bash(touch made.txt)",), save_to="local")]
        async for event in engine.submit("go"):
            if isinstance(event, ev.PermissionRequested):
                engine.answer(event.request_id, answers.pop(0))
        assert ".agentcli" not in await said(engine, "/diff all")
        assert (await said(engine, "/undo")).endswith("  D made.txt")
    assert "touch made.txt" in (project / ".agentcli" / "settings.local.json").read_text()
    assert status() == before
    (project / ".agentcli" / "settings.json").write_text("{}\n")
    assert status() == f"{before}?? .agentcli/\n", "what is shared can be committed"
    subprocess.run(["git", "-C", str(project), "add", "."], check=True)
    assert status() == f"A  .agentcli/settings.json\n{before}"
