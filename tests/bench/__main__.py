"""python -m tests.bench: one table of what agentcli takes, as ratios to a bare Python, a bare Textual app and the like.

python -m tests.bench                    the table, compared with the baseline that is kept
python -m tests.bench --check            the same, exit 1 if a ratio is more than 30 % over its baseline
python -m tests.bench --save-baseline    the same, kept as the new baseline
python -m tests.bench NAME ...           single benches in detail, against what was promised; --all for all of them
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.bench.abort import abort
from tests.bench.gaps import gaps
from tests.bench.growth import growth, growth_http
from tests.bench.growth_resume import growth_resume
from tests.bench.iteration import iteration, memory
from tests.bench.look_back import look_back
from tests.bench.measure import Report
from tests.bench.prepare import prepare
from tests.bench.process import ending, start
from tests.bench.questions import questions
from tests.bench.ratios import Compared, compare, decode_baseline, encode_baseline, regressions, table, unmeasured
from tests.bench.search import search
from tests.bench.session import session
from tests.bench.snapshot import snapshot
from tests.bench.suite import PROBES
from tests.bench.tui_keys import tui_keys
from tests.bench.tui_long import tui_idle, tui_memory, tui_resume
from tests.bench.tui_loop import tui_loop
from tests.bench.tui_markdown import tui_markdown
from tests.bench.tui_start import tui_start
from tests.bench.tui_stream import tui_escape, tui_stream
from tests.bench.verify import verify

BENCHES: Mapping[str, tuple[Callable[[int], Report], int]] = {
    "start": (start, 15),
    "exit": (ending, 15),
    "iteration": (iteration, 3),
    "gaps": (gaps, 2),
    "memory": (memory, 2),
    "abort": (abort, 10),
    "session": (session, 3),
    "search": (search, 5),
    "look-back": (look_back, 3),
    "verify": (verify, 3),
    "questions": (questions, 1),
    "snapshot": (snapshot, 25),
    "prepare": (prepare, 5),
    "growth": (growth, 1),
    "growth-http": (growth_http, 1),
    "growth-resume": (growth_resume, 1),
    "tui-start": (tui_start, 10),
    "tui-keys": (tui_keys, 3),
    "tui-stream": (tui_stream, 5),
    "tui-escape": (tui_escape, 5),
    "tui-memory": (tui_memory, 3),
    "tui-idle": (tui_idle, 2),
    "tui-resume": (tui_resume, 5),
    "tui-loop": (tui_loop, 2),
    "tui-markdown": (tui_markdown, 5),
}
"""Each with its default number of runs."""


EXTRA_RUNS = 2
"""When a line is measured a second time."""
BASELINE = Path(__file__).with_name("baseline.json")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}")
    parser.add_argument("--all", action="store_true", help="every bench in detail")
    parser.add_argument("--runs", type=int, help="how often each is run")
    parser.add_argument("--check", action="store_true", help="exit 1 if a ratio is too far over its baseline")
    parser.add_argument("--save-baseline", action="store_true", help="keep the ratios of this run")
    parser.add_argument("--only", action="append", choices=list(PROBES), help="these lines of the table only")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"there is no bench called {unknown[0]}; there are: {', '.join(BENCHES)}")
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    print(f"Python {platform.python_version()}, {cores} cores, load {load:.1f}", flush=True)
    if load > cores:
        print("The machine is busy with other things: times are longer than they should be, ratios less sure.")
    print(flush=True)
    if options.names or options.all:
        return in_detail(options.names or list(BENCHES), options.runs)
    if options.only and options.save_baseline:
        parser.error("a baseline is of all lines; leave out --only")
    return as_table(options.only or list(PROBES), options.runs, check=options.check, save=options.save_baseline)


def in_detail(names: Sequence[str], runs: int | None) -> int:
    over: list[str] = []
    for name in names:
        bench, usual_runs = BENCHES[name]
        report = bench(runs or usual_runs)
        print(f"{report}\n", flush=True)
        over += [f"{name}: {measure.name}" for measure in report.measures if not measure.within_budget]
    print("Over budget: " + "; ".join(over) if over else "All within budget.")
    return 1 if over else 0


def as_table(names: Sequence[str], runs: int | None, *, check: bool, save: bool) -> int:
    baseline = decode_baseline(BASELINE.read_text()) if BASELINE.exists() else {}
    compared: list[Compared] = []
    for name in names:
        began = time.monotonic()
        compared += measured(name, runs, {} if save else baseline)
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(table(compared))
    if save:
        machine = {"python": platform.python_version(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
        BASELINE.write_text(encode_baseline([one.sampled for one in compared], machine))
        print(f"\nKept in {BASELINE}.")
        return 0
    problems = regressions(compared)
    if len(names) == len(PROBES):
        problems += [f"{name}: in the baseline, but not measured any more" for name in unmeasured(compared, baseline)]
    if check and not baseline:
        problems.append("there is no baseline; --save-baseline makes one")
    print(
        "\n" + ("\n".join(f"! {problem}" for problem in problems) if problems else "Nothing is slower than it may be.")
    )
    return 1 if check and problems else 0


def measured(name: str, runs: int | None, baseline: Mapping[str, float]) -> list[Compared]:
    """One probe. What seems too slow is measured again, with more runs: something else may have been at work."""
    probe, usual_runs = PROBES[name]
    count = runs or usual_runs
    compared = compare(probe(count), baseline)
    if any(one.verdict == "slower" for one in compared):
        again = {line.name: line for line in probe(count + EXTRA_RUNS)}
        compared = compare([one.sampled.merged(again[one.sampled.name]) for one in compared], baseline)
    return compared


if __name__ == "__main__":
    sys.exit(main())
