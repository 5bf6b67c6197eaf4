"""A tiny app to try one dialog in: over a transcript and a focused box, with a stopped clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.screen import ModalScreen
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

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []

    def get_default_screen(self) -> HostScreen:
        return HostScreen(id="_default")

    def compose(self) -> ComposeResult:
        yield Static("\n".join(f"said {number}" for number in range(8)), markup=False)
        yield Box()

    def on_mount(self) -> None:
        self.query_one(Box).focus()

    def ask(self, dialog: ModalScreen[Any]) -> None:
        """Open a dialog over an empty box, with no answers yet."""
        self.box.text = ""
        self.answers = []
        self.push_screen(dialog, self.answers.append)

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


def play(dialog: ModalScreen[Any], script: Play | str = "", size: tuple[int, int] = (80, 24)) -> Host:
    """Open the dialog in the app; a string is keys to press, as `press` takes them."""

    async def run(pilot: Pilot[None], host: Host) -> None:
        host.ask(dialog)
        await settled(pilot)
        if not isinstance(script, str):
            await script(pilot, host)
        elif script:
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


async def press(pilot: Pilot[None], keys: str) -> None:
    """Keys by name, with blanks between them, all at once as a slow line brings them; at a `|` all is settled first."""
    for part in keys.split("|"):
        for key in part.split():
            character = {"space": " ", "enter": "\r"}.get(key, key if len(key) == 1 else None)
            pilot.app.post_message(events.Key(key, character))
        await settled(pilot)


async def settled(pilot: Pilot[None]) -> None:
    """Until nothing is on its way any more: no time passes, however busy the machine is."""
    app = pilot.app
    for _round in range(3):
        await pilot._wait_for_screen()
        await app.workers.wait_for_complete()
        app.screen._on_timer_update()
    await pilot.pause(0)


def shown(host: Host) -> list[str]:
    """The rows of the dialog on top, as they are painted: from its rule down. Blanks at the end are cut."""
    rows = [strip.text.rstrip() for strip in host.screen._compositor.render_strips()]
    start = next((place for place, row in enumerate(rows) if row.startswith("───")), 0)
    return rows[start:]


def look(dialog: ModalScreen[Any], size: tuple[int, int] = (80, 24), keys: str = "") -> str:
    """What the dialog looks like after these keys."""
    seen: list[str] = []

    async def script(pilot: Pilot[None], host: Host) -> None:
        if keys:
            await press(pilot, keys)
        seen.extend(shown(host))

    play(dialog, script, size)
    return "\n".join(seen)


def looks(dialog: ModalScreen[Any], *scripts: str, size: tuple[int, int] = (80, 24)) -> list[str]:
    """What the dialog looks like after each of these keys, pressed one after the other."""
    seen: list[str] = []

    async def script(pilot: Pilot[None], host: Host) -> None:
        for keys in scripts:
            if keys:
                await press(pilot, keys)
            seen.append("\n".join(shown(host)))

    play(dialog, script, size)
    return seen


def asked(name: str, input: Json, **more: Any) -> PermissionRequested:
    facts: dict[str, Any] = {"title": name, "reason": "No rule allows it", **more}
    return PermissionRequested(request_id="r1", tool_use_id="t1", name=name, input=input, **facts)
