"""`agentcli replay`: a recorded session plays in the transcript as it did live. Nothing can be sent.

The frames come from `history/replay/playback.py`. A jump builds what was before the prompt at once, as a resumed
session is shown, and plays on from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from agentcli.config.themes import theme_folders
from agentcli.core import events as ev
from agentcli.core.messages import Origin
from agentcli.core.text.format import format_elapsed
from agentcli.history.replay.playback import Frame, list_pieces, list_steps
from agentcli.history.steps import StepAction, StepChoice, StepList, StepTab, StepText
from agentcli.tui.app import PaintedApp
from agentcli.tui.blocks.items import make_block
from agentcli.tui.model import Above, Clear
from agentcli.tui.presenter import Presenter
from agentcli.tui.resume import replay as items_of
from agentcli.tui.resume import title_of_call
from agentcli.tui.screens.scrubber import Scrubber
from agentcli.tui.startup.preferences import Preferences
from agentcli.tui.status.lines import ActivityLine
from agentcli.tui.theme.palette import Palette
from agentcli.tui.theme.themes import ActiveTheme, begin_with_theme
from agentcli.tui.transcript.widget import Transcript

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_KEYS = (
    "Space pause · → step · + − speed · p prompts and search · Esc ends",
    "Space pause · → step · p prompts · Esc ends",
    "Space → + − p Esc",
)
_AT_ONCE = 50
"""Frames that are shown between two turns of the event loop while nothing waits."""


class ReplayApp(PaintedApp[int], inherit_bindings=False):
    CSS_PATH = "style.tcss"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #state { height: 1; padding: 0 1; color: $muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("space", "pause", "Pause"),
        ("right", "step", "Step"),
        ("plus,equals_sign", "speed(1)", "Faster"),
        ("minus", "speed(-1)", "Slower"),
        ("p,enter,slash,ctrl+f", "prompts", "Prompts"),
        ("ctrl+o", "details", "Details"),
        ("pageup", "scroll(-1)", "Page up"),
        ("pagedown", "scroll(1)", "Page down"),
        ("up", "scroll_rows(-3)", "Up"),
        ("down", "scroll_rows(3)", "Down"),
        ("escape,q,ctrl+c,ctrl+d", "leave", "End"),
        ("ctrl+l", "redraw", "Redraw"),
    ]

    def __init__(self, frames: Sequence[Frame], speed: float, preferences: Preferences, **rest: Any) -> None:
        super().__init__(ansi_color=bool(preferences.environ.get("NO_COLOR")) or None, **rest)
        folders = theme_folders(preferences.paths.config_dir)
        self.theme_in_use = ActiveTheme(folders, preferences.theme, preferences.environ)
        begin_with_theme(self, self.theme_in_use.textual)
        self.frames = frames
        self.speed = speed
        self.is_paused = False
        self.index = 0
        """The frame that is played next."""
        self._at = 0.0
        """Time of the last frame."""
        self._steps = False
        """Whether frames are shown without waiting until one changes the transcript."""
        self._jumps = 0
        self._changed = asyncio.Event()
        self._presenter = Presenter(title_of_call)
        self.transcript = Transcript(make_block, self.palette)
        self._activity = ActivityLine(self.palette, moving=not preferences.reduced_motion, clock=lambda: self._now)
        self._state = Static("", id="state", markup=False)

    @property
    def palette(self) -> Palette:
        return self.theme_in_use.palette

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield self._activity
        yield self._state

    def on_mount(self) -> None:
        self.set_interval(0.25, lambda: self.transcript.tick(self._now))
        self.go_to(0)

    # ------------------------------------------------------------------------------------------------------ playing

    @property
    def _now(self) -> float:
        """The time of the recorded session, never zero."""
        return 1.0 + self._at

    def go_to(self, index: int) -> None:
        """Play on from a frame."""
        self.run_worker(self._play(index), exit_on_error=False, exclusive=True, group="replay")

    async def _play(self, index: int) -> None:
        """Play from a frame on. What was before its prompt is there at once, as in a resumed session."""
        begins = (place for place in range(min(index, len(self.frames) - 1), -1, -1) if self.frames[place].is_prompt)
        start = next(begins, 0)
        self._jumps, self._steps = self._jumps + 1, False
        before = [frame.event for frame in self.frames[:start]]
        items = await asyncio.to_thread(items_of, before, title_of_call, f"before-{self._jumps}-")
        self._presenter = Presenter(title_of_call, f"jump-{self._jumps}-")
        self.transcript.apply([Clear(), Above(tuple(items))])
        self.transcript.follow()
        self._at = self.frames[start].at if self.frames else 0.0
        for place, frame in enumerate(self.frames[start:], start):
            self.index = place
            self._show_state()
            if place >= index:
                await self._stream(frame)
            elif place % _AT_ONCE == 0:
                await asyncio.sleep(0)
            self._at = frame.at
            if self._present(frame.event) and place >= index:
                self._steps = False
        self.index, self._steps = len(self.frames), False
        self._show_state()

    async def _stream(self, frame: Frame) -> None:
        """Wait until the time of a frame, while its text streams in."""
        seconds = max(0.0, frame.at - self._at)
        pieces = list(list_pieces(frame)) if seconds else []
        await self._wait(seconds / (len(pieces) + 1))
        for piece in pieces:
            if not self._steps:
                self._present(piece)
                await self._wait(seconds / (len(pieces) + 1))

    async def _wait(self, seconds: float) -> None:
        while not self._steps and (seconds > 0 or self.is_paused):
            began, speed, paused = time.monotonic(), self.speed, self.is_paused
            with suppress(TimeoutError):
                # Unlike `wait_for` of Python 3.11, a timeout never swallows that a jump ends this.
                async with asyncio.timeout(None if paused else seconds / speed):
                    await self._changed.wait()
            self._changed.clear()
            if not paused:
                seconds -= (time.monotonic() - began) * speed

    def _present(self, event: ev.Event) -> bool:
        """Show an event; returns whether the transcript changes."""
        operations = self._presenter.show(event, self._now)
        if isinstance(event, ev.MessageAppended) and event.message.origin in (Origin.PROMPT, Origin.TOOL_RESULTS):
            operations += self._presenter.show(ev.RequestStarted(model="", turn=1, purpose="turn"), self._now)
        self.transcript.apply(operations)
        self._activity.show(replace(self._presenter.activity, can_stop=False))
        return bool(operations)

    def _show_state(self) -> None:
        total = self.frames[-1].at if self.frames else 0.0
        prompts = self.frames[-1].prompt if self.frames else 0
        number = self.frames[max(0, self.index - 1)].prompt if self.frames else 0
        is_over = self.index >= len(self.frames)
        sign = "at the end" if is_over else "paused" if self.is_paused else "playing"
        place = f"prompt {number} of {prompts} · {format_elapsed(self._at)} of {format_elapsed(total)}"
        left = f"{sign} · {self.speed:g}× · {place}" if self.size.width >= 60 else f"{sign} · {number}/{prompts}"
        room = self.size.width - len(left) - 4
        keys = next((form for form in _KEYS if len(form) <= room), "")
        self._state.update(f"{left}  {keys.rjust(room)}" if keys else left)

    def on_resize(self, event: Any) -> None:
        super().on_resize(event)
        self._show_state()

    # --------------------------------------------------------------------------------------------------------- keys

    def action_pause(self) -> None:
        self.is_paused = not self.is_paused
        self._changed.set()
        self._show_state()

    def action_step(self) -> None:
        self.is_paused = self._steps = True
        self._changed.set()

    def action_speed(self, change: int) -> None:
        nearest = min(range(len(SPEEDS)), key=lambda place: abs(SPEEDS[place] - self.speed))
        self.speed = SPEEDS[min(max(0, nearest + change), len(SPEEDS) - 1)]
        self._changed.set()
        self._show_state()

    def action_prompts(self) -> None:
        def follow(choice: StepChoice | None) -> None:
            if choice is not None:
                self.go_to(choice.step.value + 1)

        tab = StepTab("Text", lambda step: [StepText(step.label)])
        play = StepAction("enter", "play from here")
        shown = (place for place in range(self.index - 1, -1, -1) if self.frames[place].is_prompt)
        start = str(next(shown, ""))
        steps = StepList("Prompts of this session", lambda: list_steps(self.frames), [tab], [play], start)
        self.push_screen(Scrubber(steps), follow)

    def action_details(self) -> None:
        self.transcript.toggle_details()

    def action_scroll(self, pages: int) -> None:
        (self.transcript.page_up if pages < 0 else self.transcript.page_down)()

    def action_scroll_rows(self, rows: int) -> None:
        self.transcript.scroll_rows(rows)

    def action_leave(self) -> None:
        self.exit(0)
