"""The pickers for models, effort, modes, and themes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from agentcli.context.report import ChangePrice
from agentcli.core.permission import PermissionMode
from agentcli.interactive.drafts import Draft
from agentcli.providers.catalog import Catalog
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.pickers import (
    EffortPicker,
    HistoryPicker,
    ModelPicker,
    ModePicker,
    ThemePicker,
    describe_change,
)
from agentcli.tui.theme.palette import Palette
from tests.tui.screen_host import OPEN, Host, answer, check, play, press, settled, through_all_sizes

THEMES = [("dark", "calm", True), ("paper", "bright", False), ("nord", "arctic", True)]
NOW = 1_800_000_000.0
DEAR = ChangePrice(123_456, 0.309)


def models(tokens: int = 0) -> ModelPicker:
    return ModelPicker(Catalog(), "opus", tokens, lambda _model: DEAR)


def efforts(model: str = "opus", current: str = "auto", price: ChangePrice = DEAR) -> EffortPicker:
    return EffortPicker(Catalog().get(model), current, lambda _level: price)


def themes(current: str = "dark") -> ThemePicker:
    return ThemePicker(THEMES, current, lambda _name: None)


@pytest.mark.parametrize(
    ("make", "step"),
    [
        (
            models,
            (
                "",
                " ❯ ● claude-opus-5-5      1M  $4.00 in / $20.00 out   effort low–max    opus\n",
                "     claude-haiku-4-5   200k  $1.00 in / $5.00 out    no effort levels\n",
                "Price unknown\n     claude-mythos-5-2    1M                          effort low–max\n",
                "Active now.",
            ),
        ),
        (models, ("down", "A change invalidates the prompt cache and re-bills 123k tokens, about $0.309, once.")),
        (
            lambda: models(300_000),
            ("=haiku-4-5", "! Its context window is 200k tokens and the conversation has 300k: compact it first."),
        ),
        (models, ("=my-llama", "its context window and price are unknown")),
        (
            lambda: efforts("claude-opus-4-6", "high"),
            (
                "down",
                (
                    " ⌕ type to search\n"
                    "     auto    the model's own default: high\n"
                    "     low     short answers, quick and cheap\n"
                    "     medium  a balance, for everyday work\n"
                    "   ● high    thorough, for most hard work\n"
                    " ❯   xhigh   claude-opus-4-6 supports only low, medium, high, max\n"
                    "     max     maximum effort, regardless of cost\n"
                    " A change invalidates the prompt cache and re-bills 123k tokens, about $0.309,\n"
                    " once.\n"
                ),
            ),
        ),
        (
            lambda: efforts("claude-haiku-4-5"),
            ("down enter", "claude-haiku-4-5 does not support effort levels", OPEN),
        ),
        (lambda: efforts(price=ChangePrice(5000, None)), ("down", "the price is unknown", "¬$")),
        (
            lambda: ModePicker(PermissionMode.PLAN),
            (
                "",
                " ❯ ● plan mode             changes nothing until you approve a plan\n",
                "     ! bypass permissions  dangerous: allows almost everything\n",
                "In settings: plan. ",
            ),
        ),
        (lambda: ModePicker(PermissionMode.PLAN), ("end", "! Commands and edits run without review")),
        (lambda: themes("auto"), ("", " ❯ ● auto")),
    ],
)
def test_a_picker_shows(make: Callable[[], Picker[Any]], step: tuple[Any, ...]) -> None:
    check(make(), step, size=(80, 40))


@pytest.mark.parametrize(
    ("make", "keys", "chosen"),
    [
        (models, "=sonnet-5-5 enter", "claude-sonnet-5-5"),
        (models, "enter", "claude-opus-5-5"),
        (models, "down escape", None),
        (models, "=my-llama enter", "my-llama"),
        (efforts, "enter", "auto"),
        (efforts, "down enter", "low"),
        (lambda: efforts(current="max"), "enter", "max"),
        (lambda: efforts(current="max"), "escape", None),
        (lambda: ModePicker(PermissionMode.PLAN), "=accept enter", PermissionMode.ACCEPT_EDITS),
        (themes, "=auto enter", "auto"),
    ],
)
def test_a_picker_returns(make: Callable[[], Picker[Any]], keys: str, chosen: object) -> None:
    assert answer(make(), keys) == chosen


def test_the_price_of_a_change_is_described() -> None:
    assert describe_change(ChangePrice(5000, None)).endswith("re-bills 5k tokens once; the price is unknown.")
    assert describe_change(ChangePrice(0, 0.0)) == "Nothing is cached, so a change costs nothing."
    assert describe_change(ChangePrice(0, 0.0, cold=True)) == "The cache is cold: nothing is re-billed."


@pytest.mark.parametrize(
    ("keys", "chosen", "tried"),
    [
        ("down down enter", "paper", ["nord", "paper"]),
        ("down escape", None, ["nord", "dark"]),
        ("=nord | =zz", OPEN, ["nord", "dark"]),
    ],
    ids=["previewed", "escape restores", "no match restores"],
)
def test_themes_are_tried_while_the_cursor_moves(keys: str, chosen: object, tried: list[str]) -> None:
    seen: list[str] = []
    assert answer(ThemePicker(THEMES, "dark", seen.append), keys) == chosen
    assert [seen[0], seen[-1]] == tried


def test_the_picker_itself_is_painted_in_the_new_theme() -> None:
    light = Palette(name="paper", dark=False)

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "end")
        assert host.sheet.palette is light
        assert host.sheet.listing.palette is light

    play(ThemePicker(THEMES, "dark", lambda name: light if name == "paper" else Palette()), steps)


# ------------------------------------------------------------------------------------------------------------ sessions


@pytest.mark.parametrize(
    "make",
    [models, efforts, lambda: ModePicker(PermissionMode.DEFAULT), themes],
)
def test_every_picker_works_at_every_size(make: Callable[[], Picker[Any]]) -> None:
    assert play(make(), through_all_sizes).answer is None


# ---------------------------------------------------------------------------------------------------------- history


def found_prompts(query: str, *texts: str) -> list[str]:
    picker = HistoryPicker(lambda: [Draft(text) for text in texts])
    return [each.entry.row.value.text for each in picker.search(picker._make_entries(), query)]


@pytest.mark.parametrize("more", [(), [f"unrelated {number}" for number in range(100)]], ids=["few", "many"])
def test_prompts_that_contain_the_query_stand_first_and_the_newest_above(more: list[str]) -> None:
    newest, best, loose, multiline = "please run the fix tests", "fix tests", "fix-all-tests", "now fix\ntests"
    assert found_prompts("fix tests", loose, newest, *more, best, multiline) == [newest, best, multiline, loose]
    assert found_prompts("Fix", "fix", "Fix", *more) == ["Fix"]
    assert found_prompts(" ", loose, newest) == [loose, newest]


def test_an_earlier_prompt_is_found_by_words_far_behind_its_beginning() -> None:
    far, too_far = "x" * 1_900 + " needle", "x" * 2_100 + " needle"
    assert found_prompts("needle", far, too_far) == [far]


def test_letters_typed_before_the_history_is_read_filter_it_and_enter_waits() -> None:
    may_read = threading.Event()

    def load() -> list[Draft]:
        may_read.wait(60)
        return [Draft("other"), Draft("needle one"), Draft("a needle")]

    async def script(pilot: Pilot[None], host: Host) -> None:
        for key in "nee":
            host.sheet.press(key, key)
        host.sheet.press("enter", None)
        assert "Reading…" in host.shown
        assert not host.answers
        may_read.set()
        await settled(pilot)
        assert "2 of 3" in host.shown
        await press(pilot, "down enter")

    assert play(HistoryPicker(load), script).answers == [Draft("a needle")]
