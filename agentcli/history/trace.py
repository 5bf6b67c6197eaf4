"""A prompt as a timeline: requests, calls, waits, retries and sub-agents, each with its beginning and end.

Everything is in milliseconds since the prompt. Texts come from models and files: whoever shows them makes them safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from textwrap import wrap
from typing import Literal

from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen, slotted
from agentcli.core.ids import seconds_between
from agentcli.core.messages import Origin
from agentcli.core.text.columns import cell_count, cut
from agentcli.core.text.format import counted, duration, money, percent, token_count
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.secret_text import without_secrets
from agentcli.core.usage import Usage
from agentcli.history.states import title_of
from agentcli.session.base import is_session_id
from agentcli.session.timeline import CallStep, PromptStep, RequestStep, Timeline, read_timeline

RowKind = Literal["request", "side", "call", "retry", "event"]
_MAX_DEPTH = 4
"""How many sub-agents may be below each other."""
_TRANSITIONS = {
    "": "the prompt",
    "next_turn": "results of the calls",
    "collapse_drain_retry": "again, with old content collapsed",
    "reactive_compact_retry": "again, compacted because it was too long",
    "max_output_tokens_escalate": "again, with a higher output limit",
    "max_output_tokens_recovery": "continue the reply that was cut off",
    "stop_hook_blocking": "a Stop hook asked to continue",
    "token_budget_continuation": "continue, because the token target is not reached",
}
"""Why a request was sent, by its transition."""


@slotted
class TraceRow:
    kind: RowKind
    label: str
    start: int
    end: int
    depth: int = 0
    first: int | None = None
    """Of a request: when the first block of its reply began."""
    waits: list[tuple[int, int]] = field(default_factory=list)
    """When it waited for the user's answer."""
    notes: list[str] = field(default_factory=list)
    failed: bool = False
    request: RequestStep | None = None
    call: CallStep | None = None
    event: ev.Event | None = None
    timeline: Timeline | None = None
    """Its session: a sub-agent has its own."""

    @property
    def ms(self) -> int:
        return self.end - self.start

    @property
    def ttft_ms(self) -> int | None:
        """Time to the first block of the reply, from the last attempt on; None if unknown."""
        return None if self.first is None else self.first - self.start


@frozen
class Trace:
    prompt: PromptStep
    number: int
    """Of the prompt on its branch, from 1."""
    rows: tuple[TraceRow, ...]
    """In the order in which they began; rows of a sub-agent follow its call."""
    end: int

    def row(self, number: int) -> TraceRow:
        """Raises `AgentError`."""
        if not 1 <= number <= len(self.rows):
            raise AgentError(f"Prompt {self.number} has the steps 1 to {len(self.rows)}.")
        return self.rows[number - 1]


def choose_prompt(timeline: Timeline, number: int | None = None) -> tuple[int, PromptStep]:
    """A prompt of the current branch by its number, or the last one. Raises `AgentError`."""
    prompts = timeline.current
    if not prompts:
        raise AgentError("This session has no prompts yet.")
    number = len(prompts) if number is None else number
    if not 1 <= number <= len(prompts):
        raise AgentError(f"This session has {counted(len(prompts), 'prompt')}. Give a number from 1 to {len(prompts)}.")
    return number, prompts[number - 1]


def make_trace(timeline: Timeline, number: int, prompt: PromptStep) -> Trace:
    """Blocking: it reads the files of sub-agents."""
    rows = [*_Tracer(prompt, prompt.at).rows(timeline)]
    return Trace(prompt, number, tuple(rows), max((row.end for row in rows), default=0))


