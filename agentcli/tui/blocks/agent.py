"""Block of a sub-agent: two rows with its activity and its costs, plus its own transcript when expanded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.style import Style

from agentcli.core.text.format import counted, format_elapsed, money, token_count
from agentcli.tui.blocks.base import Block, BlockLine, Run, gap
from agentcli.tui.blocks.rows import MAX_ROWS, beside, decoration, gutter, shorten, size
from agentcli.tui.model import AnswerItem, Item, ThinkingItem
from agentcli.tui.progress import AGENT_SIGNS, AgentItem, AgentProgress, AgentStatus
from agentcli.tui.theme.palette import Palette

_MIN_TITLE = 12
"""Minimum number of cells for a title, reserved before the details behind it."""


class AgentBlock(Block):
    item: AgentItem
    foldable = True

    def __init__(self, item: AgentItem) -> None:
        super().__init__(item)
        self._seconds = 0
        self._shown: object = None
        """Values shown by the last layout that can change while the agent runs."""
        self._children: dict[str, Block] = {}
        """Blocks of the agent's transcript by the id of their item."""

    @property
    def progress(self) -> AgentProgress:
        return self.item.progress

    def forget(self) -> None:
        self._children.clear()

    def tick(self, now: float) -> bool:
        progress = self.progress
        if progress.is_running and progress.began:
            self._seconds = int(progress.elapsed(now))
        changed = [child.tick(now) for child in self._children.values()]
        return any(changed) or self._state() != self._shown

    @property
    def source(self) -> str:
        """Title and report, without the agent's transcript."""
        return "\n".join(part for part in (self.progress.title, self.progress.report) if part)

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        self._shown = self._state()
        if not self.expanded:
            self._children.clear()
        header = self._header(width, palette)
        below = self._transcript(width, palette) if self.expanded else []
        # A blank row separates an expanded block from the next one.
        return [header, *self._summary(width, palette), *below, *([decoration([], width)] if below else [])]

    def _state(self) -> object:
        progress = self.progress
        figures = (progress.status, progress.doing, progress.tokens, progress.cost_usd, self._seconds)
        return (*figures, progress.version) if self.expanded else figures

    def _header(self, width: int, palette: Palette) -> BlockLine:
        """Row with the agent, its task, status and duration."""
        progress = self.progress
        mark = f"{AGENT_SIGNS[progress.status]} " if width >= 8 else ""
        name, about = progress.id or progress.name, progress.description
        words: dict[AgentStatus, str] = {"waiting": "waits for you"}
        facts = [words.get(progress.status, progress.status)]
        if progress.background and progress.is_running:
            facts.append("background")
        seconds = self._seconds if progress.is_running else progress.seconds
        facts += [format_elapsed(round(seconds))] if seconds >= 1 and progress.status != "waiting" else []
        title = f"{name} {about}" if about else name
        shown, after = _fit(title, facts, width - cell_len(mark), cell_len(name) + _MIN_TITLE)
        runs = [
            (mark, _mark_style(progress.status, palette)),
            (shown[: len(name)], palette.tool),
            (shown[len(name) :], palette.text),
            (after, palette.muted),
        ]
        return BlockLine(decoration(runs, width).strip, title, cell_len(mark))

    def _summary(self, width: int, palette: Palette) -> list[BlockLine]:
        """Row with the current activity, or the beginning of the report, and the tokens and cost so far."""
        progress = self.progress
        text = progress.doing if progress.is_running else ""
        if progress.status in ("done", "failed"):
            text = _first_line(progress.report)
        facts = [f"{token_count(progress.tokens)} tokens"] if progress.tokens else []
        facts += [money(progress.cost_usd)] if progress.cost_usd else []
        facts += [counted(progress.turns, "turn")] if progress.turns and not progress.is_running else []
        if not progress.is_running and not text:
            text, facts = " · ".join(facts), []
        if not text:
            return []
        before = gutter(width, _gutter_style(progress, palette))
        shown, after = _fit(text, facts, width - size(before), _MIN_TITLE)
        style = palette.error if progress.status == "failed" else palette.muted
        return [decoration([*before, (shown, style), (after, palette.faint)], width)]

    def _transcript(self, width: int, palette: Palette) -> list[BlockLine]:
        progress = self.progress
        before = gutter(width, _gutter_style(progress, palette))
        items = progress.items()
        self._children = {item.id: self._child(item) for item in items}
        lines = [decoration([*before, (text, palette.muted)], width) for text in _about(progress, bool(items))]
        blank = decoration(before, width)
        above: Item | None = None
        for item in [*items, *_report(progress, items)]:
            if above is None or gap(above, item):
                lines.append(blank)
            lines += self._lines(self._children.get(item.id) or self._child(item), width, palette, before)
            above = item
        return lines[-MAX_ROWS:]

    def _child(self, item: Item) -> Block:
        from agentcli.tui.blocks.items import make_block

        block = self._children.get(item.id)
        if block is None or type(block.item) is not type(item):
            block = make_block(item)
            # A nested agent is expanded together with this one.
            block.expanded = isinstance(item, AgentItem)
        elif block.item is not item:
            _update(block, item)
        return block

    def _lines(self, block: Block, width: int, palette: Palette, before: Sequence[Run]) -> list[BlockLine]:
        """Rows of one child block behind the gutter."""
        inner = max(1, width - size(before))
        lines = block.layout(inner, palette)
        while block.behind:
            lines = block.layout(inner, palette)
        return beside(lines, before)


