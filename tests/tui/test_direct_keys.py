"""Characters that skip the message queues are never typed in another order, nor where something else is meant."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from textual import events
from textual.message import Message
from textual.pilot import Pilot

from agentcli.tui.app import AgentApp
from agentcli.tui.keys import interrupting_keys
from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.terminal.pacing import MOST_AT_ONCE, KeyOrder
from agentcli.tui.textual_internals import key_of
from tests.support.examples import points
from tests.support.scripts import fault, reply, say
from tests.tui.test_app import Desk, rows, sends, until

PASTE = "paste:"
TYPED = "ab ./!-日é\u0301👍🏽"
"""Without `@`: its menu opens when files were found, and then has the arrow keys."""
OTHER = (
    *("backspace", "delete", "left", "right", "home", "end", "up", "down", "shift+left", "shift+home", "f7"),
    *("ctrl+w", "ctrl+u", "ctrl+k", "ctrl+y", "ctrl+underscore", "alt+underscore", "shift+enter"),
)


def some_script(number: int) -> tuple[list[str], list[int]]:
    """Some keys and pastes, and the sizes of the chunks in which they arrive."""
    chance = random.Random(number)
    kinds: tuple[Callable[[], str], ...] = (
        lambda: chance.choice(TYPED),
        lambda: chance.choice(TYPED),
        lambda: chance.choice(OTHER),
        lambda: PASTE + "".join(chance.choices("xy\n日", k=chance.randint(1, 4))),
    )
    script = [chance.choice(kinds)() for _step in range(chance.randint(1, 16))]
    return script, [chance.randint(1, 6) for _chunk in range(chance.randint(0, 6))]


def message_of(step: str) -> Message:
    if step.startswith(PASTE):
        return events.Paste(step.removeprefix(PASTE))
    return events.Key(key_of(step), step) if len(step) == 1 else events.Key(step, None)


async def settled(order: KeyOrder) -> None:
    done = asyncio.Event()
    order.settle(done.set)
    await asyncio.wait_for(done.wait(), 10)


def in_app(folder: Path, act: Callable[[AgentApp, KeyOrder, Pilot[int]], Awaitable[None]]) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await act(app, KeyOrder(app, asyncio.get_running_loop()), pilot)

    Desk(folder).play(script)


def editor_of(app: AgentApp) -> PromptEditor:
    return app.chat.query_one(PromptEditor)


def begin_again(editor: PromptEditor) -> None:
    editor.reset()
    editor.put_in("cut")
    editor.action_kill_line_start()
    editor.reset()


async def typed_slowly(app: AgentApp, order: KeyOrder, script: Sequence[str]) -> tuple[str, object]:
    """Through the queues, each key after the one before has been all the way."""
    begin_again(editor_of(app))
    for step in script:
        app.post_message(message_of(step))
        await settled(order)
    return editor_of(app).text, editor_of(app).selection


async def typed_in_chunks(app: AgentApp, order: KeyOrder, script: Sequence[str], sizes: Sequence[int]) -> object:
    begin_again(editor_of(app))
    left = list(script)
    for size in (*sizes, len(left)):
        chunk, left = left[:size], left[size:]
        order.post(*map(message_of, chunk))
        for _turn in range(size % 3):
            await asyncio.sleep(0)
    await settled(order)
    return editor_of(app).text, editor_of(app).selection


def test_any_mix_of_keys_in_chunks_gives_the_text_and_the_cursor_of_slow_typing(tmp_path: Path) -> None:
    async def act(app: AgentApp, order: KeyOrder, _pilot: Pilot[int]) -> None:
        for number in points(100_000):
            script, sizes = some_script(number)
            expected = await typed_slowly(app, order, script)
            assert await typed_in_chunks(app, order, script, sizes) == expected, number

    in_app(tmp_path, act)


def test_a_character_that_nothing_is_ahead_of_is_there_at_once_and_painted(tmp_path: Path) -> None:
    async def act(app: AgentApp, order: KeyOrder, pilot: Pilot[int]) -> None:
        order.post(*map(message_of, "a日b"))
        assert editor_of(app).text == "a日b"
        await pilot.pause()
        assert any("❯ a日b" in row for row in rows(app))

    in_app(tmp_path, act)


@pytest.mark.parametrize("ahead", [PASTE + "x", "home", "ctrl+w"])
def test_nothing_is_typed_before_what_is_still_in_a_queue(tmp_path: Path, ahead: str) -> None:
    async def act(app: AgentApp, order: KeyOrder, _pilot: Pilot[int]) -> None:
        order.post(message_of("a"), message_of(ahead), message_of("b"))
        assert editor_of(app).text == "a"
        await settled(order)
        assert "b" in editor_of(app).text

    in_app(tmp_path, act)


def test_a_question_mark_in_an_empty_prompt_opens_help_and_is_not_typed(tmp_path: Path) -> None:
    async def act(app: AgentApp, order: KeyOrder, pilot: Pilot[int]) -> None:
        order.post(message_of("?"))
        await until(pilot, lambda: app.screen is not app.chat)
        order.post(message_of("x"))
        await settled(order)
        assert app.chat.prompt.is_empty

    in_app(tmp_path, act)


def test_letters_for_a_dialog_do_not_get_into_the_prompt(tmp_path: Path) -> None:
    async def act(app: AgentApp, order: KeyOrder, pilot: Pilot[int]) -> None:
        app.chat.action_palette()
        await until(pilot, lambda: app.screen is not app.chat)
        order.post(*map(message_of, "abc"))
        await settled(order)
        assert app.chat.prompt.is_empty

    in_app(tmp_path, act)


def test_more_keys_than_anybody_types_take_the_queues_and_stay_in_order(tmp_path: Path) -> None:
    async def act(app: AgentApp, order: KeyOrder, _pilot: Pilot[int]) -> None:
        text = "abcdefghij" * 10
        order.post(*map(message_of, text))
        assert editor_of(app).text == text[:MOST_AT_ONCE]
        await settled(order)
        assert editor_of(app).text == text

    in_app(tmp_path, act)


def test_the_menu_follows_what_was_typed_directly(tmp_path: Path) -> None:
    async def act(app: AgentApp, order: KeyOrder, pilot: Pilot[int]) -> None:
        order.post(*map(message_of, "/hel"), message_of("tab"))
        await settled(order)
        await pilot.pause()
        assert editor_of(app).text.startswith("/help")

    in_app(tmp_path, act)


def test_escape_stops_the_work_in_the_turn_in_which_it_arrives(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        order = KeyOrder(app, asyncio.get_running_loop())
        await sends(pilot, app, "go")
        await until(pilot, lambda: "a beginning" in "\n".join(rows(app)))
        order.post(message_of("x"), events.Key("escape", "\x1b"))
        assert app.chat.session.stopping
        assert editor_of(app).text == "x"
        await until(pilot, lambda: not app.chat.session.busy)

    Desk(tmp_path, reply(say("a beginning"), fault("stall"))).play(script)


def test_escape_closes_an_open_menu_before_it_stops_the_work(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        order = KeyOrder(app, asyncio.get_running_loop())
        await sends(pilot, app, "go")
        await until(pilot, lambda: "a beginning" in "\n".join(rows(app)))
        order.post(*map(message_of, "/he"))
        order.post(events.Key("escape", "\x1b"))
        await settled(order)
        assert not app.chat.session.stopping
        order.post(events.Key("escape", "\x1b"))
        assert app.chat.session.stopping
        await until(pilot, lambda: not app.chat.session.busy)

    Desk(tmp_path, reply(say("a beginning"), fault("stall"))).play(script)


def test_a_keymap_moves_the_key_that_interrupts() -> None:
    assert interrupting_keys({}) == {"escape"}
    assert interrupting_keys({"screen.interrupt": "f4, ctrl+x"}) == {"f4", "ctrl+x"}
