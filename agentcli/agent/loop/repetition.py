"""The loop guard: detects a model that repeats itself before that has cost much.

A repetition is three turns in a row, or three rounds of a cycle of up to three turns, that make the same calls with
equal input and get the same results. It is read from the conversation, so it needs no state and works in a resumed
session. A message of the user ends a repetition, and so does a reply without calls.

Calls that take time wait for something, as `sleep 5; check` does, and so does any call while a background task runs:
the next result may differ. Such polling is never ended. The model and the user are notified after ten rounds, and again
after ten more. If no time passes, the user is asked in an interactive session. Otherwise the model is warned once; if
it continues, the submission ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from agentcli.agent.ports import EmitEvent
from agentcli.agent.user_input import Questions, UserQuestion
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.ids import Ids
from agentcli.core.messages import Json, Message, Origin, ToolUseBlock
from agentcli.core.permission import Answer
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.registry import builtin_traits
from agentcli.tools.structured import StructuredOutput

REPEATS = 3
_MAX_CYCLE = 3
SECONDS = "seconds"
"""Key in the meta of a message with results: how long the calls took, if that was at least `MIN_WAIT_SECONDS`."""
MIN_WAIT_SECONDS = 1.0
POLLS = 10
"""Rounds of polling without a change before a notice."""
_TITLE_LIMIT = 200

TitleOf = Callable[[str, Json], str]
_Turn = tuple[tuple[str, Json, object, bool], ...]
"""The calls of a turn: name, input, content of the result, whether it is an error."""


@frozen
class Repetition:
    call: ToolUseBlock
    """The last call of the repetition, to name it."""
    times: int
    seconds: float = 0.0
    """How long its calls took."""
    can_change: bool = False
    """It waits for something, so that its next result may differ."""


@frozen
class LoopVerdict:
    """How to proceed with a repetition: the user's answer, "polling" if its result may change, or "unattended" in a
    non-interactive session."""

    kind: Literal["unattended", "polling", "continue", "stop"]
    said: str = ""
    """The user's instruction what to do instead; sent to the model, which continues."""


# ------------------------------------------------------------------------------------------------------ detection


def repetition(messages: Sequence[Message], since: int = 0, *, background: bool = False) -> Repetition | None:
    """The repetition at the end of the conversation, or None. `since`: messages before this index were checked and
    allowed. `background`: a background task runs, which may change any result.

    Costs only what is compared: a conversation that does not repeat itself is read three turns back.
    """
    turns = _Turns(messages, since)
    for period in range(1, _MAX_CYCLE + 1):
        times = turns.times(period)
        if times < REPEATS:
            continue
        names = {name for turn in turns.calls[:period] for name, *_rest in turn}
        seconds = sum(turns.seconds[: times * period])
        can_change = background or seconds >= times * MIN_WAIT_SECONDS
        if times >= max(POLLS if can_change else REPEATS, *map(_max_repeats, names)):
            return Repetition(turns.last_call, times, seconds, can_change)
    return None


def _max_repeats(name: str) -> int:
    return StructuredOutput.max_repeats if name == StructuredOutput.name else builtin_traits("max_repeats").get(name, 0)


class _Turns:
    """The turns from the newest back to where a repetition must end, read only as far as needed."""

    def __init__(self, messages: Sequence[Message], since: int) -> None:
        self._source = self._read(islice(reversed(messages), max(0, len(messages) - since)))
        self._uses: list[ToolUseBlock] = []
        self.calls: list[_Turn] = []
        self.seconds: list[float] = []
        """How long the calls of each turn took."""

    @property
    def last_call(self) -> ToolUseBlock:
        return self._uses[0]

    def times(self, period: int) -> int:
        """How often the last `period` turns have repeated in a row."""
        same = 0
        while self._has(same + period) and self.calls[same] == self.calls[same + period]:
            same += 1
        return same // period + 1

    def _has(self, number: int) -> bool:
        while len(self.calls) <= number and next(self._source, None) is not None:
            pass
        return len(self.calls) > number

    def _read(self, backwards: Iterable[Message]) -> Iterator[_Turn]:
        results: dict[str, tuple[object, bool]] = {}
        seconds = 0.0
        for message in backwards:
            if message.is_copy:
                continue  # A copy made by a compaction; nothing was done again.
            if message.origin in (Origin.PROMPT, Origin.QUEUED, Origin.SUMMARY):
                return
            if message.role == "user":
                seconds += message.meta.get(SECONDS, 0.0)
                results |= {one.tool_use_id: (one.content, one.is_error) for one in message.tool_results}
                continue
            if not message.tool_uses:
                return
            self._uses.append(message.tool_uses[-1])
            self.calls.append(
                tuple([(use.name, use.input, *results.get(use.id, (None, True))) for use in message.tool_uses])
            )
            self.seconds.append(seconds)
            results, seconds = {}, 0.0
            yield self.calls[-1]


# ------------------------------------------------------------------------------------------------------- question


async def ask_about_loop(
    found: Repetition, title_of: TitleOf, questions: Questions, ids: Ids, emit: EmitEvent, signal: AbortSignal
) -> LoopVerdict | None:
    """Report a repetition; ask the user whether it may continue if nothing can change. None: aborted."""
    title = plain_line(title_of(found.call.name, found.call.input), _TITLE_LIMIT)
    asks = questions.interactive and not found.can_change
    request_id = ids.new() if asks else ""
    name, times = found.call.name, found.times
    await emit(ev.LoopSuspected(request_id=request_id, name=name, title=title, times=times, seconds=found.seconds))
    if not asks:
        return LoopVerdict("polling" if found.can_change else "unattended")
    # An ordinary permission request, so that every front end can show it.
    question = ev.PermissionRequested(
        request_id=request_id,
        tool_use_id="",
        name="Loop guard",
        input={},
        title=title,
        reason="The agent seems to be stuck in a loop. Yes continues, no stops this task.",
        display={"kind": "loop", "text": f"{title}: the same result {times} times in a row."},
    )
    answer = await UserQuestion(question, questions, signal).ask(emit)
    return _verdict(answer) if answer is not None else None


def _verdict(answer: Answer) -> LoopVerdict:
    """A refusal with a message means to stop this and do something else, so the model continues."""
    if answer.behavior == "allow" or (answer.message.strip() and not answer.interrupt):
        return LoopVerdict("continue", answer.message.strip())
    return LoopVerdict("stop")
