"""Bash: one shell command, to its end, its timeout or an abort; whatever happens, its process group is gone after.

The working directory that the command ends in is taken over when it is inside the working directories. What a
command leaves running in the background is ended with it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal as signals
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait
from agentcli.core.launch import Launch
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.plaintext import plain_line
from agentcli.core.shell import has_control_characters
from agentcli.tools.base import Output, Progress, ToolContext
from agentcli.tools.builtin import BuiltinTool, failure, in_thread, is_encodable, object_schema, os_failure
from agentcli.tools.environment import child_environment
from agentcli.tools.output import CollectedOutput
from agentcli.tools.process import Child, Pipe

DEFAULT_TIMEOUT_MS = 120_000
LONGEST_TIMEOUT_MS = 600_000
_DRAIN = 0.2
"""How long output may still come after the command has ended: somebody else may hold the pipe for ever."""
_PROGRESS_INTERVAL = 0.1


class Ending(Enum):
    EXITED = "exited"
    TIMED_OUT = "timed out"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class _Finished:
    ending: Ending
    code: int
    left_running: bool
    folder: str


class Bash(BuiltinTool):
    name = "Bash"
    subject = "command"
    input_schema = object_schema(
        ["command"],
        {
            "command": {"type": "string", "minLength": 1, "description": "The command"},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "description": f"Milliseconds, default {DEFAULT_TIMEOUT_MS}, at most {LONGEST_TIMEOUT_MS}",
            },
            "description": {"type": "string", "description": "What it does, in a few words, for the person"},
        },
    )

    def __init__(self, read_only: Callable[[str], bool] = lambda _command: False) -> None:
        """`read_only` proves that a command only reads. What is not proven runs alone."""
        self._read_only = read_only

    def title(self, input: Json) -> str:
        return plain_line(f"Bash {input.get('command', '')}")

    def is_safe(self, input: Json) -> bool:
        return self._read_only(input["command"])

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("execute", input["command"]),)

    def check(self, input: Json, context: ToolContext) -> str | None:
        if not input["command"].strip():
            return "The command is empty."
        if has_control_characters(input["command"]) or not is_encodable(input["command"]):
            return "The command contains control characters. Write it without them, for example with printf."
        return None

    async def run(
        self, input: Json, context: ToolContext, signal: AbortSignal
    ) -> AsyncGenerator[Progress | Output, None]:
        if signal.aborted:
            yield failure("The command was not started: the work was stopped before.", summary="stopped")
            return
        if not context.cwd.is_dir():
            yield failure(f"The working directory {context.cwd} is gone. Use cd with an absolute path that exists.")
            return
        seconds = min(input.get("timeout") or DEFAULT_TIMEOUT_MS, LONGEST_TIMEOUT_MS) / 1000
        output = CollectedOutput(context.results_dir, f"bash-{os.urandom(6).hex()}.txt")
        command = _Command(input["command"], context, output, seconds)
        task = asyncio.get_running_loop().create_task(command.execute(signal), name="bash")
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_PROGRESS_INTERVAL)
                if not task.done() and (text := output.fresh()):
                    yield Progress(text, {"bytes": output.bytes})
            try:
                finished = task.result()
            except OSError as error:
                yield os_failure(error, "The command could not be started")
                return
            yield await in_thread(_result, finished, output, context, seconds)
        finally:
            await cancel_and_wait([task])


class _Command:
    """One execution. `execute` owns the child from start to end, also when it is cancelled."""

    def __init__(self, command: str, context: ToolContext, output: CollectedOutput, seconds: float) -> None:
        self._command = command
        self._context = context
        self._output = output
        self._seconds = seconds

    async def execute(self, signal: AbortSignal) -> _Finished:
        reading, writing = os.pipe()
        folder = Pipe(reading)
        launch = self._launch(writing)
        try:
            try:
                child = await Child.start(
                    launch.arguments,
                    cwd=self._context.cwd,
                    environ=launch.environ,
                    pass_descriptors=(writing, *launch.pass_descriptors),
                )
            finally:
                os.close(writing)
            # In the very call that aborts, not one loop iteration later.
            unhook = signal.on_abort(lambda _reason: child.signal_group(signals.SIGTERM))
            pump = asyncio.get_running_loop().create_task(self._pump(child), name="bash output")
            try:
                ending = await self._until_ended(child, signal)
                left_running = False
                if ending is Ending.EXITED:
                    await asyncio.wait({pump}, timeout=_DRAIN)
                    left_running = child.signal_group(0)
                await child.end()
                await asyncio.wait({pump}, timeout=_DRAIN)
            finally:
                unhook()
                try:
                    await cancel_and_wait([pump])
                finally:
                    await child.aclose()
            if not pump.cancelled():
                pump.result()
            await self._output.finish()
            final = folder.read_now().decode("utf-8", errors="surrogateescape").removesuffix("\n")
            return _Finished(ending, child.code or 0, left_running, final)
        finally:
            launch.close()
            folder.close()

    def _launch(self, descriptor: int) -> Launch:
        shell = shutil.which("bash", path=self._context.environ.get("PATH")) or "/bin/sh"
        # The trap tells where a `cd` has led; through /dev/fd because some shells know only descriptors below ten.
        script = f'trap "pwd -P >/dev/fd/{descriptor}" EXIT\neval "$1"'
        return self._context.launcher.launch(
            [shell, "-c", script, shell, self._command],
            self._context.cwd,
            child_environment(self._context.environ),
        )

    async def _pump(self, child: Child) -> None:
        while data := await child.output.read():
            await self._output.add(data)

    async def _until_ended(self, child: Child, signal: AbortSignal) -> Ending:
        loop = asyncio.get_running_loop()
        exited = loop.create_task(child.wait())
        aborted = loop.create_task(signal.wait())
        try:
            await asyncio.wait({exited, aborted}, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
            if signal.aborted:
                return Ending.ABORTED
            return Ending.EXITED if exited.done() else Ending.TIMED_OUT
        finally:
            await cancel_and_wait([exited, aborted])


def _result(finished: _Finished, output: CollectedOutput, context: ToolContext, seconds: float) -> Output:
    text = output.text().strip("\n")
    notes: list[str] = []
    new_cwd: Path | None = None
    match finished.ending:
        case Ending.ABORTED:
            summary = "stopped"
            notes.append("The command was stopped before it ended. Its output so far is above.")
        case Ending.TIMED_OUT:
            summary = f"timed out after {seconds:g} s"
            notes.append(f"The command was ended after {seconds:g} s, its time limit. Its output so far is above.")
        case Ending.EXITED:
            summary = _exit_text(finished.code)
            if finished.code != 0:
                notes.append(f"{summary[0].upper()}{summary[1:]}")
                if (reason := context.launcher.explain(finished.code, text)) is not None:
                    notes.append(reason)
            new_cwd, note = _taken_over(finished.folder, context)
            notes += [note] if note else []
    if finished.left_running:
        notes.append("What the command left running in the background was ended with it.")
    if not text and finished.ending is Ending.EXITED:
        notes.insert(0, "(no output)" if finished.code else "(no output, exit code 0)")
    return Output(
        "\n\n".join([*([text] if text else []), *notes]),
        is_error=finished.ending is not Ending.EXITED or finished.code != 0,
        summary=summary,
        display={"kind": "text", "text": text},
        structured={
            "output": text,
            "exit_code": finished.code,
            "interrupted": finished.ending is Ending.ABORTED,
            "timed_out": finished.ending is Ending.TIMED_OUT,
            "saved_to": str(output.saved_to) if output.saved_to else None,
        },
        new_cwd=new_cwd,
    )


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by signal {-code} ({signals.Signals(-code).name})"
    except ValueError:
        return f"ended by signal {-code}"


def _taken_over(folder: str, context: ToolContext) -> tuple[Path | None, str]:
    """The directory to go on in, if it is another one and inside; else a note if the command's own is not kept."""
    if not folder.startswith("/") or folder == os.path.realpath(context.cwd):
        return None, ""
    if not Path(folder).is_dir():
        return None, ""
    real = Path(os.path.realpath(folder))
    if any(real.is_relative_to(os.path.realpath(allowed)) for allowed in context.working_dirs):
        return real, ""
    return (
        None,
        f"The working directory is {context.cwd} again: {plain_line(folder)} is outside the working directories.",
    )
