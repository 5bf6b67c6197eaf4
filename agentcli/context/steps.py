"""The steps that shrink old content, in their fixed order, and the state they use.

Each step has its own module and returns a pure plan. A plan becomes edits, recorded once and applied to the
log by every later request; it is carried out only if `worth_it` approves. Running them is `context/pipeline.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

from agentcli.context.edits import ContextEdit
from agentcli.core.frozen import frozen
from agentcli.core.messages import Message, Origin
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
    """Expected number of requests that will be smaller by what is freed now (`expected_turns`)."""
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


def expected_turns(turn: int, max_turns: int | None, earlier: int = 0) -> int:
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


def rewriting_usd(tokens: int, state: ContextState) -> float | None:
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
