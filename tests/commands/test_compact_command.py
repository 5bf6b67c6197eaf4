"""/compact on a real engine: with a focus, undone, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.commands.line import run_command
from agentcli.core import events as ev
from tests.commands.test_commands import engine_on, refused, said
from tests.support.fakes import collect, only, result_of

pytestmark = pytest.mark.anyio

STORY = "a long story " * 3_000


async def test_compact_reports_the_saving_and_how_to_undo_it(tmp_path: Path) -> None:
    async with engine_on(tmp_path, STORY, "A summary.", "On.") as engine:
        await collect(engine.submit("tell me"))
        assert "Summarised: about " in (text := await said(engine, "/compact the greeting"))
        assert "/compact undo reverts it." in text
        assert "tokens are back" in await said(engine, "/compact undo")
        assert "no compaction to undo" in await refused(engine, "/compact UNDO")
        assert not result_of(await collect(engine.submit("go on"))).is_error
        assert any(message.text == STORY for message in engine.session.view.messages(engine.messages))


async def test_undo_works_after_a_resume_in_a_new_process(tmp_path: Path) -> None:
    async with engine_on(tmp_path, STORY, "A summary.") as engine:
        await collect(engine.submit("tell me"))
        await said(engine, "/compact")
        session = engine.session_id
    async with engine_on(tmp_path, resume=session) as engine:
        assert len(engine.session.view.messages(engine.messages)) < 3
        assert "tokens are back" in await said(engine, "/compact undo")
    async with engine_on(tmp_path, "On.", resume=session) as engine:
        await collect(engine.submit("go on"))
        shown = [message.text for message in engine.session.view.messages(engine.messages)]
    assert shown[:2] == ["tell me", STORY]
    assert shown[-2:] == ["go on", "On."]


async def test_undo_without_a_compaction_creates_no_session(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        events = await collect(run_command(engine, "compact", "undo"))
        assert result_of(events).is_error
        assert not only(events, ev.ContextEdited)
    assert not list(tmp_path.rglob("*.jsonl"))
