"""The steps that shrink old content: the state they plan with, what a plan is worth, and running them in their order.

A step returns a pure plan. A plan becomes edits, recorded once and applied to the log by every later request; it is
carried out only if `worth_it` approves. Once the prefix is broken at some position, later changes
after it are free.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from agentcli.context.edits import ContextEdit, block_id, edit_to_dict
from agentcli.context.estimate import block_tokens
from agentcli.context.view import ContextView
from agentcli.core.events import ContextEdited
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import RESULT_DATA, Json, Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock
from agentcli.core.space_saving import AppendOnly, as_append_only
from agentcli.core.usage import Price

NEARLY_FULL = 0.85
"""Above this share of the usable window, free space matters more than the cache."""
ENOUGH_ROOM = 0.01
"""Minimum share of the usable window that a plan must free."""
MAX_TURNS = 20
"""Maximum number of expected further requests."""
LOOKED_BACK = 20
"""Number of blocks before a breakpoint that the prompt cache searches."""
_USUAL = Price.of(1.0, 5.0)


@frozen
class ContextLimits:
    """Limits of the context, in tokens. Estimates are compared with `usable`."""

    window: int = 200_000
    reserved: int = 8_192
    overhead: int = 0
    """Estimated tokens of system prompt and tools, used until a response reports the true number."""
    auto_compact: bool = True
    auto_threshold: float = 0.9
    max_auto_failures: int = 3

    @property
    def usable(self) -> int:
        return max(self.window - self.reserved, 1)


@frozen(kw_only=True)
class ContextState:
    """The context state that steps use for their plans."""

    estimate: int
    """Estimated tokens of the next request."""
    usable: int
    """Tokens that fit: the window less what is reserved for the reply."""
    cached: int = 0
    """Tokens at the beginning of the request that are expected to be in the prompt cache."""
    cache_cold: bool = False
    """The cache has expired (idle longer than its time to live): rewriting old content costs nothing."""
    price: Price | None = None
    pinned: frozenset[str] = frozenset()
    """Ids of blocks pinned by the user (`edits.block_id`)."""
    turns_to_come: int = MAX_TURNS
    """Expected number of requests that will be smaller by what is freed now (`expect_turns`)."""
    long_lived: bool = False
    """Whether the cache lives for an hour; writing to it then costs more."""
    edited: Callable[[str], ContextEdit | None] = lambda _block: None
    """Returns the active edit of a block; set by the pipeline."""

    @property
    def share(self) -> float:
        return self.estimate / max(1, self.usable)

    def is_free(self, block: str) -> bool:
        """Whether a step may edit a block: it is neither pinned nor edited."""
        return block not in self.pinned and self.edited(block) is None


@frozen
class StepPlan:
    edits: Sequence[ContextEdit]
    text: str
    """Description for the user: `moved 2 large results to files`."""
    must: bool = False
    """Apply regardless of cost: the request would be invalid or too large without it."""
    for_room: bool = False
    """Planned because a limit was passed: free space matters more than the cache."""

    @property
    def freed(self) -> int:
        return sum([edit.freed for edit in self.edits])


class ContextStep(Protocol):
    @property
    def name(self) -> str: ...

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        """Plan the changes of this step; None for none. `shown`: the messages of the next request as they are in the
        log, so that blocks have the log's numbers and a message is always the same object; `state.edited` gives the
        active edit of a block. Never raises for any messages; costs only what is new since the last call, not the whole
        log."""


def newest_exchange(messages: Sequence[Message]) -> int:
    """Index where the newest exchange begins, which no step touches: the last reply that called tools, if its results
    are being answered or were answered last; otherwise the prompt of the last answer."""
    answered = False
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message.role == "assistant":
            answered = True
            if message.tool_uses:
                return place
        elif answered and message.origin in (Origin.PROMPT, Origin.QUEUED):
            return place
    return 0


def still_cached(messages: Sequence[Message], place: int) -> int:
    """Number of leading messages that are still read from the prompt cache if the one at this place changes.

    The cache stores prefixes up to the end of a request, so up to a user message; and it finds one only within about
    twenty blocks before a breakpoint of the next request. Beyond that only what precedes all messages is found: then
    the result is 0.
    """
    end = place
    while end and not (messages[end - 1].role == "user" and messages[end].role == "assistant"):
        end -= 1
    last = len(messages)
    while last > end and messages[last - 1].role == "assistant":
        last -= 1
    blocks = 0
    for message in islice(reversed(messages), len(messages) - last, len(messages) - end):
        blocks += len(message.content)
        if blocks >= LOOKED_BACK:
            return 0
    return end


def expect_turns(turn: int, max_turns: int | None, earlier: int = 0) -> int:
    """Expected number of requests, including the one being prepared.

    A task in its n-th turn is assumed to take n more, up to `max_turns`. `earlier`: requests of previous prompts; a
    conversation of several prompts is assumed to last as long again.
    """
    here = turn if max_turns is None else min(turn, max_turns - turn + 1)
    return max(1, min(MAX_TURNS, here + earlier))


def worth_it(plan: StepPlan, first_changed: int, state: ContextState) -> bool:
    """Whether a plan saves more than the broken cache costs.

    `first_changed` is the position of the first change, in tokens from the beginning of the request. Cached tokens
    after it that stay must be written to the cache again, once: (cached − first_changed − freed) tokens at the price of
    a write instead of a read. Freed tokens save the price of a read on each of the `turns_to_come` requests:

      freed × read × turns_to_come  >  (cached − first_changed − freed) × (write − read)

    Where prices are unknown, the usual ratios apply: a read costs 0.1 and a write 1.25 of an input token, so that with
    20 turns to come one freed token pays for 1.7 rewritten ones. A change after everything that is cached costs
    nothing. A cold cache must be written anyway. A request close to its limit must become smaller at any cost, but not
    for a change that frees too little (`ENOUGH_ROOM`).
    """
    if plan.must:
        return True
    if plan.freed <= 0:
        return False
    makes_room = plan.freed >= state.usable * ENOUGH_ROOM
    if state.cache_cold or (makes_room and (plan.for_room or state.share >= NEARLY_FULL)):
        return True
    price = _price_at(state)
    rewritten = rewritten_tokens(first_changed, plan.freed, state)
    costs = rewritten * (_write(price, state) - price.cache_read)
    saves = plan.freed * price.cache_read * state.turns_to_come
    return saves > costs or rewritten == 0


def rewritten_tokens(first_changed: int, freed: int, state: ContextState) -> int:
    """Cached tokens after the first change that stay and have to be written to the cache again."""
    return 0 if state.cache_cold else max(0, state.cached - first_changed - freed)


def price_rewriting(tokens: int, state: ContextState) -> float | None:
    """Price difference between a cache write and a cache read of `tokens`; None without known prices."""
    if state.price is None:
        return None
    price = state.price.at(state.estimate)
    return tokens * (_write(price, state) - price.cache_read) / 1_000_000


def _write(price: Price, state: ContextState) -> float:
    return price.cache_write_1h if state.long_lived else price.cache_write_5m


def _price_at(state: ContextState) -> Price:
    """Prices for a request of this size. A free model (a local one) still takes time to read everything again, so the
    usual ratios are used."""
    if state.price is None or is_unpriced(state.price):
        return _USUAL
    return state.price.at(state.estimate)


def is_unpriced(price: Price | None) -> bool:
    """Whether a model is free, or its prices are unknown."""
    return price is None or price.cache_write_5m <= 0


_PATHS = ("file_path", "notebook_path", "path")
_DISPLAY_ONLY = ("description",)
"""Inputs that are only shown to the user."""


@frozen
class AnsweredCall:
    block: str
    """Block id, see `edits.block_id`."""
    place: int
    """Index of its message."""
    name: str
    input: Json
    result: ToolResultBlock
    is_partial: bool = False
    """Whether it shows only a part of a file."""

    @property
    def characters(self) -> int:
        return characters(self.result)

    @property
    def only_text(self) -> bool:
        return is_only_text(self.result)


def characters(result: ToolResultBlock) -> int:
    return sum(len(part.text) for part in result.content if isinstance(part, TextBlock))


def is_only_text(result: ToolResultBlock) -> bool:
    return all(isinstance(part, TextBlock) for part in result.content)


@frozen
class NewResults:
    """Results since the last call of `look`."""

    started_over: bool
    """Whether the conversation was replaced, so that this contains all of it."""
    results: tuple[AnsweredCall, ...]


class ResultReader:
    """Reads the results of a growing conversation."""

    def __init__(self) -> None:
        self._seen: AppendOnly[Message] = AppendOnly()
        self._uses: dict[str, ToolUseBlock] = {}
        """Calls without a result, by call id."""

    def look(self, messages: Sequence[Message]) -> NewResults:
        now, known = as_append_only(messages), len(self._seen)
        started_over = not self._seen.begins(now)
        if started_over:
            known = 0
            self._uses.clear()
        self._seen = now
        fresh = enumerate(now[known:], known)
        return NewResults(started_over, tuple(called for place, m in fresh for called in self._find_call(place, m)))

    def _find_call(self, place: int, message: Message) -> list[AnsweredCall]:
        found: list[AnsweredCall] = []
        data = message.meta.get(RESULT_DATA, {})
        for number, block in enumerate(message.content):
            if isinstance(block, ToolUseBlock):
                self._uses[block.id] = block
            elif isinstance(block, ToolResultBlock):
                use = self._uses.pop(block.tool_use_id, None)
                if use is not None:
                    is_partial = bool(data.get(use.id, {}).get("partial"))
                    called = AnsweredCall(block_id(message, number), place, use.name, use.input, block, is_partial)
                    found.append(called)
        return found


def same_call(name: str, input: Json) -> str:
    """A key that is equal for equivalent calls, whatever the order of inputs, path spelling and descriptions."""
    asked = {
        key: posixpath.normpath(value) if key in _PATHS and isinstance(value, str) and value else value
        for key, value in input.items()
        if value is not None and key not in _DISPLAY_ONLY
    }
    return f"{name} {json.dumps(asked, sort_keys=True, default=str)}"


def path_of(input: Json) -> str | None:
    """The normalised path of the file in a call's input."""
    for key in ("file_path", "notebook_path"):
        value = input.get(key)
        if isinstance(value, str) and value:
            return posixpath.normpath(value)
    return None


