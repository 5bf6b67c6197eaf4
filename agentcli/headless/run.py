"""A headless run from `Options` to the exit code.

Exit codes: 0 success; 1 the run ended with an error; 2 wrong usage; 75 a temporary failure that is worth a retry; 130,
143 and 129 for SIGINT, SIGTERM and SIGHUP; 141 if the reader of the output closed it, as for SIGPIPE.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentcli.core.aio import AbortReason
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.events import Result
from agentcli.core.frozen import frozen
from agentcli.core.ids import RandomIds, SystemClock
from agentcli.core.processes.exit_cleanup import end_process
from agentcli.headless.input import FIRST_BYTE_SECONDS, lines, read_pipe
from agentcli.headless.output import EventOutput, JsonOutput, Notices, StreamJsonOutput, TextOutput, open_debug_log
from agentcli.headless.session import HeadlessSession, command_in
from agentcli.headless.streams import OutputLost, Streams, StreamWriter, is_terminal, watch_reader

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.assemble import Options

OutputFormat = Literal["text", "json", "stream-json"]
InputFormat = Literal["text", "stream-json"]


@frozen(kw_only=True)
class HeadlessSettings:
    prompt: str | None = None
    output_format: OutputFormat = "text"
    input_format: InputFormat = "text"
    verbose: bool = False
    replay_user_messages: bool = False
    include_hook_events: bool = False
    wait_background: bool = False
    """Wait for background commands at the end instead of stopping them."""
    debug_filter: str | None = None
    """None: no debug output unless there is a `debug_file`; an empty string: every event."""
    debug_file: Path | None = None


SHUTDOWN_SECONDS = 1.5
"""Seconds from SIGTERM or SIGHUP to the end, whatever a child process does: there is little time at a logout."""
ECHO_SECONDS = 0.15
"""Seconds within which a second equal signal is ignored: a launcher that forwards Ctrl+C sends two for one key press,
and a user is not that fast."""


class StopSignals:
    def __init__(self, stop: Callable[[AbortReason], None], force: Callable[[int], None]) -> None:
        self._stop = stop
        self._force = force
        self._installed: list[signal.Signals] = []
        self._first_at = 0.0
        self._deadline: asyncio.TimerHandle | None = None
        self.exit_code: int | None = None
        """128 + the number of the received signal; None if there was none."""

    def install(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self.receive, number)
                self._installed.append(number)

    def remove(self) -> None:
        loop = asyncio.get_running_loop()
        while self._installed:
            loop.remove_signal_handler(self._installed.pop())
        if self._deadline is not None:
            self._deadline.cancel()

    def receive(self, number: signal.Signals) -> None:
        loop = asyncio.get_running_loop()
        code = 128 + number
        if self.exit_code is not None:
            if code != self.exit_code or loop.time() - self._first_at > ECHO_SECONDS:
                self._force(code)
            return
        self.exit_code, self._first_at = code, loop.time()
        if number is not signal.SIGINT:
            self._deadline = loop.call_later(SHUTDOWN_SECONDS, self._force, code)
        self._stop(AbortReason.USER_CANCEL if number is signal.SIGINT else AbortReason.SHUTDOWN)


SUCCESS, FAILURE, USAGE, TRY_AGAIN, READER_LEFT = 0, 1, 2, 75, 141


def run(
    options: Options,
    settings: HeadlessSettings,
    streams: Streams | None = None,
    build: Callable[[Options], Engine] | None = None,
) -> int:
    """Run to the end and return the exit code; everything that the run started has ended then. Raises only for bugs,
    after reporting them to the output."""
    if build is None:
        from agentcli.assemble import build_engine

        build = build_engine
    with asyncio.Runner() as runner:
        return runner.run(HeadlessRun(settings, streams or Streams(), build).execute(options))


class HeadlessRun:
    def __init__(self, settings: HeadlessSettings, streams: Streams, build: Callable[[Options], Engine]) -> None:
        self._settings = settings
        self._streams = streams
        self._build = build
        self._notices = Notices(streams.stderr, settings.verbose)
        self._signals = StopSignals(self._stop, end_process)
        self._session: HeadlessSession | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelled_with: int | None = None
        self._ending = False

    async def execute(self, options: Options) -> int:
        self._task = asyncio.current_task()
        self._signals.install()
        unwatch = watch_reader(self._streams.stdout, lambda: self._cancel(READER_LEFT))
        try:
            return await self._run_guarded(options)
        except asyncio.CancelledError:
            if self._cancelled_with is None:
                raise
            return self._cancelled_with
        except OutputLost as lost:
            if lost.quiet:
                return READER_LEFT
            self._notices.say(str(lost))
            return FAILURE
        finally:
            unwatch()
            self._signals.remove()

    async def _run_guarded(self, options: Options) -> int:
        output = self._open_output()
        try:
            return await self._converse(options, output)
        except AgentError as error:
            self._notices.say(str(error))
            await output.fail(str(error))
            return USAGE if isinstance(error, UsageError) else FAILURE
        except (OutputLost, asyncio.CancelledError):
            raise
        except Exception as error:
            await output.fail(f"Bug in agentcli: {error!r}")
            raise

    async def _converse(self, options: Options, output: EventOutput) -> int:
        settings = self._settings
        debug = open_debug_log(settings.debug_filter, settings.debug_file, self._streams.stderr, SystemClock())
        frames = output if settings.input_format == "stream-json" and isinstance(output, StreamJsonOutput) else None
        prompt = "" if frames else await self._prompt()
        if command_in(prompt) is not None:
            options = replace(options, key_needed=False)
        async with self._build(options) as engine:
            session = HeadlessSession(engine, output, debug, settings.wait_background, self._notices)
            self._session = session
            try:
                if frames:
                    await self._follow(session, frames)
                else:
                    # Piped input is data: only the prompt itself can mention files to attach.
                    await session.submit(prompt, settings.prompt or None, is_last=True)
            finally:
                self._ending = True
                await session.aclose()
        if self._signals.exit_code is not None:
            return self._signals.exit_code
        return exit_code(session.result)

    async def _follow(self, session: HeadlessSession, output: StreamJsonOutput) -> None:
        if self._streams.stdin is None:
            raise UsageError("Standard input is closed, but --input-format stream-json reads prompts from it.")
        async with aclosing(lines(self._streams.stdin)) as source:
            await session.follow(source, output)

    async def _prompt(self) -> str:
        """The prompt argument plus piped input. Raises `UsageError` if there is neither."""
        prompt, stdin = self._settings.prompt, self._streams.stdin
        piped: str | None = ""
        if stdin is not None and not is_terminal(stdin):
            piped = await read_pipe(stdin, FIRST_BYTE_SECONDS if prompt else None)
            if piped is None:
                self._notices.say("No data on standard input; continuing without it. To skip the wait: < /dev/null")
        parts = [part for part in (prompt, piped) if part and part.strip()]
        if not parts:
            raise UsageError("No prompt. Use agentcli -p 'PROMPT', or pipe it to standard input.")
        return "\n\n".join(parts)

    def _open_output(self) -> EventOutput:
        writer, ids = StreamWriter(self._streams.stdout), RandomIds()
        match self._settings.output_format:
            case "stream-json":
                settings = self._settings
                return StreamJsonOutput(writer, ids, settings.replay_user_messages, settings.include_hook_events)
            case "json":
                return JsonOutput(writer, self._notices, ids)
            case "text":
                return TextOutput(writer, self._notices, is_terminal(self._streams.stdout))

    def _stop(self, reason: AbortReason) -> None:
        session = self._session
        if session is not None and (session.submitting or self._ending):
            session.stop(reason)
        elif self._signals.exit_code is not None:
            # No submission is running that could end with a result: reading a pipe, or waiting for the next line.
            self._cancel(self._signals.exit_code)

    def _cancel(self, code: int) -> None:
        """End the run without a result. Does nothing if it is already closing."""
        if self._task is not None and not self._ending:
            self._cancelled_with = code
            self._task.cancel()


def exit_code(result: Result | None) -> int:
    """Exit code of a run that was not ended by a signal. A run without any submission has not failed."""
    if result is None or not result.is_error:
        return SUCCESS
    return TRY_AGAIN if result.retryable else FAILURE
