"""`engine.context`: inspect the context of a live conversation, and pin, drop or restore its items.

The effect of a change is planned in `context/user_edits.py`. A change is recorded before it is shown, applies from the
next request on, and the cache watch knows why the prefix breaks then. A change made while a request is in flight waits
for its reply, because that reply still reports the size of the unchanged request; the outlook already includes it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from agentcli.agent.costs.cache_watch import Front
from agentcli.agent.loop_state import CompactTracking
from agentcli.agent.profile import Profile
from agentcli.context.compact import UNREADABLE, find_pinned, pin_name, undo_compaction
from agentcli.context.edits import block_id, edit_to_dict
from agentcli.context.estimate import last_counted
from agentcli.context.report import (
    CacheReach,
    ChangePrice,
    ContextItem,
    ExpectedCache,
    Outlook,
    context_items,
    dropped_items,
    estimate_outlook,
    price_of_change,
)
from agentcli.context.steps import ContextLimits, ContextState
from agentcli.context.user_edits import (
    NOT_THERE,
    ContextChange,
    ContextEffect,
    effect_of,
    plan_drop,
    plan_restore,
)
from agentcli.context.view import ContextView
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
from agentcli.core.text.format import counted
from agentcli.providers.base import Request

if TYPE_CHECKING:
    from agentcli.agent.session import Session

_NO_PIN = "It is part of every request and needs no pin."
_HEAD = ("system", "tools")
_LATER = "takes effect with the next request"
_NOT_ALONE = "It belongs to the reply around it and cannot be pinned alone."
_NOUNS = {
    "results": "the result of",
    "calls": "the call of",
    "prompts": "the prompt:",
    "answers": "the answer:",
    "thinking": "the model's thinking",
    "attachments": "the note:",
    "mcp": "the note:",
    "summary": "the summary:",
}


class ContextControl:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._log = session.log
        self._base_view = session.view
        self._pins = session.pins
        self._watch = session.watch
        self._settings = session.settings
        self._requests = session.requests
        self._provider = session.provider
        self._clock = session.clock
        self._intact: tuple[str, int] = ("", 0)
        """The last reply at the time of the user's last change, and the tokens before that change, which are still
        cached. Until the next reply, changes after that position cost nothing more."""
        self.compact_tracking = CompactTracking()
        """Auto-compaction's memory between submissions."""
        self.change_count = 0
        """Number of user changes to the context or the model: a compaction that failed before may work after one."""
        self._in_flight = False
        """A request has been built and its reply is not in the log yet."""
        self._pending: list[tuple[ContextChange, str]] = []
        """Changes made while a request is in flight, each with its reason, in order."""
        self._view_with_pending: ContextView | None = None

    # ------------------------------------------------------------------------------------------------------ inspecting

    def outlook(self) -> Outlook:
        """How full the context is and what the next request will cost."""
        limits, view = self._context_limits(), self._view
        tokens = view.estimate(self._log.messages, limits.overhead)
        price = self._settings.price_of(self._settings.profile, self._find_answering(self._settings.profile))
        return estimate_outlook(tokens, limits, price, self._expect_cache(self._settings.profile))

    def prepare(self) -> None:
        """Measure and convert the messages of a resumed session ahead of its first request, which takes seconds for a
        long one. For a thread, before the first submission."""
        self.outlook()
        self._base_view.wire(self._log.messages)

    def price_of_change(self, profile: Profile) -> ChangePrice:
        """Price of the tokens that are billed again if the next request uses this profile instead of the active one."""
        price = self._settings.price_of(profile, self._find_answering(profile))
        tokens = self._view.estimate(self._log.messages, self._context_limits().overhead)
        return price_of_change(self._expect_cache(self._settings.profile), self._expect_cache(profile), price, tokens)

    def cache_seconds_left(self) -> float | None:
        """Seconds until the prompt cache expires and the outlook changes; None: nothing is cached."""
        return self._watch.seconds_left(self._clock.monotonic())

    def _expect_cache(self, profile: Profile) -> ExpectedCache:
        """The part of the next request that is cached, if it is sent with this profile."""
        watch, now = self._watch, self._clock.monotonic()
        front = Front(self._find_answering(profile), profile.effort, profile.thinking, fast=profile.fast)
        tokens = watch.expected(front, now, self._requests.overhead_tokens())
        reach: CacheReach = "nothing" if not tokens else "head" if tokens < watch.cached_tokens else "sent"
        if self._intact[0] == self._log.last_reply_id:
            tokens = min(tokens, self._intact[1])
        if tokens and self._requests.has_other_tools:
            return ExpectedCache(0, True, watch.long_lived, "nothing")
        return ExpectedCache(tokens, watch.cold(now), watch.long_lived, reach)

    def _find_answering(self, profile: Profile) -> str:
        """The model that the next request goes to: a fallback while the requested one is overloaded."""
        return self._provider.first_model(Request(profile.model, (), fallback_models=profile.fallback_models))

    def items(self) -> list[ContextItem]:
        """The contents of the next request, item by item."""
        view = self._view
        shown = view.messages(self._log.messages)
        total = view.estimate(self._log.messages, self._requests.overhead_tokens())
        later = view.estimator.later(shown) if last_counted(shown) >= 0 else 0
        tools = (*self._requests.tools, *self._requests.list_loaded_by(shown))
        reach = self._expect_cache(self._settings.profile).reach
        pinned = find_pinned(shown, self._pins)
        items = context_items(shown, total, later, self._settings.profile.system, tools, pinned, reach)
        return self._not_cached_behind_changes(items)

    def dropped_items(self) -> list[ContextItem]:
        """Items that the user has dropped and can restore."""
        view = self._view
        return dropped_items(view.edits.in_force(self._log.messages), view.edits, self.density())

    def density(self) -> float:
        """True tokens per estimated token, scaled so that the items of the next request sum up to its measured size."""
        view, overhead = self._view, self._requests.overhead_tokens()
        estimated = overhead + view.estimator.total(view.messages(self._log.messages))
        return view.estimate(self._log.messages, overhead) / estimated if estimated else 1.0

    def item_text(self, item: str) -> str:
        """Text of an item as the model sees it, of a dropped one in its original form; "" if there is none. Untrusted
        text."""
        if item == "system":
            return "\n\n".join(self._settings.profile.system)
        for tool in (*self._requests.tools, *self._requests.list_loaded_by(self._view.messages(self._log.messages))):
            if item == f"tool:{tool['name']}":
                return json.dumps(tool, indent=2, ensure_ascii=False)
        found = self._block(item)
        return _text_of(found[0].content[found[1]]) if found is not None else ""

    # -------------------------------------------------------------------------------------------------------- pinning

    @property
    def pins(self) -> frozenset[str]:
        """The ids of the items that are pinned, as `items` has them now."""
        return find_pinned(self._view.messages(self._log.messages), self._pins)

    def pin(self, item: str) -> str | None:
        """Keep an item in every request, also across compactions. Returns the reason if it cannot be pinned."""
        found = self._show_block(item)
        if found is None:
            return _NO_PIN if item == "system" or item.startswith(("tool:", "user-context:")) else NOT_THERE
        if isinstance(found[0].content[found[1]], ThinkingBlock | UnknownBlock):
            return _NOT_ALONE
        self._pins.add(pin_name(*found))
        self._record_pins()
        return None

    def unpin(self, item: str) -> str | None:
        found = self._show_block(item)
        if found is None or item not in self.pins:
            return "It is not pinned." if found is not None else NOT_THERE
        self._pins.discard(pin_name(*found))
        self._pins.discard(item)
        self.change_count += 1
        self._record_pins()
        return None

    def _record_pins(self) -> None:
        self._log.keep(ev.ContextPinned(items=sorted(self._pins)))

    # ---------------------------------------------------------------------------------------- dropping and restoring

    def price_of_drop(self, item: str) -> ContextEffect | str:
        """The effect that `drop` would have, or the reason why it is impossible."""
        state = self._context_state()
        change = self._plan_drop(item, state)
        return change if isinstance(change, str) else effect_of(change, state)

    def drop(self, item: str) -> ContextEffect | str:
        """Leave an item and what belongs to it out of further requests, not out of the log; or the reason why not."""
        state = self._context_state()
        change = self._plan_drop(item, state)
        if isinstance(change, str):
            return change
        return self._apply(change, f"you dropped {self._name(item)}", effect_of(change, state))

    def restore(self, item: str) -> ContextEffect | str:
        """Restore a dropped or shortened item with what belongs to it; an automatically shortened one is pinned."""
        state = self._context_state()
        change = plan_restore(self._view, self._log.messages, item, state)
        if isinstance(change, str):
            return change
        restored = self._apply(change, f"you restored {self._name(item)}", effect_of(change, state))
        if change.keeps:
            self.pin(item)
        return restored

    def _plan_drop(self, item: str, state: ContextState) -> ContextChange | str:
        sizes = {one.id: one.tokens for one in self.items()}
        running = self._session.is_model_working
        return plan_drop(self._view, self._log.messages, item, state, running=running, sizes=sizes)

    def _apply(self, change: ContextChange, reason: str, outcome: ContextEffect) -> ContextEffect:
        """Apply a change now, or as soon as the reply in flight has arrived."""
        self.change_count += 1
        self._break_at(change.first)
        if not self._in_flight:
            self._apply_now(change, reason)
            return outcome
        self._pending.append((change, reason))
        self._view_with_pending = None
        return replace(outcome, text=f"{outcome.text}; {_LATER}")

    def _apply_now(self, change: ContextChange, reason: str) -> None:
        self._base_view.edit(change.edits, self._log.messages[-1].id)
        edits = [edit_to_dict(edit) for edit in change.edits]
        event = ev.ContextEdited(edits=edits, step="user", freed_tokens=change.freed, text=reason)
        self._log.keep(event)
        self._watch.note(event)
        self._session.costs.spending.take(event)

    def _break_after_undo(self, edits: Sequence[Json]) -> None:
        """After an undone compaction: requests sent since then share only their head with the next one."""
        undone = {str(edit.get("target")) for edit in edits if edit.get("kind") == "undo_compaction"}
        latest = (m for m in reversed(self._log.messages) if m.usage is not None or m.id in undone)
        if (last := next(latest, None)) is not None and last.id not in undone:
            self._break_at(self._requests.overhead_tokens())

    def _break_at(self, first: int) -> None:
        last_reply = self._log.last_reply_id
        self._intact = (last_reply, min(self._intact[1], first) if self._intact[0] == last_reply else first)

    async def undo_compaction(self) -> AsyncGenerator[ev.Event, None]:
        """Put what the last compaction removed back into the context; to be run with `Engine.perform`."""
        await self._log.whole(self._log.messages)
        self._log.take_in()
        if not self._log.is_whole:
            yield ev.NoticeRaised(text=UNREADABLE, level="error", code="command")
            return
        async with aclosing(undo_compaction(self._base_view, self._log.messages, self._context_limits())) as events:
            async for event in events:
                yield event

    # ------------------------------------------------------------------------------------------- following the events

    def take(self, event: ev.Event) -> None:
        """Follow an event of the running submission, after it is in the log."""
        if event.agent:
            return
        if isinstance(event, ev.ContextCompacted) and event.trigger in ("manual", "reactive"):
            self.change_count += 1
        elif isinstance(event, ev.ContextEdited) and event.step == "compact":
            self.change_count += 1
            self._break_after_undo(event.edits)
        if isinstance(event, ev.RequestStarted) and event.purpose == "turn":
            self._in_flight = True
        elif isinstance(event, ev.MessageAppended):
            self.request_ended()

    def request_ended(self) -> None:
        """The reply is in the log, or will never be: apply the pending changes."""
        self._in_flight = False
        pending, self._pending, self._view_with_pending = self._pending, [], None
        for change, reason in pending:
            self._break_at(change.first)
            self._apply_now(change, reason)

    @property
    def _view(self) -> ContextView:
        """The view for the next request, with the pending changes."""
        if not self._pending:
            return self._base_view
        if self._view_with_pending is None:
            edits = [edit for change, _reason in self._pending for edit in change.edits]
            self._view_with_pending = self._base_view.imagine(edits, self._log.messages[-1].id)
        return self._view_with_pending

    def _context_state(self) -> ContextState:
        outlook, limits = self.outlook(), self._context_limits()
        return ContextState(
            estimate=outlook.tokens,
            usable=limits.usable,
            cached=outlook.cached_tokens,
            cache_cold=outlook.cold,
            price=self._settings.price,
            pinned=self.pins,
        )

    def _not_cached_behind_changes(self, items: list[ContextItem]) -> list[ContextItem]:
        if self._intact[0] != self._log.last_reply_id:
            return items
        ends = accumulate(item.tokens for item in items)
        return [
            # The head precedes everything that can change; the sizes of its parts are only estimates.
            item if item.category in _HEAD or end <= self._intact[1] or not item.cached else replace(item, cached=False)
            for item, end in zip(items, ends, strict=True)
        ]

    # -------------------------------------------------------------------------------------------------------- finding

    def _context_limits(self) -> ContextLimits:
        return self._settings.context_limits(self._requests.overhead_tokens())

    def _name(self, item: str) -> str:
        """Describe an item; safe to show."""
        known = (one for one in (*self.items(), *self.dropped_items()) if one.id == item)
        found = next(known, None)
        if found is None:
            return "an item"
        if item.startswith("collapse:"):
            return "the messages that a summary stood for"
        return f"{_NOUNS.get(found.category, '')} {'' if found.category == 'thinking' else found.label}".strip()

    def _show_block(self, item: str) -> tuple[Message, int] | None:
        """A block of the next request: the message as shown and the block's place in it."""
        front = item.startswith("user-context:")
        return None if front else _find_block(item, self._view.messages(self._log.messages))

    def _block(self, item: str) -> tuple[Message, int] | None:
        view, log = self._view, self._log.messages
        return _find_block(item, (*view.messages(log), *view.edits.in_force(log)))


def _find_block(item: str, messages: Iterable[Message]) -> tuple[Message, int] | None:
    for message in messages:
        for place in range(len(message.content)) if item.startswith(f"{message.id}:") else ():
            if block_id(message, place) == item and not message.origin.local:
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
            return block.text + (f"\n[{counted(pictures, 'part')} not shown: not text]" if pictures else "")
    return "[not text]"
