"""The user's own command for the status line: it gets JSON on stdin, and the first line of its stdout is shown.

The caller has to ensure that the command comes from the user's own settings, never from a repository. Colours (SGR) in
its output are kept; all other control sequences are removed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

from rich.style import Style

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.processes.own_programs import (
    PIPE,
    end_program,
    kill_group,
    shell_command,
    start_program_async,
    user_environment,
)
from agentcli.core.text.plaintext import TAB, plain_line, plain_text
from agentcli.tui.blocks.base import Run
from agentcli.tui.model import Facts

TIMEOUT_SECONDS = 1.0
PAUSE_SECONDS = 0.3
MAX_OUTPUT = 8 * 1024

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


def style_line(output: str) -> list[Run]:
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

    async def run(self, facts: Facts) -> Ran:
        """Run it for a second at most. Never raises."""
        if (file := next(filter(os.path.isfile, self.files), None)) is not None:
            return Ran([], f"statusLine: not run, because it names a file of this project: {plain_line(file)}")
        try:
            process = await start_program_async(
                shell_command(self.command),
                cwd=self.folder,
                environ=user_environment(self.environ, (Path(self.folder),)),
                stdin=PIPE,
                stdout=PIPE,
            )
        except (OSError, ValueError) as error:
            return Ran([], f"statusLine: the command did not start: {plain_line(str(error))}")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(payload(facts, self.folder, self.version)).encode())
        process.stdin.close()
        output, problem = b"", f"within {TIMEOUT_SECONDS:.0f} s, so it was stopped"
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while len(output) < MAX_OUTPUT and (piece := await process.stdout.read(MAX_OUTPUT)):
                    output += piece
                problem = f"(exit {await process.wait()})" if len(output) < MAX_OUTPUT else ""
        except TimeoutError:
            pass  # what it has printed until then counts
        finally:
            kill_group(process.pid)
            await end_program(process)
        line = style_line(output.decode("utf-8", "replace"))
        return Ran(line) if line else Ran([], f"statusLine: the command printed nothing {problem}")


class StatusFeed:
    """Runs the command for the latest facts: one run at a time, with a pause between runs."""

    def __init__(self, command: StatusCommand, show: Callable[[Ran], None]) -> None:
        self._command = command
        self._show = show
        self._latest: Facts | None = None
        self._task: asyncio.Task[None] | None = None

    def update(self, facts: Facts) -> None:
        self._latest = facts
        if self._task is None or self._task.done():
            self._task = start_task(self._follow(), name="status command")

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait([self._task])
            self._task = None

    async def _follow(self) -> None:
        while (facts := self._latest) is not None:
            self._latest = None
            self._show(await self._command.run(facts))
            await asyncio.sleep(PAUSE_SECONDS)
