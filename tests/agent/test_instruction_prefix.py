"""Instruction files in an assembled session: the same bytes at the beginning of each request, in every process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import call, provider_on, reply, transport_for
from tests.support.validate import problems

pytestmark = pytest.mark.anyio


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
