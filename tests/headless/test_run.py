from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options
from agentcli.core.aio import AbortReason
from agentcli.core.errors import CredentialError, UsageError
from agentcli.core.events import Event, NoticeRaised, PermissionDenied, PermissionRequested, RetryScheduled
from agentcli.headless import run as running
from agentcli.headless.run import HeadlessSettings, run
from agentcli.headless.streams import Streams
from tests.headless.fake_engine import FakeEngine, failed, result, started, until_aborted


@dataclass
class Terminal:
    """The three streams: standard input from a file, the others into files."""

    folder: Path
    engine: FakeEngine | None = None
    stdin: int | None = None
    opened: list[int] = field(default_factory=list)

    def run(self, *plays: list[Any], stdin: bytes | None = b"", build: Any = None, **settings: Any) -> int:
        def make(_options: Options) -> Any:
            self.engine = FakeEngine(*plays)
            return self.engine

        settings.setdefault("prompt", "hi")
        if self.stdin is None and stdin is not None:
            (self.folder / "in").write_bytes(stdin)
            self.stdin = self._open("in", os.O_RDONLY)
        out, err = (self._open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("out", "err"))
        return run(Options(), HeadlessSettings(**settings), Streams(self.stdin, out, err), build or make)

    def _open(self, name: str, flags: int) -> int:
        self.opened.append(os.open(self.folder / name, flags, 0o600))
        return self.opened[-1]

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text(encoding="utf-8")

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    for descriptor in made.opened:
        os.close(descriptor)


def fed(*content: object) -> bytes:
    return b"".join(json.dumps({"type": "user", "message": {"content": part}}).encode() + b"\n" for part in content)


