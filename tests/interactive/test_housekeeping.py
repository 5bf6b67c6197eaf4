"""What happens beside the submissions of an interactive session: a generated title, and old sessions that go."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.profile import Bounds, Tuning
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.interactive.drafts import Draft
from agentcli.interactive.driver import SessionDriver
from agentcli.interactive.view import View
from agentcli.session.find import describe_session, list_sessions
from agentcli.session.load import load_session
from tests.session.conversations import SESSION_ID
from tests.session.test_closed_sessions import id_of, stored
from tests.support.fakes import Bench, bench
from tests.support.recorded import recorded, recorded_again, session_file
from tests.support.scripts import fails, pause, reply, say

pytestmark = pytest.mark.virtual

TITLES = Tuning(session_titles=True)
SMALL = "claude-haiku-5-5"


class Shown(View):
    def __init__(self) -> None:
        self.events: list[ev.Event] = []

    def show(self, event: ev.Event) -> None:
        self.events.append(event)


async def converse(b: Bench, *prompts: str, rename: str = "") -> Shown:
    """Send the prompts one after the other, each when everything before it has ended, and close the session."""
    shown = Shown()
    driver = SessionDriver(shown)
    driver.open(b.engine)
    for prompt in prompts:
        driver.send(Draft(prompt))
        assert driver.submission is not None
        await driver.submission
        if rename:
            b.engine.session.store.set_title(rename)
        for task in [task for task in driver._tasks if "keep_house" in str(task.get_coro())]:
            await task
    await driver.close()
    assert b.refused == []
    return shown


def title_requests(b: Bench) -> list[Json]:
    return [request for request in b.requests if request["model"] == SMALL]


async def test_the_small_model_names_a_new_session_once_and_its_cost_is_counted(tmp_path: Path) -> None:
    b = recorded(tmp_path, "Done.", '"Fix the parser."\n', "More.", tuning=TITLES, interactive=True)
    shown = await converse(b, "please fix the parser", "and more")
    (asked,) = title_requests(b)
    assert "please fix the parser" in str(asked["messages"])
    assert "Done." in str(asked["messages"])
    assert (b.store.title, b.store.is_title_generated) == ("Fix the parser", True)
    assert [event.purpose for event in shown.events if isinstance(event, ev.UsageReported)] == ["turn", "title", "turn"]
    assert b.engine.costs.totals.by_model[SMALL].requests == 1
    loaded = load_session(session_file(tmp_path))
    assert (loaded.title, loaded.is_title_generated) == ("Fix the parser", True)
    info = describe_session(session_file(tmp_path))
    assert info is not None
    assert (info.label, info.is_named) == ("Fix the parser", False)
    assert loaded.spent[-1].keys() == {"claude-sonnet-5-5", SMALL}


async def test_the_requests_of_the_conversation_are_the_same_with_and_without_a_title(tmp_path: Path) -> None:
    sent = []
    for name, replies, tuning in (
        ("with", ["One.", "A title", "Two."], TITLES),
        ("without", ["One.", "Two."], Tuning()),
    ):
        b = recorded(tmp_path / name, *replies, tuning=tuning, interactive=True)
        await converse(b, "first", "second")
        sent.append([request for request in b.requests if request["model"] != SMALL])
    assert sent[0] == sent[1]


async def test_a_name_that_the_user_gives_meanwhile_wins(tmp_path: Path) -> None:
    b = recorded(tmp_path, "Done.", reply(pause(5), say("Generated")), tuning=TITLES, interactive=True)
    await converse(b, "go", rename="mine")
    assert (b.store.title, b.store.is_title_generated) == ("mine", False)


@pytest.mark.parametrize(
    "why", ["named", "setting off", "answer failed", "budget nearly spent", "unknown small model", "not saved"]
)
async def test_no_title_is_requested(tmp_path: Path, why: str) -> None:
    replies = [fails(400)] if why == "answer failed" else ["Done."]
    rest: dict[str, Any] = {"tuning": Tuning() if why == "setting off" else TITLES, "interactive": True}
    if why == "budget nearly spent":
        rest["bounds"] = Bounds(max_budget_usd=0.000_01)
    b = bench(*replies, **rest) if why == "not saved" else recorded(tmp_path, *replies, **rest)
    if why == "named":
        b.store.set_title("mine")
    if why == "unknown small model":
        b.engine.set_small_model("my-own-model")
    await converse(b, "go")
    assert len(b.requests) == 1


@pytest.mark.parametrize("answer", [fails(400), " \n", fails(529, repeat=True)], ids=["refused", "empty", "overloaded"])
async def test_a_title_that_fails_is_silent_and_is_not_tried_again(tmp_path: Path, answer: Json | str) -> None:
    b = recorded(tmp_path, "One.", answer, tuning=TITLES, interactive=True)
    shown = await converse(b, "first")
    assert b.store.title == ""
    notable = (ev.NoticeRaised, ev.RetryScheduled, ev.ModelFellBack)
    assert [event for event in shown.events if isinstance(event, notable)] == []


async def test_a_resumed_session_keeps_its_generated_title_and_gets_no_other(tmp_path: Path) -> None:
    await converse(recorded(tmp_path, "One.", "The title", tuning=TITLES, interactive=True), "first")
    again = recorded_again(tmp_path, "Two.", tuning=TITLES, interactive=True)
    await converse(again, "second")
    assert title_requests(again) == []
    assert (again.store.title, again.store.resume_name()) == ("The title", SESSION_ID)


async def test_closing_the_session_does_not_wait_for_a_title(tmp_path: Path) -> None:
    b = recorded(tmp_path, "Done.", reply(pause(600), say("Late")), tuning=TITLES, interactive=True)
    driver = SessionDriver(View())
    driver.open(b.engine)
    driver.send(Draft("go"))
    assert driver.submission is not None
    await driver.submission
    began = b.engine.session.clock.monotonic()
    await driver.close()
    assert b.engine.session.clock.monotonic() - began < 5
    assert load_session(session_file(tmp_path)).title == ""


@pytest.mark.anyio
async def test_old_sessions_are_deleted_after_the_first_answer_and_a_notice_counts_them(tmp_path: Path) -> None:
    for letter in "ab":
        path = stored(tmp_path, letter)
        os.utime(path, (time.time() - 40 * 86_400,) * 2)
    b = recorded(tmp_path, "One.", "Two.", tuning=Tuning(session_retention_days=30), interactive=True)
    assert len(list_sessions(tmp_path / "state")) == 2
    shown = await converse(b, "first", "second")
    assert [info.session_id for info in list_sessions(tmp_path / "state")] == [SESSION_ID]
    (notice,) = [event.text for event in shown.events if isinstance(event, ev.NoticeRaised)]
    assert notice.startswith("Deleted 2 sessions not changed for 30 days (sessionRetentionDays): ")


async def test_without_the_setting_nothing_is_deleted(tmp_path: Path) -> None:
    os.utime(stored(tmp_path, "a"), (0, 0))
    await converse(recorded(tmp_path, "One.", interactive=True), "first")
    assert id_of("a") in [info.session_id for info in list_sessions(tmp_path / "state")]