class _Tracer:
    """Makes the rows of a prompt, which may be that of a sub-agent, relative to the time `zero`."""

    def __init__(self, prompt: PromptStep, zero: str, depth: int = 0) -> None:
        self._prompt = prompt
        self._zero = zero
        self._depth = depth

    def _ms(self, at: str) -> int:
        return round((seconds_between(self._zero, at) or 0) * 1000)

    def rows(self, timeline: Timeline) -> Iterator[TraceRow]:
        prompt = self._prompt
        retries = [self._retry(at, event) for at, event in prompt.events if isinstance(event, ev.RetryScheduled)]
        rows: list[TraceRow] = []
        claimed: set[str] = set()
        for step in prompt.requests:
            if not step.agent:  # Else it is a row of its agent.
                rows.append(self._request(step, retries, rows[-1].end if rows else 0))
                rows += [self._call(call, rows[-1].end) for call in step.calls]
                claimed.update(call.id for call in step.calls)
        rows += [self._call(call, 0) for call in prompt.calls if call.id not in claimed]
        rows += retries
        rows += [row for at, event in prompt.events if (row := self._event(at, event)) is not None]
        # The sort keeps the order of what began at the same time.
        for row in sorted(rows, key=lambda row: row.start):
            row.timeline = timeline
            yield row
            for agent in row.call.agents if row.call is not None and self._depth < _MAX_DEPTH else ():
                if (inner := _read_agent(timeline, timeline.agents[agent].session_id)) is not None:
                    for one in inner.prompts.values():
                        yield from _Tracer(one, self._zero, row.depth + 1).rows(inner)

    def _request(self, step: RequestStep, retries: Sequence[TraceRow], last_end: int) -> TraceRow:
        end = self._ms(step.ended_at)
        start = max(0, end - step.duration_ms) if step.duration_ms else min(last_end, end)
        is_turn = step.purpose == "turn"
        label = f"request: {_TRANSITIONS.get(step.transition, step.transition)}" if is_turn else f"side: {step.purpose}"
        row = TraceRow("request" if is_turn else "side", label, start, end, self._depth, request=step)
        row.first = start + step.first_ms if step.first_ms else None
        row.failed = step.outcome == "void"
        # The time of a request counts from its first attempt. The last one begins when the wait before it ends.
        row.start = max((retry.end for retry in retries if start < retry.end <= (row.first or end)), default=start)
        row.notes += _describe_request(row, step)
        return row

    def _retry(self, at: str, event: ev.RetryScheduled) -> TraceRow:
        start = self._ms(at)
        status = f" ({event.status})" if event.status else ""
        label = f"retry {event.attempt} of {event.max_attempts}: {event.kind.replace('_', ' ')}{status}"
        end = start + round(event.wait_seconds * 1000)
        return TraceRow("retry", label, start, end, self._depth, notes=[event.text], failed=True, event=event)

    def _call(self, call: CallStep, reply_end: int) -> TraceRow:
        start = self._ms(call.asked_at or call.started_at or call.made_at)
        end = self._ms(call.ended_at) if call.ended_at else max(start, self._ms(self._prompt.last_at))
        row = TraceRow("call", title_of(call), start, end, self._depth + 1, call=call)
        row.failed = call.outcome != "done" or (call.end is not None and call.end.result.is_error)
        if call.asked_at:
            answered = self._ms(call.answered_at) if call.answered_at else end
            row.waits.append((start, answered))
            row.notes.append(f"waited {format_time(answered - start)} for your answer: {call.answer or 'none'}")
        if call.started_at and self._ms(call.started_at) < reply_end:
            row.notes.append("began while the reply streamed")
        if call.outcome not in ("done", ""):
            row.notes.append(call.outcome)
        if call.files:
            row.notes.append(f"{counted(call.files, 'file')} +{call.added} −{call.removed}")
        return row

    def _event(self, at: str, event: ev.Event) -> TraceRow | None:
        label = _describe_event(event)
        return None if label is None else TraceRow("event", label, self._ms(at), self._ms(at), self._depth, event=event)


def _read_agent(timeline: Timeline, session_id: str) -> Timeline | None:
    # The folder of an agent may be another one, such as a worktree.
    found = timeline.path.parent.parent.glob(f"*/{session_id}.jsonl") if is_session_id(session_id) else iter(())
    try:
        return next((read_timeline(path) for path in found), None)
    except OSError:
        return None


# ------------------------------------------------------------------------------------------------------------ wording


def _describe_event(event: ev.Event) -> str | None:
    match event:
        case ev.MessageAppended(message=message) if message.origin is Origin.QUEUED:
            return f"queued prompt: {message.typed}"
        case ev.MessageAppended(message=message):
            return "compacted" if message.origin is Origin.BOUNDARY else f"error: {message.text}"
        case ev.ModelFellBack():
            return f"fell back to {event.to_model}: {event.reason}"
        case ev.ContextEdited() | ev.RequestRepaired() | ev.FeatureDropped() | ev.CompactionFailed():
            return event.text or None
        case ev.HookFinished():
            return f"hook {event.event_name} {event.name}: {event.outcome} {event.text}"
        case ev.LoopSuspected():
            return f"repeats {event.title} for the {event.times}. time"
        case ev.SubmissionInterrupted():
            return "interrupted by a new prompt" if event.steering else "interrupted by you"
        case ev.PrefixBroken():
            tokens = f" ({token_count(event.rebilled_tokens)} tokens again)" if event.rebilled_tokens else ""
            return ": ".join(filter(None, (f"cache lost{tokens}", event.block, event.reason)))
    return None


