"""Paths of a made-up project, and what somebody would type to find one of them."""

from __future__ import annotations

import random

WORDS = [
    "agent", "tool", "engine", "provider", "session", "config", "core", "loop", "state", "permission", "sandbox",
    "file", "index", "search", "test", "unit", "data", "model", "view", "widget", "screen", "prompt",
    "parser", "token", "stream", "event", "message", "block", "result", "util", "common", "internal", "server",
    "client", "request", "response", "handler", "service", "user", "account", "billing", "order",
]  # fmt: skip
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
