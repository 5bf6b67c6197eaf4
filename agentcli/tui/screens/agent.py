"""Page with the transcript of one sub-agent, live while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from agentcli.tui.agent_progress import AgentItem, AgentProgress
from agentcli.tui.blocks.agent import AgentBlock
from agentcli.tui.screens.page import Page
from agentcli.tui.screens.scroller import LineScroller, Scroller
from agentcli.tui.screens.sheet import MARGIN, Keys

REFRESH_SECONDS = 0.5


class AgentPage(Page[Literal["stop"]]):
    """Closes with `stop` if the agent shall be stopped. Follows the end of the transcript unless scrolled up."""

    def __init__(self, progress: AgentProgress, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(progress.title)
        self._progress = progress
        self._clock = clock
        self._block = AgentBlock(AgentItem(id=progress.id, progress=progress))
        self._block.expanded = True
        self._block.tick(clock())

    def make_pager(self) -> Scroller:
        return LineScroller(self.palette, id="pager")

    def on_mount(self) -> None:  # Textual also calls `Sheet.on_mount`, after this one
        self.set_interval(REFRESH_SECONDS, self._refresh_lines)
        self.call_after_refresh(self._go_to_end)

    def lay_out(self, width: int, room: int) -> None:
        search = 1 if self.searching else 0
        pager = self.query_one(LineScroller)
        lines = list(self._block.layout(max(1, width - 2 * MARGIN - 1), self.palette))
        pager.show(lines, max(1, min(max(len(lines), self.least_rows - search), room - search)))

    def keys(self) -> Keys:
        if self.searching or not self._progress.is_running:
            return super().keys()
        return [("↑↓ PgUp PgDn", "scroll"), ("/", "search"), ("s", "stop"), ("Esc", "close")]

    def press(self, key: str, character: str | None) -> bool:
        if key == "s" and not self.searching and self._progress.is_running:
            self.dismiss("stop")
            return True
        return super().press(key, character)

    def _refresh_lines(self) -> None:
        if self.is_open and self._block.tick(self._clock()):
            follows = not self.pager.hidden[1]
            self.settle()
            if follows:
                self._go_to_end()

    def _go_to_end(self) -> None:
        if self.is_open:
            self.pager.move_to(self.pager.row_count)
