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

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input, Static

from agentcli.config.themes import theme_folders
from agentcli.core import events as ev
from agentcli.core.messages import Origin
from agentcli.core.text.format import format_elapsed
from agentcli.core.text.plaintext import plain_line
from agentcli.history.replay.playback import Frame, find_frame, list_pieces, list_prompts
from agentcli.history.steps import Step, StepAction, StepChoice, StepList, StepScreen, StepTab, StepText
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
    "Space pause · → step · + − speed · p prompts · / search · Esc ends",
    "Space pause · → step · p prompts · Esc ends",
    "Space → + − p / Esc",
)
_THINKING = 0.3
"""Share of the time of a block that passes before its text begins to stream."""
_AT_ONCE = 50
"""Frames that are shown between two turns of the event loop while nothing waits."""


class ReplayApp(PaintedApp[int], inherit_bindings=False):
    CSS_PATH = "style.tcss"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #search { display: none; height: 1; border: none; padding: 0 1; }
    #search.-open { display: block; }
    #state { height: 1; padding: 0 1; color: $muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("space", "pause", "Pause"),
        ("right", "step", "Step"),
        ("plus,equals_sign", "speed(1)", "Faster"),
        ("minus", "speed(-1)", "Slower"),
        ("p,enter", "prompts", "Prompts"),
        ("slash,ctrl+f", "search", "Search"),
        ("n", "next_match", "Next match"),
        ("ctrl+o", "details", "Details"),
        ("pageup", "scroll(-1)", "Page up"),
        ("pagedown", "scroll(1)", "Page down"),
        ("up", "scroll_rows(-3)", "Up"),
        ("down", "scroll_rows(3)", "Down"),
        ("escape", "leave", "End"),
        ("q,ctrl+c,ctrl+d", "quit_now", "End"),
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
        self._at = self._played = 0.0
        """Time of the last frame, and the time played so far."""
        self._until = 0
        """Frames before this one are shown without waiting."""
        self._steps = False
        """Whether frames are shown without waiting until one changes the transcript."""
        self._jumps = 0
        self._changed = asyncio.Event()
        self._words = ""
        self._waits_since: float | None = None
        """Since when a frame waits; None: nothing waits, or the replay is paused."""
        self._presenter = Presenter(title_of_call)
        self.transcript = Transcript(make_block, self.palette)
        self._activity = ActivityLine(self.palette, moving=not preferences.reduced_motion, clock=self._clock)
        self._search = Input(placeholder="Search the session", id="search")
        # The other keys must work at once.
        self._search.can_focus = self._search.cursor_blink = False
        self._state = Static("", id="state", markup=False)

    @property
    def palette(self) -> Palette:
        return self.theme_in_use.palette

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield self._activity
        yield self._search
        yield self._state

    def on_mount(self) -> None:
        self.run_worker(self._play(), exit_on_error=False, group="replay")
        self.set_interval(0.25, lambda: self.transcript.tick(self._clock()))
        self._show_state()

    # ------------------------------------------------------------------------------------------------------ playing

    @property
    def _is_waiting(self) -> bool:
        """Whether frames wait for their time."""
        return self.index >= self._until and not self._steps

    async def _play(self) -> None:
        while True:
            if self.index >= len(self.frames):
                self._steps = False
                self._show_state()
                await self._changed.wait()
                self._changed.clear()
                continue
            jumps, frame = self._jumps, self.frames[self.index]
            await self._wait_for(frame)
            if jumps != self._jumps:
                continue
            self.index, self._at = self.index + 1, frame.at
            self._played = frame.at
            if self._present(frame.event) and self.index >= self._until:
                self._steps = False
            self._show_state()
            if not self._is_waiting and self.index % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _wait_for(self, frame: Frame) -> None:
        """Wait until a frame is due; meanwhile the text of its block streams in."""
        seconds, jumps = max(0.0, frame.at - self._at), self._jumps
        pieces = list(list_pieces(frame)) if self._is_waiting and seconds else []
        await self._wait(seconds * _THINKING if pieces else seconds)
        for piece in pieces:
            if not self._is_waiting or jumps != self._jumps:
                return
            self._present(piece)
            await self._wait(seconds * (1 - _THINKING) / len(pieces))

    async def _wait(self, seconds: float) -> None:
        jumps = self._jumps
        while self._is_waiting and jumps == self._jumps and (seconds > 0 or self.is_paused):
            began, speed, paused = time.monotonic(), self.speed, self.is_paused
            self._waits_since = None if paused else began
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), None if paused else seconds / speed)
            if not paused:
                passed = (time.monotonic() - began) * speed
                seconds, self._played = seconds - passed, self._played + passed
            self._waits_since = None
            self._changed.clear()

    def _clock(self) -> float:
        """The time of the recorded session, never zero."""
        running = 0.0 if self._waits_since is None else (time.monotonic() - self._waits_since) * self.speed
        return 1.0 + self._played + running

    def _present(self, event: ev.Event) -> bool:
        """Show an event; returns whether the transcript changes."""
        now = self._clock()
        operations = self._presenter.show(event, now)
        if isinstance(event, ev.MessageAppended) and event.message.origin in (Origin.PROMPT, Origin.TOOL_RESULTS):
            operations += self._presenter.show(ev.RequestStarted(model="", turn=1, purpose="turn"), now)
        self.transcript.apply(operations)
        self._activity.show(replace(self._presenter.activity, can_stop=False))
        return bool(operations)

    async def go_to(self, index: int) -> None:
        """Play on from a frame. What was before its prompt is there at once."""
        begins = (place for place in range(min(index, len(self.frames) - 1), -1, -1) if self.frames[place].is_prompt)
        start = next(begins, 0)
        self._jumps += 1
        self.index, self._until = start, index
        before = [frame.event for frame in self.frames[:start]]
        items = await asyncio.to_thread(items_of, before, title_of_call, f"before-{self._jumps}-")
        self._presenter = Presenter(title_of_call, f"jump-{self._jumps}-")
        self.transcript.apply([Clear(), Above(tuple(items))])
        self.transcript.follow()
        self._at = self._played = self.frames[start].at if self.frames else 0.0
        self._jumps += 1
        self._changed.set()
        self._show_state()

    def _show_state(self) -> None:
        total = self.frames[-1].at if self.frames else 0.0
        prompts = self.frames[-1].prompt if self.frames else 0
        number = self.frames[max(0, self.index - 1)].prompt if self.frames else 0
        is_over = self.index >= len(self.frames)
        sign = "at the end" if is_over else "paused" if self.is_paused else "playing"
        place = f"prompt {number} of {prompts} · {format_elapsed(self._at)} of {format_elapsed(total)}"
        left = f"{sign} · {self.speed:g}× · {place}"
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
        number = self.frames[max(0, self.index - 1)].prompt if self.frames else 0

        def follow(screen: StepScreen) -> None:
            screen.go_to(str(number))

        def chosen(choice: StepChoice | None) -> None:
            if choice is not None:
                self.run_worker(self.go_to(choice.step.value), exclusive=True, group="jump")

        tab = StepTab("Prompt", _describe)
        actions = [StepAction("enter", "play from here")]
        steps = StepList(
            "Prompts of this session",
            lambda: list_prompts(self.frames),
            [tab],
            actions,
            str(number or ""),
            opened=follow,
        )
        self.push_screen(Scrubber(steps), chosen)

    def action_search(self) -> None:
        self._search.add_class("-open")
        self._search.can_focus = True
        self._search.focus()

    @on(Input.Submitted)
    def _searched(self, event: Input.Submitted) -> None:
        event.stop()
        self._words = event.value
        self._close_search()
        self.action_next_match()

    def action_next_match(self) -> None:
        if not self._words:
            return
        found = find_frame(self.frames, self._words, self.index - 1)
        if found is None:
            self._activity.hint(f"No match for {plain_line(self._words, 60)}", 2.0)
            return
        self.is_paused = True
        self.run_worker(self.go_to(found + 1), exclusive=True, group="jump")

    def _close_search(self) -> None:
        self._search.remove_class("-open")
        self._search.can_focus = False
        self.screen.set_focus(None)

    def action_details(self) -> None:
        self.transcript.toggle_details()

    def action_scroll(self, pages: int) -> None:
        (self.transcript.page_up if pages < 0 else self.transcript.page_down)()

    def action_scroll_rows(self, rows: int) -> None:
        self.transcript.scroll_rows(rows)

    def action_leave(self) -> None:
        if self._search.has_class("-open"):
            self._close_search()
        else:
            self.exit(0)

    def action_quit_now(self) -> None:
        self.exit(0)


def _describe(step: Step) -> list[StepText]:
    return [StepText(step.label)]
