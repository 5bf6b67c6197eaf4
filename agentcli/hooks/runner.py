"""Run all hooks that match an event, in parallel and within limits, and report each of them as events.

A hook is a shell command or a Python function. The standard input of a command is a file that is complete before it
starts, so that it need not read it. When the command has ended, the rest of its process group is killed.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path

from agentcli.core.aio import cancel_and_wait, in_daemon_thread, start_task
from agentcli.core.events import Event, HookFinished, HookStarted, NoticeRaised
from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock, Ids
from agentcli.core.messages import Json
from agentcli.core.processes.child import Child, Pipe, exit_text
from agentcli.core.processes.own_programs import shell_command
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.hooks.answers import MAX_TEXT, HookAnswer, HookOutput, answer_of
from agentcli.hooks.rules import HookFunction, HookRule, matching

MAX_OUTPUT = 1024 * 1024
"""Maximum bytes kept of standard output, and of standard error; the rest is read and dropped."""
TERM_SECONDS = 1.0
"""Seconds between SIGTERM at the timeout and SIGKILL."""
_DRAIN_SECONDS = 0.2
"""Seconds to wait for the last output: a process that left the group may hold the pipe open for longer."""


async def run_command(command: str, data: bytes, cwd: Path, environ: Mapping[str, str], seconds: float) -> HookOutput:
    """Run a command. Raises only for cancellation, which kills the process group at once."""
    try:
        with tempfile.TemporaryFile() as file, ExitStack() as opened:
            file.write(data)
            file.seek(0)
            reading, writing = os.pipe()
            opened.callback(os.close, reading)
            try:
                child = Child.start(
                    shell_command(command), cwd=cwd, environ=environ, stdin=file.fileno(), stderr=writing
                )
            finally:
                os.close(writing)
            opened.pop_all()
    except (OSError, ValueError) as error:
        return HookOutput("crashed", None, detail=f"it did not start: {error}")
    errors, stdout, stderr = Pipe(reading), bytearray(), bytearray()
    readers = [start_task(_read(child.output, stdout)), start_task(_read(errors, stderr))]
    try:
        timed_out = not await child.wait(seconds)
        if timed_out:
            child.signal_group(signal.SIGTERM)
            await child.wait(TERM_SECONDS)
        child.signal_group(signal.SIGKILL)
        await asyncio.wait(readers, timeout=_DRAIN_SECONDS)
    finally:
        try:
            await cancel_and_wait(readers)
        finally:
            errors.close()
            await child.aclose()
    texts = stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace")
    if timed_out:
        return HookOutput("timed_out", None, *texts, detail=f"it took longer than {seconds:g} s and was stopped")
    if child.code is not None and child.code < 0:
        return HookOutput("crashed", child.code, *texts, detail=f"it was {exit_text(child.code)}")
    return HookOutput("exited", child.code, *texts)


async def _read(pipe: Pipe, kept: bytearray) -> None:
    """Read a pipe to its end and keep the beginning of the data."""
    while chunk := await pipe.read():
        kept += chunk[: MAX_OUTPUT - len(kept)]


async def run_function(function: HookFunction, data: Json, seconds: float) -> HookOutput:
    """Run a function. Raises only for cancellation. A function in a thread cannot be stopped: it continues and its
    result is ignored."""
    try:
        async with asyncio.timeout(seconds):
            if _is_async(function):
                value = await function(data)  # type: ignore[misc]
            else:
                value = await in_daemon_thread(function, data)
                if inspect.isawaitable(value):
                    value = await value
    except TimeoutError:
        return HookOutput("timed_out", None, detail=f"it took longer than {seconds:g} s and was stopped")
    except Exception as error:  # noqa: BLE001 - a bug in a hook must not end the submission
        return HookOutput("crashed", None, detail=plain_line(f"{type(error).__name__}: {error}", 500))
    return HookOutput("exited", None, returned=value)


def _is_async(function: HookFunction) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


EmitEvent = Callable[[Event], Awaitable[None]]


@frozen
class LastRun:
    outcome: str
    duration_ms: int


HookRun = tuple[HookRule, LastRun | None]
"""A configured hook and the result of its last run; None: it has not run yet."""


@frozen
class HookPlace:
    """Directory and environment for commands of hooks."""

    folder: Path
    """The project's root."""
    environ: Mapping[str, str]
    """Environment variables, without API keys."""


@frozen
class Occasion:
    """One occurrence of an event."""

    event: str
    subject: str = ""
    """The value that matchers are compared with: a tool's name, a trigger, a source."""
    fields: Json | None = None
    """Data specific to the event."""
    tool_use_id: str = ""
    longest: float | None = None
    """Maximum timeout of every hook in seconds, whatever its own timeout."""


