"""The part of the log that the next request shows, and its conversion to messages that the API accepts.

A view is a projection: the messages after the last compact boundary, with edits (by the preparation steps
or the user) and repairs (pieces the API has refused) applied, and the user context in front. The log itself is never
rewritten. Edits and repairs are sticky: they are recorded as events, so that a resumed session builds the same bytes.

Normalising is pure and idempotent. Local messages are dropped; adjacent messages of one role are merged; every call
gets exactly one result, first in the next user message; empty text is dropped; text that cannot be sent is cleaned.
Thinking is kept unchanged. `check_pairing` is the assertion at the boundary to the provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import groupby
from operator import is_

from agentcli.context.edits import NUMBERS, ContextEdit, Edits, leave_out
from agentcli.context.estimate import Estimator
from agentcli.core.frozen import frozen
from agentcli.core.messages import (
    Block,
    ImageBlock,
    Json,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_to_wire,
    clean_text,
    is_thinking,
    wrap_error,
)
from agentcli.core.space_saving import AppendOnly, as_append_only

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
        other = self.imagine(())
        other._fronts, other._repairs = dict(self._fronts), list(self._repairs)
        other._repaired, other.estimator = dict(self._repaired), Estimator()
        return other

    def imagine(self, edits: Iterable[ContextEdit], after: str = "") -> ContextView:
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
        return max(0, tokens - sum(freed for _place, freed in self._list_edits_since(log, counted)))

    def count_freed_since(self, log: Sequence[Message], reply: str) -> int | None:
        """Tokens freed by edits made since this reply of what its request contained; None if nothing changed."""
        edited = [freed for place, freed in self._list_edits_since(log, reply) if place >= 0]
        return sum(edited) if edited else None

    def _list_edits_since(self, log: Sequence[Message], reply: str) -> list[tuple[int, int]]:
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
        """Estimated tokens of all shown messages, without the user context."""
        return self.estimator.total(self.edits.active(log))

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

    def list_shown_messages(self, log: Sequence[Message]) -> AppendOnly[Message]:
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
        check_pairing(wire, wire.count_shared(self._checked))
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
    return leave_out(message, content) if list(content) != list(message.content) else message


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


MISSING_RESULT = wrap_error("The call was interrupted before it had a result.")
NO_OUTPUT = "(no output)"
EARLIER_LEFT_OUT = "(Earlier messages are not part of this request.)"


class NormaliseCache:
    """Request messages of a growing log, so that each turn converts only new messages. Unchanged messages of the log
    give the same objects, so that their encoding can be cached too."""

    def __init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        self.settled: AppendOnly[Message] = AppendOnly()
        """The log messages of all groups of one role except the last, to which the next message may still belong."""
        self.wire: list[Json] = []
        """The request messages made of them."""
        self.calls: tuple[Message, ...] = ()
        """Replies with calls that the next message must answer."""
        self.role = ""
        """Role of the last settled group."""
        self.converted: dict[tuple[int, ...], tuple[tuple[Message, ...], tuple[Message, ...], Json | None]] = {}
        """By identity, a group and the calls before it, with the message made of them; for a log that has changed."""


def normalise(messages: Sequence[Message], memory: NormaliseCache | None = None) -> AppendOnly[Json]:
    memory, shown = memory or NormaliseCache(), as_append_only(messages)
    groups = _group(shown, len(memory.settled))
    known = memory.converted
    if not memory.settled.begins(shown) or (groups and groups[0][0][1].role == memory.role):
        memory.start_over()
        groups = _group(shown, 0)
    wire = memory.wire
    calls = memory.calls
    for entries in groups:
        if entries is groups[-1]:
            memory.settled, memory.wire, memory.calls = shown.first(entries[0][0]), wire.copy(), calls
        else:
            memory.role = entries[0][1].role
        group = tuple(message for _place, message in entries)
        key = (*map(id, group), 0, *map(id, calls))
        found = memory.converted[key] = known.get(key) or (group, calls, _convert(group, calls))
        made = found[2]
        calls = group if made is not None and made["role"] == "assistant" else ()
        if made is not None:
            _append(wire, made)
    wire = wire if groups else wire.copy()
    if any(message.tool_uses for message in calls):
        _append(wire, {"role": "user", "content": _pair((), _tool_uses(calls))})
    _trim(wire)
    return AppendOnly(wire)


def _group(shown: AppendOnly[Message], begin: int) -> list[tuple[tuple[int, Message], ...]]:
    """The messages to send from this place on, in groups of one role, each with its index."""
    sent = [(place, m) for place, m in enumerate(shown[begin:], begin) if m.content and not m.origin.local]
    return [tuple(group) for _role, group in groupby(sent, key=lambda entry: entry[1].role)]


def _convert(group: tuple[Message, ...], calls: tuple[Message, ...]) -> Json | None:
    """Convert messages of one role to one message; None if nothing is left of them."""
    blocks = [block for message in group for block in message.content]
    role = group[0].role
    content = _assistant_content(blocks) if role == "assistant" else _pair(blocks, _tool_uses(calls))
    return {"role": role, "content": content} if content else None


def _append(wire: list[Json], message: Json) -> None:
    """Add a message; merge it with the last one if dropping an empty message has made them adjacent with the same
    role."""
    if not wire and message["role"] == "assistant":
        wire.append({"role": "user", "content": [{"type": "text", "text": EARLIER_LEFT_OUT}]})
    if wire and wire[-1]["role"] == message["role"]:
        message = {"role": message["role"], "content": [*wire.pop()["content"], *message["content"]]}
    wire.append(message)


def _tool_uses(messages: Iterable[Message]) -> list[ToolUseBlock]:
    return [use for message in messages for use in message.tool_uses]


def _assistant_content(blocks: Sequence[Block]) -> list[Json]:
    """A reply's blocks; empty for a reply with only thinking, which the API rejects."""
    kept = [
        block
        for block in blocks
        if not _is_blank(block) and not _is_unsendable(block) and not isinstance(block, ToolResultBlock)
    ]
    if all(is_thinking(block) for block in kept):
        return []
    return [_clean(block) for block in kept]


