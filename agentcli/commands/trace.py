"""/trace: a prompt as a timeline, with what each of its requests sent and got."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentcli.agent.engine import Engine
from agentcli.commands.front_end import FrontEnd
from agentcli.commands.table import WIDTH
from agentcli.commands.tree import go_to, read_tree
from agentcli.core.aio import cancel_and_wait, in_thread, start_task
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.frozen import frozen
from agentcli.core.text.columns import cell_count
from agentcli.core.text.format import money
from agentcli.core.text.plaintext import plain_text
from agentcli.core.text.secret_text import without_secrets
from agentcli.history.known_texts import find_texts
from agentcli.history.sent_requests import digest_texts
from agentcli.history.step_texts import StepReader, can_open
from agentcli.history.steps import Step, StepAction, StepChoice, StepList, StepTab, StepText, UpdateSteps
from agentcli.history.trace import (
    Trace,
    TraceRow,
    choose_prompt,
    draw_bar,
    format_time,
    format_trace,
    label_row,
    make_trace,
    time_row,
)
from agentcli.session.timeline import read_timeline

_ARGUMENTS = re.compile(r"(?:(\d{1,6})(?:\.(\d{1,6}))?)?")
_BAR = 6
_REFRESH_SECONDS = 1.0
_REST = 9
"""How much longer than reading the file takes is waited before it is read again."""


@frozen
class _TracedStep:
    """Value of a `Step`."""

    trace: Trace
    row: TraceRow | None
    """None: the step is the prompt itself."""


def _list_steps(path: Path) -> list[Step]:
    timeline = read_timeline(path)
    traces = [make_trace(timeline, *choose_prompt(timeline, place + 1)) for place in range(len(timeline.current))]
    return [step for trace in traces for step in _steps_of(trace)]


def _steps_of(trace: Trace) -> Iterator[Step]:
    number = str(trace.number)
    facts = f"{format_time(trace.end)} · {money(trace.prompt.cost_usd)}"
    label = without_secrets(trace.prompt.text)
    yield Step(number, label, facts, f"{number}  ", value=_TracedStep(trace, None))
    times = max((cell_count(time_row(row)) for row in trace.rows), default=0)
    for place, row in enumerate(trace.rows, 1):
        detail = f"{time_row(row):>{times}}  {draw_bar(row, trace.end, _BAR)}"
        label = f"{place} {label_row(row).replace('request: ', '', 1)}"
        yield Step(f"{number}.{place}", label, detail, parent=number, value=_TracedStep(trace, row))


async def run(engine: Engine, arguments: str, front_end: FrontEnd) -> str | None:
    """Shows the requests, calls, waits and retries of each prompt with their times. A step opens the exact request, its
    reply and what changed since the last request. From a prompt you can continue again, as with /tree.

    /trace      the prompts of this session; without pages the last one as text
    /trace 3    the third prompt
    /trace 3.2  its second step
    """
    found = _ARGUMENTS.fullmatch(arguments.strip())
    if found is None:
        raise UsageError("/trace takes the number of a prompt, or of a step: /trace 3.2")
    session, path = engine.session, engine.session.store.path
    if path is None or not engine.message_count:
        raise UsageError("This session has no prompt yet, or is not saved, so there is nothing to trace.")

    def known_texts() -> dict[str, Any]:
        texts = find_texts(read_timeline(path), session.environ or os.environ)
        return texts | digest_texts([*session.profile.system, *session.requests.tools])

    reader = StepReader(known_texts, session.catalog)

    def show() -> str:
        timeline = read_timeline(path)
        trace = make_trace(timeline, *choose_prompt(timeline, int(found[1]) if found[1] else None))
        row = trace.row(int(found[2])) if found[2] else None
        if front_end.has_pages:
            return f"{trace.number}.{found[2]}" if row is not None else str(trace.number)
        if row is not None:
            return plain_text(reader.format(row))
        return format_trace(trace, min(shutil.get_terminal_size().columns - 2, WIDTH + 24))

    try:
        shown = await in_thread(show)
        return await _open_page(engine, path, reader, shown, front_end) if front_end.has_pages else shown
    except OSError as error:
        raise AgentError(f"The session file cannot be read: {error.strerror}.") from error


async def _open_page(engine: Engine, path: Path, reader: StepReader, start: str, front_end: FrontEnd) -> str | None:
    following: list[asyncio.Task[None]] = []

    async def copy(step: Step) -> str:
        body = await in_thread(reader.body, step.value.row)
        return await front_end.copy(json.dumps(body, ensure_ascii=False, indent=2))

    page = StepList(
        "Trace of this session",
        partial(_list_steps, path),
        [
            StepTab("Timeline", lambda step: [StepText(partial(format_trace, step.value.trace))]),
            _tab("Request", reader.show_request),
            _tab("Response", reader.show_response),
            _tab("Changes", reader.show_changes),
        ],
        [StepAction("b", "continue from here"), StepAction("c", "copy request", copy, _is_request)],
        start=start,
        opened=lambda update: following.append(start_task(_follow(path, update), name="follow the trace")),
    )
    try:
        choice: StepChoice | None = await front_end.page("steps", page)
    finally:
        await cancel_and_wait(following)
    if choice is None:
        return None
    tree = await read_tree(engine)
    prompt = choice.step.value.trace.prompt.id
    row = next((row for row in tree.rows if row.prompt == prompt), None)
    if row is None:
        raise UsageError("This prompt is not in the session any more.")
    return await go_to(engine, tree, row, front_end)


async def _follow(path: Path, update: UpdateSteps) -> None:
    """Show what is added to the session file."""
    size, spent = -1, 0.0
    while True:
        before, size = size, (await in_thread(path.stat)).st_size
        if size != before:
            began = time.monotonic()
            update(await in_thread(_list_steps, path))
            spent = time.monotonic() - began
        await asyncio.sleep(max(_REFRESH_SECONDS, _REST * spent))


def _is_request(step: Step) -> bool:
    return step.value.row is not None and can_open(step.value.row)


def _tab(name: str, show: Callable[[TraceRow], Sequence[StepText]]) -> StepTab:
    """A tab with a part of a step. For a prompt it has the prompt and its answer."""

    def read(step: Step) -> Sequence[StepText]:
        traced: _TracedStep = step.value
        if traced.row is not None:
            return show(traced.row)
        prompt, answer = without_secrets(traced.trace.prompt.text), without_secrets(traced.trace.prompt.answer)
        return [StepText(f"{prompt}\n"), StepText("Answer", "heading"), StepText(answer or "(none)", "markdown")]

    return StepTab(name, read)
