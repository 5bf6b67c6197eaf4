"""Drafts sent while a submission runs, waiting for it.

Prompts wait in the engine's queue, from which the loop takes them after the next tool results. Commands, prompts with
images and every draft after one of these wait here until the submission ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.interactive.drafts.draft import Draft


@dataclass(slots=True)
class _Waiting:
    draft: Draft
    queued_id: str = ""
    """The prompt's id in the engine's queue; "" for a draft that waits here."""


class WaitingPrompts:
    def __init__(self, changed: Callable[[list[str]], None]) -> None:
        """`changed` is called with the texts of all waiting drafts."""
        self._changed = changed
        self._waiting: list[_Waiting] = []

    def add(self, engine: Engine, draft: Draft, *, for_model: bool) -> None:
        waiting = _Waiting(draft)
        if for_model and not draft.images and all(one.queued_id for one in self._waiting):
            waiting.queued_id = engine.enqueue(draft.expanded(), "next", draft.text)
        self._set([*self._waiting, waiting])

    def take_first(self, engine: Engine) -> Draft | None:
        return self._take_one(engine, 0)

    def take_last(self, engine: Engine) -> Draft | None:
        return self._take_one(engine, -1)

    def _take_one(self, engine: Engine, place: int) -> Draft | None:
        while self._waiting:
            waiting = self._waiting.pop(place)
            self._set(self._waiting)
            if not waiting.queued_id or engine.queue.remove(waiting.queued_id) is not None:
                return waiting.draft
        return None

    def take_all(self, engine: Engine | None) -> list[Draft]:
        waiting = self._waiting
        if engine is not None:
            queued = {prompt.id for prompt in engine.queue.take()}
            waiting = [one for one in waiting if not one.queued_id or one.queued_id in queued]
        self._set([])
        return [one.draft for one in waiting]

    def drop_taken(self, engine: Engine) -> None:
        """Forget prompts that the loop has taken."""
        if self._waiting:
            queued = set(engine.queue.ids)
            kept = [one for one in self._waiting if not one.queued_id or one.queued_id in queued]
            if len(kept) != len(self._waiting):
                self._set(kept)

    def _set(self, waiting: list[_Waiting]) -> None:
        self._waiting = waiting
        self._changed([one.draft.text for one in waiting])
