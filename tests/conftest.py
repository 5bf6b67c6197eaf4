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
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.fork_server import server_pid

# Who starts the tests in the background (nohup, `&`) has some signals ignored, and programs under test inherit that.
for _number, _usual in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

_UNHURRIED = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
settings.register_profile("here", max_examples=30, deadline=None, suppress_health_check=_UNHURRIED)
settings.register_profile("thorough", settings.get_profile("here"), max_examples=1000)
# On CI the same examples every time: a run that passed is a run that passes. New ones are looked for everywhere else,
# and many more with --hypothesis-profile=thorough.
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

_GRACE_SECONDS = 1.0
"""How long a suspected leak may take to go away; costs nothing when there is none."""


FIXTURE_TASK = "fixture:"
"""Tasks with such a name belong to a fixture, which ends them after the test."""


_WITH_PROCESSES = {
    "e2e",
    "sandbox",
    "assemble",
    "test_driver",
    "test_instant",
    "test_contributing",
    "test_doctor_sandbox",
}
"""Folders and modules whose tests wait for real processes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On CI a test of whole processes gets a second try, which the summary names: on a machine that has other work to
    do one of them may be late. Here, where it can be looked into, none does."""
    if os.environ.get("CI"):
        for item in items:
            if not _WITH_PROCESSES.isdisjoint((*item.path.parts, item.path.stem)):
                item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    children, sockets = _children(), _connections()
    yield
    leaks = _until_gone(lambda: [f"child process {pid}" for pid in _children() - children])
    leaks += _until_gone(lambda: [f"open connection {name}" for name in _connections() - sockets])
    if leaks:
        pytest.fail("the test left behind: " + ", ".join(leaks))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Tasks have to be looked for inside the loop: when it closes it cancels them without a word."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.obj = _checked_for_tasks(item.obj)


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
    try:
        tasks = list(Path("/proc/self/task").iterdir())
        pids = {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
        return pids - {server_pid()}
    except OSError:
        return set()


def _connections() -> set[str]:
    """Network sockets only: event loops keep a pair of local ones for themselves."""
    found: set[str] = set()
    try:
        entries = list(Path("/proc/self/fd").iterdir())
    except OSError:
        return found
    for entry in entries:
        try:
            name = str(entry.readlink())
            if not name.startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as copy:
                if copy.family in (socket.AF_INET, socket.AF_INET6):
                    found.add(f"{name} {copy.getsockname()}")
        except OSError:
            continue
    return found