class HookRunner:
    """`described` returns the fields that all events have. `distrusted` returns the reason why a hook may not run now,
    or ""."""

    def __init__(
        self,
        rules: Sequence[HookRule],
        place: HookPlace,
        ids: Ids,
        clock: Clock,
        distrusted: Callable[[HookRule], str] = lambda _rule: "",
    ) -> None:
        self.rules = tuple(rules)
        self.described: Callable[[], Json] = dict
        self._place = place
        self._ids = ids
        self._clock = clock
        self._distrusted = distrusted
        self._reported = ""
        self._last: dict[int, LastRun] = {}
        """By the identity of the rule, because a function need not be hashable."""

    def listing(self) -> Iterator[HookRun]:
        for rule in self.rules:
            yield rule, self._last.get(id(rule))

    def remember(self, runs: Iterable[HookRun]) -> None:
        """Take over the last runs of the same rules from another runner."""
        for known, last in runs:
            for rule in self.rules:
                if last is not None and rule == known:
                    self._last[id(rule)] = last

    def has(self, event: str) -> bool:
        return any(rule.event == event for rule in self.rules)

    async def run(self, occasion: Occasion, emit: EmitEvent) -> list[HookAnswer]:
        """Run the matching hooks; returns the answers in the order of the configuration. Raises only for cancellation,
        which stops all."""
        rules = matching(self.rules, occasion.event, occasion.subject)
        refused: list[HookAnswer] = []
        problems = [self._distrusted(rule) for rule in rules]
        if problem := next(filter(None, problems), ""):
            rules = [rule for rule, found in zip(rules, problems, strict=True) if not found]
            refused = [HookAnswer("crashed", problem)]
            if problem != self._reported:
                self._reported = problem
                await emit(NoticeRaised(text=problem, level="warning", code="hook"))
        if not rules:
            return refused
        data = {**self.described(), "hook_event_name": occasion.event, **(occasion.fields or {})}
        if len(rules) == 1:
            return [*refused, await self._run_one(rules[0], data, occasion, emit)]
        tasks = [start_task(self._run_one(rule, data, occasion, emit)) for rule in rules]
        try:
            return [*refused, *await asyncio.gather(*tasks)]
        finally:
            await cancel_and_wait(tasks)

    async def _run_one(self, rule: HookRule, data: Json, occasion: Occasion, emit: EmitEvent) -> HookAnswer:
        hook_id = self._ids.new()
        about = {"hook_id": hook_id, "event_name": rule.event, "name": rule.title, "tool_use_id": occasion.tool_use_id}
        await emit(HookStarted(**about))
        began = self._clock.monotonic()
        seconds = rule.timeout if occasion.longest is None else min(rule.timeout, occasion.longest)
        try:
            output = await self._output(rule, data, seconds)
        except asyncio.CancelledError:
            self._last[id(rule)] = LastRun("cancelled", self._since(began))
            raise
        answer = answer_of(rule.event, output)
        duration = self._since(began)
        self._last[id(rule)] = LastRun(answer.outcome, duration)
        await emit(
            HookFinished(
                **about,
                source=rule.source,
                outcome=answer.outcome,
                text=answer.text,
                duration_ms=duration,
                exit_code=output.exit_code,
                output="" if answer.quiet else plain_text(output.stdout[:MAX_TEXT]),
                errors="" if answer.quiet else plain_text(output.stderr[:MAX_TEXT]),
            )
        )
        if answer.message:
            await emit(NoticeRaised(text=f"{rule.title}: {answer.message}", code="hook"))
        return answer

    async def _output(self, rule: HookRule, data: Json, seconds: float) -> HookOutput:
        if not isinstance(rule.action, str):
            # A copy: the function may modify its argument, which is also the input of the call, in the log and in
            # requests.
            return await run_function(rule.action, deepcopy(data), seconds)
        place = self._place
        root = str(place.folder)
        environ = {**place.environ, "CLAUDE_PROJECT_DIR": root, "AGENTCLI_PROJECT_DIR": root}
        # A cache beside a script of the project would be a file that the user has not trusted.
        environ["PYTHONDONTWRITEBYTECODE"] = "1"
        text = json.dumps(data, ensure_ascii=True, default=str)
        return await run_command(rule.action, text.encode(), place.folder, environ, seconds)

    def _since(self, began: float) -> int:
        return int((self._clock.monotonic() - began) * 1000)
