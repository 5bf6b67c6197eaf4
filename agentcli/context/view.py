"""The part of the log that the next request shows. The log itself is never rewritten.

A view is a projection: the messages after the last compact boundary, with edits (by the preparation steps
or the user) and repairs (pieces the API has refused) applied, and the user context in front. Edits
and repairs are sticky: they are recorded as events, so that a resumed session builds the same bytes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace

from agentcli.context.edits import NUMBERS, ContextEdit, Edits, leaving_out
from agentcli.context.estimate import Estimator
from agentcli.context.normalise import NormaliseCache, check_pairing, normalise
from agentcli.core.append_only import AppendOnly
from agentcli.core.frozen import frozen
from agentcli.core.messages import (
    Block,
    ImageBlock,
    Json,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    is_thinking,
)

IMAGE_LEFT_OUT = "[An image stood here. The API did not accept it.]"
PROMPT_LEFT_OUT = "[A prompt stood here that the model declined to answer.]"
PROMPT_NOT_SENT = "[A prompt stood here that was interrupted before it was sent.]"
PROMPT_REPAIRS = ("leave_out_prompt", "leave_out_unchecked")
"""Repairs of a single message: a prompt that the model declined, or that hooks had not checked."""

Repair = Callable[[Message], Message]


@frozen
class _Shown:
    """Messages as a request shows them, and the values they were computed from."""

    active: AppendOnly[Message]
    front: tuple[Message, ...]
    repairs: int
    messages: AppendOnly[Message]


class ContextView:
    """The view of one conversation, owned by the engine."""

    def __init__(self, user_context: str = "") -> None:
        self._fronts: dict[str, tuple[Message, ...]] = {}
        """User context by the id of its boundary, "" for the beginning; always the same objects, for caches."""
        self.set_user_context(user_context)
        self._repairs: list[tuple[str, str]] = []
        self._memory = NormaliseCache()
        self._checked: AppendOnly[Json] = AppendOnly()
        self._last_shown: _Shown | None = None
        self._repaired: dict[tuple[int, str], tuple[Message, Message]] = {}
        self.edits = Edits()
        self.estimator = Estimator()
        self._freed: list[tuple[str, str, int]] = []
        """Tokens freed by each edit: the id of the last message when it was made, its target, and the tokens."""

    def edit(self, edits: Iterable[ContextEdit], after: str = "") -> None:
        """Add edits. `after`: the id of the last log message when they are made."""
        for edit in edits:
            self.edits.add(edit)
            if edit.freed:
                self._freed.append((after, edit.target, edit.freed))

    def copy(self) -> ContextView:
        """An independent view that shows the same messages in the same way."""
        other = self.imagined(())
        other._fronts, other._repairs = dict(self._fronts), list(self._repairs)
        other._repaired, other.estimator = dict(self._repaired), Estimator()
        return other

    def imagined(self, edits: Iterable[ContextEdit], after: str = "") -> ContextView:
        """A copy with these edits added, for planning; never for a request."""
        other = copy(self)
        other._memory, other._checked = NormaliseCache(), AppendOnly()
        other._last_shown = None
        other.edits, other._freed = self.edits.copy(), list(self._freed)
        other.edit(edits, after)
        return other

    def set_user_context(self, text: str, boundary: str = "") -> None:
        """Set the text before all messages, from the compact boundary with this id on. Undoing the compaction restores
        the previous text. Changing it later would break the prefix."""
        made = Message("user", (TextBlock(text),), "user-context", Origin.ATTACHMENT)
        self._fronts[boundary] = (made,) if text else ()

    def user_context(self, log: Sequence[Message]) -> str:
        front = self._fronts[self.front_boundary(log)]
        return front[0].text if front else ""

    def front_boundary(self, log: Sequence[Message]) -> str:
        """The boundary whose user context is active."""
        if len(self._fronts) == 1:
            return ""
        return next((b.id for b in self.edits.boundaries(log) if b.id in self._fronts), "")

    def estimate(self, log: Sequence[Message], overhead: int) -> int:
        """Tokens of a request: the last true usage plus later messages, less tokens freed since."""
        shown = self.messages(log)
        tokens = self.estimator.context(shown, overhead)
        if not self._freed:
            return tokens
        counted = next((m.id for m in reversed(shown) if m.usage is not None and m.usage.prompt_tokens), "")
        if not counted:
            return tokens
        return max(0, tokens - sum(freed for _place, freed in self._edited_since(log, counted)))

    def changed_since(self, log: Sequence[Message], reply: str) -> tuple[int, int] | None:
        """Effect of edits made since this reply on what its request contained: the index in the log from which on
        messages are shown differently (-1 for all), and the tokens freed; None if nothing changed."""
        edited = [one for one in self._edited_since(log, reply) if one[0] >= 0]
        if not edited:
            return None
        # An undone compaction restores all earlier messages.
        first = min(-1 if log[place].origin is Origin.BOUNDARY else place for place, _freed in edited)
        return first, sum(freed for _place, freed in edited)

    def _edited_since(self, log: Sequence[Message], reply: str) -> list[tuple[int, int]]:
        """Edits made since this reply to content that is part of its usage: index in the log and tokens freed. Later
        messages are estimated as shown, without what was freed of them."""
        if not self._freed:
            return []
        places = {message.id: place for place, message in enumerate(log)}
        since = places.get(reply, -1)
        found: list[tuple[int, int]] = []
        for after, target, freed in reversed(self._freed):
            made_at = places.get(after, -1)
            if 0 <= made_at < since:
                break  # Edits are in the order in which they were made.
            place = places.get(target, places.get(target.rpartition(":")[0], -1))
            if made_at >= since and place <= since:
                found.append((place, freed))
        return found

    def tokens_of(self, log: Sequence[Message]) -> int:
        """Estimated tokens of all shown messages, with density, without the user context."""
        return round(self.estimator.total(self.edits.active(log)) * self.estimator.density)

    def repair(self, kind: str, through: str) -> None:
        """From now on apply a repair of `REPAIRS` to all messages up to the one with the id `through`."""
        self._repairs.append((kind, through))

    def has_repair(self, kind: str, through: str) -> bool:
        return (kind, through) in self._repairs

    def messages(self, log: Sequence[Message]) -> AppendOnly[Message]:
        """The active part of the log, with edits and repairs, before normalising."""
        front, active = self._fronts[self.front_boundary(log)], self.edits.active(log)
        if not front and not self._repairs:
            return active
        known = self._last_shown
        if known is not None and (known.front, known.repairs) != (front, len(self._repairs)):
            known = None
        new = active[len(known.active) :] if known is not None and known.active.begins(active) else None
        if known is None or new is None or self._ends_repair(new):
            shown = AppendOnly((*front, *self._repair_all(active)))
        else:
            shown = known.messages.adding(*new)
        self._last_shown = _Shown(active, front, len(self._repairs), shown)
        return shown

    def shown_messages(self, log: Sequence[Message]) -> AppendOnly[Message]:
        """The messages that requests show individually, as they are in the log: for data that edits do not change, such
        as their `meta`. Only compactions and collapses replace the sequence."""
        return self.edits.uncollapsed(log)

    def _ends_repair(self, messages: Sequence[Message]) -> bool:
        through = {id for _kind, id in self._repairs}
        return bool(through) and any(message.id in through for message in messages)

    def uncollapsed(self, log: Sequence[Message]) -> Sequence[Message]:
        """The active part of the log as shown without collapses."""
        return self._repair_all(self.edits.one_by_one(self.edits.in_force(log)))

    def unedited(self, log: Sequence[Message]) -> Sequence[Message]:
        """The active part of the log as shown without edits."""
        return self._repair_all(self.edits.in_force(log))

    def wire(self, log: Sequence[Message]) -> AppendOnly[Json]:
        """The messages of a request. Equal prefixes of the log give the same objects, not only equal ones."""
        wire = normalise(self.messages(log), self._memory)
        check_pairing(wire, wire.shared_with(self._checked))
        self._checked = wire
        return wire

    def _repair_all(self, messages: Sequence[Message]) -> Sequence[Message]:
        for kind, through in self._repairs:
            last = next((i for i, message in enumerate(messages) if message.id == through), -1)
            first = last if kind in PROMPT_REPAIRS else 0
            messages = tuple(
                self._repair_one(kind, message) if first <= i <= last else message for i, message in enumerate(messages)
            )
        return messages

    def _repair_one(self, kind: str, message: Message) -> Message:
        key = (id(message), kind)
        if key not in self._repaired:
            self._repaired[key] = (message, REPAIRS[kind](message))
        return self._repaired[key][1]


def _with(message: Message, content: Sequence[Block | None]) -> Message:
    return leaving_out(message, content) if list(content) != list(message.content) else message


def _strip_thinking(message: Message) -> Message:
    return _with(message, [None if is_thinking(block) else block for block in message.content])


def _drop_images(message: Message) -> Message:
    def shown(block: Block) -> Block:
        if isinstance(block, ImageBlock):
            return TextBlock(IMAGE_LEFT_OUT)
        if isinstance(block, ToolResultBlock):
            parts = tuple(TextBlock(IMAGE_LEFT_OUT) if isinstance(p, ImageBlock) else p for p in block.content)
            return replace(block, content=parts)
        return block

    return _with(message, [shown(block) for block in message.content])


def _flatten_tools(message: Message) -> Message:
    """Calls and results as text: the last resort if the API rejects their pairing."""

    def shown(block: Block) -> Block | None:
        if isinstance(block, ToolUseBlock):
            return TextBlock(f"[Called {block.name} with {block.input}]")
        if isinstance(block, ToolResultBlock):
            return TextBlock(f"[Result of an earlier call]\n{block.text}")
        return None if is_thinking(block) else block

    return _with(message, [shown(block) for block in message.content])


def _leave_out_prompt(message: Message, text: str = PROMPT_LEFT_OUT) -> Message:
    meta = {name: value for name, value in message.meta.items() if name != NUMBERS}
    return replace(message, content=(TextBlock(text),), meta=meta)


REPAIRS: Mapping[str, Repair] = {
    "strip_thinking": _strip_thinking,
    "drop_images": _drop_images,
    "flatten_tools": _flatten_tools,
    "leave_out_prompt": _leave_out_prompt,
    "leave_out_unchecked": lambda message: _leave_out_prompt(message, PROMPT_NOT_SENT),
}
