"""The activity line: its text at every width, and no timer while idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from agentcli.core import events as ev
from agentcli.core.messages import ToolResultBlock
from agentcli.core.text.format import format_elapsed
from agentcli.tui.model import Activity
from agentcli.tui.presenter import Presenter
from agentcli.tui.status.lines import SPINNER, STILL, ActivityLine, activity_text
from agentcli.tui.theme.palette import WITHOUT_COLOURS, Palette

pytestmark = pytest.mark.anyio

PALETTE = Palette()
WORKING = Activity(phase="tools", text="Bash: pytest -q", began=100.0, tokens_out=1234)
RETRYING = Activity(phase="retrying", text="529 overloaded, attempt 3 of 10", began=100.0, until=116.0)


def text(activity: Activity, now: float = 112.0, width: int = 80) -> str:
    row = "".join(part for part, _style in activity_text(activity, now, width, PALETTE))
    assert cell_len(row) <= width
    return row


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, "Bash: pytest -q · 12 s · ↓ 1.2k tokens · Esc stops"),
        (50, "Bash: pytest -q · 12 s · ↓ 1.2k tokens · Esc stops"),
        (40, "Bash: pytest -q · 12 s · Esc stops"),
        (30, "Bash: pytest -q · Esc stops"),
        (20, "Bash: pytest -q"),
        (8, "Bash: p…"),
        (1, "…"),
        (0, ""),
    ],
)
def test_a_narrow_row_keeps_the_text_and_drops_details(width: int, shown: str) -> None:
    assert text(WORKING, width=width) == shown


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, "Fixing the parser · Bash: pytest -q · 12 s · ↓ 1.2k tokens · Esc stops"),
        (60, "Fixing the parser · 12 s · ↓ 1.2k tokens · Esc stops"),
        (14, "Fixing the pa…"),
    ],
)
def test_the_active_task_is_shown_first_and_fits_every_width(width: int, shown: str) -> None:
    assert text(replace(WORKING, todo="Fixing the parser"), width=width) == shown


def test_a_question_a_retry_and_a_compaction_hide_the_active_task() -> None:
    for phase in ("waiting", "retrying", "compacting", "interrupting"):
        assert "Fixing" not in text(replace(WORKING, phase=phase, todo="Fixing the parser"))  # type: ignore[arg-type]
    assert text(replace(WORKING, phase="waiting")) == "Bash: pytest -q · ↓ 1.2k tokens", "no time of the user"


@pytest.mark.parametrize(
    ("activity", "now", "width", "shown"),
    [
        (RETRYING, 112.0, 80, "529 overloaded, attempt 3 of 10 · next in 4 s · 12 s · Esc stops"),
        (RETRYING, 112.0, 40, "next in 4 s"),
        (RETRYING, 115.9, 80, "next in 1 s"),
        (RETRYING, 116.5, 80, "now"),
        (Activity(phase="waiting", text="Allow?"), 112.0, 80, "¬Esc"),
        (Activity(phase="interrupting"), 112.0, 80, "Stopping"),
        (Activity(phase="interrupting"), 112.0, 80, "¬Esc"),
        (WORKING, 100.5, 80, "¬0 s"),
    ],
)
def test_waits_count_down_and_esc_is_offered_where_it_stops_something(
    activity: Activity, now: float, width: int, shown: str
) -> None:
    assert (shown.removeprefix("¬") in text(activity, now, width)) is not shown.startswith("¬")


def test_durations_have_two_units_at_most() -> None:
    shown = [format_elapsed(value) for value in (-1, 59.9, 60, 3599, 3661)]
    assert shown == ["0 s", "59 s", "1 min", "59 min 59 s", "1 h 1 min"]


PHASES = "starting sending thinking writing tools agents waiting retrying compacting interrupting"


def test_every_phase_has_a_word() -> None:
    words = [text(Activity(phase=phase)).partition(" · ")[0] for phase in PHASES.split()]  # type: ignore[arg-type]
    assert words[:4] == ["Starting", "Waiting for the model", "Thinking", "Writing"]
    assert len(set(words)) == len(words) - 1, "tools and agents work"


def test_text_of_tools_is_inert() -> None:
    hostile = replace(WORKING, text="Bash: \x1b[2J\x1b]0;t\x07echo [red]x[/red]\n\u202egpj\tz")
    shown = text(hostile)
    assert "\x1b" not in shown
    assert "\n" not in shown
    assert "\u202e" not in shown
    assert "[red]x[/red]" in shown


@given(st.text(max_size=100), st.integers(0, 120), st.integers(0, 10**9))
def test_any_text_fits_any_width(words: str, width: int, tokens: int) -> None:
    text(replace(WORKING, text=words, tokens_out=tokens), width=width)


# ---------------------------------------------------------------------------------------------------------- widget


class Clock:
    now = 112.0

    def __call__(self) -> float:
        return self.now


class Host(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.activity = ActivityLine(PALETTE, clock=self.clock)

    def compose(self) -> ComposeResult:
        yield self.activity

    @property
    def row(self) -> str:
        return self.activity.render_line(0).text


def timers(app: Host) -> int:
    return len([timer for timer in app.activity._timers if timer._task is not None and not timer._task.done()])


@asynccontextmanager
async def shown_app() -> AsyncIterator[Host]:
    host = Host()
    async with host.run_test(size=(80, 5)):
        yield host
        host.activity.show(Activity())


async def test_it_always_takes_one_row_and_a_timer_only_during_activity() -> None:
    async with shown_app() as app:
        for activity, running, row in ((Activity(), 0, ""), (WORKING, 1, text(WORKING)), (Activity(), 0, "")):
            app.activity.show(activity)
            await asyncio.sleep(0)
            assert (timers(app), app.activity.size.height) == (running, 1)
            assert app.row[4:].strip() == row


@pytest.mark.parametrize("moving", [True, False])
async def test_ticks_count_the_time_and_animate_the_sign_unless_motion_is_reduced(moving: bool) -> None:
    async with shown_app() as app:
        app.activity.moving = moving
        app.activity.show(WORKING)
        signs = {app.row[2]}
        for second in range(3):
            app.clock.now = 113.0 + second
            app.activity._tick()
            signs.add(app.row[2])
            assert f"{13 + second} s" in app.row
        assert signs == set(SPINNER[:4] if moving else STILL)


async def test_token_counts_wait_for_a_tick_and_other_text_does_not() -> None:
    async with shown_app() as app:
        app.activity.show(WORKING)
        app.activity.show(replace(WORKING, tokens_out=5000))
        assert "1.2k" in app.row
        app.activity._tick()
        assert "5k" in app.row
        app.activity.show(replace(WORKING, text="Read app.py", tokens_out=6000))
        assert "Read app.py" in app.row
        assert "6k" in app.row


async def test_waiting_for_the_user_shows_a_still_question_mark() -> None:
    app = Host()

    async with app.run_test(size=(40, 5)) as pilot:
        app.activity.show(Activity(phase="waiting", text="Allow this command?", began=100.0))
        app.activity._tick()
        assert app.row.startswith("  ? Allow this command?")
        await pilot.resize_terminal(16, 5)
        assert cell_len(app.row) <= 16
        app.activity.set_palette(WITHOUT_COLOURS)
        assert app.row.startswith("  ? Allow")
        app.activity.show(Activity())


async def test_a_hint_is_not_ended_in_place_of_an_earlier_one() -> None:
    async with shown_app() as app:
        app.activity.hint("Ctrl+C again quits", 60)
        app.activity.hint("Copied 3 lines", 60)
        app.activity.end_hint("Ctrl+C again quits")
        assert "Copied 3 lines" in app.row
        app.activity.end_hint("Copied 3 lines")
        assert not app.row.strip()


def test_a_running_tool_has_its_own_clock() -> None:
    presenter = Presenter()
    presenter.begin(100.0)
    presenter.show(ev.ToolStarted(tool_use_id="a", title="Bash make", name="Bash", input={}), 160.0)
    assert "5 s" in text(presenter.activity, 165.0)
    presenter.show(ev.ToolStarted(tool_use_id="b", title="Bash test", name="Bash", input={}), 170.0)
    assert "Bash test · 2 s" in text(presenter.activity, 172.0)
    result = ToolResultBlock("b", ())
    presenter.show(ev.ToolFinished(tool_use_id="b", name="Bash", result=result, outcome="done"), 180.0)
    assert "Bash make · 25 s" in text(presenter.activity, 185.0), "the one that still runs"
    result = ToolResultBlock("a", ())
    presenter.show(ev.ToolFinished(tool_use_id="a", name="Bash", result=result, outcome="done"), 190.0)
    assert "Working · 1 min 30 s" in text(presenter.activity, 190.0), "without a tool: the submission's"


def test_a_running_command_is_named_by_its_description() -> None:
    presenter = Presenter()
    presenter.begin(1.0)
    given = {"command": "pytest -q", "description": "Run the tests"}
    presenter.show(ev.ToolStarted(tool_use_id="t", name="Bash", input=given, title="Bash pytest -q"), 2.0)
    assert presenter.activity.text == "Run the tests"
    presenter.show(ev.ToolStarted(tool_use_id="u", name="Read", input={"file_path": "x"}, title="Read x"), 2.0)
    assert presenter.activity.text == "Read x"
