"""Run the context-reduction steps in their fixed order and report their edits.

Steps plan, `worth_it` decides, and the view applies the edits. The pipeline adds the effect of one step on the next:
once the prefix is broken at some position, later changes after it are free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from agentcli.context.edits import COLLAPSED, edit_to_dict
from agentcli.context.estimate import block_tokens
from agentcli.context.steps import ContextState, ContextStep, StepPlan, still_cached, worth_it
from agentcli.context.view import ContextView
from agentcli.core.events import ContextEdited
from agentcli.core.frozen import replace
from agentcli.core.messages import Message, Origin


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

    def broken_by(self, view: ContextView, log: Sequence[Message], edited: ContextEdited, estimate: int) -> None:
        """Take account of a collapse made elsewhere: its cache break need not happen twice. `estimate`: tokens of the
        next request."""
        stand_ins = {f"{COLLAPSED}{edit['target']}" for edit in edited.edits if edit.get("kind") == "collapse"}
        shown = view.messages(log)
        first = next((place for place, message in enumerate(shown) if message.id in stand_ins), None)
        if first is None:
            return
        behind = round(view.estimator.total(shown[first:]) * view.estimator.density)
        run = _Run(view, log, lambda _freed: ContextState(estimate=estimate, usable=estimate), self._intact)
        intact, position = run.intact[1], max(0, estimate - behind)
        self._intact = (run.intact[0], position if intact < 0 else min(intact, position))

    def _carry_out(self, run: _Run, step: ContextStep) -> Iterator[ContextEdited]:
        edited = run.carried_out(step)
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

    def carried_out(self, step: ContextStep) -> ContextEdited | None:
        state = self._now
        plan = step.plan(self._messages, state)
        if plan is None:
            return None
        plan = self._filter_allowed(plan, state)
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

    def _filter_allowed(self, plan: StepPlan, state: ContextState) -> StepPlan:
        """The plan without pinned blocks, with tokens scaled to the model's tokenizer."""
        density = self._view.estimator.density
        edits = tuple(
            edit if density == 1.0 or not edit.freed else replace(edit, freed=round(edit.freed * density))
            for edit in plan.edits
            if edit.target not in state.pinned
        )
        return StepPlan(edits, plan.text, plan.must, plan.for_room)

    def _tokens_from(self, place: int, block: int) -> int:
        estimator = self._view.estimator
        tokens = estimator.total(self._view.edits.shown(self._messages[place:]))
        tokens -= sum(map(block_tokens, self._messages[place].content[:block]))
        return max(0, round(tokens * estimator.density))


def _place(target: str, places: Mapping[str, int]) -> tuple[int, int]:
    """Positions of an edit's message and block; (0, 0) if it is not shown."""
    if target in places:
        return places[target], 0
    message_id, _colon, number = target.rpartition(":")
    return places.get(message_id, 0), int(number) if number.isdigit() else 0
