"""The steps that make room in old content, in their strict order (SPEC 2.1, 2 to 5), and what they go by.

Each step is a file of its own: a pure plan over the messages as the next request would show them. A plan becomes
edits, recorded once and laid over the log by every later request; it is carried out only if `worth_it` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentcli.context.edits import Edit
from agentcli.core.frozen import frozen
from agentcli.core.messages import Message
from agentcli.core.usage import Price


@frozen(kw_only=True)
class Situation:
    """What a step may go by."""

    estimate: int
    """Tokens of the next request as things stand."""
    usable: int
    """Tokens that fit: the window less what is reserved for the reply."""
    cached: int = 0
    """Tokens at the beginning of the request that are expected to be in the prompt cache."""
    cache_cold: bool = False
    """The cache has run out (idle longer than its time to live): rewriting old content costs nothing."""
    price: Price | None = None
    pinned: frozenset[str] = frozenset()
    """Blocks that the person wants kept whatever happens, by `edits.block_id`."""
    turns_to_come: int = 20
    """How many further requests what is freed now is assumed to save."""

    @property
    def share(self) -> float:
        return self.estimate / self.usable


@frozen
class Plan:
    edits: tuple[Edit, ...]
    text: str
    """What it does, for people: `moved 2 large results to files`."""
    must: bool = False
    """To be carried out whatever it costs: the request would not be valid or affordable without."""

    @property
    def freed(self) -> int:
        return sum(edit.freed for edit in self.edits)


class Step(Protocol):
    @property
    def name(self) -> str: ...

    def plan(self, shown: Sequence[Message], situation: Situation) -> Plan | None:
        """What this step would change, None for nothing. Never raises for any messages; costs what is new since the
        last call, not all of the log."""
        ...


def worth_it(plan: Plan, first_changed: int, situation: Situation) -> bool:
    """Whether a plan pays for the cache that it breaks.

    Everything behind the first change has to be written to the cache anew, once: (cached − first_changed) tokens at the
    price of a write instead of a read. What is freed saves the price of a read on each of the `turns_to_come` requests.
    Where prices are not known the usual ratios hold: a read costs 0.1 and a write 1.25 of an input token. A cold cache
    has to be written anyway, and a request that nears its limit (past 85 % of what fits) has to become smaller.
    """
    if plan.must or situation.cache_cold or situation.share >= 0.85:
        return plan.freed > 0 or plan.must
    if plan.freed <= 0:
        return False
    price = situation.price or Price.of(1.0, 5.0)
    rewritten = max(0, situation.cached - first_changed - plan.freed)
    costs = rewritten * (price.cache_write_5m - price.cache_read)
    saves = plan.freed * price.cache_read * situation.turns_to_come
    return saves > costs
