"""What the app takes: memory and processor time at the prompt, over 200 turns, idle, and to resume a long session."""

from __future__ import annotations

from tests.bench.loopback import Loopback
from tests.bench.measure import Measure, Report
from tests.bench.program import Workshop, workshop
from tests.bench.tui_history import LAST_WORDS, RECORDS_A_TURN, write_session
from tests.bench.tui_pty import AppInPty
from tests.support.scripts import Json, call, reply, say

TURNS = 200
OUTPUT_BYTES = 16 * 1024
IDLE_SECONDS = 10.0
RECORDS = 20_000
THE_END = "All of that is done."


def tui_memory(runs: int, turns: int = TURNS) -> Report:
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        write_files(place, turns)
        results = []
        for _run in range(runs):
            server.play(*work_through(turns))
            results.append(worked(place))
    prompt, after, cpu = zip(*results, strict=True)
    return Report(
        f"tui-memory: {turns} turns, each with a tool call of {OUTPUT_BYTES // 1024} KB output",
        (
            Measure("at the prompt, everything warm", prompt, "MB", budget=110),
            Measure(f"after {turns} turns", after, "MB", budget=150),
            Measure(f"processor time of {turns} turns", cpu, "s", budget=4),
        ),
    )


def worked(place: Workshop) -> tuple[float, float, float]:
    """Megabytes at the prompt and afterwards, seconds of processor time in between."""
    with AppInPty(place) as app:
        before = app.ready()
        at_prompt = app.resident_megabytes
        app.send("Look through all of it")
        app.seen(THE_END)
        cpu = app.settle() - before
        return at_prompt, app.resident_megabytes, cpu


def work_through(turns: int) -> list[Json]:
    """Replies that read one file after the other."""
    steps = [
        reply(say(f"Now part {turn}, which is in another file."), call("Read", file_path=f"file-{turn}.txt"))
        for turn in range(turns)
    ]
    return [*steps, reply(say(THE_END))]


def write_files(place: Workshop, count: int) -> None:
    for number in range(count):
        lines = (
            f"{number}/{line}: the quick brown fox jumps over the lazy dog, and over the next one\n"
            for line in range(OUTPUT_BYTES // 70)
        )
        (place.project / f"file-{number}.txt").write_text("".join(lines)[:OUTPUT_BYTES])


def tui_idle(runs: int, seconds: float = IDLE_SECONDS) -> Report:
    shares = []
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        for _run in range(runs):
            with AppInPty(place) as app:
                app.ready()
                before, written = app.cpu_seconds, len(app.output)
                app.read_for(seconds)
                shares.append(((app.cpu_seconds - before) / seconds * 100, float(len(app.output) - written)))
    percents, written_bytes = zip(*shares, strict=True)
    return Report(
        f"tui-idle: {seconds:g} s at the prompt",
        (Measure("processor", percents, "%", budget=0.3), Measure("written", written_bytes, "bytes")),
    )


def tui_resume(runs: int, records: int = RECORDS) -> Report:
    visible, quiet, resident = [], [], []
    with workshop() as place, Loopback() as server:
        place.talk_to(server.url)
        session = write_session(place, records // RECORDS_A_TURN)
        for _run in range(runs):
            with AppInPty(place, "--resume", session) as app:
                visible.append((app.seen(LAST_WORDS) - app.began) * 1000)
                quiet.append(app.settle())
                resident.append(app.resident_megabytes)
    return Report(
        f"tui-resume: a session of {records:,} events",
        (
            Measure("start of the process to its end visible", tuple(visible), budget=500),
            Measure("processor time until all is quiet", tuple(quiet), "s"),
            Measure("resident then", tuple(resident), "MB"),
        ),
    )
