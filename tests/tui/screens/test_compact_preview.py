"""The preview of a compaction: read, edited, accepted or not; in the dialog, the session and the app."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from textual.pilot import Pilot
from textual.widgets import TextArea

from agentcli.core.events import CompactionProposed
from agentcli.core.permission import Answer
from agentcli.tui.app import AgentApp
from agentcli.tui.screens.dialog import Dialog
from agentcli.tui.screens.dialog_for import dialog_for
from agentcli.tui.screens.edited_text import TextDialog
from tests.support.compacting import LONG
from tests.tui import test_app, test_session
from tests.tui.screen_host import Host, calm, look, play, press, shown

PROPOSED = CompactionProposed(
    request_id="r1",
    summary="# Intent\n\nFind the bug.\n",
    tokens_before=48_200,
    tokens_after=6_100,
    cost_usd=0.031,
    kept=["2 messages of yours, word for word", "parser.py, read again"],
    dropped=["3 model replies (about 9,000 tokens)"],
    turn_usd_before=0.0145,
    turn_usd_after=0.0018,
)


def dialog(event: CompactionProposed = PROPOSED) -> Dialog[Answer | None]:
    return calm(dialog_for(event))


# ----------------------------------------------------------------------------------------------------------- dialog


def test_kept_and_removed_content_summary_and_prices_are_shown() -> None:
    text = look(dialog(), size=(100, 30))
    assert text.startswith("─── Replace the conversation with this summary? ──")
    assert "48.2k → 6.1k tokens" in text
    assert " Tokens about 48,200 become 6,100, 42,100 fewer\n" in text
    assert " Price  $0.015 a turn becomes $0.0018; the summary has cost $0.031\n" in text
    assert " Stays  2 messages of yours, word for word\n        parser.py, read again\n" in text
    assert " Goes   3 model replies (about 9,000 tokens)\n" in text
    assert "Find the bug." in text
    choices = ("❯ 1 Yes, continue with the summary", "  2 Edit the summary", "  3 No, keep the conversation as it is")
    assert "".join(f" {choice}\n" for choice in choices) in text
    assert "Enter confirm · Esc cancel" in text
    many = replace(PROPOSED, kept=[f"file {number}" for number in range(40)])
    assert "and 28 more" in look(dialog(many), size=(80, 40))


def test_names_with_underscores_stay_and_unknown_prices_are_shown_as_unknown() -> None:
    words = "Mend __contains__ in `__init__`, **bold**.\n\n```\n__all__ = []\n```\n"
    unknown = replace(PROPOSED, summary=words, cost_usd=None, turn_usd_before=None, turn_usd_after=None)
    text = look(dialog(unknown), size=(100, 40))
    assert "Mend __contains__ in __init__, bold." in text
    assert "__all__ = []" in text
    assert " Price  the price of the summary is unknown\n" in text


def test_an_edited_summary_is_the_answer() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "e")
        area = host.screen.query_one(TextArea)
        assert area.has_focus
        assert area.text == PROPOSED.summary
        area.load_text("My own words.")
        await press(pilot, "escape")
        seen = "\n".join(shown(host))
        assert "edited by you" in seen
        assert "My own words." in seen
        await press(pilot, "enter")

    host = play(dialog(), script, (100, 30))
    assert host.answer == Answer("allow", updated_input={"summary": "My own words."})


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (40, 10), (20, 5)])
def test_the_choices_are_visible_at_every_size(size: tuple[int, int]) -> None:
    long = replace(PROPOSED, summary="word " * 3_000)
    rows = look(dialog(long), size=size).split("\n")
    assert len(rows) <= size[1]
    assert any("1 Yes" in row for row in rows)


# ---------------------------------------------------------------------------------------------------------- session


class Desk(test_session.Desk):
    def __init__(self, *replies: Any) -> None:
        super().__init__(LONG, *replies, interactive=True)

    async def compacting(self) -> str:
        self.send("tell")
        await self.idle()
        self.send("/compact")
        await self.until(lambda: bool(self.shown.asked))
        return self.shown.asked[0].request_id


@pytest.mark.virtual
@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_a_proposal_waits_for_the_answer_and_is_then_applied_or_not(answer: Literal["allow", "deny"]) -> None:
    async with Desk("A summary.", "On.") as desk:
        request_id = await desk.compacting()
        assert desk.session.presenter.activity.phase == "waiting"
        before = desk.bench.engine.messages
        desk.session.answer(request_id, Answer(answer))
        await desk.idle()
        assert any("boundary" in text for text in desk.shown.texts()) is (answer == "allow")
        assert (desk.bench.engine.messages == before) is (answer == "deny")
        assert sum("cancelled" in text for text in desk.shown.texts()) == (answer == "deny")


# -------------------------------------------------------------------------------------------------------------- app


def test_in_the_app_a_compaction_is_reviewed_accepted_and_undone(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await test_app.sends(pilot, app, "tell")
        await test_app.idle(pilot, app)
        await test_app.sends(pilot, app, "/compact the greeting")
        await test_app.until(pilot, lambda: isinstance(app.screen, TextDialog))
        await test_app.until(pilot, lambda: "A summary." in test_app.shown(app))
        await pilot.press("escape")
        await test_app.idle(pilot, app)
        assert "Compaction was cancelled" in test_app.shown(app)
        await test_app.sends(pilot, app, "/compact")
        await test_app.until(pilot, lambda: isinstance(app.screen, TextDialog))
        app.screen.guard.pause = 0  # type: ignore[attr-defined]
        await pilot.press("enter")
        await test_app.idle(pilot, app)
        engine = app.chat.session.engine
        assert engine is not None
        assert engine.session.view.messages(engine.messages)[0].text.count("A second one.") == 1

    test_app.Desk(tmp_path, LONG, "A summary.", "A second one.").play(script, (100, 30))
