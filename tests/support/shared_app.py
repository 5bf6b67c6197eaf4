"""One mounted app for many tests of what stands in it: mounting and unmounting it took half of the time of each.

For apps that only hold a dialog, a page or a prompt box, which is new for every test. The app stays on an event loop
of its own, where nothing runs between two tests. A test cannot see what an earlier one did: the app is used again only
if it is as it was before, and one that is not, or in which something failed, is closed, and the next test gets another.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

from textual.app import App
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen

from tests.support.pilot_idle import until_threads_ended
from tests.support.skipped_frames import draw_due, forget_due

A = TypeVar("A", bound=App[Any])


class HostScreen(Screen[None]):
    """Is not laid out again for the size that it has: a third of the time of these tests."""

    def _screen_resized(self, size: Size) -> None:
        if self._compositor.size != size or self._layout_required or self._layout_widgets:
            super()._screen_resized(size)


class SharedApp(Generic[A]):
    """Makes the app when a test needs it."""

    def __init__(self, make: Callable[[], A]) -> None:
        self._make = make
        self._mounted: _Mounted[A] | None = None
        atexit.register(self.close)

    def play(self, script: Callable[[Pilot[Any], A], Awaitable[None]], size: tuple[int, int]) -> A:
        """Run a script in the app at this size."""
        mounted = self._mounted or _Mounted(self._make())
        self._mounted = None
        try:
            mounted.play(script, size)
        except BaseException:
            mounted.close()
            raise
        if mounted.is_clean():
            self._mounted = mounted
        else:
            mounted.close()
        return mounted.app

    def close(self) -> None:
        if self._mounted is not None:
            self._mounted.close()
            self._mounted = None


class _Mounted(Generic[A]):
    def __init__(self, app: A) -> None:
        self.app = app
        self._runner = asyncio.Runner()
        self._test = app.run_test()
        with _own_output():
            self._pilot, self._context = self._runner.run(self._enter())
        self._first = _state(app)

    async def _enter(self) -> tuple[Pilot[Any], contextvars.Context]:
        pilot = await self._test.__aenter__()
        await pilot.pause()
        return pilot, contextvars.copy_context()

    def play(self, script: Callable[[Pilot[Any], A], Awaitable[None]], size: tuple[int, int]) -> None:
        async def run() -> None:
            if self.app.size != size:
                await self._pilot.resize_terminal(*size)
            before = asyncio.all_tasks()
            await script(self._pilot, self.app)
            draw_due()
            while len(self.app.screen_stack) > 1:
                await self.app.pop_screen()
            await until_threads_ended()
            await self._pilot.pause()
            forget_due()
            if self.app._exception is not None:
                raise self.app._exception
            # Widgets have one each, and are compared by `_state`.
            left = [task for task in asyncio.all_tasks() - before if not task.get_name().startswith("message pump")]
            assert not left, f"the test left behind: {left}"

        self._runner.run(run(), context=self._context.copy())

    def is_clean(self) -> bool:
        return _state(self.app) == self._first

    def close(self) -> None:
        with _own_output(), self._runner:
            self._runner.run(self._test.__aexit__(None, None, None))


def _state(app: App[Any]) -> tuple[object, ...]:
    """What a script may change in an app, apart from its size."""
    attributes = {name for name in vars(app) if not name.startswith("_")}
    screens = [(screen, [*screen.walk_children()], screen.focused, screen.classes) for screen in app.screen_stack]
    unfinished = [worker for worker in app.workers if not worker.is_finished]
    settings = app.theme, app.classes, app.app_focus, app._keymap
    return app.is_running, attributes, screens, unfinished, [*app._notifications], settings


@contextlib.contextmanager
def _own_output() -> Iterator[None]:
    """A running app has what is printed; here it would have it between tests, too."""
    streams = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
