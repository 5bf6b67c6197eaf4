"""The keys and the commands, searchable. The tables come from outside: this page knows none of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentcli.tui.sheets.picker import ListSheet
from agentcli.tui.sheets.rows import Row
from agentcli.tui.sheets.sheet import Keys

HelpEntry = tuple[str, str, str]


class HelpPage(ListSheet[str, str]):
    """Returns the command that Enter was pressed on, for the prompt; None for a key."""

    share = 0.9
    label_cells = 26
    wide = 130
    """With less, half of it would cut what keys do."""
    verb = "use the command"

    def __init__(
        self,
        commands: Sequence[HelpEntry],
        keys: Sequence[HelpEntry],
        more: Callable[[str], Sequence[str]],
        commands_first: bool = False,
    ) -> None:
        """`more`: what is shown beside a command where there is room."""
        key_rows = [Row("", key, text, group=group or "Keys") for group, key, text in keys]
        command_rows = [Row(command, command, text, group=group or "Commands") for group, command, text in commands]
        rows = [*command_rows, *key_rows] if commands_first else [*key_rows, *command_rows]
        super().__init__("Help", rows, preview=lambda row: more(row.value) or (row.label, row.detail))

    def choose(self, row: Row[str]) -> None:
        self.dismiss(row.value or None)

    def keys(self) -> Keys:
        use = [("Enter", self.verb)] if self.row is not None and self.row.value else []
        return [("↑↓", "move"), *use, ("Esc", "close")]
