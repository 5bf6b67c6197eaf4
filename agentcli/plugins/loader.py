"""Run a plugin's code and get its `Plugin`, within a time limit. Every failure of the code is a value here."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from agentcli.core.files.access import Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line
from agentcli.plugins.plugin import Plugin

T = TypeVar("T")


class TimeLimitReached(Exception):
    """The function did not end in time."""

    def __init__(self, seconds: float, lines: tuple[tuple[str, int], ...]) -> None:
        super().__init__(f"it did not end within {seconds:g} seconds")
        self.lines = lines
        """File and line of each frame it was in, innermost first."""


class _Stopped(BaseException):
    """Raised inside the function's thread at the time limit."""


def call_bounded(function: Callable[[], T], seconds: float, name: str) -> T:
    """Call a function; blocking. Raises what the function raises, including SystemExit, and `TimeLimitReached`."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if results:
        return results[0]
    lines = _lines(thread)
    if thread.ident is not None:
        import ctypes  # imported here: its 3 ms are needed only for a plugin that hangs

        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Stopped))
    raise TimeLimitReached(seconds, lines)


def _lines(thread: threading.Thread) -> tuple[tuple[str, int], ...]:
    frame = sys._current_frames().get(thread.ident or 0)
    found = []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


MAX_BYTES = 1024 * 1024
"""Size in bytes at which the file is truncated."""


class TracebackLog:
    def __init__(self, path: Path | None) -> None:
        """`path`: None: nothing is written."""
        self._path = path

    def add(self, label: str, error: BaseException) -> None:
        """Append a traceback. Never raises."""
        if self._path is None:
            return
        lines = "".join(traceback.format_exception(error))
        text = f"{datetime.now().isoformat(timespec='seconds')} {label}\n{lines}\n"
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            try:
                if os.fstat(descriptor).st_size > MAX_BYTES:
                    os.ftruncate(descriptor, 0)
                os.write(descriptor, text.encode(errors="replace")[:MAX_BYTES])
            finally:
                os.close(descriptor)


ENTRY_POINTS = "agentcli.plugins"
"""The group of entry points that installed packages use."""
Scope = Literal["project", "user", "package"]
TIME_LIMIT = 5.0
"""Time limit per plugin, in seconds."""
_MAX_METADATA_BYTES = 256 * 1024
_MODULES = "agentcli_plugins"
"""Prefix of the module names of plugin files."""


@frozen
class PluginSource:
    """A plugin that may be loaded."""

    name: str
    scope: Scope
    label: str
    """Display name: `.agentcli/plugins/words.py`, `words-plugin 1.2`."""
    path: Path | None = None
    """Its file; None for an installed package."""


@frozen
class PluginProblem:
    """Why a plugin, or a new version of it, is not used."""

    label: str
    line: int
    """Line number; 0: unknown."""
    text: str

    def __str__(self) -> str:
        where = f"{self.label}:{self.line}" if self.line else self.label
        return plain_line(f"{where}: {self.text}", 400)


class PluginError(Exception):
    """A registration that cannot be used, at a line of the plugin's file."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


@frozen
class Loading:
    """How plugins are loaded."""

    check: Callable[[Plugin], None] = lambda _plugin: None
    """Raises an exception for a plugin with unusable parts, which then counts as not loaded."""
    limit: float = TIME_LIMIT
    log: TracebackLog = TracebackLog(None)


@frozen
class LoadedPlugin:
    source: PluginSource
    plugin: Plugin | None
    """The version in use; None: no version has loaded."""
    problem: PluginProblem | None = None
    """Problem of the newest version."""
    milliseconds: float = 0.0
    """Duration of the last load."""


def load_file(source: PluginSource, data: bytes, loading: Loading) -> LoadedPlugin:
    """Run a plugin file with the content `data`: exactly what was read (and checked), even if the file has changed
    since."""

    def work() -> Plugin:
        name = f"{_MODULES}.{source.scope}.{source.name}"
        module = ModuleType(name)
        module.__file__ = str(source.path)
        code = compile(data, str(source.path), "exec", dont_inherit=True)
        if source.scope == "project":
            # A cache of a module beside it would be a file that the user has not trusted.
            sys.dont_write_bytecode = True
        before = sys.modules.get(name)
        # Dataclasses and pickles look up their module by name.
        sys.modules[name] = module
        try:
            exec(code, module.__dict__)  # noqa: S102 - a plugin is code that the user wants to run
        except BaseException:
            if before is not None:
                sys.modules[name] = before
            else:
                del sys.modules[name]
            raise
        return _plugin_of(module)

    linecache.checkcache(str(source.path))
    return _load_bounded(source, work, loading)


def load_entry_point(source: PluginSource, entry: Any, loading: Loading) -> LoadedPlugin:
    """`entry`: an `importlib.metadata.EntryPoint` that names a `Plugin`, or a module with one."""

    def work() -> Plugin:
        found = entry.load()
        return found if isinstance(found, Plugin) else _plugin_of(found)

    return _load_bounded(source, work, loading)


def entry_points() -> list[tuple[PluginSource, Any]]:
    """Plugins of installed packages, by name."""
    if not has_entry_points():
        return []
    from importlib import metadata

    found = []
    for entry in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
        found.append((PluginSource(entry.name, "package", package), entry))
    return found


def has_entry_points() -> bool:
    """Whether an installed package has a plugin."""
    return any(map(_names_plugins, sys.path))


def _names_plugins(folder: str) -> bool:
    """Whether a package in this folder of the import path has our entry points. Costs a small file per package;
    `importlib.metadata` alone takes longer to import."""
    try:
        with os.scandir(folder or ".") as entries:
            packages = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False
    for package in packages:
        data = read_bounded(f"{package}/entry_points.txt", _MAX_METADATA_BYTES)
        if not isinstance(data, Unread) and ENTRY_POINTS.encode() in data:
            return True
    return False


def _plugin_of(module: object) -> Plugin:
    found = getattr(module, "plugin", None)
    if not isinstance(found, Plugin):
        raise PluginError("it has no `plugin = Plugin()` at its top level", 1)
    return found


def _load_bounded(source: PluginSource, work: Callable[[], Plugin], loading: Loading) -> LoadedPlugin:
    def checked() -> Plugin:
        plugin = work()
        loading.check(plugin)
        return plugin

    began = time.perf_counter()
    plugin: Plugin | None = None
    problem: PluginProblem | None = None
    try:
        plugin = call_bounded(checked, loading.limit, f"plugin {source.name}")
    except BaseException as error:  # noqa: BLE001 - also SystemExit: a plugin must not end the program
        loading.log.add(source.label, error)
        problem = problem_of(source, error)
    return LoadedPlugin(source, plugin, problem, (time.perf_counter() - began) * 1000)


def problem_of(source: PluginSource, error: BaseException) -> PluginProblem:
    """The problem with the line of the plugin's own file that caused it."""
    if isinstance(error, PluginError):
        return PluginProblem(source.label, error.line, str(error))
    if isinstance(error, SyntaxError) and error.filename == str(source.path):
        return PluginProblem(source.label, error.lineno or 0, f"{type(error).__name__}: {error.msg}")
    if isinstance(error, TimeLimitReached):
        line = next((line for file, line in error.lines if file == str(source.path)), 0)
        return PluginProblem(source.label, line, str(error))
    line = line_of(error, str(source.path))
    return PluginProblem(source.label, line, f"{type(error).__name__}: {error}".rstrip(": "))


def line_of(error: BaseException, path: str) -> int:
    """The last line of a file that an exception came through; 0: none."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return (lines[-1] or 0) if lines else 0
