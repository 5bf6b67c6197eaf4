"""Draw a frame of an app without a terminal only when a test waits for the app to be idle.

Textual renders every frame also where there is no terminal to show it, a third or more of the time of a test of the
app. What a test looks at it renders itself. The frame that is due when the app is idle is still drawn, so that a test
fails when a widget cannot be drawn.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot
from textual.screen import Screen

_refresh = Screen._compositor_refresh
_due: set[Screen[Any]] = set()


def _put_off(self: Screen[Any]) -> None:
    app = self.app
    if not app.is_headless or app.is_inline or self is not app.screen:
        _refresh(self)
        return
    _due.add(self)
    self._dirty_widgets.clear()
    app._update_mouse_over(self)


def _draw_due() -> None:
    due = list(_due)
    _due.clear()
    for screen in due:
        if screen.is_running and screen is screen.app.screen:
            contextvars.copy_context().run(_refresh, screen)


def _then_draw(wait: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(wait)
    async def waited(*arguments: Any, **options: Any) -> None:
        await wait(*arguments, **options)
        _draw_due()

    return waited


def install() -> None:
    Screen._compositor_refresh = _put_off  # type: ignore[method-assign]
    Pilot.pause = _then_draw(Pilot.pause)  # type: ignore[method-assign, assignment]
    Pilot.press = _then_draw(Pilot.press)  # type: ignore[method-assign, assignment]
