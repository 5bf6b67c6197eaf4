"""Text typed before a question appears never answers it; in a real terminal, by line and by key."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from unittest.mock import Mock

import pytest
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.history import DummyHistory
from prompt_toolkit.shortcuts import PromptSession

from agentcli.plain.line_reader import LineReader, QuitRequested
from agentcli.plain.prompt_reader import PromptReader
from agentcli.plain.terminal import Keyboard

pytestmark = pytest.mark.anyio


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Where keys are typed, and where they are read."""
    typing, reading = pty.openpty()
    yield typing, reading
    os.close(typing)
    os.close(reading)


async def test_lines_that_wait_in_the_system_answer_no_question(terminal: tuple[int, int]) -> None:
    typing, reading = terminal
    shown = ""

    def show(text: str) -> None:
        nonlocal shown
        shown += text

    reader = LineReader(show, lambda: None, lambda: "", descriptor=reading)
    os.write(typing, b"a paste\ny\ny\n")
    asking = asyncio.get_running_loop().create_task(reader.ask("Run it? "))
    while "Run it? " not in shown:
        await asyncio.sleep(0.01)
    os.write(typing, b"n\n")
    assert await asking == "n"
    assert [await reader.prompt() for _line in range(3)] == ["a paste", "y", "y"]
    reader.close()


async def test_a_terminal_that_goes_away_before_a_question_ends_it() -> None:
    source, target = os.pipe()
    os.close(target)
    reader = LineReader(lambda _text: None, lambda: None, lambda: "", descriptor=source)
    with pytest.raises(QuitRequested):
        await reader.ask("Run it? ")
    os.close(source)


def reader_of(file: IO[str], monkeypatch: pytest.MonkeyPatch) -> PromptReader:
    monkeypatch.setattr("sys.stdin", file)
    nothing = (lambda: "", lambda: None, lambda _text: None)
    return PromptReader(DummyHistory(), DummyCompleter(), *nothing, environ={}, cwd=Path("/"))


async def test_any_number_of_keys_before_a_question_is_set_aside(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    typing, reading = terminal
    with os.fdopen(os.dup(reading)) as file, Keyboard(reading).quiet():
        reader = reader_of(file, monkeypatch)
        os.write(typing, b"x" * 2_000 + b"\ry\r")
        reader._keep_typed(forget=False)
        assert reader.take_typed() == "x" * 2_000 + "\ny\n"
        os.write(typing, b"sk-ant-unseen")
        reader._keep_typed(forget=True)
        assert reader.take_typed() == ""


async def test_keys_typed_while_the_first_question_is_made_do_not_answer_it(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    typing, reading = terminal

    class SlowlyMade(PromptSession[str | None]):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            os.write(typing, b"y\r")

    with os.fdopen(os.dup(reading)) as file, Keyboard(reading).quiet():
        reader = reader_of(file, monkeypatch)
        monkeypatch.setattr("agentcli.plain.prompt_reader.PromptSession", SlowlyMade)
        asking = asyncio.get_running_loop().create_task(reader.ask("Run it? "))
        async with asyncio.timeout(30):
            while not (made := reader._question) or not made.app.is_running:
                await asyncio.sleep(0)
        os.write(typing, b"n\r")
        assert await asking == "n"
        assert reader.take_typed() == "y\n"


async def test_an_esc_does_not_take_the_next_character_with_it(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    typing, reading = terminal
    monkeypatch.setattr("agentcli.plain.prompt_reader._SEQUENCE_SECONDS", 1_000)
    with os.fdopen(os.dup(reading)) as file:
        reader = reader_of(file, monkeypatch)
        asking = asyncio.get_running_loop().create_task(reader.prompt())
        reader._session.app.timeoutlen = 1_000
        keys = reader._session.app.key_processor
        os.write(typing, b"a\x1b")
        async with asyncio.timeout(30):
            while not keys.key_buffer:
                await asyncio.sleep(0)
            while keys.key_buffer:
                await asyncio.sleep(0)
        os.write(typing, b"/b\r")
        assert await asking == "a/b"


async def test_an_esc_at_the_very_end_of_the_work_does_not_take_the_next_character_with_it(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    typing, reading = terminal
    with os.fdopen(os.dup(reading)) as file, Keyboard(reading).quiet():
        reader = reader_of(file, monkeypatch)
        with reader.working(Mock()):
            os.write(typing, b"\x1b")
            while reader._flushing is None:
                await asyncio.sleep(0)
        os.write(typing, b"/b\r")
        assert await reader.prompt() == "/b"
