"""Finding a session: the list of thousands, and a search in all their texts."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from pathlib import Path

from agentcli.core.ids import RandomIds, SystemClock
from agentcli.session.base import SessionContext, project_dir
from agentcli.session.search_index import SessionIndex
from agentcli.session.store import SessionStore
from tests.bench.measure import Measure, Report
from tests.bench.program import Workshop, workshop
from tests.bench.tui_history import turn_events
from tests.bench.tui_pty import AppInPty

SESSIONS = 5_000
MEGABYTES = 1_000.0
TURNS = 6
_SYLLABLES = ("ba", "den", "fo", "gul", "kir", "la", "mo", "net", "pas", "rin", "sol", "tu", "vex", "wi", "zan")
_BEGAN = 1.7e9
_TIME = re.compile(rb'"timestamp":"[^"]+"')
WORDS = [one + two + three for one in _SYLLABLES for two in _SYLLABLES for three in _SYLLABLES]
_WEIGHTS = [*accumulate(1 / (rank + 2) for rank in range(len(WORDS)))]
"""Words are about as frequent as in a language: the first of them is in most answers, the last one in few."""


def search(runs: int, sessions: int = SESSIONS, megabytes: float = MEGABYTES) -> Report:
    with workshop() as place:
        state, cache = place.home / ".local/state/agentcli", place.home / ".cache/agentcli/sessions"
        size = write_sessions(state, place.project, sessions, megabytes)
        index = SessionIndex(cache, state)
        built = timed(1, index.update)
        queries = {"a rare word": WORDS[-1], "a frequent word": WORDS[0], "two words": f"{WORDS[1]} {WORDS[-2]}"}
        queries |= {"one letter": WORDS[0][:1], "two letters": WORDS[0][:2], "four letters": WORDS[0][:4]}
        found = [
            Measure(f"search, {name}", timed(runs, partial(index.search, text.split())), budget=200)
            for name, text in queries.items()
        ]
        assert index.search([WORDS[0]])
        unchanged = Measure("update without changes", timed(runs, index.update))
        listed = Measure("list of all sessions", timed(runs, lambda: list(index.list_sessions())))
        shown, found_in_app = zip(*(_open_list(place) for _run in range(runs)), strict=True)
        index_size = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) / 1e6
    return Report(
        f"search: {sessions:,} sessions, {size / 1e6:,.0f} MB",
        (
            Measure("building the index", built),
            unchanged,
            listed,
            Measure("the app: the list on the screen", shown, budget=300),
            *found,
            Measure("the app: a typed word found in texts", found_in_app),
        ),
        (f"the index has {index_size:,.0f} MB",),
    )


def _open_list(place: Workshop) -> tuple[float, float]:
    """Milliseconds from Enter to the newest session on the screen, and from a key to a text with its word."""
    with AppInPty(place) as app:
        app.ready()
        opened = app.send("/sessions")
        shown = app.seen(" msgs", len(app.output)) - opened
        app.settle()
        since = len(app.output)
        typed = app.press(WORDS[0])
        # Only texts have the number of their prompt.
        return shown * 1000, (app.seen("     #", since) - typed) * 1000


def timed(runs: int, work: Callable[[], object]) -> tuple[float, ...]:
    """Milliseconds of each run."""
    times = []
    for _run in range(runs):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1000)
    return tuple(times)


def write_sessions(state: Path, project: Path, sessions: int, megabytes: float) -> int:
    """Write sessions of some turns each, mostly results of calls, as real ones are; returns their bytes."""
    header, turn = _record_turn(state, project)
    chosen = random.Random(29)
    output = max(100, int(megabytes * 1e6 / sessions / TURNS) - len(turn) - 2_000)
    turn = turn.replace(b"@output@", b"a line of output of a usual length\\n" * (output // 36))
    folder, size = project_dir(state, project), 0
    ids = RandomIds()
    for number in range(sessions):
        pieces = [header]
        for turn_number in range(TURNS):
            piece = turn.replace(b"@prompt@", _words(chosen, 12)).replace(b"@answer@", _words(chosen, 150))
            at = datetime.fromtimestamp(_BEGAN + number * 3600 + turn_number * 60, UTC).isoformat(
                timespec="milliseconds"
            )
            pieces.append(piece.replace(b"@id@", ids.new().encode()).replace(b"@time@", at.encode()))
        data = b"".join(pieces)
        path = folder / f"{ids.new()}.jsonl"
        path.write_bytes(data)
        os.utime(path, (_BEGAN + number * 3600, _BEGAN + number * 3600))
        size += len(data)
    return size


def _words(chosen: random.Random, count: int) -> bytes:
    return " ".join(chosen.choices(WORDS, cum_weights=_WEIGHTS, k=count)).encode()


def _record_turn(state: Path, project: Path) -> tuple[bytes, bytes]:
    """The first line of a real session file, and the lines of a turn with names in place of its texts."""
    ids = RandomIds()
    store = SessionStore.create(SessionContext(state, project, SystemClock(), ids, "bench"), ids.new())
    events = turn_events(ids, 0, "@answer@", "@output@", "@prompt@")
    for event in events:
        store.record(event)
    store.close()
    assert store.path is not None
    header, *lines = store.path.read_bytes().splitlines(keepends=True)
    store.path.unlink()
    lines = [_TIME.sub(b'"timestamp":"@time@"', line) for line in lines]
    prompt_id = json.loads(lines[0])["uuid"].encode()
    return header, b"".join(lines).replace(prompt_id, b"@id@")
