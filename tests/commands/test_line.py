"""A typed line is parsed once, into a prompt, a command or a shell line."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.commands.line import CommandLine, PromptLine, ShellLine, parse_line, run_command
from agentcli.commands.registry import COMMANDS, find
from agentcli.core.events import NoticeRaised
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from agentcli.headless.run import HeadlessSettings, run
from agentcli.headless.streams import Streams
from tests.support.scripts import call, provider_on, reply, transport_for
from tests.support.tables import each_row
from tests.workspace.test_diff import committed


@each_row("text", ["fix it", "", "/", "/usr is full", "/usr/bin/env", "a\n/model", "and /model", "#12 fails", "# A\nb"])
def test_prompts(text: str) -> None:
    assert parse_line(text) == PromptLine(text)


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [("/model", "model", ""), ("  /model  opus now ", "model", "opus now"), ("/compact a\nb", "compact", "a\nb")],
)
def test_commands(text: str, name: str, arguments: str) -> None:
    assert parse_line(text) == CommandLine(name, arguments, find(name))


def test_an_alias_names_its_command_and_an_unknown_name_none() -> None:
    quit_line, unknown = parse_line("/quit"), parse_line("/nosuchcommand x")
    assert isinstance(quit_line, CommandLine)
    assert quit_line.command is find("exit")
    assert unknown == CommandLine("nosuchcommand", "x", None)


def test_shell_lines() -> None:
    assert parse_line("! ls -l") == ShellLine("ls -l")


def test_a_line_after_a_hash_is_added_to_an_instruction_file() -> None:
    assert parse_line("# run make check ") == CommandLine("memory", "add run make check", find("memory"))


def headless(project: Path, *replies: Json | str, stdin: str = "", **settings: Any) -> tuple[int, str, str]:
    """A whole run: its exit code, standard output and standard error."""
    options = Options(
        cwd=project,
        environ={"PATH": os.environ["PATH"], "HOME": str(project.parent)},
        provider=provider_on(transport_for(*replies)),
        permission_mode=PermissionMode.BYPASS,
        settings='{"sandbox": {"mode": "off"}}',
        continue_latest=settings.pop("goes_on", False),
    )
    names = [project.parent / name for name in ("in", "out", "err")]
    names[0].write_text(stdin)
    opened = [os.open(names[0], os.O_RDONLY)]
    opened += [os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in names[1:]]
    try:
        code = run(options, HeadlessSettings(**settings), Streams(*opened))
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return code, names[1].read_text(), names[2].read_text()


WRITES = reply(call("Write", file_path="new.txt", content="x\n"))


def test_a_command_prints_its_answer_and_exits_by_its_result(project: Path) -> None:
    assert headless(project, WRITES, "Done.", prompt="write it")[0] == 0
    code, out, err = headless(project, prompt="/diff", goes_on=True)
    assert (code, out.splitlines()[:2], err) == (
        0,
        ["1 file changed in this session, +1 −0:", "  A new.txt  +1 −0, new file"],
        "",
    )
    code, out, err = headless(project, prompt="/undo", goes_on=True)
    assert (code, out, err) == (0, "Undid the changes of “write it”: 1 file removed.\n  D new.txt\n", "")
    assert not (project / "new.txt").exists()
    code, out, err = headless(project, prompt="/undo", goes_on=True)
    assert (code, out, err) == (1, "", "agentcli: Nothing more to undo in this session.\n")
    assert headless(project, prompt="/redo", goes_on=True)[0] == 0
    assert (project / "new.txt").read_text() == "x\n"


def test_a_command_in_json_is_one_result(project: Path) -> None:
    code, out, _err = headless(project, prompt="/help", output_format="json")
    frame = json.loads(out)
    assert (code, frame["type"], frame["is_error"], frame["num_turns"]) == (0, "result", False, 0)
    assert "/undo" in frame["result"]
    code, out, _err = headless(project, prompt="/hlep", output_format="json")
    assert (code, json.loads(out)["errors"]) == (1, ["There is no command /hlep. Did you mean /help?"])


def test_commands_among_the_lines_of_stream_json_wait_for_their_turn(project: Path) -> None:
    contents: list[object] = ["write it", "/undo", [{"type": "text", "text": "/status"}]]
    lines = "".join(json.dumps({"type": "user", "message": {"content": content}}) + "\n" for content in contents)
    code, out, _err = headless(
        project, WRITES, "Done.", stdin=lines, input_format="stream-json", output_format="stream-json"
    )
    frames = [json.loads(line) for line in out.splitlines()]
    results = [frame["result"] for frame in frames if frame["type"] == "result"]
    assert code == 0
    assert results[0] == "Done."
    assert results[1].startswith("Undid the changes of “write it”")
    assert results[2].startswith("version")
    assert "undo" in next(frame for frame in frames if frame.get("subtype") == "init")["slash_commands"]
    assert not (project / "new.txt").exists()


def test_a_prompt_that_begins_with_a_path_is_a_prompt(project: Path) -> None:
    code, out, _err = headless(project, "It is a folder.", prompt="/etc is what?")
    assert (code, out) == (0, "It is a folder.\n")


def test_diff_prints_the_changes_of_the_session_or_all_since_head(project: Path) -> None:
    (project / "kept.txt").write_text("one\n")
    committed(project)
    assert headless(project, WRITES, "Done.", prompt="write it")[0] == 0
    (project / "kept.txt").write_text("two\n")
    code, session, err = headless(project, prompt="/diff", goes_on=True)
    assert (code, err) == (0, "")
    assert session.endswith("--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+x\n")
    assert "kept.txt" not in session
    code, everything, err = headless(project, prompt="/diff all", goes_on=True)
    assert everything.startswith(
        "2 files changed since HEAD, +2 −1:\n  M kept.txt  +1 −1\n  A new.txt  +1 −0, new file\n"
    )
    assert "-one\n+two\n" in everything
    assert (code, err) == (0, "")


PYTHON = re.compile(r"\{'|\['|\('|\bNone\b|\bTrue\b|\bFalse\b|<\w+\.\w+: |object at 0x|PosixPath|frozenset|dict_\w+\(")
ARGUMENTS = {
    "permissions": ["", "recent", "add allow Bash(make)", "test Bash make"],
    "effort": ["", "high", "nonsense"],
    "thinking": ["", "off"],
    "mode": ["", "plan", "nonsense"],
    "model": ["", "haiku"],
    "budget": ["", "5", "off"],
    "help": ["", "undo"],
    "diff": ["", "session"],
    "context": ["", "pin nothing"],
}
NAMES = [command.name for command in COMMANDS if command.kind == "report"]
CHANGING = [
    "budget",
    "thinking",
    "effort",
    "model",
    "mode",
    "plan",
    "redo",
    "undo",
    "rename",
    "resume",
    "clear",
    "exit",
]
"""These change what others show, and come last in this order."""
RULES = '{"allow": ["Bash(ls)"], "deny": ["Read(.env)"], "ask": ["Bash(make)"]}'
SETTINGS = '{"sandbox": {"mode": "off"}, "permissions": ' + RULES + "}"


def test_no_command_prints_python_values(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    said: dict[str, list[str]] = {}

    async def run() -> None:
        provider = provider_on(
            transport_for(
                reply(
                    call("Write", file_path="a.txt", content="a\n"),
                    call("Bash", command="echo out; exit 3"),
                    call("TodoWrite", todos=[{"content": "Look", "status": "pending", "activeForm": "Looking"}]),
                ),
                "Done.",
            )
        )
        options = Options(
            cwd=tmp_path / "project",
            environ={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            interactive=False,
            provider=provider,
            permission_mode=PermissionMode.BYPASS,
            model="claude-sonnet-5-5",
            settings=SETTINGS,
        )
        async with build_engine(options) as engine:
            async for _event in engine.submit("go"):
                pass
            for name in [*(name for name in NAMES if name not in CHANGING), *CHANGING]:
                said[name] = []
                for arguments in ARGUMENTS.get(name, [""]):
                    events = [event async for event in run_command(engine, name, arguments)]
                    said[name] += [event.text for event in events if isinstance(event, NoticeRaised)]

    asyncio.run(run())
    assert set(said) == set(NAMES)
    for name, texts in said.items():
        assert texts, name
        for text in texts:
            assert not PYTHON.search(text), (name, text)
