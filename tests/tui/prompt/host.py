"""A tiny app to try the prompt box in, with a transcript and a status line; it records all messages of the box."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Static

from agentcli.core.text.fuzzy import fuzzy_match
from agentcli.interactive.completion import Completions, FileHit, FoundFiles
from agentcli.interactive.drafts import Draft, DraftStore, History
from agentcli.tui.prompt.box import PromptBox
from agentcli.tui.prompt.editor import PromptEditor
from tests.support.shared_app import HostScreen, SharedApp
from tests.support.skipped_frames import draw_due


class Files:
    """Answers at once, or when `hold` is set."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths
        self.asked: list[str] = []
        self.begun = 0
        self.hold: asyncio.Event | None = None

    def begin(self) -> None:
        self.begun += 1

    async def files(self, query: str, limit: int) -> FoundFiles:
        self.asked.append(query)
        if self.hold is not None:
            await self.hold.wait()
        found = [(found, path) for path in self.paths if (found := fuzzy_match(query, path)) is not None]
        found.sort(key=lambda each: -each[0].score)
        return FoundFiles([FileHit(path, path.endswith("/"), match.positions) for match, path in found[:limit]])


def make_box(
    *,
    files: Files | None = None,
    history: History | None = None,
    drafts: DraftStore | None = None,
    keymap: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    **sources: Any,
) -> PromptBox:
    """A box; `sources` replace methods of its `Completions`."""
    completions = Completions(lambda: None, lambda: None)  # type: ignore[arg-type, return-value]
    if files is not None:
        sources |= {"begin": files.begin, "files": files.files}
    for name, source in sources.items():
        setattr(completions, name, source)
    kept = history or History(None), drafts or DraftStore(None)
    return PromptBox(*kept, completions, keymap=keymap or {}, cwd=cwd or Path.cwd(), environ=environ)


class Host(App[None]):
    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { layout: vertical; } #transcript { height: 1fr; } #status { height: 1; }"
    BINDINGS: ClassVar[list[Any]] = [("ctrl+d", "said('ctrl+d')")]

    box: PromptBox

    def __init__(self) -> None:
        super().__init__()
        self._forget()

    def _forget(self) -> None:
        self.sent: list[tuple[str, bool]] = []
        self.drafts: list[Draft] = []
        self.said: list[str] = []

    def get_default_screen(self) -> HostScreen:
        return HostScreen(id="_default")

    def compose(self) -> ComposeResult:
        yield Static("\n".join(f"said {number}" for number in range(40)), id="transcript", markup=False)
        yield Static("status", id="status")

    @asynccontextmanager
    async def prompt(self, **parts: Any) -> AsyncIterator[None]:
        """A new box, with nothing sent yet."""
        self._forget()
        self.box = make_box(**parts)
        await self.mount(self.box, before="#status")
        self.box.focus_editor()
        yield
        draw_due()
        await self.box.remove()
        del self.box

    def action_said(self, what: str) -> None:
        self.said.append(what)

    def on_prompt_box_submitted(self, event: PromptBox.Submitted) -> None:
        self.drafts.append(event.draft)
        self.sent.append((event.draft.text, event.now))

    def on_prompt_box_take_back(self) -> None:
        self.said.append("take back")

    def on_prompt_box_interrupt_wanted(self) -> None:
        self.said.append("interrupt")

    def on_prompt_box_help_wanted(self) -> None:
        self.said.append("help")

    @property
    def editor(self) -> PromptEditor:
        return self.query_one(PromptEditor)

    @property
    def rows(self) -> list[str]:
        return [strip.text.rstrip() for strip in self.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return self.editor.text

    def cursor_cells(self) -> tuple[int, int]:
        """Where the painted cursor begins, in the editor: row and cell; and that it is painted once."""
        look = self.editor._look("cursor")
        found = []
        for y in range(self.editor.size.height):
            x = 0
            for segment in self.editor.render_line(y):
                if segment.style and segment.style.reverse and look.reverse:
                    found.append((y, x))
                x += segment.cell_length
        assert len(found) == 1, found
        return found[0]


Play = Callable[[Pilot[None], Host], Awaitable[None]]
_HOST = SharedApp(Host)


def play(script: Play, *, size: tuple[int, int] = (60, 20), **parts: Any) -> Host:
    async def run(pilot: Pilot[None], host: Host) -> None:
        async with host.prompt(**parts):
            await pilot.pause()
            await script(pilot, host)

    return _HOST.play(run, size)


def played(**options: Any) -> Callable[[Play], Callable[[], None]]:
    """A test that is a script for `play`."""

    def decorate(script: Play) -> Callable[[], None]:
        def run() -> None:
            play(script, **options)

        run.__name__ = script.__name__  # type: ignore[attr-defined]
        return run

    return decorate


async def write(pilot: Pilot[None], text: str) -> None:
    """Type a text, character by character, without waiting between them."""
    for character in text:
        key = {" ": "space", "\n": "ctrl+j", "\t": "tab"}.get(character)
        pilot.app.post_message(events.Key(key or character, None if character == "\n" else character))
    await pilot.pause()


async def paste(pilot: Pilot[None], text: str) -> None:
    pilot.app.post_message(events.Paste(text))
    await pilot.pause()
    await pilot.pause()


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys as fast as a terminal can send them, and wait until all is done."""
    for key in keys:
        pilot.app.post_message(events.Key(key, None))
    await pilot.pause()
    await pilot.pause()


async def act(pilot: Pilot[None], host: Host, step: str) -> None:
    """Do one step of a scene, or check what it says: a verb, a blank and the rest."""
    verb, _blank, rest = step.partition(" ")
    match verb:
        case "type":
            await write(pilot, rest)
        case "paste":
            await paste(pilot, rest)
        case "press":
            await press(pilot, *rest.split())
        case "queued":
            host.box.set_queued([rest])
        case "insert":
            host.box.insert(rest)
        case "text":
            assert host.text == rest
        case "cursor":
            assert host.editor.buffer.cursor == int(rest)
        case "menu":
            assert host.box._popup.is_open == (rest == "open")
        case "sent":
            assert [text for text, _now in host.sent] == rest.split("|")
        case "said":
            assert ", ".join(host.said) == rest
        case _:
            raise AssertionError(step)


def play_scene(steps: Sequence[str], **options: Any) -> Host:
    async def script(pilot: Pilot[None], host: Host) -> None:
        for step in steps:
            await act(pilot, host, step)

    return play(script, **options)
