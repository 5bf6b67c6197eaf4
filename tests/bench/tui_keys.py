"""From a key to what is typed on the screen: idle, while a reply streams, and both below a long conversation."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence

from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import AGENTCLI, Workshop, workshop
from tests.bench.tui_history import LAST_WORDS, MESSAGES_A_TURN, write_session
from tests.bench.tui_pty import AppInPty, markdown, paced_reply
from tests.bench.tui_start import BARE_APP

KEYS = "the quick brown fox jumps over the lazy dog and the other one "
DELTA_SECONDS = 0.005
REPLY_SIZE = 24_000
IDLE_BUDGET, STREAMING_BUDGET = 10.0, 15.0
_BARE = "bare Textual app, idle"


def tui_keys(runs: int, messages: int = 2000, keys: int = len(KEYS)) -> Report:
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        session = write_session(place, messages // MESSAGES_A_TURN)
        bare: list[float] = []
        idle: dict[str, list[float]] = {"": [], f", {messages:,} messages above": []}
        streaming: dict[str, list[float]] = {name: [] for name in idle}
        for _run in range(runs):
            bare += bare_keys(place, keys)
            for name in idle:
                arguments = ("--resume", session) if name else ()
                before, during = typed_keys(place, server, arguments, keys)
                idle[name] += before
                streaming[name] += during
    return Report(
        "tui-keys: from a key to its paint",
        (
            Measure(_BARE, tuple(bare)),
            *(Measure(f"idle{name}", tuple(idle[name]), "ms", IDLE_BUDGET, "p95", _BARE) for name in idle),
            *(
                Measure(f"while a reply streams{name}", tuple(streaming[name]), "ms", STREAMING_BUDGET, "p95", _BARE)
                for name in idle
            ),
        ),
        (f"a delta every {DELTA_SECONDS * 1000:g} ms",),
    )


def typed_keys(
    place: Workshop, server: Loopback, arguments: Sequence[str], keys: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of each key: idle, and while a reply streams."""
    server.play(paced_reply(markdown(REPLY_SIZE, "the end"), DELTA_SECONDS))
    with AppInPty(place, *arguments, command=AGENTCLI) as app:
        if arguments:
            app.seen(LAST_WORDS)
        app.ready()
        idle = measured_keys(app, keys)
        since = len(app.output)
        app.press("\r")
        app.seen("Part 1", since)
        return idle, measured_keys(app, keys, "xvxv")  # what was sent may still be on the screen


def bare_keys(place: Workshop, keys: int) -> list[float]:
    with AppInPty(place, command=(sys.executable, "-c", BARE_APP)) as app:
        app.seen("transcript")
        app.settle()
        return measured_keys(app, keys)


def measured_keys(app: AppInPty, keys: int, first: str = "zqzq") -> list[float]:
    """Milliseconds of each key."""
    gap = random.Random(4)
    return [seconds * 1000 for seconds in app.type_keys(first, KEYS[:keys], lambda: gap.uniform(0.03, 0.06))]
