"""How the cost of a turn grows with the conversation: processor time a turn, by tenths of thousands of turns.

The model is in this process, or a server on the loopback interface. It calls Read in every turn; what it says about
tokens follows from the number of messages, so that the default context window fills up and is compacted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import selectors
import socket
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

from agentcli.assemble import Options, build_engine
from agentcli.context.compact import INSTRUCTION
from agentcli.core.aio import AbortSignal
from agentcli.core.events import ContextCompacted, LoopContinued
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from agentcli.providers.base import Transport
from agentcli.providers.provider import MessagesProvider
from agentcli.providers.script import Emit, ScriptedReply
from tests.bench.loopback import MODEL, Loopback
from tests.bench.measure import Measure, Report, quantile
from tests.bench.program import Workshop, workshop
from tests.support.scripts import call, reply, say

TURNS = 5_000
WARM_UP = 10
"""Turns before those that count."""
MAX_GROWTH = 1.2
MAX_KILOBYTES = 20.0
"""Of resident memory, for each turn."""
MAX_HOLD = 50.0
"""Milliseconds for which keys may wait."""
TOKENS_A_MESSAGE = 150
LARGE_WINDOW = {"contextWindow": 100_000_000}


class LongestHold(selectors.DefaultSelector):
    """A selector that finds the longest turn of its event loop, in milliseconds of processor time.

    Without collections of garbage, which the programs bound for themselves.
    """

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0.0
        self._began = self._collecting = time.process_time()
        gc.callbacks.append(self._collected)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.longest = max(self.longest, (time.process_time() - self._began) * 1000)
        try:
            return super().select(timeout)
        finally:
            self._began = time.process_time()

    def close(self) -> None:
        gc.callbacks.remove(self._collected)
        super().close()

    def _collected(self, phase: str, _info: Mapping[str, int]) -> None:
        if phase == "start":
            self._collecting = time.process_time()
        else:
            self._began += time.process_time() - self._collecting


def growth(runs: int, turns: int = TURNS) -> Report:
    """In a window that all of it fits into, and in the default one."""
    measures: list[Measure] = []
    notes: list[str] = []
    for name, settings in (("large window", LARGE_WINDOW), ("default window", {})):
        curves: list[list[float]] = []
        holds: list[float] = []
        for _run in range(runs):
            selector = LongestHold()
            with workshop() as place, asyncio.Runner(loop_factory=partial(asyncio.SelectorEventLoop, selector)) as own:
                times, compactions = own.run(_in_process(place, turns, settings, selector))
                curves.append(times)
                holds.append(selector.longest)
        measures += [
            *tenths(name, curves),
            Measure(f"{name}: longest turn of the loop", tuple(holds), "ms", MAX_HOLD),
        ]
        notes.append(f"{name}: {compactions} compactions")
    return Report(f"growth: processor time of a turn, {turns:,} turns, model in process", tuple(measures), tuple(notes))


def growth_http(runs: int, turns: int = TURNS) -> Report:
    """The body is sent whole in every turn, so what the socket takes grows; it is counted separately."""
    computed: list[list[float]] = []
    sending: list[list[float]] = []
    memory: list[float] = []
    for _run in range(runs):
        with workshop() as place, Loopback() as server:
            place.talk_to(server.url)
            server.play(*(_reading(place, turn) for turn in range(turns + WARM_UP)), reply(say("Done.")))
            all_of_it, in_socket, kilobytes = asyncio.run(_over_http(place))
            memory.append(kilobytes)
            sending.append(in_socket)
            computed.append([whole - part for whole, part in zip(all_of_it, in_socket, strict=True)])
    return Report(
        f"growth-http: processor time of a turn, {turns:,} turns, model on the loopback interface",
        (
            *tenths("computed", computed),
            *tenths("in the socket", sending, most=None),
            Measure("resident, each turn", tuple(memory), "KB", MAX_KILOBYTES),
        ),
    )


def tenths(
    name: str, curves: Sequence[Sequence[float]], unit: str = "ms", most: float | None = MAX_GROWTH
) -> list[Measure]:
    """A curve by tenths, the first to the last, then the ratio of the two. Of several runs the medians are taken."""
    parts: list[list[float]] = [[] for _tenth in range(10)]
    for curve in curves:
        for tenth, values in enumerate(parts):
            values += curve[len(curve) * tenth // 10 : len(curve) * (tenth + 1) // 10]
    rows = [Measure(f"{name}: tenth {number}", tuple(values), unit) for number, values in enumerate(parts, 1)]
    ratio = quantile(parts[-1], 0.5) / max(quantile(parts[0], 0.5), 1e-9)
    return [*rows, Measure(f"{name}: last tenth to first", (ratio,), "×", budget=most)]


async def _in_process(place: Workshop, turns: int, settings: Json, selector: LongestHold) -> tuple[list[float], int]:
    """Milliseconds of processor time of each turn, and how often the conversation was compacted."""
    model = ReadingModel(place.project, turns + WARM_UP)
    options = options_for(place, settings, MessagesProvider(model))
    stamps: list[float] = []
    compactions = 0
    async with build_engine(options) as engine, aclosing(engine.submit("Read all of it")) as events:
        async for event in events:
            if isinstance(event, LoopContinued):
                stamps.append(time.process_time())
                if len(stamps) == WARM_UP:
                    selector.longest = 0.0
            compactions += isinstance(event, ContextCompacted)
    assert len(stamps) == turns + WARM_UP, f"{len(stamps)} turns"
    return _between(stamps[WARM_UP - 1 :]), compactions


async def _over_http(place: Workshop) -> tuple[list[float], list[float], float]:
    """Milliseconds of processor time of each turn: all of it, and what sending took; kilobytes that a turn adds."""
    resident: list[int] = []
    stamps: list[float] = []
    sent: list[float] = []
    engine = build_engine(options_for(place, LARGE_WINDOW))
    with _timed_sending() as spent:
        async with engine, aclosing(engine.submit("Read all of it")) as events:
            async for event in events:
                if isinstance(event, LoopContinued):
                    stamps.append(time.process_time())
                    sent.append(spent[0])
                    if len(stamps) % WARM_UP == 0:
                        resident.append(resident_kilobytes())
    first = len(resident) // 10
    added = (resident[-1] - resident[first]) / max(1, (len(resident) - 1 - first) * WARM_UP)
    return _between(stamps[WARM_UP - 1 :]), _between(sent[WARM_UP - 1 :]), added


def resident_kilobytes() -> int:
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])


def options_for(
    place: Workshop, settings: Json, provider: MessagesProvider | None = None, resume: str | None = None
) -> Options:
    return Options(
        cwd=Path(place.project),
        environ=place.environ,
        permission_mode=PermissionMode.BYPASS,
        settings=json.dumps(settings),
        model=MODEL,
        provider=provider,
        resume=resume,
    )


def _between(stamps: Sequence[float]) -> list[float]:
    return [(later - earlier) * 1000 for earlier, later in pairwise(stamps)]


@contextmanager
def _timed_sending() -> Iterator[list[float]]:
    """Seconds that this process has spent in sending, so far."""
    spent = [0.0]
    send = socket.socket.send

    def timed(self: socket.socket, data: bytes, flags: int = 0, /) -> int:
        began = time.thread_time()
        try:
            return send(self, data, flags)
        finally:
            spent[0] += time.thread_time() - began

    socket.socket.send = timed  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        socket.socket.send = send  # type: ignore[method-assign]


def _reading(place: Workshop, turn: int) -> Json:
    return reply(_read(place.project, turn), usage=_usage(1 + 2 * turn))


def _usage(messages: int) -> Json:
    return {"input_tokens": 3, "cache_read_input_tokens": TOKENS_A_MESSAGE * messages}


def _read(folder: Path, turn: int) -> Json:
    """Never the same call twice, or it would be taken for a loop."""
    path = folder / "small.txt"
    if not turn:
        path.write_text("The quick brown fox jumps over the lazy dog.\n" * 9)
    return call("Read", file_path=str(path), limit=1_000 + turn)


def tokens_for(body: Json) -> Json:
    """What the model says about the size of a request."""
    return _usage(len(body["messages"]))


def model_reply(step: Json, usage: Json, number: int) -> Iterator[Json]:
    for operation in ScriptedReply((step,), usage=usage).operations(number, MODEL):
        assert isinstance(operation, Emit)
        yield operation.event


def is_summary(body: Json) -> bool:
    last = body["messages"][-1]["content"][-1]
    return str(last.get("text", "")).startswith(INSTRUCTION)


class ReadingModel(Transport):
    """Calls Read so many times, then ends; summaries and other side jobs get a sentence. Keeps no request."""

    name = "reading"

    def __init__(self, folder: Path, turns: int) -> None:
        self._folder = folder
        self._turns = turns
        self._turn = 0
        self._requests = 0

    def asked(self, body: Json) -> None:
        """For those who want to see a request."""

    async def events(self, body: Json, _betas: tuple[str, ...], _signal: AbortSignal) -> AsyncGenerator[Json, None]:
        self._requests += 1
        self.asked(body)
        step = say("Some files were read.")
        if "tools" in body and not is_summary(body) and self._turn < self._turns:
            step = _read(self._folder, self._turn)
            self._turn += 1
        await asyncio.sleep(0)
        for event in model_reply(step, tokens_for(body), self._requests):
            yield event
