"""The user's own command for the status line: it gets JSON on stdin, and the first line of its stdout is shown.

The caller has to ensure that the command comes from the user's own settings, never from a repository. Colours (SGR) in
its output are kept; all other control sequences are removed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from rich.style import Style

from agentcli.core.aio import start_task
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.processes.own_programs import PIPE, kill_group, shell_command, start_program, user_environment
from agentcli.core.text.plaintext import TAB, plain_line, plain_text
from agentcli.tui.blocks.wrap import Run
from agentcli.tui.model import Facts

if TYPE_CHECKING:
    from subprocess import Popen

TIMEOUT_SECONDS = 1.0
PAUSE_SECONDS = 0.3
OUTPUT_LIMIT = 8 * 1024

_SGR = re.compile(r"(\x1b\[[0-9;:]*m)")


def payload(facts: Facts, folder: str, version: str) -> Json:
    """The JSON that the command gets, in the form that scripts for other agents already read."""
    window = facts.context_window
    return {
        "hook_event_name": "Status",
        "session_id": facts.session,
        "version": version,
        "cwd": folder,
        "workspace": {"current_dir": folder, "project_dir": folder, "branch": facts.branch},
        "model": {"id": facts.model, "display_name": facts.model.removeprefix("claude-")},
        "effort": facts.effort,
        "fast_mode": facts.fast,
        "permission_mode": facts.mode,
        "cost": {
            "total_cost_usd": facts.cost_usd,
            "fully_priced": facts.fully_priced,
            "next_request_usd": facts.next_cost_usd,
            "cache_cold": facts.cache_cold,
        },
        "context_window": {
            "context_window_size": window,
            "total_input_tokens": facts.context_tokens,
            "used_percentage": round(100 * facts.context_tokens / window, 1) if window > 0 else None,
            "compact_at": facts.compact_at,
        },
        "cached_share": facts.cached_share,
        "sandbox": facts.sandbox,
        "tasks": facts.tasks,
        "agents": facts.agents,
        "todos": {"done": facts.todos_done, "total": facts.todos},
    }


def styled_line(output: str) -> list[Run]:
    """The first line with its colours, without any other control sequences."""
    from rich.ansi import AnsiDecoder

    first = next((line for line in output.splitlines() if plain_text(line).strip()), "")
    # Each piece between two colour sequences is cleaned separately, which also removes links and titles.
    pieces = (piece if _SGR.fullmatch(piece) else plain_text(piece) for piece in _SGR.split(first))
    text = AnsiDecoder().decode_line("".join(pieces).expandtabs(TAB))
    cuts = sorted({0, len(text.plain), *(place for span in text.spans for place in (span.start, span.end))})
    runs: list[Run] = []
    for start, end in pairwise(cuts):
        spans = [span for span in text.spans if span.start <= start and end <= span.end]
        looks = [span.style for span in spans if isinstance(span.style, Style)]
        runs.append((text.plain[start:end], Style.combine([Style(), *looks])))
    return runs


@frozen
class Ran:
    line: list[Run]
    problem: str = ""


@frozen
class StatusCommand:
    command: str
    folder: str
    environ: Mapping[str, str]
    """Environment of the command, without API keys."""
    version: str = ""
    files: tuple[str, ...] = ()
    """Paths in the project that its words may name: whoever wrote such a file, it is not run."""

    def run(self, facts: Facts, stopped: threading.Event) -> Ran:
        """Blocks for a second at most, less once `stopped` is set: to be called in a thread. Never raises."""
        if (file := next(filter(os.path.isfile, self.files), None)) is not None:
            return Ran([], f"statusLine: not run, because it names a file of this project: {plain_line(file)}")
        data = json.dumps(payload(facts, self.folder, self.version)).encode()
        try:
            process = start_program(
                shell_command(self.command),
                cwd=self.folder,
                environ=user_environment(self.environ, (Path(self.folder),)),
                stdin=PIPE,
                stdout=PIPE,
            )
        except (OSError, ValueError) as error:
            return Ran([], f"statusLine: the command did not start: {plain_line(str(error))}")
        try:
            output, ended = _talk(process, data, stopped)
        finally:
            # Before `wait`: until then the process id cannot be reused.
            kill_group(process.pid)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            process.wait()
        line = styled_line(output.decode("utf-8", "replace"))
        if line:
            return Ran(line)
        if not ended:
            return Ran([], f"statusLine: the command printed nothing within {TIMEOUT_SECONDS:.0f} s, so it was stopped")
        return Ran([], f"statusLine: the command printed nothing (exit {process.returncode})")


def _talk(process: Popen[bytes], data: bytes, stopped: threading.Event) -> tuple[bytes, bool]:
    """What it said until it ended, and whether it ended in time. No more is kept than a row can show."""
    assert process.stdin is not None
    assert process.stdout is not None
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with suppress(OSError):  # the command may not read its input
        os.set_blocking(process.stdin.fileno(), False)
        os.write(process.stdin.fileno(), data)  # less than a pipe holds
    with suppress(OSError):
        process.stdin.close()
    output = b""
    while len(output) < OUTPUT_LIMIT:
        left = deadline - time.monotonic()
        if left <= 0 or stopped.is_set():
            return output, False
        if not select.select([process.stdout], [], [], min(left, 0.05))[0]:
            continue
        chunk = os.read(process.stdout.fileno(), OUTPUT_LIMIT)
        if not chunk:
            break
        output += chunk
    return output, True


class StatusFeed:
    """Runs the command for the latest facts: one run at a time, with a pause between runs."""

    def __init__(self, command: StatusCommand, show: Callable[[Ran], None]) -> None:
        self._command = command
        self._show = show
        self._latest: Facts | None = None
        self._stopped = threading.Event()
        self._task: asyncio.Task[None] | None = None

    def update(self, facts: Facts) -> None:
        self._latest = facts
        if self._task is None or self._task.done():
            self._task = start_task(self._follow(), name="status command")

    async def close(self) -> None:
        self._stopped.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _follow(self) -> None:
        while (facts := self._latest) is not None:
            self._latest = None
            self._show(await asyncio.to_thread(self._command.run, facts, self._stopped))
            await asyncio.sleep(PAUSE_SECONDS)
