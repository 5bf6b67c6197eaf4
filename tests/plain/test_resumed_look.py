"""A session resumed in plain mode prints what it printed originally.

Truly of the moment, and therefore not in the comparison: how full the context is (at the end of the last line of a
submission), questions while they wait for an answer, and blank lines, which depend on what was printed before.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from agentcli.core.permission import PermissionMode
from agentcli.plain import printer as replay
from agentcli.plain.session import PlainSession
from agentcli.plain.writer import BareWriter
from tests.plain.asked import ScriptedReader
from tests.support.scripts import call, fails, provider_on, reply, think, transport_for

PARSER = "def head(text, end):\n    return text[0 : end - 1]\n"
PROMPTS = ("/effort high", "look", "!echo mine; exit 4", "again", "/nonsense", "break")
REPLIES: list[Any] = [
    reply(
        think("Hm."),
        "I look.",
        call("Read", file_path="parser.py"),
        call("Glob", pattern="*"),
        call("Edit", file_path="parser.py", old_string="end - 1", new_string="end"),
        call("Bash", command="echo out; exit 3"),
        call("Nothing", what="x"),
        call("TodoWrite", todos=[{"content": "Look", "status": "completed", "activeForm": "Looking"}]),
    ),
    "Done with **it**.",
    fails(529, "busy", "overloaded_error", headers={"retry-after": "0"}),
    "It went well.",
    fails(400, "no such thing", "invalid_request_error"),
]


def options(folder: Path, *replies: Any, **rest: Any) -> Options:
    return Options(
        cwd=folder / "project",
        environ={"PATH": os.environ["PATH"], "HOME": str(folder)},
        interactive=True,
        provider=provider_on(transport_for(*replies)),
        permission_mode=PermissionMode.BYPASS,
        model="claude-sonnet-5-5",
        settings='{"sandbox": {"mode": "off"}}',
        **rest,
    )


def lines(text: str) -> list[str]:
    """Without blank ones, and without the share of the context."""
    bare = (row.rstrip() for row in text.split("\n"))
    return [row.rpartition(" · ")[0] if row.endswith("of the context") else row for row in bare if row]


def test_a_session_resumed_in_plain_mode_prints_what_it_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "parser.py").write_text(PARSER)
    live: list[str] = []
    again: list[str] = []

    async def run() -> None:
        engine = build_engine(options(tmp_path, *REPLIES))
        session = PlainSession(ScriptedReader(), BareWriter(live.append))
        session.open(engine)
        for text in PROMPTS:
            session.echo(text)
            await session.run(text)
        await session.close()
        resumed = build_engine(options(tmp_path, resume=engine.session_id))
        writer = BareWriter(again.append)
        writer.write(replay.replay_history(resumed.take_history(), resumed.title_of))
        await resumed.aclose()

    monkeypatch.setattr(replay, "PROMPTS_SHOWN", 100)
    asyncio.run(run())
    shown, printed = lines("".join(again)), lines("".join(live))
    assert shown == printed
    whole = "\n".join(shown)
    for words in (
        "> /effort high",
        "· thought for",
        "+    return text[0 : end]",
        "failed · exit code 3",
        "> !echo mine; exit 4",
        "mine",
        "! 529 overloaded, attempt 1 of 10",
        "There is no command /nonsense",
        "no such thing",
    ):
        assert words in whole, (words, whole)


def test_shell_lines_beside_a_submission_are_printed_again(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    live: list[str] = []
    again: list[str] = []

    async def printed(words: str) -> None:
        async with asyncio.timeout(20):
            while words not in "".join(live):
                await asyncio.sleep(0.01)

    async def run() -> None:
        waiting = call("Bash", command="while ! [ -e go ]; do sleep 0.02; done; echo released")
        engine = build_engine(options(tmp_path, reply(waiting), "Done."))
        session = PlainSession(ScriptedReader(), BareWriter(live.append))
        session.open(engine)
        session.echo("look")
        work = asyncio.create_task(session.run("look"))
        await printed("while !")
        session.line("!echo mine; exit 4")
        await printed("exit code 4")
        (project / "go").touch()
        await work
        await session.close()
        resumed = build_engine(options(tmp_path, resume=engine.session_id))
        BareWriter(again.append).write(replay.replay_history(resumed.take_history(), resumed.title_of))
        await resumed.aclose()

    asyncio.run(run())
    assert lines("".join(again)) == lines("".join(live))
    assert "> !echo mine; exit 4" in "".join(again)


def test_only_the_end_of_a_long_session_is_formatted(tmp_path: Path) -> None:
    """The rows equal those of formatting everything, with the cost of the session so far."""
    (tmp_path / "project").mkdir()
    titles: list[str] = []

    async def run() -> tuple[list[ev.Event], list[str]]:
        live: list[str] = []
        replies = [reply(call("Read", file_path=f"{number}.txt")) for number in range(6)]
        engine = build_engine(options(tmp_path, *(each for one in replies for each in (one, "Done."))))
        session = PlainSession(ScriptedReader(), BareWriter(live.append))
        session.open(engine)
        for number in range(6):
            session.echo(f"prompt {number}")
            await session.run(f"prompt {number}")
        await session.close()
        resumed = build_engine(options(tmp_path, resume=engine.session_id))
        history = resumed.take_history()
        await resumed.aclose()
        return history, lines("".join(live))

    def title_of(name: str, input: Any) -> str:
        titles.append(str(input["file_path"]))
        return f"Read {input['file_path']}"

    history, live = asyncio.run(run())
    again: list[str] = []
    BareWriter(again.append).write(replay.replay_history(history, title_of))
    first, *shown = lines("".join(again))
    assert first == "… 12 messages before"
    assert shown == live[live.index("> prompt 4") :]
    assert "so far)" in "".join(shown)
    assert set(titles) <= {"4.txt", "5.txt"}
