"""A prompt as a timeline: requests, calls, waits, retries and sub-agents, each with its beginning and end.

Everything is in milliseconds since the prompt. Texts come from models and files: whoever shows them makes them safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from datetime import datetime
from pathlib import Path
from textwrap import wrap
from typing import Literal

from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen, slotted
from agentcli.core.messages import Json, Origin
from agentcli.core.text.columns import cell_count, cut
from agentcli.core.text.format import counted, duration, money, percent, token_count
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.secret_text import without_secrets
from agentcli.session.base import is_session_id
from agentcli.session.timeline import CallStep, PromptStep, RequestStep, Timeline, read_timeline

RowKind = Literal["request", "side", "call", "retry", "agent", "event"]
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
    """Its session: a sub-agent has its own. None if the file of that is gone."""

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
        if not at or not self._zero:
            return 0
        passed = datetime.fromisoformat(at) - datetime.fromisoformat(self._zero)
        return max(0, round(passed.total_seconds() * 1000))

    def rows(self, timeline: Timeline) -> Iterator[TraceRow]:
        prompt = self._prompt
        retries = [self._retry(at, event) for at, event in prompt.events if isinstance(event, ev.RetryScheduled)]
        rows: list[TraceRow] = []
        for one in self._requests(retries):
            assert one.request is not None
            rows += [one, *(self._call(call, one.end) for call in one.request.calls)]
        claimed = {id(call) for step in prompt.requests for call in step.calls}
        rows += [self._call(call, 0) for call in prompt.calls if id(call) not in claimed]
        rows += retries
        rows += [row for at, event in prompt.events if (row := self._event(at, event)) is not None]
        # The sort keeps the order of what began at the same time.
        for row in sorted(rows, key=lambda row: row.start):
            row.timeline = timeline
            yield row
            for agent in row.call.agents if row.call is not None else ():
                yield from self._agent(agent, row, timeline)

    def _requests(self, retries: Sequence[TraceRow]) -> Iterator[TraceRow]:
        last_end = 0
        notes: dict[int, list[str]] = {}
        for at, event in self._prompt.events:
            if isinstance(event, ev.PrefixBroken):
                notes.setdefault(self._ms(at), []).append(_describe_break(event))
        for step in self._prompt.requests:
            if step.agent:
                continue  # It is a row of its agent.
            end = self._ms(step.ended_at)
            start = max(0, end - step.duration_ms) if step.duration_ms else min(last_end, end)
            is_turn = step.purpose == "turn"
            row = TraceRow(
                "request" if is_turn else "side",
                f"request: {_TRANSITIONS.get(step.transition, step.transition)}"
                if is_turn
                else f"side: {step.purpose}",
                start,
                end,
                self._depth,
                first=start + step.first_ms if step.first_ms else None,
                request=step,
                failed=step.outcome == "void",
            )
            # The time of a request counts from its first attempt. The last one begins when the wait before it ends.
            row.start = max((retry.end for retry in retries if start < retry.end <= (row.first or end)), default=start)
            row.notes += [*_describe_request(row, step), *notes.pop(end, ())]
            last_end = max([end, *(self._ms(call.ended_at) for call in step.calls)])
            yield row

    def _retry(self, at: str, event: ev.RetryScheduled) -> TraceRow:
        start = self._ms(at)
        label = f"retry {event.attempt} of {event.max_attempts}: {event.kind.replace('_', ' ')}"
        status = f" ({event.status})" if event.status else ""
        end = start + round(event.wait_seconds * 1000)
        return TraceRow("retry", label + status, start, end, self._depth, notes=[event.text], failed=True, event=event)

    def _call(self, call: CallStep, reply_end: int) -> TraceRow:
        made, last = self._ms(call.made_at), self._ms(self._prompt.last_at)
        start = self._ms(call.asked_at or call.started_at) or made
        end = self._ms(call.ended_at) if call.ended_at else max(start, last)
        row = TraceRow("call", call.title or _name_call(call), start, end, self._depth + 1, call=call)
        outcome = call.end.outcome if call.end is not None else "cut off"
        row.failed = outcome != "done" or (call.end is not None and call.end.result.is_error)
        if call.asked_at:
            answered = self._ms(call.answered_at) if call.answered_at else end
            row.waits.append((start, answered))
            row.notes.append(f"waited {format_time(answered - start)} for your answer: {call.answer or 'none'}")
        if call.started_at and self._ms(call.started_at) < reply_end:
            row.notes.append("began while the reply streamed")
        if outcome not in ("done", ""):
            row.notes.append(outcome)
        if call.files:
            row.notes.append(f"{counted(call.files, 'file')} +{call.added} −{call.removed}")
        return row

    def _agent(self, agent: str, above: TraceRow, timeline: Timeline) -> Iterator[TraceRow]:
        started = timeline.agents.get(agent)
        inner = _read_agent(timeline, started.session_id) if started is not None else None
        if inner is None or self._depth >= _MAX_DEPTH:
            for step in self._prompt.requests:
                if step.agent == agent:
                    end = self._ms(step.ended_at)
                    row = TraceRow("agent", f"{agent}: {step.purpose}", end - step.duration_ms, end, above.depth + 1)
                    row.request, row.notes = step, list(_describe_request(row, step))
                    yield row
            return
        for prompt in inner.prompts.values():
            yield from _Tracer(prompt, self._zero, above.depth + 1).rows(inner)

    def _event(self, at: str, event: ev.Event) -> TraceRow | None:
        label = _describe_event(event)
        if label is None:
            return None
        moment = self._ms(at)
        return TraceRow("event", plain_line(label, 300), moment, moment, self._depth, event=event)


def _read_agent(timeline: Timeline, session_id: str) -> Timeline | None:
    if not is_session_id(session_id):
        return None
    beside = timeline.path.with_name(f"{session_id}.jsonl")
    path = beside if beside.exists() else next(timeline.path.parent.parent.glob(f"*/{session_id}.jsonl"), None)
    try:
        return read_timeline(path) if isinstance(path, Path) else None
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
        case ev.ContextEdited():
            return f"context: {event.text or event.step}"
        case ev.RequestRepaired():
            return f"request repaired ({event.repair.replace('_', ' ')}): {event.text}"
        case ev.FeatureDropped() | ev.CompactionFailed():
            return event.text
        case ev.HookFinished():
            return f"hook {event.event_name} {event.name}: {event.outcome} {event.text}"
        case ev.LoopSuspected():
            return f"repeats {event.title} for the {event.times}. time"
        case ev.SubmissionInterrupted():
            return "interrupted by a new prompt" if event.steering else "interrupted by you"
    return None


def _describe_break(event: ev.PrefixBroken) -> str:
    block = f"{event.block}: " if event.block else ""
    tokens = f" ({token_count(event.rebilled_tokens)} tokens again)" if event.rebilled_tokens else ""
    return f"cache lost{tokens}: {block}{event.reason}"


def _describe_request(row: TraceRow, step: RequestStep) -> Iterator[str]:
    usage = step.usage
    if row.ttft_ms is not None:
        yield f"{format_time(row.ttft_ms)} to the first token"
    if step.is_reported:
        cached = percent(usage.cache_read_input_tokens, usage.prompt_tokens)
        yield f"{token_count(usage.prompt_tokens)} in, {cached} from the cache"
        yield f"{token_count(usage.output_tokens)} out"
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


def _name_call(call: CallStep) -> str:
    values = (call.input.get(name) for name in ("file_path", "command", "pattern", "url", "description"))
    return f"{call.name} {next((value for value in values if value), '')}".strip()


# --------------------------------------------------------------------------------------------------------------- text

_MIN_BAR = 8
_MIN_WIDTH = 60
"""Columns below which a timeline has no bars."""
LEGEND = "░ until the first token  █ reply  ━ call  ? waits for you  ~ retry wait  ▒ side call  · moment"


def draw_bar(row: TraceRow, total: int, width: int) -> str:
    """The bar of a row in a line for all of the prompt. Each kind has a sign of its own, so that colour is not
    needed."""
    cells = [" "] * width

    def fill(start: int, end: int, sign: str) -> None:
        first = min(width - 1, start * width // max(1, total))
        last = min(width, max(first + 1, -(-end * width // max(1, total))))
        cells[first:last] = sign * (last - first)

    signs = {"request": "█", "side": "▒", "call": "━", "retry": "~", "agent": "█", "event": "·"}
    fill(row.start, row.end, signs[row.kind])
    if row.first is not None and row.first > row.start:
        fill(row.start, row.first, "░")
        if row.end > row.first:
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


def head_trace(trace: Trace) -> list[str]:
    """The prompt and its sums, a line each."""
    prompt, usage = trace.prompt, trace.prompt.usage
    result = prompt.result
    end = "cut off, or still running" if result is None else result.terminal.replace("_", " ")
    tokens = f"{token_count(usage.prompt_tokens)} in, {token_count(usage.output_tokens)} out"
    cached = percent(usage.cache_read_input_tokens, usage.prompt_tokens)
    models = ", ".join(plain_line(model, 60) for model in prompt.models)
    return [
        f"Prompt {trace.number}: {plain_line(without_secrets(prompt.text), 300)}",
        f"{end} · {format_time(trace.end)} · {money(prompt.cost_usd)} · {tokens}, {cached} from the cache",
        *([models] if models else []),
    ]


def format_trace(trace: Trace, width: int) -> str:
    """The trace as text. Narrow terminals get no bars."""
    lines = [cut(line, width) for line in head_trace(trace)]
    if not trace.rows:
        return "\n".join([*lines, "", "Nothing was sent."])
    digits = len(str(len(trace.rows)))
    times = max(map(cell_count, map(time_row, trace.rows)))
    labels = min(max(map(cell_count, map(label_row, trace.rows))), max(16, (width - digits - times - 6) // 2))
    bar = width - digits - labels - times - 6 if width >= _MIN_WIDTH else 0
    lines.append("")
    for number, row in enumerate(trace.rows, 1):
        label = cut(label_row(row), labels if bar >= _MIN_BAR else max(8, width - digits - times - 4))
        pad = " " * ((labels if bar >= _MIN_BAR else width - digits - times - 4) - cell_count(label))
        drawn = f"  {draw_bar(row, trace.end, bar)}" if bar >= _MIN_BAR else ""
        lines.append(f"{number:>{digits}}  {label}{pad}{drawn}  {time_row(row):>{times}}".rstrip())
        indent = " " * (digits + 2 + 2 * (row.depth + 1))
        notes = wrap(note_row(row), max(width, len(indent) + 16), initial_indent=indent, subsequent_indent=indent)
        lines += [cut(line, width) for line in notes]
    used = {character for row in trace.rows for character in draw_bar(row, trace.end, max(1, bar))}
    legend = "  ".join(entry for entry in LEGEND.split("  ") if entry[0] in used)
    return "\n".join([*lines, "", *([cut(legend, width)] if bar >= _MIN_BAR else [])]).rstrip()


def trace_record(trace: Trace) -> Json:
    """For programs."""
    prompt, result = trace.prompt, trace.prompt.result
    return {
        "prompt": trace.number,
        "id": prompt.id,
        "text": without_secrets(prompt.text),
        "at": prompt.at,
        "duration_ms": trace.end,
        "cost_usd": prompt.cost_usd,
        "terminal": result.terminal if result is not None else None,
        "steps": [_row_record(number, row) for number, row in enumerate(trace.rows, 1)],
    }


def _row_record(number: int, row: TraceRow) -> Json:
    made: Json = {
        "step": number,
        "kind": row.kind,
        "label": without_secrets(row.label),
        "depth": row.depth,
        "start_ms": row.start,
        "end_ms": row.end,
        "failed": row.failed,
        "waits_ms": [list(wait) for wait in row.waits],
        "notes": [without_secrets(note) for note in row.notes],
    }
    if (step := row.request) is not None:
        made |= {
            "model": step.model,
            "purpose": step.purpose,
            "transition": step.transition,
            "first_token_ms": row.ttft_ms,
            "usage": step.usage.to_wire(),
            "cost_usd": step.cost_usd,
            "outcome": step.outcome,
            "stop_reason": step.stop_reason,
            "digest": step.request,
        }
    if (call := row.call) is not None:
        made |= {"tool": call.name, "tool_use_id": call.id, "outcome": call.end.outcome if call.end else "cut off"}
    return made
