"""The pickers for models, effort, modes, themes and sessions."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from agentcli.context.report import ChangePrice
from agentcli.core.permission import PermissionMode
from agentcli.providers.catalog import Catalog
from agentcli.session.find import SessionInfo
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.pickers import (
    EffortPicker,
    ModelPicker,
    ModePicker,
    SessionPicker,
    ThemePicker,
    describe_change,
    session_rows,
)
from agentcli.tui.theme.palette import Palette
from tests.tui.screen_host import OPEN, Host, after_each, answer, look, play, press, through_all_sizes

# -------------------------------------------------------------------------------------------------------------- models


def test_the_model_picker_shows_windows_prices_and_the_current_model() -> None:
    seen = look(ModelPicker(Catalog(), "opus", 123_456), size=(80, 40))
    assert " ❯ ● claude-opus-5-5      1M  $4.00 in / $20.00 out   effort low–max    opus\n" in seen
    assert "     claude-haiku-4-5   200k  $1.00 in / $5.00 out    no effort levels\n" in seen
    assert "Price unknown\n     claude-mythos-5-2    1M                          effort low–max\n" in seen
    assert "Active now." in seen


def test_a_change_of_model_shows_the_tokens_billed_again() -> None:
    prices = {"claude-sonnet-5-5": ChangePrice(123_456, 0.309)}
    picker = ModelPicker(Catalog(), "opus", 123_456, price_of_change=lambda model: prices[model])
    seen = look(picker, "down", size=(120, 40))
    assert "A change invalidates the prompt cache and re-bills 123k tokens, about $0.309, once." in seen
    assert describe_change(ChangePrice(5000, None)).endswith("re-bills 5k tokens once; the price is unknown.")
    assert describe_change(ChangePrice(0, 0.0)) == "Nothing is cached, so a change costs nothing."
    assert describe_change(ChangePrice(0, 0.0, cold=True)) == "The cache is cold: nothing is re-billed."


def test_a_model_whose_window_is_too_small_is_warned_about() -> None:
    seen = look(ModelPicker(Catalog(), "opus", 300_000), "=haiku-4-5")
    warning = "! Its context window is 200k tokens and the conversation has 300k: compact it first."
    assert warning in " ".join(seen.split())


def test_the_model_picker_returns_an_id() -> None:
    assert answer(ModelPicker(Catalog(), "opus"), "=sonnet-5-5", "enter") == "claude-sonnet-5-5"
    assert answer(ModelPicker(Catalog(), "opus"), "enter") == "claude-opus-5-5"
    assert answer(ModelPicker(Catalog(), "opus"), "down", "escape") is None


def test_any_name_can_be_typed_and_is_marked_as_unknown() -> None:
    typed, chosen = after_each(ModelPicker(Catalog(), "opus"), ("=my-llama",), ("enter",))
    assert "its context window and price are unknown" in typed[1]
    assert chosen[0] == "my-llama"


# -------------------------------------------------------------------------------------------------------------- effort


def test_the_effort_picker_shows_what_the_model_supports_and_what_a_change_costs() -> None:
    picker = EffortPicker(Catalog().get("claude-opus-4-6"), "high", lambda _level: ChangePrice(123_456, 0.62))
    assert look(picker, "down") == (
        "─── Effort of claude-opus-4-6 ──────────────────────────────────────────────────\n"
        " ⌕ type to search\n"
        "     auto    the model's own default: high\n"
        "     low     short answers, quick and cheap\n"
        "     medium  a balance, for everyday work\n"
        "   ● high    thorough, for most hard work\n"
        " ❯   xhigh   claude-opus-4-6 supports only low, medium, high, max\n"
        "     max     maximum effort, regardless of cost\n"
        " A change invalidates the prompt cache and re-bills 123k tokens, about $0.62,\n"
        " once.\n"
        " ↑↓ move · Enter choose · Esc back"
    )


def test_the_effort_picker_returns_a_level_or_auto() -> None:
    info = Catalog().get("opus")
    assert answer(EffortPicker(info, "auto"), "enter") == "auto"
    assert answer(EffortPicker(info, "auto"), "down", "enter") == "low"
    assert answer(EffortPicker(info, "max"), "enter") == "max"
    assert answer(EffortPicker(info, "max"), "escape") is None


def test_a_level_that_the_model_lacks_cannot_be_chosen() -> None:
    info = Catalog().get("claude-haiku-4-5")
    first, chosen = after_each(EffortPicker(info, "auto"), (), ("down", "enter"))
    assert "claude-haiku-4-5 does not support effort levels" in first[1]
    assert chosen[0] == OPEN


def test_an_unknown_price_is_shown_and_not_called_free() -> None:
    seen = look(EffortPicker(Catalog().get("opus"), "auto", lambda _level: ChangePrice(5000, None)), "down")
    assert "the price is unknown" in " ".join(seen.split())
    assert "$" not in seen


# --------------------------------------------------------------------------------------------------------------- modes


def test_the_mode_picker_explains_every_mode_and_marks_the_dangerous_one() -> None:
    (_, seen), (_, last), (chosen, _) = after_each(
        ModePicker(PermissionMode.PLAN), (), ("end",), ("=accept", "enter")
    )  # fmt: skip
    assert " ❯ ● plan mode             changes nothing until you approve a plan\n" in seen
    assert "     ! bypass permissions  dangerous: allows almost everything\n" in seen
    assert "In settings: plan. " in seen
    assert "! Commands and edits run without review" in last
    assert chosen is PermissionMode.ACCEPT_EDITS


# -------------------------------------------------------------------------------------------------------------- themes

THEMES = [("dark", "calm", True), ("paper", "bright", False), ("nord", "arctic", True)]


def test_themes_are_previewed_while_the_cursor_moves() -> None:
    tried: list[str] = []
    assert answer(ThemePicker(THEMES, "dark", tried.append), "down", "down", "enter") == "paper"
    assert tried == ["nord", "paper"]


def test_the_theme_that_follows_the_terminal_is_in_the_list_and_can_be_marked() -> None:
    assert answer(ThemePicker(THEMES, "dark", lambda _name: None), "=auto", "enter") == "auto"
    assert " ❯ ● auto" in look(ThemePicker(THEMES, "auto", lambda _name: None))


def test_escape_restores_the_old_theme() -> None:
    tried: list[str] = []
    assert answer(ThemePicker(THEMES, "dark", tried.append), "down", "escape") is None
    assert tried == ["nord", "dark"]


def test_a_query_without_matches_restores_the_old_theme() -> None:
    tried: list[str] = []
    answer(ThemePicker(THEMES, "dark", tried.append), "=nordzz")
    assert tried[0] == "nord"
    assert tried[-1] == "dark"


def test_the_picker_itself_is_painted_in_the_new_theme() -> None:
    light = Palette(name="paper", dark=False)

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "end")
        assert host.sheet.palette is light
        assert host.sheet.listing.palette is light

    play(ThemePicker(THEMES, "dark", lambda name: light if name == "paper" else Palette()), steps)


# ------------------------------------------------------------------------------------------------------------ sessions

NOW = 1_800_000_000.0


def session(number: int, **changes: object) -> SessionInfo:
    facts: dict[str, object] = {
        "session_id": f"id-{number}",
        "path": Path(f"/sessions/{number}.jsonl"),
        "title": "",
        "first_prompt": f"prompt {number}",
        "cwd": "/home/me/project",
        "modified": NOW - 3600 * number,
        "size": 10,
        "message_count": number,
    }
    return SessionInfo(**{**facts, **changes})  # type: ignore[arg-type]


def test_sessions_show_title_or_prompt_age_messages_and_where_they_were() -> None:
    rows = session_rows([session(0, title="release"), session(2, cwd="/srv/other/", message_count=None)], NOW)
    assert [(row.label, row.detail) for row in rows] == [
        ("release", " just now     0 msgs  project"),
        ("prompt 2", "  2 h ago     – msgs  other"),
    ]
    assert session_rows([session(1)], NOW)[0].detail == "  1 h ago     1 msgs"


def test_sessions_are_loaded_in_a_thread_with_a_message() -> None:
    go = threading.Event()
    threads: list[str] = []

    def load() -> list[SessionInfo]:
        threads.append(threading.current_thread().name)
        go.wait(5)
        return [session(number) for number in range(3)]

    async def steps(pilot: Pilot[None], host: Host) -> None:
        assert "Loading…" in host.shown
        go.set()
        await host.workers.wait_for_complete()
        await pilot.pause()
        assert " ❯ prompt 0" in host.shown
        await press(pilot, "down", "enter")

    host = play(SessionPicker(load, lambda _session: [], now=lambda: NOW), steps)
    assert host.answer == session(1)
    assert threads != [threading.current_thread().name]


def test_escape_while_sessions_load_closes_at_once() -> None:
    go = threading.Event()

    def load() -> list[SessionInfo]:
        go.wait(5)
        return []

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "escape")
        assert host.answer is None
        go.set()

    play(SessionPicker(load, lambda _session: [], now=lambda: NOW), steps)


async def loaded(pilot: Pilot[None], host: Host) -> None:
    await host.workers.wait_for_complete()
    await pilot.pause()


def test_missing_and_unreadable_sessions_are_reported() -> None:
    async def none(pilot: Pilot[None], host: Host) -> None:
        await loaded(pilot, host)
        assert "There are no sessions here yet." in host.shown

    def fail() -> list[SessionInfo]:
        raise PermissionError(13, "Permission denied")

    async def denied(pilot: Pilot[None], host: Host) -> None:
        await loaded(pilot, host)
        assert "The sessions could not be read: Permission denied." in host.shown

    play(SessionPicker(list, lambda _session: [], now=lambda: NOW), none)
    play(SessionPicker(fail, lambda _session: [], now=lambda: NOW), denied)


def test_a_wide_screen_shows_the_last_lines_of_a_session_beside_it() -> None:
    def last_lines(info: SessionInfo) -> list[str]:
        if info.session_id == "id-1":
            raise FileNotFoundError(2, "No such file or directory")
        return ["❯ the prompt", *["old line"] * 60, f"the end of {info.session_id} \x1b]0;x\x07"]

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await loaded(pilot, host)
        await loaded(pilot, host)
        assert "│ the end of id-0" in host.shown
        assert re.search(r"│ ❯ the prompt\n.*│ …\n.*│ old line\n", host.shown)
        await press(pilot, "down")
        await loaded(pilot, host)
        assert "│ It could not be read: No such file or directory." in host.shown

    play(SessionPicker(lambda: [session(0), session(1)], last_lines, now=lambda: NOW), steps, (120, 30))


@pytest.mark.parametrize(
    "picker",
    [
        lambda: ModelPicker(Catalog(), "opus", 9),
        lambda: EffortPicker(Catalog().get("opus")),
        lambda: ModePicker(PermissionMode.DEFAULT),
        lambda: ThemePicker(THEMES, "dark", lambda _name: None),
        lambda: SessionPicker(lambda: [session(1)], lambda _session: ["x"], now=lambda: NOW),
    ],
)
def test_every_picker_works_at_every_size(picker: Callable[[], Picker[Any]]) -> None:
    assert play(picker(), through_all_sizes).answer is None
