"""Where the terminal's own cursor belongs. It is hidden, but input methods and screen readers go by it.

Asked for with every frame, since a layout moves the focused widget without a word to it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from textual.css.query import NoMatches
from textual.geometry import Offset
from textual.screen import Screen
from textual.widgets import Input, TextArea

from agentcli.tui.sheets.sheet import Sheet


def cursor_cell(screen: Screen[Any]) -> Offset | None:
    """The cell of the visible cursor on a laid out screen, or of what is marked in a sheet; None if there is none."""
    focused = screen.focused
    if isinstance(focused, TextArea):
        # The editor's own value dates from the last key; a resize has wrapped the text again since.
        place = focused.wrapped_document.location_to_offset(focused.cursor_location)
        return focused.content_region.offset + place - focused.scroll_offset + Offset(focused.gutter_width, 0)
    if isinstance(focused, Input):
        # Textual counts one cell more at the end of the text.
        return focused.cursor_screen_offset - Offset(int(focused.cursor_at_end), 0)
    if isinstance(screen, Sheet):
        with suppress(NoMatches):  # some of its parts are not there yet, or gone already
            return screen.cursor_cell
    return None
