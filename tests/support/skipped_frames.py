"""Draw a frame of an app without a terminal only when a test waits for the app to be idle, and has not drawn it itself.

Textual renders every frame also where there is no terminal to show it, a third or more of the time of a test of the
app. What a test looks at it renders itself. The frame that is due when the app is idle is still drawn, so that a test
fails when a widget cannot be drawn: before the test does something more with the app, and when it ends.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from textual._compositor import Compositor
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

_refresh = Screen._compositor_refresh
_render_strips = Compositor.render_strips
_run_test = App.run_test
_changed: set[Screen[Any]] = set()
_due: set[Screen[Any]] = set()
"""Changed when the app was last idle, and not looked at since."""


def _put_off(self: Screen[Any]) -> None:
    app = self.app
    if not app.is_headless or app.is_inline or self is not app.screen:
        _refresh(self)
        return
    _changed.add(self)
    self._dirty_widgets.clear()
    app._update_mouse_over(self)


def _look(self: Compositor, size: Any = None) -> Any:
    strips = _render_strips(self, size)
    _due.difference_update([screen for screen in _due if screen._compositor is self])
    return strips


def draw_due() -> None:
    """Draw the frames that were due when the app was last idle."""
    due = list(_due)
    _due.clear()
    for screen in due:
        if screen.is_running and screen is screen.app.screen:
            contextvars.copy_context().run(_refresh, screen)


def forget_due() -> None:
    """Of an app that stays for the next test: the frame without what this test has removed is nobody's."""
    _changed.clear()
    _due.clear()


def _draw_around(wait: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(wait)
    async def waited(*arguments: Any, **options: Any) -> None:
        draw_due()
        await wait(*arguments, **options)
        _due.update(_changed)
        _changed.clear()

    return waited


@contextlib.asynccontextmanager
async def _run_and_draw(self: App[Any], **options: Any) -> AsyncIterator[Pilot[Any]]:
    async with _run_test(self, **options) as pilot:
        yield pilot
        draw_due()


def draw_each_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test of what is written to a terminal, and when."""
    monkeypatch.setattr(Screen, "_compositor_refresh", _refresh)


def install() -> None:
    Screen._compositor_refresh = _put_off  # type: ignore[method-assign]
    Compositor.render_strips = _look  # type: ignore[method-assign]
    App.run_test = _run_and_draw  # type: ignore[method-assign, assignment]
    Pilot.pause = _draw_around(Pilot.pause)  # type: ignore[method-assign, assignment]
    Pilot.press = _draw_around(Pilot.press)  # type: ignore[method-assign, assignment]
