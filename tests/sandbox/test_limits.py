"""Commands that use too many resources are stopped as a whole, with the limit named."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentcli.sandbox import limits
from agentcli.sandbox.limits import ResourceLimits, with_kernel_limits
from tests.sandbox.box import Box

pytestmark = pytest.mark.anyio

HOG = "python3 -c 'import time; held = [bytearray(8 << 20) for _ in range(40)]; time.sleep(60)'"
BOMB = "for i in $(seq 400); do sleep 60 & done; wait"
BURNER = "while :; do :; done"


async def test_a_command_over_its_memory_limit_is_stopped_with_a_reason(box: Box) -> None:
    output = await box.with_rules(limits=ResourceLimits(memory=100 << 20)).run(HOG)
    assert output.is_error
    assert "limit of 100 MiB" in str(output.content)
    assert "sandbox.maxMemoryMb" in str(output.content)


async def test_memory_is_counted_over_all_processes_of_a_command(box: Box) -> None:
    one = "python3 -c 'import time; held = bytearray(60 << 20); time.sleep(60)'"
    output = await box.with_rules(limits=ResourceLimits(memory=100 << 20)).run(f"{one} & {one} & wait")
    assert "limit of 100 MiB" in str(output.content)


async def test_memory_that_is_only_reserved_is_not_counted(box: Box) -> None:
    reserve = "python3 -c 'import mmap; held = mmap.mmap(-1, 1 << 36, flags=mmap.MAP_PRIVATE | 0x4000); print(1)'"
    output = await box.with_rules(limits=ResourceLimits(memory=100 << 20, processes=50)).run(f"{reserve}; sleep 0.2")
    assert output.content == "1"


async def test_a_command_over_its_process_limit_is_stopped_with_a_reason(box: Box) -> None:
    output = await box.with_rules(limits=ResourceLimits(processes=100)).run(BOMB)
    assert output.is_error
    assert "limit of 100" in str(output.content)
    assert "sandbox.maxProcesses" in str(output.content)
    project = str(box.project)
    assert not [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and _folder_of(entry) == project]


async def test_a_process_over_its_cpu_limit_is_stopped_with_a_reason(box: Box) -> None:
    output = await box.with_rules(limits=ResourceLimits(cpu_seconds=1)).run(BURNER)
    assert output.is_error
    assert "sandbox.maxCpuSeconds" in str(output.content)


async def test_a_command_cannot_raise_its_limit(box: Box) -> None:
    text = await box.with_rules(limits=ResourceLimits(cpu_seconds=100)).text(
        "ulimit -t; ulimit -t 9999 2>&-; ulimit -Ht"
    )
    assert text.split() == ["100", "105"]


def test_on_a_busy_machine_limits_are_checked_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a check takes ten seconds, but almost none of the processor."""
    clock = SimpleNamespace(perf_counter=itertools.count(0, 10).__next__, thread_time=lambda: 0.0)
    monkeypatch.setattr(limits, "time", clock)
    looks, third = itertools.count(1), threading.Event()

    def first_process() -> None:
        if next(looks) == 3:
            third.set()

    watch = limits.LimitWatch(ResourceLimits(processes=1))
    watch.add("command", first_process)
    try:
        assert third.wait(20)
    finally:
        watch.remove("command")


def test_a_program_that_is_no_shell_keeps_its_arguments() -> None:
    assert with_kernel_limits(("/bin/ls", "-l"), ResourceLimits(cpu_seconds=5)) == ("/bin/ls", "-l")
    assert with_kernel_limits(("/bin/sh", "-c", "ls"), ResourceLimits()) == ("/bin/sh", "-c", "ls")


def _folder_of(process: Path) -> str:
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return ""
