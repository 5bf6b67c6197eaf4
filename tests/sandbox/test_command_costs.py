"""What one more command of a session costs besides its own work: counted, not timed."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentcli.sandbox.limits import ResourceLimits
from agentcli.tools.base import ToolContext
from agentcli.tools.shell import running_command
from tests.sandbox.box import Box, ability_or_skip

pytestmark = pytest.mark.anyio

FOREVER = 60.0


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    """Nothing in it depends on how fast the machine is."""
    monkeypatch.setattr(running_command, "LIMITS_FROM_SECONDS", FOREVER)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as root:
        box = Box.make(Path(root).resolve(), ability_or_skip())
        yield box.with_rules(limits=ResourceLimits(memory=8 << 30, processes=4_096, cpu_seconds=43_200))


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often the process starts a thread, a program, or work in a thread, and how often it looks at files."""
    found: Counter[str] = Counter()

    def counts(owner: Any, name: str, label: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        def count(*arguments: Any, **rest: Any) -> Any:
            found[label] += 1
            return function(*arguments, **rest)

        patch.setattr(owner, name, count)

    with monkeypatch.context() as patch:
        counts(threading.Thread, "start", "threads")
        counts(ThreadPoolExecutor, "submit", "work in threads")
        counts(subprocess, "Popen", "programs")
        for name in ("listdir", "scandir"):
            counts(os, name, "listed folders")
        for name in ("stat", "lstat"):
            counts(os, name, "looks")
        yield found


async def prepare(session: Box) -> ToolContext:
    """Run two commands: the search of the working directories has ended after them. Returns the context of the next:
    another one would have its own sandbox, and the counts would include the removal of the first one's folder."""
    context = session.context()
    await session.run("true", context=context)
    await session.run("true", context=context)
    return context


async def test_a_command_starts_no_thread_and_looks_at_few_files(session: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    context = await prepare(session)
    with counted(monkeypatch) as found:
        output = await session.run("true", context=context)
    assert not output.is_error
    assert (found["threads"], found["work in threads"]) == (0, 1), "its end is checked in a thread that exists"
    # The home folder and those of its folders of which only some entries are readable.
    assert found["listed folders"] <= 3
    assert found["looks"] <= 150
