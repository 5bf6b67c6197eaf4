"""The dialog that connects a model: its text at every size, its keys and pastes, and that no key is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from textual import events
from textual.pilot import Pilot

from agentcli.assemble.login import EndpointAddress
from agentcli.interactive.login.welcome import Welcome
from agentcli.providers.listing import KeyCheck
from agentcli.providers.local_servers import LocalServer
from agentcli.tui.screens.sheet import EntryLine
from agentcli.tui.screens.welcome import WelcomeDialog
from tests.tui.screen_host import Host, calm, look, play, press, replies, settled, shown

KEY = "sk-ant-dialog-0123456789"
PUBLIC = EndpointAddress("https://api.anthropic.com", "default")
OLLAMA = LocalServer("Ollama", "http://127.0.0.1:11434", ("llama3.2", "qwen3"))
Doing = Callable[[Welcome], Awaitable[Welcome]]


async def obeys(welcome: Welcome) -> Welcome:
    """Every key is good and every server speaks."""
    match welcome.work:
        case "check key":
            return await obeys(welcome.checked(KeyCheck("accepted")))
        case "keep key":
            return welcome.ended("key", welcome.key)
        case "try server":
            return welcome.tried(True)
        case "use server":
            return welcome.ended("server", welcome.model)
    raise AssertionError(welcome.work)


def dialog(
    *servers: LocalServer, do: Doing = obeys, looking: asyncio.Event | None = None, welcome: Welcome | None = None
) -> WelcomeDialog:
    async def found() -> tuple[LocalServer, ...]:
        if looking is not None:
            await looking.wait()
        return servers

    start = welcome or Welcome(address=PUBLIC, public=PUBLIC)
    return calm(WelcomeDialog(start, found, do))


def test_it_reads_like_this() -> None:
    assert look(dialog(OLLAMA)).splitlines() == [
        f"─── Welcome: connect a model {'─' * 51}",
        " agentcli needs a model to work with.",
        "",
        " Model servers on this machine (127.0.0.1, ports 11434, 1234, 8080, 8000):",
        " Ollama. No other machine was contacted.",
        "",
        " ❯ 1 Paste an API key for api.anthropic.com",
        "     hidden while you paste, checked, stored for this address only",
        "   2 Use Ollama on this machine",
        "     llama3.2, qwen3",
        "   3 Take the tour: agentcli demo",
        "     offline, without a key, in a temporary project",
        "   4 Not now",
        "     commands work; the next prompt asks again",
        " ↑↓ or a number choose · Enter confirm · Esc not now",
    ]


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (40, 10)])
def test_every_choice_and_the_key_line_are_visible_at_every_size(size: tuple[int, int]) -> None:
    text = look(dialog(OLLAMA), size=size)
    for word in ("Paste an API key", "Use Ollama", "tour", "Not now"):
        assert word in text
    typed = look(dialog(OLLAMA), f"k | {' '.join('abcdef')}", size=size)
    assert "••••••" in typed
    assert "abc" not in typed


def test_each_choice_answers() -> None:
    outcomes = [getattr(answer, "outcome", answer) for answer in replies(lambda: dialog(OLLAMA), "d", "n", "escape")]
    assert outcomes == ["demo", "later", "later"]
    (server,) = replies(lambda: dialog(OLLAMA), "2 | down enter | enter")
    assert (server.outcome, server.model, server.always) == ("server", "qwen3", False)
    (always,) = replies(lambda: dialog(OLLAMA), "2 | enter | a")
    assert (always.model, always.always) == ("llama3.2", True)


@pytest.mark.parametrize("opens", ["k ", ""])
def test_a_key_that_comes_as_keystrokes_is_taken_in_order_and_chooses_nothing(opens: str) -> None:
    typed = " ".join(KEY.replace("-", "_"))
    (answer,) = replies(lambda: dialog(OLLAMA), f"{opens}{typed} enter")
    assert answer.report == KEY.replace("-", "_")


def test_a_key_pasted_at_the_question_is_masked_and_does_not_get_into_the_prompt() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        pilot.app.post_message(events.Paste(f"{KEY}\n"))
        await settled(pilot)
        assert host.screen.query_one(EntryLine).line.masked
        assert KEY not in "\n".join(shown(host))
        assert "•" * len(KEY) in "\n".join(shown(host))
        await press(pilot, "enter")
        assert host.prompt == ""

    assert play(dialog(), script).answer.report == KEY


def test_other_pasted_text_goes_to_the_prompt() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        pilot.app.post_message(events.Paste("def f():\n    return 1"))
        await settled(pilot)
        assert host.prompt == "def f():\n    return 1"
        assert not host.answers

    play(dialog(), script)


def test_a_wrong_key_is_reported_and_the_empty_line_stays_open() -> None:
    async def refuses(welcome: Welcome) -> Welcome:
        return welcome.checked(KeyCheck("refused", "It does not accept this key (401)."))

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "k a b c enter")
        text = "\n".join(shown(host))
        assert "! It does not accept this key (401)" in text
        entry = host.screen.query_one(EntryLine)
        assert (entry.line.text, entry.display, entry.line.masked) == ("", True, True)
        await press(pilot, "escape")
        assert "Paste an API key" in "\n".join(shown(host))
        await press(pilot, "escape")

    assert play(dialog(do=refuses), script).answer.outcome == "later"


def test_slow_work_is_shown_and_esc_stops_it() -> None:
    never, ended = asyncio.Event(), []

    async def waits(welcome: Welcome) -> Welcome:
        try:
            await never.wait()
        finally:
            ended.append(welcome.work)
        return welcome

    async def script(pilot: Pilot[None], host: Host) -> None:
        for key in ["k", "a", "b", "enter"]:
            pilot.app.post_message(events.Key(key, {"enter": "\r"}.get(key, key)))
        while "Contacting api.anthropic.com …" not in "\n".join(shown(host)):
            await pilot.pause(0)
        for key in ("enter", "down", "x"):
            pilot.app.post_message(events.Key(key, None))
        await pilot.pause(0)
        assert not ended, "Enter pressed once too often stops nothing"
        pilot.app.post_message(events.Key("escape", None))
        while "Paste an API key" not in "\n".join(shown(host)):
            await pilot.pause(0)
        while not ended:
            await pilot.pause(0)

    play(dialog(do=waits), script)


def test_servers_found_later_do_not_move_the_mark() -> None:
    looking = asyncio.Event()

    host = Host()

    async def run() -> None:
        async with host.run_test(size=(80, 24)) as pilot:
            host.ask(dialog(OLLAMA, looking=looking))
            while "searching" not in "\n".join(shown(host)):
                await pilot.pause(0)
            for key in ("down", "down"):
                pilot.app.post_message(events.Key(key, None))
            while " ❯ 3 Not now" not in shown(host):
                await pilot.pause(0)
            looking.set()
            await settled(pilot)
            assert " ❯ 4 Not now" in shown(host)

    asyncio.run(run())
