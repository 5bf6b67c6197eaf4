"""Commands and skills from files are slash commands like the built-in ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent import live_files
from agentcli.agent.engine import Engine
from agentcli.commands.front_end import NoFrontEnd
from agentcli.commands.line import CommandLine, PromptLine, parse_line, run_command
from agentcli.commands.registry import COMMANDS, completions, find, find_matching, names, near, reserve_names, rows
from agentcli.core import events as ev
from agentcli.core.permission import Answer
from agentcli.interactive.completion import Target, command_menu
from agentcli.tui.model import AnswerItem, OutputItem, PromptItem, ToolItem
from agentcli.tui.resume import replay
from tests.support.assembled import Assembled, engine_on
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
async def engine(tmp_path: Path) -> Engine:
    project = tmp_path / "project"
    commands = project / ".agentcli/commands"
    write(commands / "review.md", "---\ndescription: Review a file.\nargument-hint: <file>\n---\nReview $1.")
    write(commands / "web/page.md", "---\nargument-hint: [title]\n---\nWrite a page")
    write(commands / "help.md", "Shadow")
    write(commands / "quit.md", "Shadow")
    write(tmp_path / ".claude/skills/release/SKILL.md", "---\ndescription: Use to release\n---\nSteps")
    write(tmp_path / ".claude/skills/quiet/SKILL.md", "---\ndescription: x\nuser-invocable: false\n---\nSteps")
    made = engine_on(project, "Done.", trust=True)
    await made.live_files.refresh()
    return made


async def test_file_commands_are_found_completed_and_in_the_menu(engine: Engine) -> None:
    async with engine:
        added = rows(engine)[len(COMMANDS) :]
        assert [(row.name, row.described) for row in added] == [
            ("review", "Review a file (project)"),
            ("web:page", "Write a page (project)"),
            ("release", "Use to release (user)"),
        ]
        assert names(engine)[-1] == "release"
        assert getattr(find("REVIEW", engine), "usage", "") == "/review <file>"
        assert getattr(find("web:page", engine), "usage", "") == "/web:page [title]"
        assert find("review") is None
        assert near("reviw", engine) == ["review"]
        assert find_matching("wp", engine)[0].name == "web:page"
        assert ("review", "Review a file (project)") in completions("help", engine, NoFrontEnd())


async def test_built_in_names_and_aliases_are_not_replaced(engine: Engine) -> None:
    async with engine:
        assert find("help", engine) is COMMANDS[0]
        assert find("quit", engine) is find("exit")


async def test_a_line_with_the_name_of_a_file_command_is_a_command(engine: Engine) -> None:
    async with engine:
        line = parse_line("/web:page a b", engine)
        assert isinstance(line, CommandLine)
        assert (line.arguments, line.command and line.command.kind) == ("a b", "prompt")
        assert parse_line("/1 is a number", engine) == PromptLine("/1 is a number")


async def test_a_file_command_sends_its_text_and_shows_the_typed_line(engine: Engine) -> None:
    async with engine:
        result = result_of(await collect(run_command(engine, "review", "'my file.py'")))
        assert result.text == "Done."
        prompt = engine.messages[0]
        assert (prompt.text, prompt.typed) == ("Review my file.py.", "/review 'my file.py'")


async def test_help_explains_a_file_command(engine: Engine) -> None:
    async with engine:
        text = result_of(await collect(run_command(engine, "help", "review"))).text
        assert text.startswith("/review <file>\nReview a file.\n")
        assert ".agentcli/commands/review.md" in text
        assert "/web:page" in result_of(await collect(run_command(engine, "help", ""))).text


def command(project: Path, name: str, text: str) -> None:
    write(project / f".agentcli/commands/{name}.md", text)


async def send(a: Assembled, line: str) -> list[ev.Event]:
    await a.engine.live_files.refresh()
    name, _blank, arguments = line.removeprefix("/").partition(" ")
    return await a.follow(run_command(a.engine, name, arguments))


async def test_the_output_of_a_command_takes_its_place_and_is_not_expanded(project: Path) -> None:
    (project / "notes.txt").write_text("secret notes")
    command(project, "look", "Files:\n!`printf '@notes.txt $%s %s' 1 $1`\nEnd $1.")
    async with Assembled(project, ["Done."]) as a:
        events = await send(a, "/look x")
        assert not a.asked
        assert a.engine.messages[0].text == "Files:\n@notes.txt $1 x\nEnd x."
        assert a.engine.messages[0].typed == "/look x"
        assert result_of(events).text == "Done."
        assert "secret notes" not in str(a.requests)
        assert [event.agent for event in only(events, ev.ToolFinished)] == [ev.USER_AGENT]


async def test_a_resumed_session_shows_the_command_once(project: Path) -> None:
    command(project, "look", "!`echo one`\nLook.")
    command(project, "fail", "!`touch x`\nNever.")
    async with Assembled(project, ["Done."], answers=lambda _event: Answer("deny")) as a:
        await send(a, "/look")
        await send(a, "/fail")
        session = a.engine.session_id
    async with Assembled(project, [], options={"resume": session}) as b:
        items = replay(b.engine.take_history(), b.engine.title_of)
        shown = [item.text for item in items if isinstance(item, PromptItem)]
        assert shown == ["/look", "/fail"]
        kinds = [type(item) for item in items[:4]]
        assert kinds == [PromptItem, ToolItem, OutputItem, AnswerItem]
        folded = [item.text for item in items if isinstance(item, OutputItem) and item.title]
        assert folded == ["one\nLook."]


async def test_a_file_that_the_body_mentions_is_attached(project: Path) -> None:
    (project / "rules.txt").write_text("never shout")
    command(project, "style", "Follow @rules.txt")
    async with Assembled(project, ["Done."]) as a:
        await send(a, "/style")
        assert "never shout" in str(a.requests[0]["messages"])


async def test_a_command_that_needs_approval_asks_and_a_no_sends_nothing(project: Path) -> None:
    command(project, "make", "---\ndescription: x\n---\nFirst\n!`touch made`")

    def no(_event: ev.PermissionRequested) -> Answer:
        return Answer("deny")

    async with Assembled(project, [], answers=no) as a:
        result = result_of(await send(a, "/make"))
        assert len(a.asked) == 1
        assert result.terminal == "command_failed"
        assert result.errors[0].startswith(
            "Nothing was sent: `touch made` was not allowed (.agentcli/commands/make.md:5)"
        )
        assert not a.requests
        assert not a.engine.messages
    assert not (project / "made").exists()


async def test_what_its_file_allows_is_allowed_for_this_submission_only(project: Path) -> None:
    command(project, "make", "---\nallowed-tools: Bash(touch:*), Nonsense(\n---\n!`touch a`\nGo")
    replies = [reply(call("Bash", command="touch b")), "Done.", reply(call("Bash", command="touch c")), "Done."]
    async with Assembled(project, replies) as a:
        events = await send(a, "/make")
        assert not a.asked
        assert ["Not a permission rule" in notice.text for notice in only(events, ev.NoticeRaised)] == [True]
        assert {"a", "b"} <= {path.name for path in project.iterdir()}
        await a.run("more")
        assert [event.title for event in a.asked] == ["Bash touch c"]


async def test_deny_and_ask_rules_stand_above_what_a_file_allows(project: Path) -> None:
    command(project, "make", "---\nallowed-tools: Bash\n---\n!`touch a`")
    settings = '{"sandbox": {"mode": "off"}, "permissions": {"deny": ["Bash(touch *)"]}}'
    async with Assembled(project, [], options={"settings": settings}) as a:
        assert "denied by" in result_of(await send(a, "/make")).errors[0].lower()


async def test_a_file_that_changed_since_it_was_trusted_has_no_rights(project: Path) -> None:
    command(project, "make", "---\nallowed-tools: Bash(touch:*)\n---\n!`touch a`")
    async with Assembled(project, ["Done."]) as a:
        library = a.engine.session.definitions
        assert library is not None
        from dataclasses import replace

        library.move(replace(library.places, trusted_digests={}))
        events = await send(a, "/make")
        assert len(a.asked) == 1
        assert any("do not apply" in notice.text for notice in only(events, ev.NoticeRaised))


async def test_its_model_answers_this_prompt_only(project: Path) -> None:
    command(project, "think", "---\nmodel: opus\n---\nThink")
    async with Assembled(project, ["One.", "Two."]) as a:
        events = await send(a, "/think")
        assert any("claude-opus-5-5" in notice.text for notice in only(events, ev.NoticeRaised))
        await a.run("next")
        assert [request["model"] for request in a.requests] == ["claude-opus-5-5", "claude-sonnet-5-5"]


async def test_a_failing_command_is_output_too(project: Path) -> None:
    command(project, "check", "Result: !`ls missing-file`")
    async with Assembled(project, ["Done."]) as a:
        await send(a, "/check")
        assert "missing-file" in a.engine.messages[0].text


async def test_problems_are_reported_once_with_file_and_line(project: Path) -> None:
    command(project, "help", "x")
    write(project / ".agentcli/skills/broken/SKILL.md", "---\nname: broken\n---\nx")
    async with Assembled(project, ["One.", "Two."]) as a:
        reserve_names(a.engine)

        def texts(events: list[ev.Event]) -> list[str]:
            return [notice.text for notice in only(events, ev.NoticeRaised) if notice.code == "definitions"]

        assert texts(await a.run("hi")) == [
            ".agentcli/skills/broken/SKILL.md:1: A skill needs a `description`, which says when to use it.",
            ".agentcli/commands/help.md:1: /help is a built-in command, so this command is not in the menu. Rename it.",
        ]
        assert texts(await a.run("hi")) == []


async def test_a_project_command_is_named_when_its_folder_is_not_trusted(project: Path) -> None:
    command(project, "deploy", "Deploy")
    async with Assembled(project, [], options={"trust": False}) as a:
        text = result_of(await send(a, "/deploy")).errors[0]
        assert ".agentcli/commands/deploy.md is not used" in text
        assert "/trust" in text
        helped = " ".join(result_of(await send(a, "/help")).text.split())
        assert "/deploy not available: this folder is not trusted; /trust reviews it (project)" in helped
        menu = command_menu(Target("command", "dep", 0), lambda typed: find_matching(typed, a.engine))
        assert [(one.label, one.is_dimmed) for one in menu.candidates] == [("/deploy", True)]
        command(project, "nested/more", "More")
        await a.engine.live_files.refresh()
        assert {"deploy", "nested:more"} <= set(names(a.engine))


async def test_a_saved_file_is_in_the_menu_of_an_idle_session(project: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(live_files, "FIRST_SECONDS", 0.0)
    async with Assembled(project, []) as a:
        await a.engine.live_files.wait_for_changes()
        for name in ("first", "second", "deeper:third"):
            waiting = asyncio.create_task(a.engine.live_files.wait_for_changes())
            command(project, name.replace(":", "/"), "Text")
            async with asyncio.timeout(10):
                assert (await waiting).notices == ()
            assert name in names(a.engine)


async def test_agents_lists_the_files_that_are_not_usable_as_agents_and_no_others(project: Path) -> None:
    write(project / ".agentcli/agents/bad.md", "---\nname: [\n---\nx")
    write(project / ".agentcli/commands/agents/odd.md", "---\nmodel: [\n---\nx")
    async with Assembled(project, []) as a:
        text = result_of(await send(a, "/agents")).text
    assert "agents/bad.md:" in text
    assert "odd.md" not in text