def _fit(text: str, facts: Sequence[str], room: int, least: int) -> tuple[str, str]:
    """Fit text and the facts behind it into one row. Drops facts from the end until `text` has `least` cells."""
    kept = list(facts)
    wanted = min(cell_len(text), max(least, room // 2))
    while kept and sum(cell_len(fact) + 3 for fact in kept) + wanted > room:
        kept.pop()
    after = "".join(f" · {fact}" for fact in kept)
    return shorten(text, room - cell_len(after)), after


def _first_line(text: str) -> str:
    return next((line for line in text.split("\n") if line.strip()), "").strip().lstrip("#*-> ").rstrip(":")


def _update(block: Block, now: Item) -> None:
    """Replace the item of a block. If its text only grew, the beginning is not laid out again."""
    before = block.item
    if isinstance(now, AnswerItem | ThinkingItem) and isinstance(before, AnswerItem | ThinkingItem):
        text = before.text
        if now.text.startswith(text) and replace(now, text=text) == before:
            block.grow(now.text[len(text) :])
            block.item = now
            return
    block.replace(now)


def _about(progress: AgentProgress, has_items: bool) -> Iterator[str]:
    """Lines about things that the transcript below does not contain."""
    if progress.worktree:
        yield f"Works in {progress.worktree}" if progress.is_running else f"Its changes are in {progress.worktree}"
    where = f"session {progress.session_id}" if progress.session_id else "its session file"
    if has_items and progress.dropped:
        yield f"… {counted(progress.dropped, 'earlier item')}: see {where}"
    elif not has_items and not progress.is_running:
        yield f"Its transcript is in {where}"


def _report(progress: AgentProgress, items: Sequence[Item]) -> list[Item]:
    """The report, unless the transcript ends with it; for an agent that did not finish, the reason."""
    text = progress.report
    if any(isinstance(item, AnswerItem) for item in items):
        text = "" if progress.status == "done" else _first_line(text)
    return [AnswerItem(id=f"{progress.id}:report", text=text, done=True)] if text else []


def _gutter_style(progress: AgentProgress, palette: Palette) -> Style:
    return palette.error if progress.status == "failed" else palette.faint


def _mark_style(status: AgentStatus, palette: Palette) -> Style:
    styles: dict[AgentStatus, Style] = {
        "running": palette.running,
        "waiting": palette.warning,
        "done": palette.success,
        "failed": palette.error,
        "stopped": palette.warning,
    }
    return styles[status]