def end_input(write: int) -> None:
    """Closes the writing end, but keeps its number taken so that the fixture can close it."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, write)
    os.close(null)


LINES: dict[str, Any] = {"prompt": None, "input_format": "stream-json", "output_format": "stream-json"}


def raising(error: Exception) -> Callable[[Options], Any]:
    def build(_options: Options) -> Any:
        raise error

    return build


def test_text_output_is_the_last_answer_only(terminal: Terminal) -> None:
    assert terminal.run([started(), NoticeRaised(text="by the way"), result(text="42\n\n")]) == 0
    assert (terminal.out, terminal.err) == ("42\n", "")
    assert terminal.engine is not None
    assert terminal.engine.closed


def test_piped_text_follows_the_prompt(terminal: Terminal) -> None:
    terminal.run(stdin=b"some text\n", prompt="explain")
    assert terminal.engine is not None
    assert terminal.engine.prompts == ["explain\n\nsome text\n"]


def test_without_any_prompt_no_engine_is_built(terminal: Terminal) -> None:
    assert terminal.run(stdin=b" \n", prompt=None) == 2
    assert terminal.err.startswith("agentcli: No prompt.")
    assert terminal.engine is None


def test_a_closed_standard_input_is_no_prompt_and_no_crash(terminal: Terminal) -> None:
    assert terminal.run(stdin=None) == 0
    assert terminal.run(stdin=None, **LINES) == 2
    assert "Standard input is closed" in terminal.err


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (result(), 0),
        (failed("Overloaded.", retryable=True), 75),
        (failed("Bad."), 1),
        (failed("Turns.", subtype="error_max_turns", terminal="max_turns"), 1),
    ],
)
def test_the_result_decides_the_exit_code(terminal: Terminal, ending: Event, code: int) -> None:
    assert terminal.run([started(), ending]) == code


@pytest.mark.parametrize(
    ("ending", "out", "err"),
    [
        (result(text="a\x1b[31mb\u202ec\r\n\x9b2J"), "ab\u202ec\n", ""),
        (failed("The server said no.\x1b[31m", text="half an"), "half an\n", "agentcli: The server said no.\n"),
        (
            failed("aborted_tools", terminal="aborted_tools"),
            "",
            "agentcli: Stopped before the answer was complete. agentcli -p -c 'PROMPT' continues from here.\n",
        ),
    ],
)
def test_the_answer_is_on_standard_output_and_its_failure_on_standard_error(
    terminal: Terminal, ending: Event, out: str, err: str
) -> None:
    terminal.run([ending])
    assert (terminal.out, terminal.err) == (out, err)


def test_warnings_are_always_reported_and_retries_only_when_requested(terminal: Terminal) -> None:
    play = [
        NoticeRaised(text="settings are broken", level="warning"),
        RetryScheduled(attempt=1, max_attempts=10, wait_seconds=2, kind="overloaded", text="Overloaded."),
        result(),
    ]
    terminal.run(play)
    assert terminal.err == "agentcli: settings are broken\n"
    terminal.run(play, verbose=True)
    assert "agentcli: overloaded, attempt 1 of 10, in 2.0 s. Ctrl+C stops.\n" in terminal.err


@pytest.mark.parametrize(("error", "code"), [(UsageError("Bad flag."), 2), (CredentialError("No key. Set one."), 1)])
def test_a_failed_start_is_explained_in_every_output_format(terminal: Terminal, error: Exception, code: int) -> None:
    assert terminal.run(build=raising(error), output_format="stream-json") == code
    assert terminal.err == f"agentcli: {error}\n"
    [frame] = terminal.frames
    assert (frame["type"], frame["subtype"], frame["is_error"]) == ("result", "error_during_execution", True)
    assert (frame["errors"], frame["result"], frame["num_turns"]) == ([str(error)], str(error), 0)
    assert terminal.run(build=raising(error)) == code
    assert terminal.out == ""


def test_a_bug_ends_in_a_result_for_programs_and_is_raised(terminal: Terminal) -> None:
    async def bug(_engine: FakeEngine) -> Event:
        raise ZeroDivisionError("oops")

    with pytest.raises(ZeroDivisionError):
        terminal.run([started(), bug], output_format="json")
    [frame] = terminal.frames
    assert frame["is_error"] is True
    assert terminal.engine is not None
    assert terminal.engine.closed


def test_a_permission_question_is_answered_with_a_denial(terminal: Terminal) -> None:
    question = PermissionRequested(request_id="q1", tool_use_id="t", name="Bash", input={}, title="x", reason="y")
    terminal.run([question, result()])
    assert terminal.engine is not None
    [(request_id, answer)] = terminal.engine.answers
    assert (request_id, answer.behavior) == ("q1", "deny")


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
def test_standard_error_lists_denied_calls_in_every_output_format(terminal: Terminal, output_format: Any) -> None:
    rules = ["Bash(touch made)"]
    denied = PermissionDenied(tool_use_id="t", name="Bash", input={}, title="Bash touch made", reason="x", rules=rules)
    terminal.run([started(), denied, result(text="Done.")], output_format=output_format)
    hint = "To allow it: --allowedTools 'Bash(touch made)'"
    assert terminal.err == f"agentcli: 1 call was denied: `Bash touch made`. {hint}\n"
    if output_format == "text":
        assert terminal.out == "Done.\n"
    else:
        assert terminal.frames[-1]["result"] == "Done."


def test_on_a_terminal_the_answer_carries_no_control_sequences(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    engine = FakeEngine([started(), result(text="a\x1b]0;title\x07\tb\x9b31m\x1b[2Jc\nd")])
    settings = HeadlessSettings(prompt="hi")
    assert run(Options(), settings, Streams(theirs, theirs, theirs), lambda _options: engine) == 0  # type: ignore[arg-type, return-value]
    shown = os.read(ours, 1000)
    os.close(ours)
    os.close(theirs)
    assert shown.replace(b"\r\n", b"\n").expandtabs() == b"a\tbc\nd\n".expandtabs()


def test_a_structured_answer_is_escaped_and_not_changed(terminal: Terminal) -> None:
    value = {"a": "\x1b[2J\x9b\u202e"}
    terminal.run([result(structured_output=value)])
    assert json.loads(terminal.out) == value
    assert terminal.out.isascii()


def test_a_terminal_as_standard_input_is_not_read(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    settings = HeadlessSettings(prompt=None)
    assert run(Options(), settings, Streams(theirs, theirs, theirs), raising(AssertionError())) == 2
    assert b"No prompt." in os.read(ours, 1000)
    os.close(ours)
    os.close(theirs)


# ------------------------------------------------------------------------------------------------------- signals


def sends(number: signal.Signals) -> Callable[[FakeEngine], Any]:
    async def send(_engine: FakeEngine) -> None:
        os.kill(os.getpid(), number)

    return send


@pytest.mark.parametrize(
    ("number", "reason", "code"),
    [
        (signal.SIGINT, AbortReason.USER_CANCEL, 130),
        (signal.SIGTERM, AbortReason.SHUTDOWN, 143),
        (signal.SIGHUP, AbortReason.SHUTDOWN, 129),
    ],
)
def test_a_signal_aborts_and_the_result_is_still_printed(
    terminal: Terminal, number: signal.Signals, reason: AbortReason, code: int
) -> None:
    assert terminal.run([started(), sends(number), until_aborted], output_format="stream-json") == code
    assert terminal.engine is not None
    assert terminal.engine.abort_reason is reason
    assert terminal.engine.closed
    assert terminal.frames[-1]["terminal_reason"] == "aborted_streaming"


def test_a_signal_before_the_submission_has_anything_to_abort_is_not_lost(terminal: Terminal) -> None:
    async def early(engine: FakeEngine) -> None:
        engine.running = False
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        engine.running = True

    assert terminal.run([early, started(), until_aborted]) == 130


def test_a_second_signal_ends_everything_at_once(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    ended = asyncio.Event()

    def leave(code: int) -> None:
        left.append(code)
        ended.set()

    async def stubborn(_engine: FakeEngine) -> None:
        await ended.wait()

    monkeypatch.setattr(running, "end_process", leave)
    assert terminal.run([sends(signal.SIGINT), sends(signal.SIGTERM), stubborn, result()]) == 130
    assert left == [143]


def test_a_signal_while_waiting_for_the_next_line_ends_the_run(terminal: Terminal) -> None:
    read, write = os.pipe()
    terminal.opened += [read, write]
    terminal.stdin = read
    os.write(write, fed("one"))

    async def later(_engine: FakeEngine) -> None:
        asyncio.get_running_loop().call_soon(
            lambda: asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGTERM)
        )

    assert terminal.run([later, result()], **LINES) == 143
    assert terminal.engine is not None
    assert terminal.engine.closed


def test_an_ignored_signal_stays_ignored(terminal: Terminal) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert terminal.run([sends(signal.SIGHUP), result()]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


# --------------------------------------------------------------------------------------------------- JSON lines


def test_each_line_is_answered_and_the_end_of_input_ends_the_run(terminal: Terminal) -> None:
    assert terminal.run([started(), result()], [started(), result()], stdin=fed("one", "two"), **LINES) == 0
    assert terminal.engine is not None
    assert terminal.engine.prompts + terminal.engine.queued == ["one", "two"]


def test_a_line_that_comes_during_a_submission_joins_it(terminal: Terminal) -> None:
    read, write = os.pipe()
    terminal.opened += [read, write]
    terminal.stdin = read
    os.write(write, fed("one"))

    async def second_line(engine: FakeEngine) -> None:
        os.write(write, fed("two"))
        while not engine.queued:
            await asyncio.sleep(0)
        end_input(write)

    assert terminal.run([started(), second_line, result()], **LINES) == 0
    assert terminal.engine is not None
    assert (terminal.engine.prompts, terminal.engine.queued) == (["one"], ["two"])


def test_a_line_too_late_for_the_submission_gets_its_own(terminal: Terminal) -> None:
    async def left(engine: FakeEngine) -> None:
        engine.leftovers = ["late", "later"]

    assert terminal.run([left, result()], stdin=fed("one"), **LINES) == 0
    assert terminal.engine is not None
    assert terminal.engine.prompts == ["one", "late", "later"]


def test_an_interrupt_request_is_answered_at_once_and_aborts(terminal: Terminal) -> None:
    read, write = os.pipe()
    terminal.opened += [read, write]
    terminal.stdin = read
    os.write(write, fed("one"))

    async def interrupt(_engine: FakeEngine) -> None:
        request = {"type": "control_request", "request_id": "r1", "request": {"subtype": "interrupt"}}
        unknown = {"type": "control_request", "request_id": "r2", "request": {"subtype": "set_weather"}}
        os.write(write, json.dumps(request).encode() + b"\n" + json.dumps(unknown).encode() + b"\n")
        end_input(write)

    assert terminal.run([started(), interrupt, until_aborted], **LINES) == 1
    responses = {
        frame["response"]["request_id"]: frame["response"]
        for frame in terminal.frames
        if frame["type"] == "control_response"
    }
    assert (responses["r1"]["subtype"], responses["r1"]["response"]) == ("success", {"still_queued": []})
    assert (responses["r2"]["subtype"], "set_weather" in responses["r2"]["error"]) == ("error", True)
    assert terminal.frames[-1]["type"] == "result"


# --------------------------------------------------------------------------------------------- the reader leaves


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
def test_a_reader_that_leaves_ends_the_run_quietly(tmp_path: Path, output_format: Any) -> None:
    read, write = os.pipe()
    os.close(read)
    engine = FakeEngine()
    err = os.open(tmp_path / "err", os.O_WRONLY | os.O_CREAT)
    settings = HeadlessSettings(prompt="hi", output_format=output_format)
    assert run(Options(), settings, Streams(None, write, err), lambda _options: engine) == 141  # type: ignore[arg-type, return-value]
    assert (engine.closed, engine.running) == (True, False)
    assert (tmp_path / "err").read_bytes() == b""
    os.close(write)
    os.close(err)


def test_debugging_writes_the_events_that_were_asked_for(terminal: Terminal, tmp_path: Path) -> None:
    log = tmp_path / "log"
    terminal.run([started(), NoticeRaised(text="x"), result()], debug_filter="notice,result", debug_file=log)
    assert [json.loads(line)["event"] for line in log.read_text().splitlines()] == ["NoticeRaised", "Result"]
    terminal.run([started(), NoticeRaised(text="x"), result()], debug_filter="!session")
    assert [json.loads(line)["event"] for line in terminal.err.splitlines()] == ["NoticeRaised", "Result"]
    assert terminal.run(debug_file=tmp_path / "no" / "log") == 2
    assert "cannot write" in terminal.err
