"""python -m tests.bench [NAME ...] [--runs N]: measure, and print what was measured against what was promised."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Mapping

from tests.bench.abort import abort
from tests.bench.edits import edits_bench
from tests.bench.imports import imports
from tests.bench.index import index
from tests.bench.iteration import iteration, memory
from tests.bench.measure import Report
from tests.bench.permissions import permissions
from tests.bench.prepare import prepare
from tests.bench.process import ending, start
from tests.bench.sandbox import sandbox
from tests.bench.session import session
from tests.bench.snapshot import snapshot
from tests.bench.tools import tools
from tests.bench.tui_keys import tui_keys
from tests.bench.tui_long import tui_idle, tui_memory, tui_resume
from tests.bench.tui_loop import tui_loop
from tests.bench.tui_markdown import tui_markdown
from tests.bench.tui_start import tui_start
from tests.bench.tui_stream import tui_escape, tui_stream
from tests.bench.tui_transcript import tui_transcript

BENCHES: Mapping[str, tuple[Callable[[int], Report], int]] = {
    "start": (start, 15),
    "exit": (ending, 15),
    "iteration": (iteration, 3),
    "memory": (memory, 2),
    "tools": (tools, 15),
    "abort": (abort, 10),
    "imports": (imports, 9),
    "session": (session, 3),
    "edits": (edits_bench, 5),
    "permissions": (permissions, 300),
    "sandbox": (sandbox, 40),
    "snapshot": (snapshot, 25),
    "index": (index, 3),
    "prepare": (prepare, 5),
    "tui-start": (tui_start, 10),
    "tui-keys": (tui_keys, 3),
    "tui-stream": (tui_stream, 5),
    "tui-escape": (tui_escape, 5),
    "tui-memory": (tui_memory, 3),
    "tui-idle": (tui_idle, 2),
    "tui-resume": (tui_resume, 5),
    "tui-loop": (tui_loop, 2),
    "tui-markdown": (tui_markdown, 5),
    "tui-transcript": (tui_transcript, 10),
}
"""Each with how often it is run unless told otherwise."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; all if none is given")
    parser.add_argument("--runs", type=int, help="how often each is run")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"there is no bench called {unknown[0]}; there are: {', '.join(BENCHES)}")
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}\n")
    over: list[str] = []
    for name in options.names or BENCHES:
        bench, usual_runs = BENCHES[name]
        report = bench(options.runs or usual_runs)
        print(f"{report}\n", flush=True)
        over += [f"{name}: {measure.name}" for measure in report.measures if not measure.within_budget]
    print("Over budget: " + "; ".join(over) if over else "All within budget.")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
