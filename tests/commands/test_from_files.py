"""Commands and skills from files are slash commands like the built-in ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.agent.engine import Engine
from agentcli.commands.front_end import NoFrontEnd
from agentcli.commands.line import CommandLine, PromptLine, parse_line, run_command
from agentcli.commands.registry import COMMANDS, completions, find, matching, names, near, rows
from tests.support.assembled import engine_on
from tests.support.fakes import collect, result_of

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
        assert near("reveiw", engine) == ["review"]
        assert matching("wp", engine)[0].name == "web:page"
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
