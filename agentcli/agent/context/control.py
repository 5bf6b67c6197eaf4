"""What is in the context and what the person does to it, on a live conversation: looking, pinning, dropping, restoring.

What a change would do is planned in `agent/context/pins.py`. It is recorded before anybody is told, holds from the next
request on, and the cache watch knows why the prefix breaks then. One that is made while a request is under way waits
for the reply, which still counts what the request had; looking shows it done, and the next change builds on it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from agentcli.agent.cache.watch import Setup
from agentcli.agent.context.pins import (
    NOT_THERE,
    Change,
    Dropped,
    Restored,
    planned_drop,
    planned_restore,
    price_of_drop,
    price_of_restore,
)
from agentcli.agent.context.report import (
    Cached,
    ChangePrice,
    ContextItem,
    Outlook,
    Reach,
    context_items,
    dropped_items,
    look_ahead,
    price_of_change,
)
from agentcli.agent.conversation import Conversation
from agentcli.agent.holdings import Holdings
from agentcli.agent.loop.state import CompactTracking
from agentcli.agent.ports import ContextLimits
from agentcli.agent.profile import Profile, context_for
from agentcli.context.compact import pin_name, pinned_now
from agentcli.context.edits import COLLAPSED, block_id, edit_to_dict
from agentcli.context.steps import Situation, still_cached
from agentcli.context.view import View
from agentcli.core import events as ev
from agentcli.core.messages import (
    Block,
    Json,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from agentcli.providers.base import Request

_NO_PIN = "It is part of every request and needs no pin."
_HEAD = ("system", "tools")
_LATER = "takes effect with the next request"
_NOT_ALONE = "It belongs to the reply around it and cannot be kept alone."
_NOUNS = {
    "results": "the result of",
    "calls": "the call of",
    "prompts": "the prompt:",
    "answers": "the answer:",
    "thinking": "thinking of the model",
    "attachments": "the note:",
    "summary": "the summary:",
}

Outcome = TypeVar("Outcome", Dropped, Restored)


class Curated(Holdings):
    """An engine whose context can be looked at and changed."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__(conversation)
        self._intact: tuple[str, int] = self._intact_before()
        """The last reply there was when the person changed something before it, and how many tokens of the request are
        still as the cache has them: until the next reply, changes behind that place cost nothing more."""
        self._compacting = CompactTracking()
        self._changes = 0
        """How often the person has made the context another one: compacting it may work then where it did not."""
        self._in_flight = False
        """A request has been built and its reply is not in the log yet."""
        self._held: list[tuple[Change, str]] = []
        """What the person has changed meanwhile, each with its reason, in order."""
        self._ahead: View | None = None

    # -------------------------------------------------------------------------------------------------- looking at it

    def outlook(self) -> Outlook:
        """How full the context is and what the next request will cost."""
        limits, view = self._context_limits(), self._view
        tokens = view.estimate(self._log, limits.overhead)
        price = self.catalog.get(self._answering(self._profile)).price
        return look_ahead(tokens, limits, price, self._cached(self._profile))

    def price_of_change(self, profile: Profile) -> ChangePrice:
        """What going on with this profile instead of the one in force would bill anew."""
        price = self.catalog.get(self._answering(profile)).price
        tokens = self._view.estimate(self._log, self._context_limits().overhead)
        return price_of_change(self._cached(self._profile), self._cached(profile), price, tokens)

    def warm_seconds(self) -> float | None:
        """Until the prompt cache has run out and the outlook is another one; None: nothing is cached."""
        return self._parts.watch.seconds_left(self._parts.clock.monotonic())

    def _cached(self, profile: Profile) -> Cached:
        """Of the next request, if it is sent with this profile."""
        watch, now = self._parts.watch, self._parts.clock.monotonic()
        setup = Setup(self._answering(profile), profile.effort, profile.thinking)
        tokens = watch.expected(setup, now, self._requests.overhead_tokens())
        reach: Reach = "nothing" if not tokens else "head" if tokens < watch.cached_tokens else "sent"
        if self._intact[0] == self._last_reply():
            tokens = min(tokens, self._intact[1])
        return Cached(tokens, watch.cold(now), watch.long_lived, reach)

    def _answering(self, profile: Profile) -> str:
        """The model that the next request goes to: while the one asked for is overloaded, that is a fallback."""
        return self._parts.provider.first_model(Request(profile.model, (), fallback_models=profile.fallback_models))

    def context_items(self) -> list[ContextItem]:
        """What the next request would carry, item by item."""
        view, tools = self._view, self._parts.registry.schemas()
        total = view.estimate(self._log, self._requests.overhead_tokens())
        shown = view.messages(self._log)
        reach = self._cached(self._profile).reach
        items = context_items(shown, total, self._profile.system, tools, pinned_now(shown, self._parts.pins), reach)
        return self._not_cached_behind_changes(items)

    def dropped_items(self) -> list[ContextItem]:
        """What the person has left out and can bring back."""
        view = self._view
        return dropped_items(view.edits.in_force(self._log), view.edits, view.estimator.density)

    def item_text(self, item: str) -> str:
        """All of an item as the model sees it, of a dropped one as it was; "" for what is none. Untrusted text."""
        if item == "system":
            return "\n\n".join(self._profile.system)
        for tool in self._parts.registry.schemas():
            if item == f"tool:{tool['name']}":
                return json.dumps(tool, indent=2, ensure_ascii=False)
        found = self._block(item)
        return _text_of(found[0].content[found[1]]) if found is not None else ""

    # -------------------------------------------------------------------------------------------------------- pinning

    @property
    def pins(self) -> frozenset[str]:
        """The ids of the items that are pinned, as `context_items` has them now."""
        return pinned_now(self._view.messages(self._log), self._parts.pins)

    def pin(self, item: str) -> str | None:
        """Keep it in every request, whatever happens to the rest. Why not, if it cannot be."""
        found = self._shown_block(item)
        if found is None:
            return _NO_PIN if item == "system" or item.startswith(("tool:", "user-context:")) else NOT_THERE
        if isinstance(found[0].content[found[1]], ThinkingBlock | UnknownBlock):
            return _NOT_ALONE
        self._parts.pins.add(pin_name(*found))
        self._record_pins()
        return None

    def unpin(self, item: str) -> str | None:
        found = self._shown_block(item)
        if found is None or item not in self.pins:
            return "It is not pinned." if found is not None else NOT_THERE
        self._parts.pins.remove(pin_name(*found))
        self._parts.pins.remove(item)
        self._changes += 1
        self._record_pins()
        return None

    def _record_pins(self) -> None:
        self._kept(ev.ContextPinned(items=sorted(self._parts.pins)))

    # ---------------------------------------------------------------------------------------- dropping and restoring

    def price_of_drop(self, item: str) -> Dropped | str:
        """What `drop` would do, or why it cannot."""
        situation = self._situation()
        change = self._planned_drop(item, situation)
        return change if isinstance(change, str) else price_of_drop(change, situation)

    def drop(self, item: str) -> Dropped | str:
        """Leave an item out of all further requests, with what belongs to it; the log keeps it. Why not, if it cannot
        be."""
        situation = self._situation()
        change = self._planned_drop(item, situation)
        if isinstance(change, str):
            return change
        dropped = price_of_drop(change, situation)
        return self._done(change, f"you dropped {self._named(item)}", dropped)

    def restore(self, item: str) -> Restored | str:
        """Bring back what was left out, or whole what was shortened, with what belongs to it. What the preparation had
        shortened is pinned then: it would do so again."""
        situation = self._situation()
        change = planned_restore(self._view, self._log, item, situation)
        if isinstance(change, str):
            return change
        restored = price_of_restore(change, situation)
        restored = self._done(change, f"you brought back {self._named(item)}", restored)
        if change.keeps:
            self.pin(item)
        return restored

    def _planned_drop(self, item: str, situation: Situation) -> Change | str:
        return planned_drop(self._view, self._log, item, situation, running=self._model_works)

    def _done(self, change: Change, reason: str, outcome: Outcome) -> Outcome:
        """Carried out now, or as soon as the reply is there."""
        self._changes += 1
        self._break_at(change.first)
        if not self._in_flight:
            self._carry_out(change, reason)
            return outcome
        self._held.append((change, reason))
        self._ahead = None
        return replace(outcome, text=f"{outcome.text}; {_LATER}")

    def _carry_out(self, change: Change, reason: str) -> None:
        self._parts.view.edit(change.edits, self._log[-1].id)
        edits = [edit_to_dict(edit) for edit in change.edits]
        event = ev.ContextEdited(edits=edits, step="person", freed_tokens=change.freed, text=reason)
        self._kept(event)
        self._parts.watch.note(event)
        self._spending.take(event)

    def _intact_before(self) -> tuple[str, int]:
        """In a resumed session: what its last process has left unchanged since its last reply."""
        view, log, last_reply = self._parts.view, self._log, self._last_reply()
        changed = view.changed_since(log, last_reply)
        if changed is None:
            return ("", 0)
        shown, overhead = view.messages(log), self._requests.overhead_tokens()
        if changed[0] < 0:
            return last_reply, overhead
        behind = {message.id for message in log[changed[0] :]}
        places = (place for place, message in enumerate(shown) if message.id.removeprefix(COLLAPSED) in behind)
        intact = still_cached(shown, next(places, 0))
        size = round(sum(map(view.estimator.message, shown[intact:])) * view.estimator.density)
        return last_reply, max(0, view.estimate(log, overhead) - size)

    def _undone(self, edits: Sequence[Json]) -> None:
        """A compaction is undone. What was sent since it begins otherwise: only the head of that is of use now."""
        undone = {str(edit.get("target")) for edit in edits if edit.get("kind") == "undo_compaction"}
        latest = (m for m in reversed(self._log) if m.usage is not None or m.id in undone)
        if (last := next(latest, None)) is not None and last.id not in undone:
            self._break_at(self._requests.overhead_tokens())

    def _break_at(self, first: int) -> None:
        last_reply = self._last_reply()
        self._intact = (last_reply, min(self._intact[1], first) if self._intact[0] == last_reply else first)

    # ------------------------------------------------------------------------------------------------ while it is asked

    def _follow(self, event: ev.Event) -> None:
        """An event of the submission under way has been taken in."""
        if event.agent:
            return
        if isinstance(event, ev.RequestStarted) and event.purpose == "turn":
            self._in_flight = True
        elif isinstance(event, ev.MessageAppended):
            self._landed()

    def _landed(self) -> None:
        """The reply is in the log, or will never be."""
        self._in_flight = False
        held, self._held, self._ahead = self._held, [], None
        for change, reason in held:
            self._break_at(change.first)
            self._carry_out(change, reason)

    @property
    def _view(self) -> View:
        """As the next request will be made, with what waits for the reply to the last."""
        if not self._held:
            return self._parts.view
        if self._ahead is None:
            edits = [edit for change, _reason in self._held for edit in change.edits]
            self._ahead = self._parts.view.imagined(edits, self._log[-1].id)
        return self._ahead

    def _situation(self) -> Situation:
        outlook, limits = self.outlook(), self._context_limits()
        return Situation(
            estimate=outlook.tokens,
            usable=limits.usable,
            cached=outlook.cached_tokens,
            cache_cold=outlook.cold,
            price=self.catalog.get(self.model).price,
            pinned=self.pins,
        )

    def _not_cached_behind_changes(self, items: list[ContextItem]) -> list[ContextItem]:
        if self._intact[0] != self._last_reply():
            return items
        ends = accumulate(item.tokens for item in items)
        return [
            # The head stands before all that can change; the sizes of its parts are only estimates.
            item if item.category in _HEAD or end <= self._intact[1] or not item.cached else replace(item, cached=False)
            for item, end in zip(items, ends, strict=True)
        ]

    # -------------------------------------------------------------------------------------------------------- finding

    def _context_limits(self) -> ContextLimits:
        return context_for(self._profile, self._parts.tuning, self.catalog, self._requests.overhead_tokens())

    def _last_reply(self) -> str:
        return next((message.id for message in reversed(self._log) if message.usage is not None), "none")

    def _named(self, item: str) -> str:
        """An item in words, safe to show."""
        known = (one for one in (*self.context_items(), *self.dropped_items()) if one.id == item)
        found = next(known, None)
        if found is None:
            return "an item"
        if item.startswith("collapse:"):
            return "the messages that a summary stood for"
        return f"{_NOUNS.get(found.category, '')} {'' if found.category == 'thinking' else found.label}".strip()

    def _shown_block(self, item: str) -> tuple[Message, int] | None:
        """A block that the next request carries, with its place in the message as it is shown there."""
        front = item.startswith("user-context:")
        for message in () if front else self._view.messages(self._log):
            for place in range(len(message.content)) if item.startswith(f"{message.id}:") else ():
                if block_id(message, place) == item and not message.origin.local:
                    return message, place
        return None

    def _block(self, item: str) -> tuple[Message, int] | None:
        view = self._view
        for message in (*view.messages(self._log), *view.edits.in_force(self._log)):
            for place in range(len(message.content)) if item.startswith(f"{message.id}:") else ():
                if block_id(message, place) == item:
                    return message, place
        return None


def _text_of(block: Block) -> str:
    match block:
        case TextBlock():
            return block.text
        case ThinkingBlock():
            return block.thinking
        case ToolUseBlock():
            return f"{block.name}\n{json.dumps(block.input, indent=2, ensure_ascii=False)}"
        case ToolResultBlock():
            pictures = len(block.content) - sum(isinstance(part, TextBlock) for part in block.content)
            return block.text + (f"\n[{pictures} other than text]" if pictures else "")
    return "[not text]"
