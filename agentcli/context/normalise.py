"""Convert the log to a list of messages that the API accepts. Pure and idempotent.

Local messages are dropped; adjacent messages of one role are merged; every tool call gets exactly one result, first in
the next user message; empty text is dropped; text that cannot be sent is cleaned. Thinking is kept unchanged.
`check_pairing` is the assertion at the boundary to the provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import groupby, pairwise
from operator import is_

from agentcli.core.append_only import STEP, AppendOnly, as_append_only
from agentcli.core.frozen import frozen, slotted
from agentcli.core.messages import (
    Block,
    Json,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_to_wire,
    clean_text,
    is_thinking,
)
from agentcli.core.tool_errors import wrapped

MISSING_RESULT = wrapped("The call was interrupted before it had a result.")
NO_OUTPUT = "(no output)"
_MARK_DISTANCE = 8
"""Messages between two marks: the maximum number that is converted again needlessly."""
EARLIER_LEFT_OUT = "(Earlier messages are not part of this request.)"
_Group = tuple[tuple[int, Message], ...]
"""Adjacent messages of one role, each with its index."""


@slotted
class _Draft:
    """The request messages so far, and how many log messages they cover."""

    consumed: AppendOnly[Message] = field(default_factory=AppendOnly)
    wire: AppendOnly[Json] = field(default_factory=AppendOnly)
    calls: tuple[Message, ...] = ()
    """Replies with calls that the next message must answer."""
    role: str = ""
    """Role of the last group."""

    def copy(self) -> _Draft:
        return _Draft(self.consumed, self.wire, self.calls, self.role)

    def add(self, group: tuple[Message, ...], memory: NormaliseCache) -> None:
        made = memory.made(group, self.calls)
        self.role = group[0].role
        self.calls = group if made is not None and group[0].role == "assistant" else ()
        if made is not None:
            self.wire = _append(self.wire, made)


@frozen
class _Mark:
    """A saved state of a draft, to go back to when a later message is shown differently."""

    consumed: int
    wire: int
    last: Json
    """The last message of `wire` at that time."""
    calls: tuple[Message, ...]
    role: str


class NormaliseCache:
    """Cache of request messages for a growing log, so that each turn converts only new messages.

    Equal prefixes of the log give the same objects, so that their encoding can be cached too. If a message is shown
    differently than before, it and all later ones are converted again, starting at the mark before it.
    """

    def __init__(self) -> None:
        self.settled = _Draft()
        """All groups of one role except the last, to which the next message may still belong."""
        self._marks: list[_Mark] = []
        self._newest: tuple[tuple[Message, ...], tuple[Message, ...], Json | None] = ((), (), None)

    def made(self, group: tuple[Message, ...], calls: tuple[Message, ...]) -> Json | None:
        """Convert a group to one message; None if nothing is left of it. The last result is cached because it is soon
        needed again."""
        if (group, calls) != self._newest[:2]:
            blocks = [block for message in group for block in message.content]
            role = group[0].role
            content = _assistant_content(blocks) if role == "assistant" else _pair(blocks, _tool_uses(calls))
            self._newest = (group, calls, {"role": role, "content": content} if content else None)
        return self._newest[2]

    def mark(self) -> None:
        """Save the state of the settled draft, unless the last mark is close."""
        draft, last = self.settled, self._marks[-1].consumed if self._marks else 0
        if len(draft.consumed) >= last + _MARK_DISTANCE and draft.wire:
            self._marks.append(_Mark(len(draft.consumed), len(draft.wire), draft.wire[-1], draft.calls, draft.role))

    def go_back(self, shown: AppendOnly[Message]) -> None:
        """Go back to the last mark within the common prefix of these messages and the previous ones; at least one
        step."""
        before = self.settled
        same = min(before.consumed.shared_with(shown), len(before.consumed) - 1)
        while self._marks:
            mark = self._marks[-1]
            if mark.consumed <= same and mark.wire <= len(before.wire) and before.wire[mark.wire - 1] is mark.last:
                self.settled = _Draft(
                    before.consumed.first(mark.consumed), before.wire.first(mark.wire), mark.calls, mark.role
                )
                return
            self._marks.pop()
        self.settled = _Draft()


def normalise(messages: Sequence[Message], memory: NormaliseCache | None = None) -> AppendOnly[Json]:
    memory = memory or NormaliseCache()
    shown = as_append_only(messages)
    groups = _close_groups(shown, memory)
    settled = memory.settled
    draft = settled.copy()
    if groups:
        settled.consumed = shown.first(groups[-1][0][0])
        draft.add(tuple(message for _place, message in groups[-1]), memory)
    if any(message.tool_uses for message in draft.calls):
        draft.wire = _append(draft.wire, {"role": "user", "content": _pair((), _tool_uses(draft.calls))})
    return _trim(draft.wire)


def settle_in_steps(messages: Sequence[Message], memory: NormaliseCache) -> Iterator[None]:
    """Do most of the work of `normalise` for these messages; yields after each step, so that other work can run."""
    shown = as_append_only(messages)
    if not memory.settled.consumed.begins(shown):
        memory.go_back(shown)
    for end in range(len(memory.settled.consumed) + STEP, len(shown), STEP):
        _close_groups(shown.first(end), memory)
        yield


def _close_groups(shown: AppendOnly[Message], memory: NormaliseCache) -> list[_Group]:
    """Settle the new groups except the last; returns all new groups."""
    if not memory.settled.consumed.begins(shown):
        memory.go_back(shown)
    sent = _select_sent(shown, len(memory.settled.consumed))
    while sent and sent[0][1].role == memory.settled.role:
        # Another log with the same beginning, in which the last settled group continues.
        memory.go_back(shown)
        sent = _select_sent(shown, len(memory.settled.consumed))
    settled = memory.settled
    groups = [tuple(group) for _role, group in groupby(sent, key=lambda entry: entry[1].role)]
    for group, following in pairwise(groups):
        settled.add(tuple(message for _place, message in group), memory)
        settled.consumed = shown.first(following[0][0])
        memory.mark()
    return groups


def _select_sent(shown: AppendOnly[Message], begin: int) -> list[tuple[int, Message]]:
    return [(place, m) for place, m in enumerate(shown[begin:], begin) if m.content and not m.origin.local]


def _append(wire: AppendOnly[Json], message: Json) -> AppendOnly[Json]:
    """Add a message; merge it with the last one if dropping an empty message has made them adjacent with the same
    role."""
    if not wire and message["role"] == "assistant":
        wire = wire.adding({"role": "user", "content": [{"type": "text", "text": EARLIER_LEFT_OUT}]})
    if wire and wire[-1]["role"] == message["role"]:
        both = {"role": message["role"], "content": [*wire[-1]["content"], *message["content"]]}
        return wire.first(len(wire) - 1).adding(both)
    return wire.adding(message)


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


def _trim(wire: AppendOnly[Json]) -> AppendOnly[Json]:
    """Strip trailing white space of a final assistant message (sent back after pause_turn), which the API rejects."""
    while wire and wire[-1]["role"] == "assistant":
        *before, last = wire[-1]["content"]
        if last.get("type") != "text":
            return wire
        text = last["text"].rstrip()
        if text == last["text"]:
            return wire
        content = [*before, {**last, "text": text}] if text else before
        if content:
            return wire.first(len(wire) - 1).adding({"role": "assistant", "content": content})
        wire = wire.first(len(wire) - 1)
    return wire


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
