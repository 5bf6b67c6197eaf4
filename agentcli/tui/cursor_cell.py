"""Position of the terminal's own cursor. It is hidden, but input methods and screen readers follow it.

Computed for every frame, since a layout can move the focused widget without notifying it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from textual.css.query import NoMatches
from textual.geometry import Offset
from textual.screen import Screen
from textual.widgets import Input, TextArea

from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.screens.sheet import Sheet


def cursor_cell(screen: Screen[Any]) -> Offset | None:
    """Cell of the visible cursor, or of the selected row of a sheet, on a laid out screen; None if there is neither."""
    focused = screen.focused
    if isinstance(focused, PromptEditor):
        return focused.cursor_screen_offset
    if isinstance(focused, TextArea):
        # The editor's own value dates from the last key; a resize has wrapped the text again since.
        place = focused.wrapped_document.location_to_offset(focused.cursor_location)
        return focused.content_region.offset + place - focused.scroll_offset + Offset(focused.gutter_width, 0)
    if isinstance(focused, Input):
        # Textual adds one cell at the end of the text.
        return focused.cursor_screen_offset - Offset(int(focused.cursor_at_end), 0)
    if isinstance(screen, Sheet):
        with suppress(NoMatches):  # some of its widgets are not mounted yet, or already removed
            return screen.cursor_cell
    return None
