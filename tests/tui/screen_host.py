"""A tiny app to try one screen in: over a transcript and a focused box, with a stopped clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from textual import events
from textual._context import visible_screen_stack
from textual.app import App, ComposeResult
from textual.keys import REPLACED_KEYS, _character_to_key
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from agentcli.core.events import PermissionRequested
from agentcli.core.messages import Json
from agentcli.tui.screens.dialog import Dialog
from tests.support.shared_app import HostScreen, SharedApp

AnyDialog = TypeVar("AnyDialog", bound=Dialog[Any])


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def calm(dialog: AnyDialog) -> AnyDialog:
    """The user has not typed for a while, so nothing is held back; time stands still."""
    dialog.guarded = False
    return timed(dialog, Clock())


def timed(dialog: AnyDialog, clock: Callable[[], float]) -> AnyDialog:
    dialog.clock = clock
    return dialog


class Box(Widget, can_focus=True):
    """In place of the prompt: keeps what is typed into it."""

    DEFAULT_CSS = "Box { height: 5; }"

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self.text = ""

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.key == "enter":
            self.text += "\n"
        elif event.is_printable:
            self.text += event.character or ""

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.text += event.text

    def render(self) -> str:
        return ""


class Host(App[None]):
    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { overflow: hidden; } Static { text-wrap: nowrap; }"

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []

    def get_default_screen(self) -> HostScreen:
        return HostScreen(id="_default")

    def compose(self) -> ComposeResult:
        yield Static("\n".join(f"above {number}" for number in range(40)), markup=False)
        yield Box()

    def on_mount(self) -> None:
        self.query_one(Box).focus()

    def ask(self, screen: ModalScreen[Any]) -> None:
        """Open a screen over an empty box, with no answers yet."""
        self.box.text = ""
        self.answers = []
        self.sheet: Any = screen
        self.push_screen(screen, self.answers.append)

    def strips(self) -> list[Strip]:
        visible_screen_stack.set(self._background_screens)  # Textual does so before each frame: what is behind a sheet
        return self.screen._compositor.render_strips()

    @property
    def shown(self) -> str:
        """The screen on top as it is painted, from its rule on. Blanks at the end of rows are cut."""
        return "\n".join(shown(self))

    @property
    def box(self) -> Box:
        return self.screen_stack[0].query_one(Box)

    @property
    def prompt(self) -> str:
        return self.box.text

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1
        return self.answers[0]


Play = Callable[[Pilot[None], Host], Awaitable[None]]
_HOST = SharedApp(Host)


def play(screen: ModalScreen[Any], script: Play | str = "", size: tuple[int, int] = (80, 24)) -> Host:
    """Open the screen in the app; a string is keys to press, as `press` takes them."""

    async def run(pilot: Pilot[None], host: Host) -> None:
        host.ask(screen)
        await pilot.pause()
        if not isinstance(script, str):
            await script(pilot, host)
        else:
            await press(pilot, script)

    return _HOST.play(run, size)


OPEN = "still open"


def replies(make: Callable[[], ModalScreen[Any]], *scripts: str) -> list[Any]:
    """What a dialog answers to each of these keys, or that it is still open. In one app, which takes the most time."""
    found: list[Any] = []

    async def script(pilot: Pilot[None], host: Host) -> None:
        for number, keys in enumerate(scripts):
            if number:
                host.push_screen(make(), host.answers.append)
            await settled(pilot)
            await press(pilot, keys)
            found.append(host.answers.pop() if host.answers else OPEN)
            while len(host.screen_stack) > 1:
                host.pop_screen()
            await settled(pilot)

    play(make(), script)
    return found


def stays_open(dialog: ModalScreen[Any], *scripts: str) -> None:
    """None of these keys closes the dialog, pressed one after the other; then Esc does, and that is no answer."""

    async def script(pilot: Pilot[None], host: Host) -> None:
        for keys in scripts:
            await press(pilot, keys)
            assert host.answers == [], keys
        await press(pilot, "escape")
        assert host.answer is None

    play(dialog, script)


def check(screen: ModalScreen[Any], *steps: Any, size: tuple[int, int] = (80, 24)) -> Host:
    """Steps are tuples: keys, then what is shown after them, with or without its line breaks. A text after `¬` is not
    shown; anything else that is no text is the answer."""

    async def script(pilot: Pilot[None], host: Host) -> None:
        await settled(pilot)
        for keys, *expected in steps:
            await press(pilot, keys)
            for one in expected:
                if not isinstance(one, str) or one == OPEN:
                    assert (host.answers[-1] if host.answers else OPEN) == one, keys
                else:
                    text, seen = one.removeprefix("¬"), host.shown
                    is_shown = text in seen or text in " ".join(seen.split())
                    assert is_shown is not one.startswith("¬"), f"{keys}: {one}\n{host.shown}"

    return play(screen, script, size)


def answer(screen: ModalScreen[Any], *keys: str) -> Any:
    """What the screen closes with after these keys, or that it is still open."""
    return after_each(screen, keys)[0][0]


def after_each(
    screen: ModalScreen[Any], *groups: tuple[str, ...], size: tuple[int, int] = (80, 24)
) -> list[tuple[Any, str]]:
    """What the screen has closed with, or that it is open, and what it shows, after each group of keys."""
    seen: list[tuple[Any, str]] = []

    async def script(pilot: Pilot[None], host: Host) -> None:
        for keys in groups:
            await press(pilot, *keys)
            seen.append((host.answers[0] if host.answers else OPEN, host.shown))

    play(screen, script, size)
    return seen


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Keys by name, with blanks between them, all at once as a slow line brings them; `=word` types its letters. At a
    `|` all is settled first."""
    for part in " ".join("space" if key == " " else key for key in keys).split("|"):
        for name in part.split():
            for key in name[1:] if name.startswith("=") and len(name) > 1 else [name]:
                character = {"space": " ", "enter": "\r"}.get(key, key if len(key) == 1 else None)
                named = _character_to_key(key) if len(key) == 1 else REPLACED_KEYS.get(key, key)
                pilot.app.post_message(events.Key(named, character))
        await settled(pilot)


