"""How long a keystroke takes while a file's name is typed, in trees of 100,000 and of a million files."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from agentcli.tools.search.file_index import PathIndex, with_folders
from tests.bench.measure import Measure, Report

WORDS = [
    "agent",
    "tool",
    "engine",
    "provider",
    "session",
    "config",
    "core",
    "loop",
    "state",
    "permission",
    "sandbox",
    "file",
    "index",
    "search",
    "test",
    "unit",
    "data",
    "model",
    "view",
    "widget",
    "screen",
    "prompt",
    "parser",
    "token",
    "stream",
    "event",
    "message",
    "block",
    "result",
    "util",
    "common",
    "internal",
    "server",
    "client",
    "request",
    "response",
    "handler",
    "service",
    "user",
    "account",
    "billing",
    "order",
]
ENDINGS = (".py", ".ts", ".tsx", ".go", ".md", ".json", ".README.md")
FIRST_ANSWER_SECONDS = 0.03
QUERIES = ("engine", "agtool", "src/engine.py", "srvcsesn", "wdgtscrn", "xyzzy", "billing/order/v", "tstun", "README")


def synthetic_paths(count: int) -> list[str]:
    """The same for the same count; about ten files in a folder."""
    source = random.Random(count)
    folders = ["src"]
    while len(folders) < count // 10 + 1:
        parent = source.choice(folders)
        if parent.count("/") < 6:
            folders.append(f"{parent}/{source.choice(WORDS)}{source.choice(('', '', '2', '-v3'))}")
    found: set[str] = set()
    while len(found) < count:
        words = [source.choice(WORDS) for _word in range(source.randint(1, 3))]
        name = source.choice(("_", "-", "")).join(words) + source.choice(("", str(source.randint(1, 99))))
        found.add(f"{source.choice(folders)}/{name}{source.choice(ENDINGS)}")
    return sorted(found)


def index(runs: int, counts: Sequence[int] = (100_000, 1_000_000)) -> Report:
    """The same for each size, and the first answer of the largest as a ratio to that of the smallest."""
    measures = [measure for count in counts for measure in _measured(runs, count, counts[0])]
    return Report("index: finding a file by name", tuple(measures))


def _measured(runs: int, count: int, smallest: int) -> list[Measure]:
    paths = with_folders(synthetic_paths(count))
    first, working, pasting, building, sizes = [], [], [], [], []
    for _run in range(runs):
        began = time.thread_time()
        tree = PathIndex(paths)
        building.append((time.thread_time() - began) * 1000)
        sizes.append(tree.size / len(tree))
        for query in QUERIES:
            for end in range(1, len(query) + 1):
                began, worked = time.perf_counter(), time.thread_time()
                search = tree.start(query[:end])
                search.work(FIRST_ANSWER_SECONDS)
                search.matches(50)
                first.append((time.perf_counter() - began) * 1000)
                search.work()
                search.matches(50)
                working.append((time.thread_time() - worked) * 1000)
        fresh = PathIndex(paths)
        for query in QUERIES:
            began = time.thread_time()
            fresh.search(query)
            pasting.append((time.thread_time() - began) * 1000)
    name = f"{count:,} files: "

    def measure(what: str, values: list[float], unit: str = "ms", budget: float | None = None) -> Measure:
        baseline = f"{smallest:,} files: {what}" if count != smallest else None
        return Measure(name + what, tuple(values), unit, budget, judged_by="p95", baseline=baseline)

    return [
        measure("a keystroke to its first answer", first, budget=100),
        measure("a keystroke to all matches, processor", working),
        measure("a query pasted whole, processor", pasting),
        measure("building, in a thread, processor", building),
        measure("memory of a path", sizes, "bytes", budget=120),
    ]