def _pair(blocks: Sequence[Block], uses: Sequence[ToolUseBlock]) -> list[Json]:
    """A user message's content: one result for each of `uses`, in their order, then everything else."""
    results: dict[str, ToolResultBlock] = {}
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            results.setdefault(block.tool_use_id, block)
    first = [
        results.get(use.id) or ToolResultBlock(use.id, (TextBlock(MISSING_RESULT),), is_error=True) for use in uses
    ]
    rest = [block for block in blocks if not isinstance(block, ToolResultBlock) and not _is_blank(block)]
    return [_clean(block) for block in (*first, *rest)]


def _is_blank(block: Block) -> bool:
    return isinstance(block, TextBlock) and not block.text.strip()


def _is_unsendable(block: Block) -> bool:
    """Whether it is thinking with an invalid character: cleaning it would break its signature."""
    return isinstance(block, ThinkingBlock) and clean_text(block.thinking) != block.thinking


def _clean(block: Block) -> Json:
    if isinstance(block, TextBlock):
        return block_to_wire(TextBlock(clean_text(block.text), block.citations))
    if isinstance(block, ToolResultBlock):
        parts = tuple(
            TextBlock(clean_text(part.text)) if isinstance(part, TextBlock) else part
            for part in block.content
            if not _is_blank(part)
        )
        return block_to_wire(ToolResultBlock(block.tool_use_id, parts or (TextBlock(NO_OUTPUT),), block.is_error))
    if isinstance(block, ToolUseBlock):
        return block_to_wire(ToolUseBlock(block.id, block.name, _clean_json(block.input), extra=block.extra))
    return block_to_wire(block) if is_thinking(block) else _clean_json(block_to_wire(block))


def _clean_json(value: Json) -> Json:
    """The same object, or a copy if a string inside had to be cleaned."""
    cleaned = _cleaned(value)
    assert isinstance(cleaned, dict)
    return cleaned


def _cleaned(item: object) -> object:
    if isinstance(item, str):
        return clean_text(item)
    if isinstance(item, dict):
        keys = [clean_text(str(key)) for key in item]
        values = [_cleaned(inner) for inner in item.values()]
        is_same = all(map(is_, keys, item)) and all(map(is_, values, item.values()))
        return item if is_same else dict(zip(keys, values, strict=True))
    if isinstance(item, list):
        parts = [_cleaned(inner) for inner in item]
        return item if all(map(is_, parts, item)) else parts
    return item


def _trim(wire: list[Json]) -> None:
    """Strip trailing white space of a final assistant message (sent back after pause_turn), which the API rejects."""
    while wire and wire[-1]["role"] == "assistant":
        *before, last = wire[-1]["content"]
        if last.get("type") != "text" or last["text"] == last["text"].rstrip():
            return
        text = last["text"].rstrip()
        content = [*before, {**last, "text": text}] if text else before
        wire.pop()
        if content:
            wire.append({"role": "assistant", "content": content})


def check_pairing(wire: Sequence[Json], known: int = 0) -> None:
    """Assert that every tool_use has exactly one tool_result in the next message, and that there are no others (I1).

    `known`: number of leading messages that were checked before.
    """
    expected = _ids(wire[known - 1], "tool_use", "id") if known else []
    for message in wire[known:]:
        found = _ids(message, "tool_result", "tool_use_id")
        assert found == expected, f"tool results {found} do not answer the calls {expected}"
        expected = _ids(message, "tool_use", "id")
    assert not expected, f"the calls {expected} have no result"


def _ids(message: Json, kind: str, key: str) -> list[str]:
    return [block[key] for block in message["content"] if block.get("type") == kind]
