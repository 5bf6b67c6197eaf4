"""The lines of the one table: each a measurement of agentcli taken in turn with one of its yardstick.

A probe measures what it can in one go, which may be several lines; it takes the number of runs and gives a number a run
for each. Together they take about two minutes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.bench.hook import hook_times
from tests.bench.idle_start import idle_start
from tests.bench.iteration import rounds_of
from tests.bench.loopback import Loopback
from tests.bench.measure import quantile
from tests.bench.prepare import MESSAGES, prepare
from tests.bench.process import BARE, PROMPT, clocked
from tests.bench.program import AGENTCLI, LEAST_CLIENT, Workshop, workshop
from tests.bench.ratios import Sampled
from tests.bench.tui_history import LAST_WORDS, RECORDS_A_TURN, write_session
from tests.bench.tui_keys import bare_keys, typed_keys
from tests.bench.tui_long import work_through, worked, write_files
from tests.bench.tui_pty import AppInPty, markdown, paced_reply
from tests.bench.tui_start import BARE_APP, start_app
from tests.bench.tui_stream import DELTA_SECONDS, DELTA_SIZE, THE_END, escaped, streamed
from tests.support.scripts import call, reply, say

PYTHON, TEXTUAL, CLIENT = "bare Python", "bare Textual app", "least client"
COUNTING = "counting to a million"
KEYS = 30
CALLS = 40
ESCAPES = 4
TURNS = 40
RECORDS = 20_000
PLUGIN = """
from agentcli import Plugin

plugin = Plugin()

@plugin.tool(safe=True)
def word_count_NUMBER(text: str) -> int:
    "Count the words of a text."
    return len(text.split())
"""
_SERVER = Path(__file__).parents[1] / "support/mcp_server.py"
_SLEEPER = (sys.executable, "-c", "import time; time.sleep(0.1)")

Probe = Callable[[int], list[Sampled]]


class Samples:
    """Values of several lines, filled run by run."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        self._values.setdefault(name, []).append(value)

    def line(self, name: str, subject: str, yardstick: str, yardstick_name: str, unit: str = "ms") -> Sampled:
        return Sampled(name, yardstick_name, tuple(self._values[subject]), tuple(self._values[yardstick]), unit)


def count() -> float:
    """Milliseconds of processor time for a fixed piece of work: how fast Python is on this machine, right now."""
    began = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number & 7
    return (time.process_time() - began) * 1000


def usual(values: Sequence[float]) -> float:
    """Of many values of one run: near the lower end, where what else the machine does shows least."""
    return quantile(values, 0.1)


def headless_start(runs: int, warm_ups: int = 1) -> list[Sampled]:
    found = Samples()
    results = clocked({"bare": BARE, "ours": (*AGENTCLI, *PROMPT)}, runs, warm_ups)
    for bare, ours in zip(results["bare"], results["ours"], strict=True):
        found.add("bare", bare.wall_ms)
        found.add("bare processor", bare.cpu_ms)
        found.add("ours", (ours.asked - ours.began) * 1000)
        found.add("ours processor", ours.cpu_ms)
    return [
        found.line("start: -p to its request", "ours", "bare", f"{PYTHON}, start to end"),
        found.line("start: -p, one answer, processor", "ours processor", "bare processor", PYTHON),
    ]


