"""The two rows around the prompt: the status line with settings and costs, and the activity line with the current work.

`fit` and `activity_text` decide what is shown at a width and are pure. A command of the user may provide the status
line instead: see `command`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from agentcli.core.frozen import frozen
from agentcli.core.text.format import about_money, counted, format_elapsed, money, percent, token_count
from agentcli.core.text.plaintext import plain_line, show_command
from agentcli.tui.blocks.base import Run
from agentcli.tui.blocks.rows import Runs, cut_runs, join_runs, shorten, size
from agentcli.tui.model import Activity, Facts
from agentcli.tui.modes import MODE_WORDS
from agentcli.tui.theme.palette import Palette

if TYPE_CHECKING:
    from agentcli.tui.status.command import Ran, StatusCommand, StatusFeed

_SEPARATOR = " · "
_EIGHTHS = " ▏▎▍▌▋▊▉"


def context_bar(facts: Facts, cells: int, palette: Palette) -> list[Run]:
    """How full the context window is; the broken line marks where it is compacted automatically."""
    share = min(1.0, facts.context_tokens / facts.context_window)
    eighths = round(share * cells * 8)
    if facts.context_tokens > 0:
        eighths = max(1, eighths)
    full, part = divmod(eighths, 8)
    row = ["█"] * full + ([_EIGHTHS[part]] if part else [])
    row += [" "] * (cells - len(row))
    mark = min(cells - 1, int(cells * facts.compact_at / facts.context_window)) if facts.compact_at > 0 else cells
    runs: list[Run] = [("▕", palette.faint)]
    runs.append(("".join(row[:mark]), _context_style(facts, palette)))
    if mark < cells:
        runs.append(("╎", palette.muted) if row[mark] == " " else (row[mark], palette.warning))
        runs.append(("".join(row[mark + 1 :]), palette.warning))
    return [*runs, ("▏", palette.faint)]


def _context_style(facts: Facts, palette: Palette) -> Style:
    limit = facts.compact_at or facts.context_window
    nearness = facts.context_tokens / limit
    return palette.muted if nearness < 0.8 else palette.warning if nearness < 0.97 else palette.error


@frozen
class StatusPart:
    name: str
    forms: Sequence[Runs]
    right: bool = False


_SHORTEN = (
    "place effort model cached servers place context todos context mode place context place cost servers effort speed "
    "agents cost tasks sandbox cost model mode context sandbox model"
)
"""Names of parts, in the order in which they take their next shorter form when the row is too narrow. A mode other
than the default is never dropped, so that bypass mode stays visible."""


def fit(facts: Facts, width: int, palette: Palette) -> list[Run]:
    margin = 2 if width >= 60 else 1 if width >= 30 else 0
    parts = _parts(facts, palette)
    step = {part.name: 0 for part in parts}

    def row(right: bool) -> Runs:
        forms = [part.forms[min(step[part.name], len(part.forms) - 1)] for part in parts if part.right == right]
        return join_runs(filter(None, forms), (_SEPARATOR, palette.faint))

    def room() -> int:
        left, right = size(row(right=False)), size(row(right=True))
        return width - left - right - 2 * margin - (2 if left and right else 0)

    taken = []
    for name in _SHORTEN.split():
        if room() >= 0:
            break
        if name in step:
            taken.append(name)
            step[name] += 1
    # Shortening a long part late may leave room for short parts that were shortened before it.
    for name in reversed(taken):
        step[name] -= 1
        if room() < 0:
            step[name] += 1
    left, right = row(right=False), row(right=True)
    gap = width - size(left) - size(right) - 2 * margin if right else 0
    return cut_runs([(" " * margin, palette.text), *left, (" " * gap, palette.text), *right], width)


def _parts(facts: Facts, palette: Palette) -> list[StatusPart]:
    muted, effort = palette.muted, _clean(facts.effort)
    cached = "" if facts.cached_share is None else f"{percent(min(1.0, facts.cached_share))} cached"
    todos = f"todos {facts.todos_done}/{facts.todos}" if 0 <= facts.todos_done < facts.todos else ""
    tasks = counted(facts.tasks, "task") if facts.tasks > 0 else ""
    agents = counted(facts.agents, "agent") if facts.agents > 0 else ""
    servers = (f"{counted(facts.failed_servers, 'MCP server')} down", f"{facts.failed_servers} MCP down")
    unsandboxed = not facts.is_sandboxed
    parts = (
        _model(facts, palette),
        _words("effort", (f"{effort} effort", effort), muted) if effort else None,
        _words("speed", ("fast",), palette.accent) if facts.fast else None,
        _mode(facts, palette),
        _context(facts, palette),
        _cost(facts, palette),
        _words("cached", (cached,), muted) if cached else None,
        _words("todos", (todos,), muted) if todos else None,
        _words("agents", (agents,), palette.accent, right=True) if agents else None,
        _words("tasks", (tasks,), palette.accent, right=True) if tasks else None,
        _words("servers", servers, palette.warning, right=True) if facts.failed_servers > 0 else None,
        _words("sandbox", ("no sandbox", "bare"), palette.warning, right=True) if unsandboxed else None,
        _place(facts, palette),
    )
    return [part for part in parts if part is not None]


def _words(name: str, texts: Sequence[str], style: Style, *, right: bool = False) -> StatusPart:
    return StatusPart(name, [*([(text, style)] for text in texts), []], right)


def _clean(text: str) -> str:
    """Clean untrusted names of branches, folders and models: no control, hidden or direction characters."""
    return show_command(plain_line(text, 120))


def _model(facts: Facts, palette: Palette) -> StatusPart | None:
    name = _clean(facts.model)
    if not name:
        return None
    short = name.removeprefix("claude-")
    return _words("model", (name, shorten(short, 24), shorten(short, 12)), palette.text)


def _mode(facts: Facts, palette: Palette) -> StatusPart:
    words, name = MODE_WORDS.get(facts.mode), _clean(facts.mode)
    label, short = (words.label, words.short) if words else (name, shorten(name, 10))
    if facts.mode == "default":
        return _words("mode", (label, short), palette.muted)
    style = palette.warning if facts.mode == "bypassPermissions" else palette.accent
    longest = [words.status] if words and words.status else []
    return StatusPart("mode", [[(text, style)] for text in (*longest, label, short)])


def _context(facts: Facts, palette: Palette) -> StatusPart | None:
    if facts.context_window <= 0:
        known = facts.context_tokens > 0
        return StatusPart(
            "context", [[(f"{token_count(facts.context_tokens)} tokens", palette.muted)]] if known else [[]]
        )
    share = min(9.99, facts.context_tokens / facts.context_window)
    style = _context_style(facts, palette)
    head: Run = (percent(share), style)
    whole: Runs = [head, (f" of {token_count(facts.context_window)}", palette.muted)]
    bar = partial(context_bar, facts, palette=palette)
    blank: Run = (" ", palette.muted)
    return StatusPart("context", [[*whole, blank, *bar(8)], [head, blank, *bar(5)], whole, [head], []])


def _cost(facts: Facts, palette: Palette) -> StatusPart | None:
    unknown = "" if facts.fully_priced else "+?"
    spent = f"{money(facts.cost_usd)}{unknown}" if facts.cost_usd > 0 else "$?" if unknown else ""
    following = f"next {about_money(facts.next_cost_usd, '~')}" if facts.next_cost_usd is not None else ""
    if not spent and not following:
        return None
    head: Runs = [(spent, palette.text)] if spent else []
    tail: Runs = [(" " if spent else "", palette.muted), (following, palette.muted)] if following else []
    cold: Runs = [(" (cold)", palette.muted)] if following and facts.cache_cold else []
    return StatusPart("cost", [[*head, *tail, *cold], [*head, *tail], head, []])


def _place(facts: Facts, palette: Palette) -> StatusPart | None:
    cwd, branch = _clean(facts.cwd), _clean(facts.branch)
    if not cwd and not branch:
        return None
    last = cwd.rpartition("/")[2] or cwd
    short = cwd if cwd.count("/") < 2 else f"…/{last}"

    def both(folder: str, name: str) -> Runs:
        return [(folder, palette.muted), (f" ({name})" if name and folder else name, palette.faint)]

    short_branch = shorten(branch, 24)
    forms = [
        both(cwd, branch),
        both(shorten(short, 28), short_branch),
        [(short_branch or shorten(short, 24), palette.muted)],
        [(shorten(branch or last, 12), palette.muted)],
        [],
    ]
    return StatusPart("place", forms, right=True)


class StatusLine(Widget):
    """One row. A `command` provides the content if set."""

    DEFAULT_CSS = "StatusLine { height: 1; width: 1fr; }"
    ALLOW_SELECT = False

    @dataclass
    class Failed(Message):
        """The user's command printed no line, so the default one is shown. Sent once per new reason."""

        problem: str

    def __init__(self, palette: Palette, command: StatusCommand | None = None) -> None:
        super().__init__()
        self._palette = palette
        self._command = command
        self._feed: StatusFeed | None = None
        self._facts = Facts()
        self._said: list[Run] = []
        self._problem = ""

    def on_mount(self) -> None:
        if self._command is not None:
            from agentcli.tui.status.command import StatusFeed

            self._feed = StatusFeed(self._command, self._take)
            self._feed.update(self._facts)

    async def on_unmount(self) -> None:
        if self._feed is not None:
            await self._feed.close()

    async def use(self, command: StatusCommand | None) -> None:
        """Change the command; None: the default line."""
        await self.on_unmount()
        self._command, self._feed, self._said, self._problem = command, None, [], ""
        self.on_mount()
        self.refresh()

    def update(self, facts: Facts) -> None:
        if facts == self._facts:
            return
        self._facts = facts
        if self._feed is not None:
            self._feed.update(facts)
        if not self._said:
            self.refresh()

    def set_palette(self, palette: Palette) -> None:
        self._palette = palette
        self.refresh()

    def _take(self, ran: Ran) -> None:
        if ran.problem and ran.problem != self._problem:
            self.post_message(self.Failed(ran.problem))
        self._problem = ran.problem
        if ran.line != self._said:
            self._said = ran.line
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        runs = cut_runs(self._said, width) if self._said else fit(self._facts, width, self._palette)
        return Strip([Segment(text, style) for text, style in runs]).apply_style(self.rich_style)


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
    text = show_command(plain_line(activity.text, 300)) or _NAMES[activity.phase]
    details = _details(activity, now, palette)
    if activity.todo and activity.phase in _WORK:
        # The task is what the user follows; the call behind it is in the transcript, too.
        text, step = show_command(activity.todo), text
        if step != "Working":
            details.insert(0, (4, (shorten(step, max(12, width // 3)), palette.muted)))
    # The text is more important than any detail, but must not fill the row: drop the least important details first.
    wanted = min(cell_len(text), max(12, width // 2))
    while details and sum(cell_len(part) + 3 for _rank, (part, _look) in details) + wanted > width:
        details.remove(max(details, key=lambda detail: detail[0]))
    room = width - sum(cell_len(part) + 3 for _rank, (part, _look) in details)
    row: list[Run] = [(shorten(text, room), style)]
    for _rank, run in details:
        row += [(" · ", palette.faint), run]
    return row


def _details(activity: Activity, now: float, palette: Palette) -> list[tuple[int, Run]]:
    """Details in the order of the row, each with a rank: the highest rank is dropped first if there is no room."""
    details: list[tuple[int, Run]] = []
    if activity.until > 0:
        seconds = activity.until - now
        left = f"next in {format_elapsed(max(1, round(seconds)))}" if seconds > 0.05 else "now"
        details.append((0, (left, palette.warning)))
    began = activity.step_began or activity.began
    if began > 0 and now - began >= 1 and activity.phase != "waiting":
        details.append((2, (format_elapsed(now - began), palette.muted)))
    if activity.agents > 0 and activity.phase != "agents":
        details.append((2, (counted(activity.agents, "agent"), palette.muted)))
    if activity.tokens_out > 0:
        details.append((3, (f"↓ {token_count(activity.tokens_out)} tokens", palette.muted)))
    if activity.can_stop and activity.phase not in ("waiting", "interrupting"):
        details.append((1, ("Esc stops", palette.faint)))
    return details


def _style(activity: Activity, palette: Palette) -> Style:
    if activity.phase in ("retrying", "interrupting"):
        return palette.warning
    return palette.accent if activity.phase == "waiting" else palette.text


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
        words = attrgetter("phase", "text", "todo", "until", "step_began")
        if self._timer is not None and words(activity) == words(before):
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
