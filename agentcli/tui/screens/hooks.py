"""The `/hooks` page: hooks with event, source and last result. Enter shows the whole command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentcli.tui.screens.page import TextPage
from agentcli.tui.screens.picker import ListSheet
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.sheet import Keys

if TYPE_CHECKING:
    from agentcli.commands.hooks import HookRow


class HooksPage(ListSheet[int, None]):
    share = 0.9
    verb = "show"

    def __init__(self, hooks: Sequence[HookRow]) -> None:
        self._hooks = tuple(hooks)
        rows = [Row(number, hook.command, _detail(hook), group=hook.subject) for number, hook in enumerate(self._hooks)]
        super().__init__("Hooks", rows, preview=lambda row: self._lines(row.value))

    def choose(self, row: Row[int]) -> None:
        self.open(TextPage(self._hooks[row.value].subject, self._lines(row.value)))

    def keys(self) -> Keys:
        return [("type", "search"), ("↑↓", "move"), ("Enter", self.verb), ("Esc", "back")]

    def _lines(self, number: int) -> list[str]:
        hook = self._hooks[number]
        return [
            f"Event: {hook.event}",
            f"Matcher: {hook.matcher or '*'}",
            f"From: {hook.source or 'the program that uses agentcli'}",
            f"Not active: {hook.inactive}" if hook.inactive else f"Last run: {hook.last or 'none yet'}",
            "",
            *hook.command.splitlines(),
        ]


def _detail(hook: HookRow) -> str:
    # The reason first: it matters more than the file if there is no room for both.
    parts = (hook.state, hook.source) if hook.inactive else (hook.source, hook.last)
    return "  ".join(filter(None, parts))