class Pipeline:
    """The steps of one conversation; they remember what they have already processed."""

    def __init__(
        self,
        steps: Sequence[ContextStep],
        further: Callable[[], Sequence[ContextStep]] = tuple,
    ) -> None:
        """`further`: steps that run after the others, looked up for each run."""
        self._steps = tuple(steps)
        self._further = further
        self._intact: tuple[str, int] = ("", 0)
        """Id of the last reply when the prefix was broken, and the number of tokens before the break that are still
        cached: until the next reply, nothing after it is cached."""

    def run(
        self, view: ContextView, log: Sequence[Message], state: Callable[[int], ContextState]
    ) -> Iterator[ContextEdited]:
        """Apply the plans that are worth it. `state(freed)` gives the state after `freed` tokens have been freed in
        this run. When an event is yielded, its edits are in the view and those of the next event are not: a consumer
        that records the events one by one and stops at any of them has recorded exactly what was done."""
        steps = (*self._steps, *self._further())
        if not log or not steps:
            return
        run = _Run(view, log, state, self._intact)
        for step in steps:
            yield from self._carry_out(run, step)
        # Plans that were not worth breaking the prefix may be free now.
        for step in tuple(run.put_off) if run.broken else ():
            yield from self._carry_out(run, step)

    def _carry_out(self, run: _Run, step: ContextStep) -> Iterator[ContextEdited]:
        edited = run.carry_out(step)
        if edited is not None:
            self._intact = run.intact
            yield edited