def _describe_usage(usage: Usage) -> tuple[str, str]:
    cached = percent(usage.cache_read_input_tokens, usage.prompt_tokens)
    return f"{token_count(usage.prompt_tokens)} in, {cached} from the cache", f"{token_count(usage.output_tokens)} out"


def _describe_request(row: TraceRow, step: RequestStep) -> Iterator[str]:
    usage = step.usage
    if row.ttft_ms is not None:
        yield f"{format_time(row.ttft_ms)} to the first token"
    if step.is_reported:
        yield from _describe_usage(usage)
        if step.cost_usd is not None:
            yield money(step.cost_usd)
    else:
        yield "no usage reported"
    if step.outcome == "void":
        yield "discarded and requested again"
    elif step.outcome:
        yield step.outcome
    if step.stop_reason not in ("", "end_turn", "tool_use"):
        yield step.stop_reason.replace("_", " ")


# --------------------------------------------------------------------------------------------------------------- text

_MIN_WIDTH = 60
"""Columns below which a timeline has no bars."""
_LEGEND = "░ until the first token  █ reply  ━ call  ? waits for you  ~ retry wait  ▒ side call  · moment"
_SIGNS: Mapping[RowKind, str] = {"request": "█", "side": "▒", "call": "━", "retry": "~", "event": "·"}


def draw_bar(row: TraceRow, total: int, width: int) -> str:
    """The bar of a row in a line for all of the prompt. Each kind has a sign of its own, so that colour is not
    needed."""
    cells = [" "] * width

    def fill(start: int, end: int, sign: str) -> None:
        first = min(width - 1, start * width // max(1, total))
        last = min(width, max(first + 1, -(-end * width // max(1, total))))
        cells[first:last] = sign * (last - first)

    fill(row.start, row.end, _SIGNS[row.kind])
    if row.first is not None and row.first > row.start:
        fill(row.start, row.first, "░")
        fill(row.first, row.end, "█")
    for start, end in row.waits:
        fill(start, end, "?")
    return "".join(cells)


def label_row(row: TraceRow) -> str:
    """The label, safe for a line of a terminal, without secrets."""
    mark = "✗ " if row.failed else ""
    model = f" ({row.request.model})" if row.request is not None and row.kind != "request" else ""
    return f"{'  ' * row.depth}{mark}{plain_line(without_secrets(row.label), 300)}{model}"


def note_row(row: TraceRow) -> str:
    return " · ".join(plain_line(without_secrets(note), 300) for note in row.notes)


def time_row(row: TraceRow) -> str:
    return "" if row.kind == "event" else format_time(row.ms)


def format_time(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1000 else duration(milliseconds / 1000)


def format_trace(trace: Trace, width: int) -> str:
    """The trace as text: the prompt and its sums, then the rows. Narrow terminals get no bars."""
    prompt = trace.prompt
    end = prompt.result.terminal.replace("_", " ") if prompt.result else "cut off, or still running"
    facts = " · ".join((end, format_time(trace.end), money(prompt.cost_usd), *_describe_usage(prompt.usage)))
    lines = [
        cut(f"Prompt {trace.number}: {plain_line(without_secrets(prompt.text), 300)}", width),
        *wrap(facts, width),
        *wrap(", ".join(plain_line(model, 60) for model in prompt.models), width),
        "",
    ]
    if not trace.rows:
        return "\n".join([*lines, "Nothing was sent."])
    digits = len(str(len(trace.rows)))
    times = max(map(cell_count, map(time_row, trace.rows)))
    bar = width // 3 if width >= _MIN_WIDTH else 0
    for number, row in enumerate(trace.rows, 1):
        drawn = f"{draw_bar(row, trace.end, bar)}  " if bar else ""
        lines.append(cut(f"{number:>{digits}}  {time_row(row):>{times}}  {drawn}{label_row(row)}", width))
        indent = " " * (digits + times + 4 + 2 * row.depth)
        notes = wrap(note_row(row), max(width, len(indent) + 16), initial_indent=indent, subsequent_indent=indent)
        lines += [cut(line, width) for line in notes]
    return "\n".join([*lines, *(["", *wrap(_LEGEND, width)] if bar else [])])
