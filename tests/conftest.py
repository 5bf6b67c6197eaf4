"""Fixtures that every test gets: the event loop backend, and the check that a test cleans up after itself.

A test that leaves an asyncio task, a child process or a network connection behind fails. Children and sockets are
found through /proc; where there is none (macOS) only tasks are checked.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio.pytest_plugin
import pytest
from hypothesis import settings
from hypothesis.internal import charmap as hypothesis_characters
from hypothesis.internal.conjecture import providers as hypothesis_providers
from hypothesis.internal.intervalsets import IntervalSet

from tests.support import compiled_tests, forked_workers, memory_folders, network_sockets, unsynced
from tests.support.examples import EXAMPLES, UNHURRIED
from tests.support.own_loop import run_in_own_loop
from tests.support.virtual import run_virtual

# Who starts the tests in the background (nohup, `&`) has some signals ignored, and programs under test inherit that.
for _number, _usual in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

_FEW_EXAMPLES = 30
_find_encodable = hypothesis_characters.intervals_from_codec
settings.register_profile("here", max_examples=EXAMPLES, deadline=None, suppress_health_check=UNHURRIED)
settings.register_profile("thorough", settings.get_profile("here"), max_examples=1000)
# On CI the same examples every time: a run that passed is a run that passes. New ones are looked for everywhere else,
# and many more with --hypothesis-profile=thorough.
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# ruff: noqa: PTH123, PTH208 -- /proc is read before and after each of 11,000 tests, and pathlib is slow


# Workers read the test modules that another one has compiled: rewriting 10,000 assertions takes 20 s of CPU.
sys.dont_write_bytecode = False

# Projects of tests are not in /tmp, as most projects are not: the sandbox shows a command everything beside a project
# in there, with one mount each, and on a machine with a full /tmp that took ten times as long as the command.
if Path(tempfile.gettempdir()).resolve() == Path("/tmp") and os.access("/var/tmp", os.W_OK | os.X_OK):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/var/tmp")

unsynced.install()
network_sockets.install()

# Nearly everything that is made until the tests begin stays: `pytest_collection_finish` turns the collector on.
gc.disable()

_GRACE_SECONDS = 1.0
"""How long a suspected leak may take to go away; costs nothing when there is none."""


_UNSHOWN = (("setup", "passed"), ("teardown", "passed"))

FIXTURE_TASK = "fixture:"
"""Tasks with such a name belong to a fixture, which ends them after the test."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    if config.args_source.name == "TESTPATHS":
        compiled_tests.compile_in_parallel(config.rootpath)
    memory_folders.mount(config)
    forked_workers.start(config, specs)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker that has nothing left takes tests from the others: these waited 30 s for the slowest one."""
    if config.option.dist != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Workers report what the controller shows: of a test that passed, neither that it begins nor its setup and
    teardown. Sending and reading these was half of the cost of a small test."""
    option = session.config.option
    if option.verbose > 0 or option.durations is not None or option.xmlpath is not None:
        return
    worker = forked_workers.find_interactor(session.config)
    if worker is not None:
        worker.sendevent = functools.partial(_send_event, worker.sendevent)


def _send_event(send: Callable[..., None], name: str, **values: Any) -> None:
    report = values.get("data", {}) if name == "testreport" else {}
    if name != "logstart" and (report.get("when"), report.get("outcome")) not in _UNSHOWN:
        send(name, **values)


def pytest_collection() -> None:
    if settings().max_examples <= _FEW_EXAMPLES:
        # Hypothesis also tries constants of the code, and parses all of it to find them: 4.5 s of CPU in every worker.
        # Among few examples hardly any is one of these 5,700.
        hypothesis_providers._get_local_constants = lambda: hypothesis_providers._local_constants
    hypothesis_characters.intervals_from_codec = _encodable_characters


@functools.cache
def _encodable_characters(codec: str) -> tuple[IntervalSet, IntervalSet]:
    """The characters that a codec can encode, and those of them that do not decode to themselves. Hypothesis tries all
    1.1 million, which for UTF-8 took 2.5 s of CPU in every worker of a new checkout."""
    if codec == "utf-8":
        return IntervalSet([(0, 0xD7FF), (0xE000, sys.maxunicode)]), IntervalSet([])
    return _find_encodable(codec)


def pytest_collection_finish() -> None:
    """Keep the garbage collector off everything that lives until the end: it took a third of the time of a test of the
    app. New objects are still collected, every 100,000 instead of every 700."""
    if "textual.pilot" in sys.modules:
        from tests.support import pilot_idle, quick_lookups, skipped_frames, strip_cache, stylesheet_cache

        pilot_idle.install()
        quick_lookups.install()
        skipped_frames.install()
        strip_cache.install()
        stylesheet_cache.install()
    if "agentcli.sandbox.linux.probe" in sys.modules:
        from tests.support import sandbox_probe

        sandbox_probe.install()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    gc.enable()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember the test for `tmp_path`."""
    global _running
    _running = item


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Depends on no other fixture, not even `request`: these took longer than making the folder."""
    yield from memory_folders.folder_of(_running)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty folder to work in; `tmp_path` beside it is free for a home and other places."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    children, sockets = _children(), network_sockets.known()
    yield
    _forget_ended_tasks()
    leaks = _until_gone(lambda: [f"child process {pid}" for pid in _children() - children])
    leaks += _until_gone(lambda: network_sockets.opened_since(sockets))
    if leaks:
        pytest.fail("the test left behind: " + ", ".join(leaks))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Tasks have to be looked for inside the loop: when it closes it cancels them without a word."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.obj = _checked_for_tasks(item.obj)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an asynchronous test in its event loop, unless an asynchronous fixture has given it anyio's: that takes one
    more task and a stream to it, and twice as long."""
    names = pyfuncitem._fixtureinfo.argnames
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or anyio.pytest_plugin._current_runner is not None:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    nearest = next((mark.name for mark in pyfuncitem.iter_markers() if mark.name in ("anyio", "virtual")), "")
    if nearest == "virtual":
        run_virtual(pyfuncitem.obj(**arguments))
        return True
    assert pyfuncitem.funcargs.get("anyio_backend") == "asyncio", "asynchronous tests are marked with anyio or virtual"
    run_in_own_loop(pyfuncitem.obj, arguments)
    return True


def _checked_for_tasks(test: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(test)
    async def checked(*args: Any, **kwargs: Any) -> None:
        before = asyncio.all_tasks()
        await test(*args, **kwargs)
        for _turn in range(20):
            left = {task for task in asyncio.all_tasks() - before if not task.get_name().startswith(FIXTURE_TASK)}
            if not left:
                return
            await asyncio.sleep(0)
        pytest.fail(f"the test left tasks behind: {left}")

    return checked


def _forget_ended_tasks() -> None:
    """Every look at all tasks also passes those of earlier tests, which stay until the next garbage collection: that
    took as long as a short test itself."""
    known = getattr(asyncio.tasks, "_all_tasks", None)
    for task in [task for task in known or () if task.done()]:
        known.discard(task)


def _until_gone(look: Callable[[], list[str]]) -> list[str]:
    found = look()
    deadline = time.monotonic() + _GRACE_SECONDS
    while found and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.02)
        found = look()
    return found


def _children() -> set[int]:
    """Child processes of this one, also those that ended and were not waited for."""
    pids: set[int] = set()
    if sys.platform != "linux":
        return pids
    try:
        # Usually there is none, and asking the system for that is much quicker than reading /proc.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                pids.update(map(int, file.read().split()))
    except OSError:
        return set()
    return pids