class _Run:
    def __init__(
        self,
        view: ContextView,
        log: Sequence[Message],
        state: Callable[[int], ContextState],
        intact: tuple[str, int],
    ) -> None:
        self._view = view
        self._log = log
        self._state = state
        self._freed = 0
        self.put_off: list[ContextStep] = []
        """Steps whose plans were not worth their cost."""
        self.broken = False
        self._look()
        last_reply = self._messages[self._last_reply].id if self._last_reply >= 0 else ""
        self.intact = intact if intact[0] == last_reply else (last_reply, -1)
        self._now = self._compute_state()

    def carry_out(self, step: ContextStep) -> ContextEdited | None:
        state = self._now
        plan = step.plan(self._messages, state)
        if plan is None:
            return None
        plan = replace(plan, edits=[edit for edit in plan.edits if edit.target not in state.pinned])
        if not plan.edits:
            return None
        places = {message.id: place for place, message in enumerate(self._messages)}
        first = min(_place(edit.target, places) for edit in plan.edits)
        position = self._position(first, state)
        if not worth_it(plan, position, state):
            self.put_off.append(step)
            return None
        self._view.edit(plan.edits, after=self._log[-1].id)
        self._freed += plan.freed
        if first[0] < self._last_reply:
            self.broken = True
            self.intact = (self.intact[0], min(position, state.cached))
        if any(edit.kind == "collapse" for edit in plan.edits):
            self._look()
        self._now = self._compute_state()
        edits = [edit_to_dict(edit) for edit in plan.edits]
        return ContextEdited(edits=edits, step=step.name, freed_tokens=plan.freed, text=plan.text)

    def _position(self, first: tuple[int, int], state: ContextState) -> int:
        """Tokens at the beginning of the request that stay cached if the first change is at this place."""
        intact = (still_cached(self._messages, first[0]), 0) if first[0] < self._last_reply else first
        return max(0, state.estimate - self._tokens_from(*intact))

    def _look(self) -> None:
        """Load the messages that the next request shows individually, as they are in the log."""
        in_force = self._messages = self._view.edits.uncollapsed(self._log)
        reply = Origin.REPLY
        self._last_reply = next((i for i in range(len(in_force) - 1, -1, -1) if in_force[i].origin is reply), -1)

    def _compute_state(self) -> ContextState:
        edits, state = self._view.edits, self._state(self._freed)
        cached = state.cached if self.intact[1] < 0 else min(state.cached, self.intact[1])
        return replace(state, cached=cached, edited=edits.edited)

    def _tokens_from(self, place: int, block: int) -> int:
        tokens = self._view.estimator.total(self._view.edits.shown(self._messages[place:]))
        tokens -= sum(map(block_tokens, self._messages[place].content[:block]))
        return max(0, tokens)


def _place(target: str, places: Mapping[str, int]) -> tuple[int, int]:
    """Positions of an edit's message and block; (0, 0) if it is not shown."""
    if target in places:
        return places[target], 0
    message_id, _colon, number = target.rpartition(":")
    return places.get(message_id, 0), int(number) if number.isdigit() else 0
