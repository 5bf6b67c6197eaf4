"""/sessions in the whole app: words of an old answer lead to its prompt."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.pilot import Pilot

from agentcli.session.search_index import SessionIndex
from agentcli.tui.app import AgentApp
from tests.tui.test_app import Desk, idle, read_earlier_late, sends, shown, until

LONG = "\n\n".join(f"Paragraph {number} of a long answer." for number in range(30))
ANSWERS = (f"{LONG}\n\nThe \x1b]0;owned\x07giraffe [bold]did it[/bold].", LONG, LONG)


async def talk(pilot: Pilot[int], app: AgentApp) -> str:
    """Three long answers; returns the id of the session."""
    for words in ("first words", "second words", "third words"):
        await sends(pilot, app, words)
        await idle(pilot, app)
    assert "first words" not in shown(app)
    assert app.chat.session.engine is not None
    return app.chat.session.engine.session_id


async def clear(pilot: Pilot[int], app: AgentApp, old: str) -> None:
    session = app.chat.session
    await sends(pilot, app, "/clear")
    await until(pilot, lambda: session.engine is not None and session.engine.session_id != old)


async def choose_hit(pilot: Pilot[int], app: AgentApp) -> None:
    await until(pilot, lambda: "giraffe [bold]did it" in shown(app))
    await pilot.press("enter")
    await until(pilot, lambda: app.screen is app.chat)


def top_row(app: AgentApp) -> str:
    return next(row for row in app.chat.transcript.shown_rows() if row.strip()).strip()


def test_a_session_is_opened_at_the_prompt_whose_answer_has_the_words(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        old = await talk(pilot, app)
        await clear(pilot, app, old)
        await sends(pilot, app, "/sessions")
        await until(pilot, lambda: "first words" in shown(app) and "Tab all folders" in shown(app))
        await pilot.press(*"giraff")
        await choose_hit(pilot, app)
        await until(pilot, lambda: "first words" in top_row(app))
        assert app.chat.session.engine is not None
        assert app.chat.session.engine.session_id == old
        assert not app.chat.transcript.following

    Desk(tmp_path, *ANSWERS).play(script, size=(120, 30))


def test_a_prompt_of_the_open_session_is_scrolled_to(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await talk(pilot, app)
        await sends(pilot, app, "/sessions giraffe")
        await choose_hit(pilot, app)
        await until(pilot, lambda: "first words" in top_row(app))
        await sends(pilot, app, "/sessions third")
        await until(pilot, lambda: "› third words" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: "third words" in shown(app) and app.screen is app.chat)

    Desk(tmp_path, *ANSWERS).play(script, size=(80, 24))


def test_a_prompt_that_is_read_late_is_scrolled_to_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_finish = read_earlier_late(monkeypatch)

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await clear(pilot, app, await talk(pilot, app))
        await sends(pilot, app, "/sessions giraffe")
        await choose_hit(pilot, app)
        await until(pilot, lambda: "Paragraph 29" in shown(app))
        assert "first words" not in shown(app)
        may_finish.set()
        await until(pilot, lambda: "first words" in top_row(app))

    Desk(tmp_path, *ANSWERS).play(script)


def test_a_session_that_was_left_is_in_the_index_when_the_user_is_away(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        old = await talk(pilot, app)
        paths = app.preferences.paths
        assert paths.state_dir is not None
        index = SessionIndex(paths.index_dir, paths.state_dir)
        app.opener._collect_while_away()
        await clear(pilot, app, old)
        app.opener._collect_while_away()
        assert await asyncio.to_thread(index.search, ["giraffe"]) == [], "the user has just typed"
        app.chat.prompt.last_typed -= 3600
        app.opener._collect_while_away()
        await app.workers.wait_for_complete([worker for worker in app.workers if worker.group == "index"])
        (hit,) = await asyncio.to_thread(index.search, ["giraffe"])
        assert hit.session.session_id == old

    Desk(tmp_path, *ANSWERS).play(script)
