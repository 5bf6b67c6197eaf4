"""Resuming ever longer sessions: time and memory to read the file, by its size, and what the app shows when."""

from __future__ import annotations

import os
import time
from pathlib import Path

from agentcli.session.load import load_session
from tests.bench.growth import resident_kilobytes
from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import Workshop, workshop
from tests.bench.tui_history import LAST_WORDS, write_session
from tests.bench.tui_pty import AppInPty
from tests.support.scripts import reply, say

MEGABYTES = 100.0
MAX_GROWTH = 1.2
_TURNS_A_MEGABYTE = 220
COMPACTED_EVERY = 3_000
"""Turns: what fits into a window of a million tokens."""
_ANSWER = "This is the answer after all that."


def growth_resume(runs: int, megabytes: float = MEGABYTES) -> Report:
    """The time for a megabyte may not grow with the file, and its end is visible before all of it is read."""
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        turns = [round(megabytes * part / 10 * _TURNS_A_MEGABYTE) for part in (1, 4, 7, 10)]
        sessions = [write_session(place, count, COMPACTED_EVERY) for count in turns]
        loaded = [_loaded(_file_of(place, session), runs) for session in sessions]
        shown = [_resumed(place, server, session, runs) for session in (sessions[0], sessions[-1])]
    (small_visible, small_answered, _small), (visible, answered, resident) = shown
    size = loaded[-1][0]
    per_megabyte = [
        Measure(f"reading {megabytes:,.1f} MB: processor time a megabyte", times)
        for megabytes, times, _memory in loaded
    ]
    ratio = per_megabyte[-1].median / per_megabyte[0].median
    return Report(
        f"growth-resume: sessions of up to {size:,.0f} MB",
        (
            *per_megabyte,
            Measure("the last to the first", (ratio,), "×", MAX_GROWTH),
            Measure("memory for a megabyte of the file", tuple(memory for *_rest, memory in loaded), "MB"),
            Measure("the app: its end visible, a tenth of it", small_visible),
            Measure(
                "the app: its end visible", visible, budget=1_000, baseline="the app: its end visible, a tenth of it"
            ),
            Measure("the app: the first prompt answered, a tenth of it", small_answered),
            Measure("the app: the first prompt answered", answered),
            Measure("the app: resident then", resident, "MB"),
        ),
    )


def _file_of(place: Workshop, session: str) -> Path:
    return next(path for path in (place.home / ".local/state/agentcli").rglob("*.jsonl") if session in path.name)


def _loaded(path: Path, runs: int) -> tuple[float, tuple[float, ...], float]:
    """Megabytes of the file, milliseconds of processor time for each of them, and resident megabytes for each. Every
    run has a process of its own, because memory that was freed counts as resident."""
    size = path.stat().st_size / 1024 / 1024
    times: list[float] = []
    memory = 0.0
    for _run in range(runs):
        read_end, write_end = os.pipe()
        child = os.fork()
        if not child:
            before, began = resident_kilobytes(), time.process_time()
            session = load_session(path)
            spent = (time.process_time() - began) * 1000
            os.write(write_end, f"{spent} {resident_kilobytes() - before} {len(session.messages)}".encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(write_end)
        spent_text, kilobytes, _count = os.read(read_end, 200).split()
        os.close(read_end)
        times.append(float(spent_text) / size)
        memory = int(kilobytes) / 1024 / size
    return size, tuple(times), memory


def _resumed(
    place: Workshop, server: Loopback, session: str, runs: int
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Milliseconds from the start of the process, and megabytes."""
    visible, answered, resident = [], [], []
    for _run in range(runs):
        server.play(*(reply(say(_ANSWER)) for _request in range(4)))
        with AppInPty(place, "--resume", session) as app:
            visible.append((app.seen(LAST_WORDS) - app.began) * 1000)
            app.send("Go on")
            answered.append((app.seen(_ANSWER) - app.began) * 1000)
            resident.append(app.resident_megabytes)
    return tuple(visible), tuple(answered), tuple(resident)
