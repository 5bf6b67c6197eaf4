"""Plan the user's changes to the context: pin a block, drop one, restore one.

Plans only: the affected blocks, the reason if a change is impossible, and its cost. The engine applies a plan. A call
and its result go together, and thinking that no longer leads to a call or answer goes with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from agentcli.context.edits import COLLAPSED, ContextEdit, block_id
from agentcli.context.estimate import block_tokens, message_tokens
from agentcli.context.steps import ContextState, newest_exchange, price_rewriting, rewritten_tokens, still_cached
from agentcli.context.view import ContextView
from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, Message, Origin, ToolResultBlock, ToolUseBlock, UnknownBlock, is_thinking
from agentcli.core.text.format import counted, money

NOT_THERE = "There is no such item in the context. /context items lists them with their ids."
SYSTEM = "The system prompt is part of every request."
TOOLS = "The tools are part of every request. A deny rule removes a tool."
INSTRUCTIONS = "The instructions are part of every request. Change the instruction files instead."
SUMMARY = "The summary replaces everything before it. /compact undo restores that."
COLLAPSED_SPAN = "It is a summary of several messages. Restore them first, then drop them one by one."
LAST_PROMPT = "The model is working on the last prompt."
IN_USE = "The model is working with it right now. Drop it when the work is done."
UNANSWERED = "It led to calls that the model has not answered yet. Drop it after that."
BY_SERVER = "A call that the server ran belongs to the answer around it and cannot be dropped alone."
PINNED = "It is pinned. Unpin it first."
PINNED_TOO = "An item that belongs to it is pinned. Unpin that first."
DROPPED_ALREADY = "It is already dropped."
NOT_CHANGED = "It is already in the context."

_FRONT = "user-context:"


@frozen
class ContextEffect:
    """Effect of dropping or restoring an item."""

    tokens_per_turn: int
    """Tokens by which every further request is smaller after a drop, larger after a restore."""
    once_tokens: int
    """Cached tokens after the item that have to be written to the cache again."""
    once_usd: float | None
    """Price of that in dollars; None: the price of this model is unknown."""
    text: str
    """`saves 3,100 tokens a turn, costs $0.02 once because the cache after it breaks`."""
    also: str = ""
    """Further items that are dropped with it, in words: `with its call`."""


@frozen
class ContextChange:
    edits: tuple[ContextEdit, ...]
    first: int
    """Tokens at the beginning of the request that are still read from the cache."""
    also: str = ""
    keeps: bool = False
    """A preparation step had shortened the item and would do so again unless it is pinned."""

    @property
    def freed(self) -> int:
        return sum(edit.freed for edit in self.edits)


# ------------------------------------------------------------------------------------------------------------- drop


def plan_drop(
    view: ContextView,
    log: Sequence[Message],
    item: str,
    state: ContextState,
    *,
    running: bool,
    sizes: Mapping[str, int] | None = None,
) -> ContextChange | str:
    """The change that drops an item, or the reason why that is impossible. `running`: a submission is running; `sizes`:
    tokens of the items as they are shown, so that a drop saves what the list says."""
    if (always := _always_there(item)) is not None:
        return always
    messages = _one_by_one(view, log)
    found = _find_item(messages, item)
    if found is None:
        return NOT_THERE
    place, number = found
    if (reason := _find_objection(messages, place, number, running=running)) is not None:
        return reason
    if (edit := view.edits.edited(item)) is not None and edit.kind == "drop":
        return DROPPED_ALREADY
    if item in state.pinned:
        return PINNED
    targets, also = _find_belonging(view, messages, place, number)
    if targets & state.pinned:
        return PINNED_TOO
    shown = view.messages(log)
    known = sizes or {}
    edits = tuple(
        ContextEdit(kind="drop", target=name, step="user", freed=known.get(name, block_tokens(block)))
        for name, block in _blocks(shown)
        if name in targets
    )
    left = state.estimate - sum(edit.freed for edit in edits)
    return ContextChange(edits, _position(view, shown, targets, left), also)


def _always_there(item: str) -> str | None:
    if item == "system":
        return SYSTEM
    if item.startswith("tool:"):
        return TOOLS
    if item.startswith(_FRONT):
        return INSTRUCTIONS
    return COLLAPSED_SPAN if item.startswith(COLLAPSED) else None


def _find_objection(messages: Sequence[Message], place: int, number: int, *, running: bool) -> str | None:
    message = messages[place]
    if message.origin is Origin.SUMMARY:
        return SUMMARY
    if place == _last(messages, (Origin.PROMPT, Origin.QUEUED)):
        return LAST_PROMPT
    if isinstance(block := message.content[number], UnknownBlock) and not is_thinking(block):
        return BY_SERVER if message.role == "assistant" else None
    if is_thinking(block) and message.tool_uses and place >= _open_since(messages):
        return UNANSWERED
    if running and place > _last(messages, (Origin.PROMPT,)):
        # The API requires the thinking of a reply unchanged as long as its results are being answered.
        reply = _reply_of(messages, place)
        if place >= newest_exchange(messages) or (reply is not None and any(map(is_thinking, reply.content))):
            return IN_USE
    return None


def _last(messages: Sequence[Message], origins: tuple[Origin, ...]) -> int:
    return next((place for place in range(len(messages) - 1, -1, -1) if messages[place].origin in origins), -1)


def _open_since(messages: Sequence[Message]) -> int:
    """Index of the first of the consecutive replies whose tool results end the conversation: the API requires their
    thinking. `len(messages)` if the conversation ends with an answer or is empty."""
    place = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "assistant"), -1)
    if place < 0 or not messages[place].tool_uses:
        return len(messages)
    while True:
        before, is_answered = place - 1, False
        while before >= 0 and messages[before].role == "user":
            is_answered = is_answered or bool(messages[before].tool_results)
            before -= 1
        if before < 0 or (not is_answered and before < place - 1):
            return place
        place = before


def _reply_of(messages: Sequence[Message], place: int) -> Message | None:
    """The message itself if it is a reply, or the reply whose calls these results answer."""
    if messages[place].origin is Origin.TOOL_RESULTS:
        return next((messages[i] for i in range(place, -1, -1) if messages[i].role == "assistant"), None)
    return messages[place] if messages[place].role == "assistant" else None


# ---------------------------------------------------------------------------------------------------------- restore


def plan_restore(view: ContextView, log: Sequence[Message], item: str, state: ContextState) -> ContextChange | str:
    """The change that restores an item completely, or the reason why that is impossible."""
    if item.startswith(COLLAPSED):
        return _uncollapse(view, log, item, state)
    if _always_there(item) is not None:
        return NOT_CHANGED
    messages = _one_by_one(view, log)
    found = _find_item(messages, item)
    if found is None:
        return NOT_THERE
    decided = view.edits.edited(item)
    if decided is None:
        return NOT_CHANGED
    targets = {item} if decided.kind == "replace" else _drop_with(view, messages, *found)
    before, then = dict(_blocks(view.messages(log))), dict(_blocks(view.unedited(log)))
    freed = {
        name: -edit.freed
        if (edit := view.edits.edited(name)) is not None and edit.kind == "drop"
        else _size(before.get(name)) - _size(then.get(name))
        for name in targets
    }
    edits = tuple(
        ContextEdit(kind="restore", target=name, step="user", freed=freed[name])
        for name, _block in _blocks(messages)
        if name in targets
    )
    first = _position_in_log(view, log, messages, found[0], state.estimate)
    return _check_size(ContextChange(edits, first, keeps=decided.kind == "replace"), state)


def _uncollapse(view: ContextView, log: Sequence[Message], item: str, state: ContextState) -> ContextChange | str:
    first = item.removeprefix(COLLAPSED).rpartition(":")[0]
    shown = view.messages(log)
    stand_in = next((message for message in shown if message.id == f"{COLLAPSED}{first}"), None)
    if stand_in is None:
        return NOT_THERE
    hidden = {message.id for message in view.edits.collapsed(view.edits.in_force(log), first)}
    size = message_tokens(stand_in) - sum(message_tokens(m) for m in view.uncollapsed(log) if m.id in hidden)
    edit = ContextEdit(kind="restore", target=first, step="user", freed=size)
    left = state.estimate - message_tokens(stand_in)
    position = _position(view, shown, {block_id(stand_in, 0)}, left)
    return _check_size(ContextChange((edit,), position), state)


def _check_size(change: ContextChange, state: ContextState) -> ContextChange | str:
    then = state.estimate - change.freed
    if then > state.usable:
        return f"With it the context would be {then:,} tokens, and only {state.usable:,} fit."
    return change


# ---------------------------------------------------------------------------------------------------- related blocks


def _find_belonging(view: ContextView, messages: Sequence[Message], place: int, number: int) -> tuple[set[str], str]:
    """Ids of all blocks dropped together with a block, including itself, and a description of the others."""
    block = messages[place].content[number]
    pair = {(place, number), *_partners(messages, place, number)}
    targets = {block_id(messages[at], n) for at, n in pair}
    words = ["its result"] if isinstance(block, ToolUseBlock) and len(pair) > 1 else []
    words += ["its call"] if isinstance(block, ToolResultBlock) and len(pair) > 1 else []
    for at in {at for at, _n in pair if messages[at].role == "assistant"}:
        left = [
            name for name, _block in _name_blocks(messages[at]) if name not in targets and not _is_dropped(view, name)
        ]
        thinking = {name for name, block in _name_blocks(messages[at]) if is_thinking(block)}
        if left and thinking.issuperset(left):
            targets |= set(left)
            words.append("the thinking that led to it")
    return targets, f"with {' and '.join(words)}" if words else ""


def _drop_with(view: ContextView, messages: Sequence[Message], place: int, number: int) -> set[str]:
    """Ids of the blocks restored with a dropped block: its call or result, and the thinking of the reply."""
    pairs = {(place, number), *_partners(messages, place, number)}
    if is_thinking(messages[place].content[number]):
        named = [(n, name) for n, (name, _block) in enumerate(_name_blocks(messages[place]))]
        if all(_is_dropped(view, name) for n, name in named if not is_thinking(messages[place].content[n])):
            # Thinking alone would lead to nothing and would not be sent.
            for n, _name in named:
                pairs |= {(place, n), *_partners(messages, place, n)}
    for at in {at for at, _n in pairs if messages[at].role == "assistant"}:
        pairs |= {(at, n) for n, block in enumerate(messages[at].content) if is_thinking(block)}
    names = {block_id(messages[at], n) for at, n in pairs}
    return {name for name in names if _is_dropped(view, name)}


def _partners(messages: Sequence[Message], place: int, number: int) -> Iterator[tuple[int, int]]:
    """The result of a call, or the call of a result, found by position: ids may repeat in other turns."""
    block = messages[place].content[number]
    if isinstance(block, ToolUseBlock):
        answered = False
        for at in range(place + 1, len(messages)):
            if messages[at].role == "assistant":
                if answered:
                    return
                continue
            answered = answered or not messages[at].origin.local
            for n, other in enumerate(messages[at].content):
                if isinstance(other, ToolResultBlock) and other.tool_use_id == block.id:
                    yield at, n
    elif isinstance(block, ToolResultBlock):
        asked = False
        for at in range(place - 1, -1, -1):
            if messages[at].role != "assistant":
                if asked:
                    return
                continue
            asked = True
            for n, other in enumerate(messages[at].content):
                if isinstance(other, ToolUseBlock) and other.id == block.tool_use_id:
                    yield at, n


def _is_dropped(view: ContextView, name: str) -> bool:
    edit = view.edits.edited(name)
    return edit is not None and edit.kind == "drop"


# ------------------------------------------------------------------------------------------------------------ places


def _one_by_one(view: ContextView, log: Sequence[Message]) -> list[Message]:
    """The messages that the next request shows individually, as they are in the log."""
    shown = {message.id for message in view.messages(log)}
    return [message for message in view.edits.in_force(log) if message.id in shown and not message.origin.local]


def _find_item(messages: Sequence[Message], item: str) -> tuple[int, int] | None:
    message_id, _colon, number = item.rpartition(":")
    for place, message in enumerate(messages):
        if message.id == message_id:
            return (place, int(number)) if number.isdigit() and int(number) < len(message.content) else None
    return None


def _name_blocks(message: Message) -> list[tuple[str, Block]]:
    return [(block_id(message, place), block) for place, block in enumerate(message.content)]


def _blocks(messages: Iterable[Message]) -> Iterator[tuple[str, Block]]:
    for message in messages:
        yield from _name_blocks(message)


def _position(view: ContextView, shown: Sequence[Message], targets: AbstractSet[str], left: int) -> int:
    """Tokens still read from the cache when these blocks change. `left`: tokens of the request without them."""
    for place, message in enumerate(shown):
        if any(name in targets for name, _block in _name_blocks(message)):
            behind = shown[still_cached(shown, place) :]
            gone = sum(block_tokens(block) for name, block in _blocks(behind) if name in targets)
            return max(0, left - view.estimator.total(behind) + gone)
    return 0


def _position_in_log(
    view: ContextView, log: Sequence[Message], messages: Sequence[Message], place: int, estimate: int
) -> int:
    """`_position` for a message of which nothing may be shown at the moment."""
    behind = {message.id for message in messages[still_cached(messages, place) :]}
    size = sum(view.estimator.message(message) for message in view.messages(log) if message.id in behind)
    return max(0, estimate - size)


def _size(block: Block | None) -> int:
    return 0 if block is None else block_tokens(block)


# ------------------------------------------------------------------------------------------------------------- costs


def effect_of(change: ContextChange, state: ContextState) -> ContextEffect:
    """What a drop or a restore saves and costs."""
    tokens = rewritten_tokens(change.first, max(0, change.freed), state)
    usd = price_rewriting(tokens, state)
    if state.cache_cold:
        cost = "costs nothing because the cache has expired"
    elif not tokens:
        cost = "costs nothing because nothing after it is cached"
    elif usd is None:
        rewritten = f"{counted(tokens, 'token')} written again, at an unknown price,"
        cost = f"costs {rewritten} because the cache after it breaks"
    else:
        cost = f"costs {money(usd)} once because the cache after it breaks"
    verb = "adds" if change.edits[0].kind == "restore" else "saves"
    per_turn = abs(change.freed)
    return ContextEffect(per_turn, tokens, usd, f"{verb} {counted(per_turn, 'token')} a turn, {cost}", change.also)
