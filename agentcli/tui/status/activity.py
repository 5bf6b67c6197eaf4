"""The activity line above the prompt: shows the current work. Blank and without a timer when idle.

It always occupies its row, so that the screen never jumps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from agentcli.core.processes.shell import shown_command
from agentcli.core.text.format import counted, elapsed, token_count
from agentcli.core.text.plaintext import plain_line
from agentcli.tui.blocks.rows import shortened
from agentcli.tui.blocks.wrap import Run
from agentcli.tui.model import Activity
from agentcli.tui.theme.palette import Palette

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
STILL = "●"
"""Shown instead of the spinner with reduced motion."""
FRAMES_A_SECOND = 6
"""Frame rate of the spinner. A frame costs about 1.5 ms of CPU in Textual: 1 % of a core at this rate."""
MARGIN = 2

_NAMES = {
    "starting": "Starting",
    "sending": "Waiting for the model",
    "thinking": "Thinking",
    "writing": "Writing",
    "tools": "Working",
    "agents": "Working",
    "waiting": "Waiting for you",
    "retrying": "Trying again",
    "compacting": "Summarising the conversation",
    "interrupting": "Stopping",
}


_WORK = ("starting", "sending", "thinking", "writing", "tools", "agents")
"""Phases in which the task list's active entry is shown first."""


def activity_text(activity: Activity, now: float, width: int, palette: Palette) -> list[Run]:
    """Text of the row without its sign, at most `width` cells wide."""
    if not activity.phase or width <= 0:
        return []
    style = _style(activity, palette)
    text = shown_command(plain_line(activity.text, 300)) or _NAMES[activity.phase]
    details = _details(activity, now, palette)
    if activity.todo and activity.phase in _WORK:
        # The task is what the user follows; the call behind it is in the transcript, too.
        text, step = shown_command(activity.todo), text
        if step != "Working":
            details.insert(0, (4, (shortened(step, max(12, width // 3)), palette.muted)))
    # The text is more important than any detail, but must not fill the row: drop the least important details first.
    wanted = min(cell_len(text), max(12, width // 2))
    while details and sum(cell_len(part) + 3 for _rank, (part, _look) in details) + wanted > width:
        details.remove(max(details, key=lambda detail: detail[0]))
    room = width - sum(cell_len(part) + 3 for _rank, (part, _look) in details)
    row: list[Run] = [(shortened(text, room), style)]
    for _rank, run in details:
        row += [(" · ", palette.faint), run]
    return row


def _details(activity: Activity, now: float, palette: Palette) -> list[tuple[int, Run]]:
    """Details in the order of the row, each with a rank: the highest rank is dropped first if there is no room."""
    details: list[tuple[int, Run]] = []
    if activity.until > 0:
        seconds = activity.until - now
        left = f"next in {elapsed(max(1, round(seconds)))}" if seconds > 0.05 else "now"
        details.append((0, (left, palette.warning)))
    began = activity.step_began or activity.began
    if began > 0 and now - began >= 1 and activity.phase != "waiting":
        details.append((2, (elapsed(now - began), palette.muted)))
    if activity.agents > 0 and activity.phase != "agents":
        details.append((2, (counted(activity.agents, "agent"), palette.muted)))
    if activity.tokens_out > 0:
        details.append((3, (f"↓ {token_count(activity.tokens_out)} tokens", palette.muted)))
    if activity.phase not in ("waiting", "interrupting"):
        details.append((1, ("Esc stops", palette.faint)))
    return details


def _style(activity: Activity, palette: Palette) -> Style:
    if activity.phase in ("retrying", "interrupting"):
        return palette.warning
    return palette.accent if activity.phase == "waiting" else palette.text


def _words_of(activity: Activity) -> tuple[str, str, str, float, float]:
    return activity.phase, activity.text, activity.todo, activity.until, activity.step_began


class ActivityLine(Widget):
    """Widget for the activity. After `show` it updates elapsed times itself until an idle activity is shown."""

    DEFAULT_CSS = "ActivityLine { height: 1; width: 1fr; }"
    ALLOW_SELECT = False

    def __init__(self, palette: Palette, *, moving: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._palette = palette
        self.moving = moving
        self._clock = clock
        self._activity = Activity()
        self._row: list[Run] = []
        self._frame = 0
        self._timer: Timer | None = None
        self._hint = ""
        self._hint_over: Timer | None = None

    def show(self, activity: Activity) -> None:
        """Show an activity. Cheap enough for every event: changes of mere counters wait for the next tick."""
        before, self._activity = self._activity, activity
        if self._timer is not None and _words_of(activity) == _words_of(before):
            return
        if not activity.phase:
            self._stop()
        elif self._timer is None and self.is_attached:
            self._timer = self.set_interval(1 / (FRAMES_A_SECOND if self.moving else 2), self._tick, name="activity")
        self._retext()

    def _stop(self) -> None:
        """Stop the timer: an idle app does not wake up."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._frame = 0

    def hint(self, text: str, seconds: float) -> None:
        """Show a short text in the same row for a moment, then the activity again."""
        self._hint = text
        self._retext()
        self.refresh()
        if self._hint_over is not None:
            self._hint_over.stop()
        self._hint_over = self.set_timer(seconds, partial(self.end_hint, text))

    def end_hint(self, text: str) -> None:
        """Remove this hint, unless another one has replaced it."""
        if text != self._hint:
            return
        if self._hint_over is not None:
            self._hint_over.stop()
        self._hint = ""
        self._hint_over = None
        self._retext()
        self.refresh()

    def set_palette(self, palette: Palette) -> None:
        self._palette = palette
        self._row = []
        self._retext()
        self.refresh()

    def on_mount(self) -> None:
        self.show(self._activity)

    def on_resize(self) -> None:
        self._retext()

    def _tick(self) -> None:
        if self.moving and self._activity.phase not in ("waiting", ""):
            self._frame = (self._frame + 1) % len(SPINNER)
            self.refresh(Region(MARGIN, 0, 1, 1))
        self._retext()

    def _retext(self) -> None:
        width = max(0, self.size.width - MARGIN - 2)
        row = activity_text(self._activity, self._clock(), width, self._palette)
        if row != self._row:
            self._row = row
            self.refresh()

    @property
    def _sign(self) -> str:
        if self._activity.phase == "waiting":
            return "?"
        return SPINNER[self._frame] if self.moving else STILL

    def render_line(self, y: int) -> Strip:
        if self._hint:
            hint = Segment(" " * (MARGIN + 2) + self._hint, self._palette.accent)
            return Strip([hint]).crop(0, self.size.width).apply_style(self.rich_style)
        if not self._row:
            return Strip.blank(self.size.width, self.rich_style)
        sign = Segment(self._sign + " ", self._palette.accent)
        segments = [Segment(" " * MARGIN), sign, *(Segment(text, style) for text, style in self._row)]
        return Strip(segments).crop(0, self.size.width).apply_style(self.rich_style)
