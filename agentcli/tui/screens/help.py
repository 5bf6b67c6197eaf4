"""The help page: keys and commands, searchable. The caller passes both tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentcli.tui.screens.picker import ListSheet
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.sheet import Keys

HelpEntry = tuple[str, str, str]


class HelpPage(ListSheet[str, str]):
    """Returns the command chosen with Enter, for the prompt; None for a key."""

    share = 0.9
    label_cells = 26
    wide = 130
    """Minimum width for a preview: below it, half of the width would cut the descriptions of keys."""
    verb = "use the command"

    def __init__(
        self,
        commands: Sequence[HelpEntry],
        keys: Sequence[HelpEntry],
        more: Callable[[str], Sequence[str]],
        commands_first: bool = False,
    ) -> None:
        """`more(command)`: lines shown beside a command if there is room."""
        key_rows = [Row("", key, text, group=group or "Keys") for group, key, text in keys]
        command_rows = [Row(command, command, text, group=group or "Commands") for group, command, text in commands]
        rows = [*command_rows, *key_rows] if commands_first else [*key_rows, *command_rows]
        super().__init__("Help", rows, preview=lambda row: more(row.value) or (row.label, row.detail))

    def choose(self, row: Row[str]) -> None:
        self.dismiss(row.value or None)

    def keys(self) -> Keys:
        use = [("Enter", self.verb)] if self.row is not None and self.row.value else []
        return [("↑↓", "move"), *use, ("Esc", "close")]
