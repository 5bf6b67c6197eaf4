"""Actions on the context page: pin, drop after showing the price, restore, read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from agentcli.context.report import ContextItem
from agentcli.context.user_edits import PINNED, SYSTEM, ContextEffect
from agentcli.tui.app import AgentApp
from agentcli.tui.screens.context import ContextPage
from tests.support.scripts import reply
from tests.tui import test_app
from tests.tui.screen_host import OPEN, Host, after_each, look, play, press

ITEMS = [
    ContextItem(id="system", category="system", label="System prompt", tokens=3000, cached=True),
    ContextItem(id="p:0", category="prompts", label="find the bug", tokens=20, age=1, cached=True),
    ContextItem(id="c:0", category="calls", label="Read parser.py", tokens=60, age=1, cached=True),
    ContextItem(id="r:0", category="results", label="Read parser.py", tokens=6000, age=0, cached=False),
]
SAVES = "saves 6,060 tokens a turn, costs $0.02 once because the cache after it breaks"


class Context:
    """An engine's context, as far as the page knows it."""

    def __init__(self) -> None:
        self.pinned: set[str] = set()
        self.left_out: set[str] = set()
        self.done: list[str] = []

    @property
    def pins(self) -> frozenset[str]:
        return frozenset(self.pinned)

    def items(self) -> list[ContextItem]:
        return [replace(one, pinned=one.id in self.pinned) for one in ITEMS if one.id not in self.left_out]

    def dropped_items(self) -> list[ContextItem]:
        return [one for one in ITEMS if one.id in self.left_out]

    def item_text(self, item: str) -> str:
        return f"All of {item}, also \x1b[31mthis\x1b[0m."

    def pin(self, item: str) -> str | None:
        self.pinned.add(item)
        return None

    def unpin(self, item: str) -> str | None:
        self.pinned.discard(item)
        return None

    def price_of_drop(self, item: str) -> ContextEffect | str:
        if item == "system":
            return SYSTEM
        return PINNED if item in self.pinned else ContextEffect(6060, 4900, 0.017, SAVES, "with its call")

    def drop(self, item: str) -> ContextEffect | str:
        self.left_out |= {"r:0", "c:0"}
        self.done.append(f"drop {item}")
        return ContextEffect(6060, 4900, 0.017, SAVES, "with its call")

    def restore(self, item: str) -> ContextEffect | str:
        self.left_out.clear()
        self.done.append(f"restore {item}")
        return ContextEffect(6060, 0, 0.0, "adds 6,060 tokens a turn, costs nothing because nothing after it is cached")


def page(context: Context) -> ContextPage:
    return ContextPage(context.items(), 20_000, 16_000, dropped=context.dropped_items(), control=context)


def test_p_pins_and_unpins_and_a_sign_shows_it() -> None:
    context = Context()

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "p", "|")
        assert context.pinned == {"r:0"}
        assert " ❯ R◆ Read parser.py" in host.shown
        assert "p unpin" in host.shown
        await press(pilot, "p", "|")
        assert context.pinned == set()
        assert "◆" not in host.shown

    play(page(context), steps)


def test_d_shows_the_price_in_one_line_and_enter_confirms() -> None:
    context = Context()

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "d")
        assert f"Drop it with its call? That {SAVES}." in host.shown
        assert host.shown.splitlines()[-1].endswith("Enter drop it")
        assert context.done == []
        await press(pilot, "enter", "|")
        assert context.done == ["drop r:0"]
        seen = host.shown
        assert f"Dropped: {SAVES}." in seen
        assert "Dropped from the context" in seen
        assert "dropped, 6k tokens" in seen
        assert "u restore" in seen
        assert "3k of 20k tokens" in seen

    play(page(context), steps, (120, 30))


def test_on_a_small_screen_the_question_and_its_price_are_visible_before_enter() -> None:
    seen = look(page(Context()), "d", size=(40, 10))
    assert f"Drop it with its call? That {SAVES}." in " ".join(seen.split())
    assert seen.splitlines()[-1].endswith("Enter drop it")


def test_esc_or_moving_on_keeps_the_item_and_the_page() -> None:
    context = Context()
    kept, moved_up, moved_on, closed = after_each(
        page(context),
        ("d", "escape"),
        ("d", "up"),
        ("home", "d", "down", "enter", "|"),
        ("escape", "|", "d", "escape", "escape"),
    )
    assert kept[0] == OPEN
    assert moved_up[0] == OPEN
    assert "All of system" in moved_on[1]
    assert closed[0] is None
    assert context.done == []


def test_an_item_that_cannot_be_dropped_shows_the_reason_below_the_list() -> None:
    context = Context()
    context.pinned.add("r:0")
    pinned, system = after_each(page(context), ("d",), ("down", "d"))
    assert "It is pinned. Unpin it first." in pinned[1]
    assert SYSTEM in system[1]


def test_u_restores_a_dropped_item() -> None:
    context = Context()
    context.left_out |= {"r:0", "c:0"}
    seen = look(page(context), "end", "u", "|", size=(120, 30))
    assert context.done == ["restore r:0"]
    assert "Restored: adds 6,060 tokens a turn" in seen
    assert "Left out" not in seen


def test_enter_shows_the_escaped_text_of_an_item_even_of_a_dropped_one() -> None:
    context = Context()
    context.left_out |= {"r:0", "c:0"}
    first, last = after_each(page(context), ("enter", "|"), ("escape", "|", "end", "enter", "|"))
    assert "All of system" in first[1]
    assert "All of r:0" in last[1]
    assert "\x1b" not in first[1] + last[1]


def test_without_a_handler_the_page_is_read_only() -> None:
    seen = look(ContextPage(ITEMS, 20_000, 16_000), "p", "d", "u", "enter")
    assert "drop" not in seen
    assert "pin" not in seen


def test_in_the_app_dropping_an_item_updates_the_status_line(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        for prompt in ("tell", "and now?"):
            await test_app.sends(pilot, app, prompt)
            await test_app.idle(pilot, app)
        engine = app.chat.session.engine
        assert engine is not None
        before = engine.context.outlook().tokens
        await test_app.sends(pilot, app, "/context")
        await test_app.until(pilot, lambda: "Part of a long story" in test_app.shown(app))
        await pilot.press("d")
        await test_app.until(pilot, lambda: "Drop it? That saves" in test_app.shown(app))
        await pilot.press("enter")
        await test_app.until(pilot, lambda: "Dropped from the context" in test_app.shown(app))
        [dropped] = engine.context.dropped_items()
        assert dropped.category == "answers"
        assert engine.context.outlook().tokens < before
        await pilot.press("escape")
        await test_app.until(pilot, lambda: not isinstance(app.screen, ContextPage))

    used = {"input_tokens": 9_000, "output_tokens": 3_000}
    story = "Part of a long story. " * 4_000
    test_app.Desk(tmp_path, reply(story, usage=used), "Two.").play(script, (100, 30))
