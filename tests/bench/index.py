"""How long a keystroke takes while a file's name is typed, in a tree of 100,000 files."""

from __future__ import annotations

import random
import time

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


def index(runs: int, count: int = 100_000) -> Report:
    paths = synthetic_paths(count)
    building, typing, working, pasting = [], [], [], []
    for _run in range(runs):
        began = time.perf_counter()
        tree = PathIndex(with_folders(paths))
        tree.prepare()
        building.append((time.perf_counter() - began) * 1000)
        for query in QUERIES:
            for end in range(1, len(query) + 1):
                began, worked = time.perf_counter(), time.thread_time()
                tree.search(query[:end])
                typing.append((time.perf_counter() - began) * 1000)
                working.append((time.thread_time() - worked) * 1000)
        fresh = PathIndex(with_folders(paths))
        fresh.prepare()
        for query in QUERIES:
            began = time.perf_counter()
            fresh.search(query)
            pasting.append((time.perf_counter() - began) * 1000)
    return Report(
        f"index: finding one of {count:,} files by name",
        (
            Measure("a keystroke", tuple(typing), budget=30, judged_by="p95"),
            Measure("a keystroke, of the processor's time", tuple(working), budget=30, judged_by="p95"),
            Measure("a query pasted whole", tuple(pasting), budget=30, judged_by="p95"),
            Measure("building, in a thread", tuple(building)),
        ),
    )
