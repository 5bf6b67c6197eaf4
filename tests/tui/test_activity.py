"""The activity line: its text at every width, and no timer while idle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from agentcli.core import events as ev
from agentcli.core.messages import ToolResultBlock
from agentcli.core.text.format import elapsed
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
        (40, "Fixing the parser · 12 s · Esc stops"),
        (14, "Fixing the pa…"),
    ],
)
def test_the_active_task_is_shown_first_and_fits_every_width(width: int, shown: str) -> None:
    assert text(replace(WORKING, todo="Fixing the parser"), width=width) == shown


def test_a_question_a_retry_and_a_compaction_hide_the_active_task() -> None:
    for phase in ("waiting", "retrying", "compacting", "interrupting"):
        assert "Fixing" not in text(replace(WORKING, phase=phase, todo="Fixing the parser"))  # type: ignore[arg-type]
    assert text(replace(WORKING, phase="waiting")) == "Bash: pytest -q · ↓ 1.2k tokens", "no time of the user"


def test_a_wait_counts_down_to_its_end() -> None:
    assert text(RETRYING, 112.0) == "529 overloaded, attempt 3 of 10 · next in 4 s · 12 s · Esc stops"
    assert "next in 1 s" in text(RETRYING, 115.9)
    assert "now" in text(RETRYING, 116.5)
    assert "next in 4 s" in text(RETRYING, 112.0, width=40)


def test_esc_is_offered_only_where_it_stops_something() -> None:
    assert "Esc" not in text(Activity(phase="waiting", text="Allow?"))
    assert "Esc" not in text(Activity(phase="interrupting"))
    assert text(Activity(phase="interrupting")) == "Stopping"


@pytest.mark.parametrize(
    "phase",
    ["starting", "sending", "thinking", "writing", "tools", "waiting", "retrying", "compacting", "interrupting"],
)
def test_every_phase_has_a_word_of_its_own(phase: str) -> None:
    assert text(Activity(phase=phase)).strip()  # type: ignore[arg-type]


def test_the_first_second_is_not_counted() -> None:
    assert "0 s" not in text(WORKING, 100.5)
    assert [elapsed(value) for value in (-1, 0, 59.9, 60, 3599, 3661)] == [
        "0 s",
        "0 s",
        "59 s",
        "1 min",
        "59 min 59 s",
        "1 h 1 min",
    ]


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
    def __init__(self, moving: bool = True) -> None:
        super().__init__()
        self.clock = Clock()
        self.activity = ActivityLine(PALETTE, moving=moving, clock=self.clock)

    def compose(self) -> ComposeResult:
        yield self.activity

    @property
    def row(self) -> str:
        return self.activity.render_line(0).text


def timers(app: Host) -> int:
    return len([timer for timer in app.activity._timers if timer._task is not None and not timer._task.done()])


async def test_it_always_takes_one_row_and_a_timer_only_during_activity() -> None:
    app = Host()

    async with app.run_test(size=(80, 5)) as pilot:
        assert app.activity.size.height == 1
        assert app.row.strip() == ""
        assert timers(app) == 0
        app.activity.show(WORKING)
        await pilot.pause()
        assert timers(app) == 1
        assert app.activity.size.height == 1
        assert app.row[4:] == "Bash: pytest -q · 12 s · ↓ 1.2k tokens · Esc stops"
        app.activity.show(Activity())
        await pilot.pause()
        assert timers(app) == 0
        assert app.row.strip() == ""
        assert app.activity.size.height == 1


async def test_ticks_animate_the_sign_and_count_the_time() -> None:
    app = Host()

    async with app.run_test(size=(80, 5)):
        app.activity.show(WORKING)
        before = app.row
        app.clock.now = 113.0
        app.activity._tick()
        after = app.row
        assert before[2] in SPINNER
        assert after[2] in SPINNER
        assert before[2] != after[2]
        assert "12 s" in before
        assert "13 s" in after
        app.activity.show(Activity())


async def test_with_reduced_motion_nothing_moves_but_the_time() -> None:
    app = Host(moving=False)

    async with app.run_test(size=(80, 5)):
        app.activity.show(WORKING)
        signs = set()
        for second in range(4):
            app.clock.now = 113.0 + second
            app.activity._tick()
            signs.add(app.row[2])
            assert f"{13 + second} s" in app.row
        assert signs == {STILL}
        app.activity.show(Activity())


async def test_token_counts_wait_for_a_tick_and_other_text_does_not() -> None:
    app = Host()

    async with app.run_test(size=(80, 5)):
        app.activity.show(WORKING)
        app.activity.show(replace(WORKING, tokens_out=5000))
        assert "1.2k" in app.row
        app.activity._tick()
        assert "5k" in app.row
        app.activity.show(replace(WORKING, text="Read app.py", tokens_out=6000))
        assert "Read app.py" in app.row
        assert "6k" in app.row
        app.activity.show(Activity())


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
    app = Host()

    async with app.run_test(size=(80, 5)):
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
