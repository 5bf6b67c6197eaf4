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
from agentcli.sandbox.linux import processes
from agentcli.sandbox.quarantine import guard
from agentcli.tools.shell import running_command, spare_shell
from tests.sandbox.box import Box, ability_or_skip
from tests.sandbox.test_spare import Session, ends_it

pytestmark = pytest.mark.anyio

FOREVER = 60.0


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Nothing in it depends on how fast the machine is."""
    monkeypatch.setattr(processes, "_MOMENT", FOREVER)
    monkeypatch.setattr(running_command, "LIMITS_FROM_SECONDS", FOREVER)
    monkeypatch.setattr(spare_shell, "START_SECONDS", 0.0)
    monkeypatch.setattr(spare_shell, "READY_SECONDS", FOREVER)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as root:
        box = Box.make(Path(root).resolve(), ability_or_skip())
        limited = box.with_rules(limits=ResourceLimits(memory=8 << 30, processes=4_096, cpu_seconds=43_200))
        made = Session(limited)
        yield made


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
        # The next spare is started later, as it is in a session.
        patch.setattr(spare_shell, "START_SECONDS", FOREVER)
        counts(threading.Thread, "start", "threads")
        counts(ThreadPoolExecutor, "submit", "work in threads")
        counts(subprocess, "Popen", "programs")
        for name in ("listdir", "scandir"):
            counts(os, name, "listed folders")
        for name in ("stat", "lstat"):
            counts(os, name, "looks")
        yield found


async def prepared(session: Session) -> None:
    """Run two commands: the search of the working directories has ended after them."""
    await session.spare()
    waiting = await session.spare()
    assert await waiting._is_ready()

    async def is_ready() -> bool:
        return True

    waiting._is_ready = is_ready  # type: ignore[method-assign]


@ends_it
async def test_a_command_in_a_spare_needs_no_thread_and_no_program(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepared(session)
    with counted(monkeypatch) as found:
        output = await session.run("true")
    assert not output.is_error
    assert (found["threads"], found["work in threads"], found["programs"]) == (0, 0, 0)
    # The home folder and those of its folders of which only some entries are readable.
    assert found["listed folders"] <= 4
    assert found["looks"] <= 150


@ends_it
async def test_what_a_command_planted_is_looked_at_in_a_thread(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepared(session)
    with counted(monkeypatch) as found:
        # Where no notice comes while it runs: the search afterwards finds it.
        output = await session.run("mkdir -p deep/er && cd deep/er && mkdir objects refs && echo x > HEAD")
    assert "quarantine" in str(output.content)
    assert found["work in threads"] >= 1
    assert not (session.box.project / "deep" / "er" / "HEAD").exists()


@ends_it
async def test_many_folders_are_searched_in_a_thread(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_FOLDERS_AT_ONCE", 5)
    for number in range(10):
        (session.box.project / str(number)).mkdir()
    await prepared(session)
    with counted(monkeypatch) as found:
        await session.run("true")
    assert found["work in threads"] == 1


@ends_it
async def test_a_folder_with_many_entries_is_listed_in_a_thread(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_ENTRIES_AT_ONCE", 50)
    await prepared(session)
    with counted(monkeypatch) as found:
        await session.run("touch {1..60}")
    assert found["work in threads"] == 1