def app_start(runs: int) -> list[Sampled]:
    found = Samples()
    with workshop() as place:
        environ = {**place.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environ["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
        for turn in range(runs + 1):
            for name, command in (("bare", (sys.executable, "-c", BARE_APP)), ("ours", AGENTCLI)):
                started = start_app(command, environ, str(place.project))
                if turn:  # the first time around compiles
                    found.add(f"{name} echo", started.echoed * 1000)
                    found.add(f"{name} frame", started.complete * 1000)
                    found.add(f"{name} processor", started.cpu * 1000)
    return [
        found.line("start: the app to the echo of a key", "ours echo", "bare echo", TEXTUAL),
        found.line("start: the app to its first frame", "ours frame", "bare frame", TEXTUAL),
        found.line("start: the app, processor", "ours processor", "bare processor", TEXTUAL),
    ]


def plugins(runs: int) -> list[Sampled]:
    """Ten plugins against none: they load after the first frame, so the start must not show them."""
    found = Samples()
    with workshop() as without, workshop() as place:
        folder = place.home / ".config/agentcli/plugins"
        folder.mkdir(parents=True)
        for number in range(10):
            (folder / f"words_{number}.py").write_text(PLUGIN.replace("NUMBER", str(number)))
        _start_both(found, runs, none=without, ten=place)
    return [
        found.line("start: ten plugins, the echo of a key", "ten echo", "none echo", "agentcli without plugins"),
        found.line("start: ten plugins, the first frame", "ten frame", "none frame", "agentcli without plugins"),
    ]


def servers(runs: int) -> list[Sampled]:
    """Three MCP servers against none: they connect beside the start, which must not show them."""
    found = Samples()
    entry = {"command": sys.executable, "args": ["-S", str(_SERVER)]}
    with workshop() as without, workshop() as place:
        for where, names in ((without, ()), (place, ("one", "two", "three"))):
            folder = where.home / ".config/agentcli"
            folder.mkdir(parents=True)
            (folder / "settings.json").write_text(json.dumps({"mcpServers": dict.fromkeys(names, entry)}))
        _start_both(found, runs, none=without, three=place)
    return [
        found.line(
            "start: three MCP servers, the echo of a key", "three echo", "none echo", "agentcli without servers"
        ),
        found.line(
            "start: three MCP servers, the first frame", "three frame", "none frame", "agentcli without servers"
        ),
    ]


def _start_both(found: Samples, runs: int, **places: Workshop) -> None:
    """Start the app in each place in turn; samples have the names of the places."""
    for turn in range(runs + 1):
        for name, where in places.items():
            environ = {**where.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
            environ["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
            started = start_app(AGENTCLI, environ, str(where.project))
            if turn:  # the first time around compiles
                found.add(f"{name} echo", started.echoed * 1000)
                found.add(f"{name} frame", started.complete * 1000)


def keys(runs: int) -> list[Sampled]:
    found = Samples()
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        for _run in range(runs):
            found.add("bare", usual(bare_keys(place, KEYS)))
            idle, streaming = typed_keys(place, server, (), KEYS)
            found.add("idle", usual(idle))
            found.add("streaming", usual(streaming))
    return [
        found.line("key to paint: idle", "idle", "bare", f"{TEXTUAL}, idle"),
        found.line("key to paint: while a reply streams", "streaming", "bare", f"{TEXTUAL}, idle"),
    ]


def streaming(runs: int) -> list[Sampled]:
    found = Samples()
    text = markdown(20_000, THE_END)
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        for _run in range(runs):
            server.play(reply(say(text, chunk=DELTA_SIZE)))
            run = streamed(place, server)
            found.add("ours", run.cpu)
            found.add("count", count())
            found.add("flat bytes", run.written)
            server.play(paced_reply(text, DELTA_SECONDS, DELTA_SIZE))
            found.add("paced bytes", streamed(place, server).written)
            found.add("characters", float(len(text)))
    return [
        found.line("streaming: 20,000 characters, processor", "ours", "count", COUNTING),
        found.line("streaming: to the terminal", "flat bytes", "characters", "the text itself", "bytes"),
        found.line("streaming: to the terminal, 5 ms a delta", "paced bytes", "characters", "the text itself", "bytes"),
    ]


def interrupt(runs: int) -> list[Sampled]:
    found = Samples()
    text = markdown(60_000, THE_END)
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        for _run in range(runs):
            found.add("bare", usual(bare_keys(place, KEYS)))
            pressed = escaped(place, server, text, b"\x1b", times=ESCAPES)
            # When it is shown depends on when the next frame is due; `tui-escape` has that with its budget.
            found.add("closed", min(closed for closed, _said in pressed))
    return [found.line("interrupt: Esc to the closed connection", "closed", "bare", f"{TEXTUAL}, key to paint")]


def app_memory(runs: int) -> list[Sampled]:
    found = Samples()
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        write_files(place, TURNS)
        for _run in range(runs):
            with AppInPty(place, command=(sys.executable, "-c", BARE_APP)) as bare:
                bare.seen("transcript")
                bare.settle()
                found.add("bare", bare.resident_megabytes)
            server.play(*work_through(TURNS))
            at_prompt, after, _cpu = worked(place)
            found.add("prompt", at_prompt)
            found.add("after", after)
    return [
        found.line("memory: the app at its prompt", "prompt", "bare", TEXTUAL, "MB"),
        found.line(f"memory: the app after {TURNS} turns", "after", "bare", TEXTUAL, "MB"),
    ]


def headless_memory(runs: int) -> list[Sampled]:
    found = Samples()
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        write_files(place, TURNS)
        files = [reply(call("Read", file_path=f"file-{number}.txt")) for number in range(TURNS)]
        for _run in range(runs):
            found.add("bare", place.run(_SLEEPER, watch_memory=True).peak_kilobytes / 1024)
            server.play(*files, reply(say("Done.")))
            found.add("ours", place.run((*AGENTCLI, *PROMPT), watch_memory=True).peak_kilobytes / 1024)
    return [found.line(f"memory: -p, {TURNS} turns, peak", "ours", "bare", PYTHON, "MB")]


def iteration(runs: int) -> list[Sampled]:
    found = Samples()
    with workshop() as place, Loopback() as server:
        for _run in range(runs):
            for name, command in (("least", LEAST_CLIENT), ("ours", (*AGENTCLI, *PROMPT))):
                found.add(name, usual(rounds_of(place, server, command, "Read", CALLS)))
    return [found.line("iteration: request to request", "ours", "least", CLIENT)]


def preparing(runs: int, messages: int = MESSAGES) -> list[Sampled]:
    found = Samples()
    for _run in range(runs):
        found.add("ours", usual(prepare(1, messages).measures[0].values))
        found.add("count", count())
    return [found.line(f"context: preparing a request, {messages:,} messages", "ours", "count", COUNTING)]


def resuming(runs: int) -> list[Sampled]:
    found = Samples()
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        session = write_session(place, RECORDS // RECORDS_A_TURN)
        for turn in range(runs + 1):
            bare = _until_seen(place, (sys.executable, "-c", BARE_APP), "transcript")
            ours = _until_seen(place, (*AGENTCLI, "--resume", session), LAST_WORDS)
            if turn:
                found.add("bare", bare)
                found.add("ours", ours)
    return [found.line(f"resume: {RECORDS:,} events, to its end visible", "ours", "bare", f"{TEXTUAL}, start")]


def _until_seen(place: Workshop, command: tuple[str, ...], text: str) -> float:
    with AppInPty(place, command=command) as app:
        return (app.seen(text) - app.began) * 1000


def hooks(runs: int) -> list[Sampled]:
    bare, hooked = asyncio.run(hook_times(runs))
    return [Sampled("hook: a PreToolUse hook that runs true", "sh -c true", hooked, bare, "ms")]


PROBES: Mapping[str, tuple[Probe, int]] = {
    "start": (headless_start, 15),
    "app-start": (app_start, 8),
    "app-idle": (idle_start, 4),
    "plugins": (plugins, 8),
    "mcp": (servers, 8),
    "keys": (keys, 3),
    "streaming": (streaming, 4),
    "interrupt": (interrupt, 3),
    "app-memory": (app_memory, 2),
    "memory": (headless_memory, 2),
    "iteration": (iteration, 6),
    "context": (preparing, 4),
    "resume": (resuming, 4),
    "hook": (hooks, 60),
}
"""Each with how often it is run."""
