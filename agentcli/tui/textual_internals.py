"""All private Textual names that the app uses, each with the reason. A test reports uses that are not listed here.

Functions wrap names that can be called from outside. `INHERITED` lists names that only a subclass can use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from textual import events
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.geometry import Region, Size
from textual.keys import _character_to_key
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.selection import SelectEnd
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from textual._compositor import Compositor
    from textual.driver import Driver

INHERITED: Mapping[str, Mapping[str, str]] = {
    "app": {
        "_fatal_error": "the traceback goes to the log, not onto the normal screen",
        "_exception": "the error that ended the app, for the exit code",
        "_close_messages_no_wait": "what Textual's own `_fatal_error` does last",
        "_display": "the driver writes only what the terminal does not show yet",
        "_handle_exception": "a frame that cannot be painted ends the app, as in Textual's own `_display`",
        "_sync_available": "whether the terminal can hold a frame back until it is whole",
    },
    "chat": {
        "_screen_resized": "a screen is not laid out again for the size that it has",
    },
    "terminal.driver": {
        "_app _loop _key_thread": "state of the base driver that its methods rely on",
        "_auto_restart _must_signal_resume _sigcont_application _sigtstp_application": "suspend and resume",
        "_enable_mouse_support _in_band_window_resize _get_terminal_size": "modes of the terminal, set together",
    },
    "terminal.translation": {
        "IS_ITERM XTermParser _sequence_to_key_events": "the names of keys are those of Textual's parser",
    },
    "transcript.compositing": {
        "ChopsUpdate Compositor CompositorUpdate LayoutUpdate": "the compositor that is extended",
        "_dirty_regions _regions_to_spans": "only changed rows are painted",
    },
    "transcript.widget": {
        "_size_updated _scroll_update _refresh_scrollbars": "the transcript keeps its own place in rows",
        "_on_mouse_down _on_click": "a click opens a block, a drag selects",
        "_on_mouse_scroll_down _on_mouse_scroll_up _on_scroll_down _on_scroll_to _on_scroll_up": "no animation",
    },
}
"""By module of `agentcli.tui`: private names that a subclass calls or overrides, and why."""


def forward(widget: Widget, event: events.Key | events.Paste) -> None:
    """Send input to a widget of a screen below the top one; the app only forwards it to the top screen."""
    widget._forward_event(event)


def key_of(character: str) -> str:
    """Return the name of the key that types a character; otherwise only Textual's input parser has this mapping."""
    return _character_to_key(character)


def is_closing(pump: MessagePump) -> bool:
    """Whether the pump will ignore the callbacks in its queue."""
    return pump._closing or pump._closed


def is_queue_empty(pump: MessagePump) -> bool:
    """Whether a pump has no message to handle, including one that it has already taken from its queue."""
    return not pump.message_queue_size and pump._pending_message is None


def driver_of(app: App[Any]) -> Driver | None:
    """The driver, for writing to the terminal; None before the start."""
    return app._driver


def end_with(app: App[Any], error: Exception) -> None:
    """End the app with an error raised outside of its handlers."""
    app._handle_exception(error)


def repaint(app: App[Any]) -> None:
    """Write the whole screen again, including the screens below; `refresh` skips cells that it believes are there."""
    screen = app.screen
    app._display(screen, screen._compositor.render_update(full=True, screen_stack=app._background_screens))


def paint_now(screen: Screen[Any], widgets: Iterable[Widget]) -> None:
    """Paint these widgets now, without waiting until they are idle."""
    screen._dirty_widgets |= set(widgets)
    screen._on_timer_update()


def repaint_soon(widget: Widget, *regions: Region) -> None:
    """Paint a widget, or regions of it, with the screen's next frame. `refresh` sends four messages for that. Only for
    changes of the content, not of styles or the size."""
    if not widget.is_mounted or not widget.display or (screen := widget.screen) not in screen._compositor:
        widget.refresh(*regions)
        return
    widget._set_dirty(*regions)
    # A widget that the next layout shows is painted with it. Marked here, it would make Textual compute the new layout
    # before it compares it with the old one: rows that a smaller sheet leaves free would never be painted.
    if widget in screen._compositor.visible_widgets:
        screen._dirty_widgets.add(widget)
        screen._update_timer.resume()


def paint_at_once(widget: Widget) -> bool:
    """Paint a widget immediately instead of when it is idle. Return False if a layout or style update is due first."""
    if widget._layout_required or widget._scroll_required or widget._refresh_styles_required:
        return False
    widget._repaint_required = False
    paint_now(widget.screen, (widget,))
    return True


def may_display(app: App[Any]) -> bool:
    """Whether frames are written to the terminal now; the same condition as in Textual's `_display`."""
    return app._running and not app._closed and not app.is_headless and not app._batch_count


def strips_of(update: object) -> list[tuple[int, int, Strip]] | None:
    """Column, row and strip of everything in a compositor update; None if it is not an update of Textual's own
    compositor. (Our compositor provides the strips itself.)"""
    placed: list[tuple[int, int, Strip]] = []
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            x = update.region.x
            for strip in strips:
                placed.append((x, y, strip))
                x += strip.cell_length
    elif isinstance(update, ChopsUpdate):
        for y, left, right in update.spans:
            for end, (x, chop) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if chop is not None and x <= right and end > left:
                    placed.append((x, y, chop if x >= left and end <= right else chop.crop(0, min(end, right) - x)))
    else:
        return None
    return placed


def use_compositor(screen: Screen[Any], compositor: Compositor) -> None:
    """Replace the compositor before the first layout."""
    screen._compositor = compositor


def is_laid_out(screen: Screen[Any], size: Size) -> bool:
    """Whether the last layout was for this size and no new layout has been requested since."""
    return screen._compositor.size == size and not screen._layout_required and not screen._layout_widgets


def end_screen_selection(screen: Screen[Any]) -> None:
    """Clear a text selection on the screen, including one that has only begun; costs nothing without one."""
    if screen.selections or screen._select_state is not None:
        screen.clear_selection()


def refresh_colour_filter(app: App[Any]) -> None:
    """Do what the watcher of `theme` does, apart from reading the style sheets."""
    app._refresh_truecolor_filter(app.ansi_theme)


def extend_selection(widget: Widget) -> None:
    """Extend the selection in progress to the content now under the mouse; Textual waits until the mouse moves."""
    screen, pointer = widget.screen, widget.app.mouse_position
    state = screen._select_state
    if state is None or state.end is None or not screen._selecting or state.start.content_widget is not widget:
        return
    target, offset = screen.get_widget_and_offset_at(*pointer)
    if target is widget and offset is not None:
        screen._select_state = state.update_end(pointer, SelectEnd(state.end.container, widget, offset))
