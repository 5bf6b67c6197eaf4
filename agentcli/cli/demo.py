"""`agentcli demo`: create the temporary project, run the tour in one front end, and clean up."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.cli.crash import ReportingHandler
from agentcli.cli.front_ends import terminal_restored
from agentcli.cli.output import write_bytes
from agentcli.core.errors import UsageError
from agentcli.core.permission import PermissionMode
from agentcli.core.text.plaintext import plain_line, terminal_line, terminal_text
from agentcli.demo import FIRST_PROMPT
from agentcli.demo.project import CODE, Project
from agentcli.demo.tour import Tour
from agentcli.demo.words import MODEL

if TYPE_CHECKING:
    from agentcli.assemble import Options
    from agentcli.tui.terminal.instant import Instant

FASTEST = 100.0
PREPARING_SECONDS = 10.0
SETTINGS: dict[str, Any] = {
    "smallModel": MODEL,
    "models": {
        MODEL: {
            "contextWindow": 200_000,
            "maxOutput": 32_000,
            "efforts": ["low", "medium", "high", "xhigh", "max"],
            "thinking": ["adaptive", "disabled"],
            # The price of a comparable model, for the status line.
            "price": {"input": 4, "output": 20, "cacheRead": 0.4, "cacheWrite5m": 5, "cacheWrite1h": 8},
        }
    },
}


def run_demo(
    *,
    auto: bool = False,
    speed: float = 1.0,
    keep: bool = False,
    mode: str | None = None,
    theme: str | None = None,
    early: Instant | None = None,
) -> int:
    """Run the demo and return the exit code: with `auto` 0 only if the project's test passes. `early`: the prompt that
    is already on the screen, if any."""
    if not 0 < speed <= FASTEST:
        raise UsageError(f"--speed must be more than 0 and {FASTEST:g} at most, not {speed:g}.")
    terminal = _has_terminal()
    if not terminal and not auto:
        raise UsageError("The demo needs a terminal that it can draw on. To read it as text: agentcli demo --auto")
    if early is None and terminal and not auto:
        early = _show_prompt_early()
    leaving = _EarlyExit()
    if early is not None:
        early.before_leaving = leaving
    with terminal_restored(early), Project(keep=keep) as project, _environment_restored() as mine:
        tour = Tour(lambda: project.fixed)
        demo = _Demo(project, tour, speed, PermissionMode(mode) if mode else None)
        leaving.allow(demo.clear_away)
        # Libraries read the environment of the process directly (proxies, keys).
        os.environ.clear()
        os.environ.update(project.environment(mine))
        logging.getLogger().addHandler(ReportingHandler(mine, lambda _text: None))
        try:
            if terminal:
                code = demo.in_app(theme or _theme_of(mine, project), speed if auto else 0.0, early)
            else:
                code = demo.in_text()
        finally:
            demo.wait_for_preparing()
        return _verdict(project, code) if auto and code == 0 else _farewell(project, code)


class _Demo:
    def __init__(self, project: Project, tour: Tour, speed: float, mode: PermissionMode | None) -> None:
        self._project = project
        self._tour = tour
        self._speed = speed
        self._mode = mode
        self._preparing = threading.Thread(target=project.make_repository, name="demo-repository", daemon=True)
        self._preparing.start()

    def wait_for_preparing(self) -> None:
        """Wait for the thread, which must not write to a folder that is being removed."""
        self._preparing.join(PREPARING_SECONDS)

    def _options(self) -> Options:
        from agentcli.assemble import Options
        from agentcli.demo.director import DemoTransport
        from agentcli.providers.catalog import Catalog
        from agentcli.providers.provider import MessagesProvider

        self.wait_for_preparing()
        project, tour = self._project, self._tour
        transport = DemoTransport(lambda: project.fixed, lambda: tour.next().line, self._speed)
        return Options(
            cwd=self._project.folder,
            interactive=True,
            model=MODEL,
            permission_mode=self._mode,
            settings=json.dumps(SETTINGS),
            provider=MessagesProvider(transport, Catalog(SETTINGS["models"])),
        )

    def clear_away(self) -> None:
        self.wait_for_preparing()
        self._project.remove()

    def in_app(self, theme: str | None, playing: float, early: Instant | None) -> int:
        from agentcli.tui.start import Start, run

        return run(
            Start(
                make_options=self._options,
                cwd=self._project.folder,
                environ=os.environ,
                theme=theme,
                tour=self._tour,
                playing=playing,
            ),
            early,
        )

    def in_text(self) -> int:
        from agentcli.demo.tour import play

        return play(self._options(), self._tour, _print)


class _EarlyExit:
    """Removes the demo if the user leaves before the app has started.

    The early prompt notices that in a separate thread, so it waits until everything that must be removed exists; a
    signal arrives in the creating thread, and cannot wait.
    """

    def __init__(self) -> None:
        self._made = threading.Event()
        self._clear_away: Callable[[], None] | None = None

    def allow(self, clear_away: Callable[[], None]) -> None:
        self._clear_away = clear_away
        self._made.set()

    def __call__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            self._made.wait(PREPARING_SECONDS)
        if self._clear_away is not None:
            self._clear_away()


@contextlib.contextmanager
def _environment_restored() -> Iterator[Mapping[str, str]]:
    """Restore the environment afterwards: a crash report must use the user's folders."""
    mine = dict(os.environ)
    try:
        yield mine
    finally:
        os.environ.clear()
        os.environ.update(mine)


def _show_prompt_early() -> Instant | None:
    """Draw the prompt for a tour with flags: parsing those needed typer, so it is not on the screen yet."""
    from agentcli.tui.terminal import instant
    from agentcli.tui.terminal.instant import look_path

    look = instant.load_look(look_path(os.environ))
    return instant.begin(0, 1, instant.suggest(look, FIRST_PROMPT))


def _has_terminal() -> bool:
    with contextlib.suppress(OSError):
        return os.isatty(0) and os.isatty(1) and os.environ.get("TERM", "") not in ("", "dumb")
    return False


def _theme_of(environ: Mapping[str, str], project: Project) -> str | None:
    """The user's theme, the only setting that the demo uses; a custom theme file is copied."""
    from agentcli.config.paths import Paths
    from agentcli.config.settings import SettingsRequest, load_settings

    paths = Paths.from_environ(environ)
    settings = load_settings(SettingsRequest(paths=paths, cwd=project.folder, environ=environ))
    name = settings.text("theme")
    if name and paths.config_dir is not None and Path(name).name == name:
        own = paths.config_dir / "themes" / f"{name}.toml"
        with contextlib.suppress(OSError):
            folder = project.root / "config" / "themes"
            folder.mkdir()
            shutil.copyfile(own, folder / own.name)
    return name


def _verdict(project: Project, code: int) -> int:
    problem = project.problem()
    if not problem:
        _print("\nThe tour is over, and the test of the temporary project passes.")
        return _farewell(project, code)
    why = "the fix is in the code, but" if project.fixed else f"the edit of {CODE} was not made, so"
    _print(f"agentcli: {why} the test of the temporary project fails: {plain_line(problem, 300)}", 2)
    _farewell(project, code)
    return 1


def _farewell(project: Project, code: int) -> int:
    if project.keep:
        _print(f"The demo folder was kept: {terminal_line(str(project.root))}")
    elif code == 0:
        _print("The demo folder was removed. Next: agentcli login, then agentcli in your project.")
    return code


def _print(text: str, descriptor: int = 1) -> None:
    write_bytes(f"{terminal_text(text)}\n".encode(errors="replace"), descriptor)
