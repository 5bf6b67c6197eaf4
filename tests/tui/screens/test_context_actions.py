"""Actions on the context page: pin, drop after showing the price, restore, read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from agentcli.context.report import ContextItem
from agentcli.context.user_edits import PINNED, SYSTEM, ContextEffect
from agentcli.tui.app import AgentApp
from agentcli.tui.screens.context import ContextPage
from tests.support.scripts import reply
from tests.tui import test_app
from tests.tui.screen_host import Host, look, play, press

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


DROPPED = frozenset({"r:0", "c:0"})


@pytest.mark.parametrize(
    ("pinned", "left_out", "steps"),
    [
        ((), (), [("p |", " ❯ R◆ Read parser.py", "p unpin", "pinned r:0"), ("p |", "¬◆", "pinned ")]),
        (
            (),
            (),
            [
                ("d", f"Drop it with its call? That {SAVES}.", "Enter drop it", "done "),
                ("enter |", f"Dropped: {SAVES}.", "Dropped from the context", "dropped, 6k tokens", "done drop r:0"),
                ("", "u restore", "3k of 20k tokens"),
            ],
        ),
        ((), (), [("d escape", "¬Drop it"), ("d up", "¬Drop it"), ("home d down enter |", "All of system", "done ")]),
        (("r:0",), (), [("d", "It is pinned. Unpin it first."), ("down d", SYSTEM)]),
        ((), DROPPED, [("end u |", "Restored: adds 6,060 tokens a turn", "¬Left out", "done restore r:0")]),
        (
            (),
            DROPPED,
            [("enter |", "All of system", "¬\x1b"), ("escape | end enter |", "All of r:0, also this.", "¬\x1b")],
        ),
    ],
    ids=["pin", "drop", "keep", "cannot be dropped", "restore", "read"],
)
def test_keys_pin_drop_restore_and_read_items(
    pinned: tuple[str, ...], left_out: tuple[str, ...], steps: list[tuple[str, ...]]
) -> None:
    context = Context()
    context.pinned |= {*pinned}
    context.left_out |= {*left_out}

    async def script(pilot: Pilot[None], host: Host) -> None:
        for keys, *expected in steps:
            await press(pilot, keys)
            assert host.answers == []
            state = f"pinned {' '.join(context.pinned)}", f"done {' '.join(context.done)}"
            for one in expected:
                is_there = one in (*state, host.shown) or one.removeprefix("¬") in host.shown
                assert is_there is not one.startswith("¬"), f"{keys}: {one}\n{host.shown}"

    play(page(context), script, (120, 30))


def test_on_a_small_screen_the_question_and_its_price_are_visible_before_enter() -> None:
    seen = look(page(Context()), "d", size=(40, 10))
    assert f"Drop it with its call? That {SAVES}." in " ".join(seen.split())
    assert seen.splitlines()[-1].endswith("Enter drop it")
    read_only = look(ContextPage(ITEMS, 20_000, 16_000), "p", "d", "u", "enter")
    assert "drop" not in read_only
    assert "pin" not in read_only


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
