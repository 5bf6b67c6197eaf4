"""Every bench runs and measures something; speed itself is not tested here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.bench.abort import abort
from tests.bench.growth import growth
from tests.bench.iteration import iteration, memory
from tests.bench.look_back import look_back
from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report, quantile
from tests.bench.prepare import prepare
from tests.bench.process import INSTALLED, ending, start
from tests.bench.program import LEAST_CLIENT, REPOSITORY, Workshop, workshop
from tests.bench.search import search
from tests.bench.session import session
from tests.bench.snapshot import snapshot
from tests.bench.tui_long import tui_idle, tui_memory, tui_resume
from tests.bench.tui_markdown import tui_markdown
from tests.bench.tui_pty import AppInPty
from tests.bench.verify import verify
from tests.support.fork_server import ForkedProcess, forked, forked_with_streams

SMALL: dict[str, Callable[[int], Report]] = {
    "start": partial(start, warm_ups=0),
    "exit": partial(ending, warm_ups=0),
    "iteration": partial(iteration, calls=4),
    "memory": partial(memory, turns=4),
    "abort": partial(abort, stubborn_runs=0),
    "session": partial(session, records=40),
    "search": partial(search, sessions=4, megabytes=0.1),
    "look-back": partial(look_back, calls=6),
    "verify": partial(verify, turns=8),
    "snapshot": partial(snapshot, sizes=(100,)),
    "prepare": partial(prepare, messages=200),
    "growth": partial(growth, turns=10),
    "tui-memory": partial(tui_memory, turns=3),
    "tui-idle": partial(tui_idle, seconds=0.1),
    "tui-resume": partial(tui_resume, records=80),
    "tui-markdown": partial(tui_markdown, shorter=700, longest=1_400),
}
"""Without those that start the app many times over: they use the same parts."""


def start_forked(place: Workshop, command: Sequence[str], output: int, errors: int) -> ForkedProcess:
    if command[0] == sys.executable and command[1] in ("-c", "-m"):
        words = command[1:]
    elif command[0] == str(INSTALLED):
        words = ("-m", "agentcli", *command[1:])
    else:
        assert tuple(command[: len(LEAST_CLIENT)]) == LEAST_CLIENT
        words = ("-m", "tests.bench.least_client", *command[len(LEAST_CLIENT) :])
    with Path(os.devnull).open() as nothing:
        streams = (nothing.fileno(), output, errors)
        return forked_with_streams(words, place.project, place.environ, streams)


def open_forked(
    _app: AppInPty, command: Sequence[str], folder: Path, environ: Mapping[str, str], terminal: int
) -> ForkedProcess:
    return forked(command[1:], folder, environ, terminal)


def serve_forked(_server: Loopback, its_input: int, its_output: int) -> ForkedProcess:
    return forked_with_streams(
        ("-m", "tests.bench.server"),
        REPOSITORY,
        {"PYTHONPATH": str(REPOSITORY), "LANG": "C.UTF-8"},
        (its_input, its_output, sys.__stderr__.fileno()),
    )


@pytest.mark.parametrize("name", SMALL)
def test_a_bench_measures_something_in_every_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # With an interpreter that has the modules loaded; tests/bench/test_ratios.py starts new ones.
    monkeypatch.setattr(Workshop, "_start", start_forked)
    monkeypatch.setattr(AppInPty, "_start", open_forked)
    monkeypatch.setattr(Loopback, "_start", serve_forked)
    report = SMALL[name](1)
    assert report.measures
    for measure in report.measures:
        assert measure.values, measure.name
        assert all(value == value for value in measure.values), measure.name


def test_a_program_is_started_in_its_terminal() -> None:
    code = "import os; print('controlled by', os.ttyname(os.open('/dev/tty', os.O_RDWR)))"
    with workshop() as place, AppInPty(place, command=(sys.executable, "-S", "-c", code)) as app:
        app.seen("controlled by /dev/")


def test_every_number_shown_was_measured() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0, 2.0], 0.5) == 1.0
    assert quantile([float(n) for n in range(1, 101)], 0.95) == 95.0


def test_a_report_names_exceeded_budgets_and_the_baseline() -> None:
    fast = Measure("fast", (1.0, 2.0, 3.0), budget=10)
    slow = Measure("slow", (30.0,), budget=10, baseline="fast")
    text = str(Report("title", (fast, slow)))
    assert [line.split("  ")[-1] for line in text.splitlines()[2:]] == ["ok", "15.00 × fast"]
    assert "OVER" in text
    assert not slow.within_budget
