"""/trace: a prompt as a timeline, with what each of its requests sent and got."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.commands.front_end import FrontEnd
from agentcli.commands.table import WIDTH
from agentcli.commands.tree import go_to, read_tree
from agentcli.core.aio import in_thread
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.frozen import frozen
from agentcli.core.text.columns import cell_count
from agentcli.core.text.format import money
from agentcli.core.text.plaintext import plain_text
from agentcli.core.text.secret_text import without_secrets
from agentcli.history.known_texts import find_texts
from agentcli.history.sent_requests import Texts
from agentcli.history.step_texts import StepReader, can_open, format_pieces
from agentcli.history.steps import Step, StepAction, StepChoice, StepList, StepScreen, StepTab, StepText
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
from agentcli.session.timeline import Timeline, read_timeline

_ARGUMENTS = re.compile(r"(?:(\d{1,6})(?:\.(\d{1,6}))?)?")
_BAR = 6


@frozen
class _TracedStep:
    """Value of a `Step`."""

    trace: Trace
    row: TraceRow | None
    """None: the step is the prompt itself."""


class _SessionTraces:
    """The traces of the open session, read from its file."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path
        self.reader = StepReader(self._find_texts, engine.session.catalog)

    def read(self) -> Timeline:
        return read_timeline(self._path)

    def _find_texts(self) -> Texts:
        session = self._engine.session
        texts = find_texts(self.read(), session.environ or os.environ)
        texts.add(session.profile.system, session.requests.tools)
        return texts

    def load_steps(self) -> list[Step]:
        timeline = self.read()
        traces = [make_trace(timeline, *choose_prompt(timeline, place + 1)) for place in range(len(timeline.current))]
        return [step for trace in traces for step in _steps_of(trace)]

    def find(self, number: str | None, step: str | None) -> _TracedStep:
        """A prompt, by default the last one, or a step of it. Blocking. Raises `AgentError`."""
        timeline = self.read()
        trace = make_trace(timeline, *choose_prompt(timeline, int(number) if number else None))
        return _TracedStep(trace, trace.row(int(step)) if step else None)

    def text_of(self, found: _TracedStep) -> str:
        """A prompt or a step of it as plain text. Blocking."""
        if (row := found.row) is None:
            return format_trace(found.trace, min(shutil.get_terminal_size().columns - 2, WIDTH + 24))
        pieces = [*self.reader.show_request(row, only_new=True), StepText(""), StepText("Response", "heading")]
        return plain_text(format_pieces([StepText(label_row(row).strip()), *pieces, *self.reader.show_response(row)]))


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
    path = engine.session.store.path
    if path is None or not engine.message_count:
        raise UsageError("This session has no prompt yet, or is not saved, so there is nothing to trace.")
    traces = _SessionTraces(engine, path)
    try:
        chosen = await in_thread(traces.find, found[1], found[2])
        if front_end.has_pages:
            return await _open_page(engine, traces, found[0], front_end)
        return await in_thread(traces.text_of, chosen)
    except OSError as error:
        raise AgentError(f"The session file cannot be read: {error.strerror}.") from error


async def _open_page(engine: Engine, traces: _SessionTraces, start: str, front_end: FrontEnd) -> str | None:
    steps: list[Step] = []

    def load() -> list[Step]:
        steps[:] = traces.load_steps()
        return steps

    async def copy(step: Step, _screen: StepScreen) -> str:
        body = await in_thread(traces.reader.body, step.value.row)
        return await front_end.copy(json.dumps(body, ensure_ascii=False, indent=2))

    def move(by: int) -> Callable[[Step, StepScreen], Awaitable[str | None]]:
        async def go(step: Step, screen: StepScreen) -> str | None:
            here = next(place for place, one in enumerate(steps) if one.id == step.id)
            after = steps[here + 1 :] if by > 0 else steps[:here][::-1]
            found = next((one for one in after if _is_request(one)), None)
            if found is None:
                return f"There is no {'later' if by > 0 else 'earlier'} request."
            screen.go_to(found.id)
            return None

        return go

    page = StepList(
        "Trace of this session",
        load,
        [*_tabs(traces.reader)],
        [
            StepAction("b", "continue from here"),
            StepAction("c", "copy request", copy, _is_request),
            StepAction("n", "next request", move(1)),
            StepAction("p", "", move(-1)),
        ],
        start=start,
    )
    choice: StepChoice | None = await front_end.page("steps", page)
    if choice is None:
        return None
    tree = await read_tree(engine)
    prompt = choice.step.value.trace.prompt.id
    row = next((row for row in tree.rows if row.prompt == prompt), None)
    if row is None:
        raise UsageError("This prompt is not in the session any more.")
    return await go_to(engine, tree, row, front_end)


def _is_request(step: Step) -> bool:
    return step.value.row is not None and can_open(step.value.row)


def _tabs(reader: StepReader) -> Iterator[StepTab]:
    def tab(
        name: str, of_prompt: Callable[[Trace], StepText], of_row: Callable[[TraceRow], Sequence[StepText]]
    ) -> StepTab:
        def read(step: Step) -> Sequence[StepText]:
            traced: _TracedStep = step.value
            return [of_prompt(traced.trace)] if traced.row is None else of_row(traced.row)

        return StepTab(name, read)

    yield StepTab("Timeline", lambda step: [StepText(partial(format_trace, step.value.trace))])
    yield tab("Request", lambda trace: StepText(without_secrets(trace.prompt.text)), reader.show_request)
    yield tab(
        "Response", lambda trace: StepText(without_secrets(trace.prompt.answer), "markdown"), reader.show_response
    )
    hint = StepText("→ shows the requests of this prompt. Each is compared with the one before.", "muted")
    yield tab("Changes", lambda _trace: hint, reader.show_changes)
