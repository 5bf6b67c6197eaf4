"""An app whose frames the driver writes: only cells that the terminal does not show yet, the cursor where text goes.

Also ends the app in order after an uncaught exception.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import RenderableType
from textual import events
from textual.app import App
from textual.css.query import NoMatches
from textual.geometry import Offset
from textual.screen import Screen
from textual.widgets import Input, TextArea

from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.screens.sheet import Sheet
from agentcli.tui.textual_internals import strips_of
from agentcli.tui.transcript.compositing import QuickUpdate

if TYPE_CHECKING:
    from agentcli.tui.terminal.driver import AgentDriver

T = TypeVar("T")


class PaintedApp(App[T]):
    terminal_driver: AgentDriver | None = None
    """Set by the driver itself; None in tests without a terminal."""
    failure: Exception | None = None
    """What ended the app."""

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if (cell := find_cursor(screen)) is not None:
            self.cursor_position = self.size.clamp_offset(cell)
        if self.terminal_driver is None:
            super()._display(screen, renderable)
            return
        try:
            strips = renderable.strips if isinstance(renderable, QuickUpdate) else strips_of(renderable)
            self.terminal_driver.paint(strips, self.size, self.cursor_position)
        except Exception as error:  # noqa: BLE001 -- ends the app with the terminal in order
            self.fail(error)
        finally:
            self.post_display_hook()

    def _handle_exception(self, error: Exception) -> None:
        """Keep the traceback off the terminal: the caller raises `failure` after the terminal is restored."""
        self.failure = self.failure or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self.panic()

    def fail(self, error: Exception) -> None:
        """End the app with an error raised outside of its handlers."""
        self._handle_exception(error)

    def on_resize(self, event: events.Resize) -> None:
        if self.terminal_driver is not None:
            self.terminal_driver.resized(event.size)

    def action_redraw(self) -> None:
        if self.terminal_driver is not None:
            self.terminal_driver.forget_screen()
        self.refresh(repaint=True, layout=True)


def find_cursor(screen: Screen[Any]) -> Offset | None:
    """Cell of the visible cursor, or of the selected row of a sheet, on a laid out screen; None if there is neither.

    The terminal's own cursor is hidden, but input methods and screen readers follow it. It is looked for with every
    frame, since a layout can move the focused widget without notifying it."""
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
