"""What a start of the app takes in all: processor time, also of its children, until it does nothing any more."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.program import AGENTCLI, Workshop, workshop
from tests.bench.ratios import Sampled
from tests.bench.tui_pty import AppInPty
from tests.bench.tui_start import BARE_APP

IDLE_SECONDS = 1.0
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


def idle_start(runs: int) -> list[Sampled]:
    bare: list[float] = []
    ours: list[float] = []
    with workshop() as place:
        place.talk_to("http://127.0.0.1:9")
        for turn in range(runs + 1):
            for values, command in ((bare, (sys.executable, "-c", BARE_APP)), (ours, AGENTCLI)):
                milliseconds = until_idle(place, command)
                if turn:  # the first time around compiles
                    values.append(milliseconds)
    name = "start: the app, processor until idle"
    return [Sampled(name, "bare Textual app", tuple(ours), tuple(bare), "ms")]


def until_idle(place: Workshop, command: Sequence[str]) -> float:
    with AppInPty(place, command=command) as app:
        used, idle_since = 0.0, time.monotonic()
        while time.monotonic() - idle_since < IDLE_SECONDS:
            app.read_for(0.05)
            # A blinking cursor may take a tick now and then.
            if (now := _processor_seconds(app.process.pid)) - used > 1.5 * _TICK_SECONDS:
                used, idle_since = now, time.monotonic()
        return _processor_seconds(app.process.pid) * 1000


def _processor_seconds(pid: int) -> float:
    """Of a process and of those children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * _TICK_SECONDS