async def settled(pilot: Pilot[None]) -> None:
    """Until nothing is on its way any more, apart from what follows something for good. No time passes."""
    app = pilot.app
    for _round in range(3):
        await pilot._wait_for_screen()
        if working := [worker for worker in app.workers if worker.group != "follow"]:
            await app.workers.wait_for_complete(working)
        app.screen._on_timer_update()
    await pilot.pause(0)


async def through_all_sizes(pilot: Pilot[None], host: Host) -> None:
    """From large to none and back; every row is as wide as the screen, the keys to leave are always there."""
    for width, height in ((120, 40), (40, 10), (20, 5), (1, 1), (80, 24)):
        if host.size != (width, height):
            await pilot.resize_terminal(width, height)
        await press(pilot, "down up")
        strips = host.strips()
        assert {strip.cell_length for strip in strips} == {width}
        assert len(strips) == height
        assert width < 10 or strips[-1].text.rstrip().endswith(("Esc back", "Esc close"))
    await press(pilot, "escape")


def shown(host: Host) -> list[str]:
    """The rows of the dialog on top, as they are painted: from its rule down. Blanks at the end are cut."""
    rows = [strip.text.rstrip() for strip in host.strips()]
    start = next((place for place, row in enumerate(rows) if row.startswith("───")), 0)
    return rows[start:]


def look(screen: ModalScreen[Any], *keys: str, size: tuple[int, int] = (80, 24)) -> str:
    """What the screen looks like after these keys."""
    return after_each(screen, keys, size=size)[0][1]


def looks(screen: ModalScreen[Any], *scripts: str, size: tuple[int, int] = (80, 24)) -> list[str]:
    """What the screen looks like after each of these keys, pressed one after the other."""
    return [seen for _answer, seen in after_each(screen, *((keys,) for keys in scripts), size=size)]


def asked(name: str, input: Json, **more: Any) -> PermissionRequested:
    facts: dict[str, Any] = {"title": name, "reason": "No rule allows it", **more}
    return PermissionRequested(request_id="r1", tool_use_id="t1", name=name, input=input, **facts)
