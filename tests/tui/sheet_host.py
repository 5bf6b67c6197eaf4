"""A tiny app that shows one sheet, for the tests of pickers and pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from textual import events
from textual._context import visible_screen_stack
from textual.app import App, ComposeResult
from textual.keys import REPLACED_KEYS, _character_to_key
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Static

from tests.support.shared_app import HostScreen, SharedApp

UNANSWERED = object()
PAUSE = "<pause>"
"""Among keys: until everything has settled, for another screen to open."""


class Host(App[None]):
    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { overflow: hidden; } Static { text-wrap: nowrap; }"

    def __init__(self) -> None:
        super().__init__()
        self.sheet: ModalScreen[Any] = ModalScreen()
        self.result: Any = UNANSWERED

    def get_default_screen(self) -> HostScreen:
        return HostScreen(id="_default")

    def compose(self) -> ComposeResult:
        yield Static("\n".join(f"above {number}" for number in range(40)), markup=False)

    def open(self, sheet: ModalScreen[Any]) -> None:
        self.sheet = sheet
        self.result = UNANSWERED
        self.push_screen(sheet, self._answered)

    def _answered(self, result: Any) -> None:
        self.result = result

    def lines(self) -> list[str]:
        """The rows of the screen."""
        return [strip.text.rstrip() for strip in self.strips()]

    def strips(self) -> list[Strip]:
        visible_screen_stack.set(self._background_screens)  # Textual does so before each frame: what is behind a sheet
        return self.screen._compositor.render_strips()

    @property
    def shown(self) -> str:
        """The sheet alone, from its rule on."""
        lines = self.lines()
        start = next((number for number, line in enumerate(lines) if line.startswith("───")), 0)
        return "\n".join(lines[start:])


async def press(host: Host, pilot: Pilot[None], *keys: str) -> None:
    """All at once, as a fast typist or a slow line would: nothing may come out of order."""
    for name in keys:
        if name == PAUSE:
            await _settle(host, pilot)
            continue
        key = REPLACED_KEYS.get(name, name) if len(name) > 1 else _character_to_key(name)
        character = name if len(name) == 1 else _printed(key)
        assert host._driver is not None
        host._driver.send_message(events.Key(key, character))
    await pilot.pause()


async def _settle(host: Host, pilot: Pilot[None]) -> None:
    """Until what the sheet does beside its keys has ended too, apart from what follows something for good."""
    await pilot.pause()
    while working := [worker for worker in host.workers if not worker.is_finished and worker.group != "follow"]:
        await host.workers.wait_for_complete(working)
        await pilot.pause()


def _printed(key: str) -> str | None:
    return {"space": " ", "slash": "/"}.get(key)


Play = Callable[[Host, Pilot[None]], Awaitable[None]]
_HOST = SharedApp(Host)


def play(sheet: ModalScreen[Any], steps: Play, size: tuple[int, int] = (80, 24)) -> Host:
    """Open a sheet and do something with it."""

    async def run(pilot: Pilot[None], host: Host) -> None:
        host.open(sheet)
        await pilot.pause()
        await steps(host, pilot)

    return _HOST.play(run, size)


def look(sheet: ModalScreen[Any], *keys: str, size: tuple[int, int] = (80, 24)) -> str:
    """The sheet after these keys, as text."""
    seen: list[str] = []

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        if keys:
            await press(host, pilot, *keys)
        seen.append(host.shown)

    play(sheet, steps, size)
    return seen[0]


def answer(sheet: ModalScreen[Any], *keys: str, size: tuple[int, int] = (80, 24)) -> Any:
    """What the sheet closes with after these keys; `UNANSWERED` if it is still open."""

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, *keys)

    return play(sheet, steps, size).result


def after_each(
    sheet: ModalScreen[Any], *groups: tuple[str, ...], size: tuple[int, int] = (80, 24)
) -> list[tuple[Any, str]]:
    """What the sheet has closed with, or `UNANSWERED`, and what it shows, after each group of keys."""
    seen: list[tuple[Any, str]] = []

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        for keys in groups:
            await press(host, pilot, *keys)
            seen.append((host.result, host.shown))

    play(sheet, steps, size)
    return seen


async def through_all_sizes(host: Host, pilot: Pilot[None]) -> None:
    """From large to none and back; every row is as wide as the screen, the keys to leave are always there."""
    for width, height in ((120, 40), (40, 10), (20, 5), (1, 1), (80, 24)):
        if host.size != (width, height):
            await pilot.resize_terminal(width, height)
        await press(host, pilot, "down", "up")
        strips = host.strips()
        assert {strip.cell_length for strip in strips} == {width}
        assert len(strips) == height
        assert width < 10 or strips[-1].text.rstrip().endswith(("Esc back", "Esc close"))
    await press(host, pilot, "escape")
