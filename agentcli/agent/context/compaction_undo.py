"""Undo a compaction: the log still has every message, so the boundary and the messages it wrote are hidden by an edit.

The edit is recorded like any other, so a resumed session shows the same. Messages that came after the compaction stay.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from agentcli.agent.ports import ContextLimits
from agentcli.context.compact import last_written
from agentcli.context.edits import ContextEdit, edit_to_dict
from agentcli.context.estimate import message_tokens
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.frozen import frozen
from agentcli.core.messages import Message
from agentcli.core.text.format import token_count

NOTHING = "There is no compaction to undo in this conversation."
UNREADABLE = "Cannot undo the compaction: the session file cannot be read any more."


@frozen
class CompactionUndo:
    edit: ContextEdit
    tokens_now: int
    tokens_then: int


def planned_undo(view: ContextView, log: Sequence[Message], limits: ContextLimits) -> CompactionUndo | str:
    """The edit that undoes the last active compaction, or the reason why that is impossible."""
    boundary = view.edits.boundary(log)
    if boundary is None:
        return NOTHING
    begin = next(place for place, message in enumerate(log) if message.id == boundary.id)
    through = last_written(log, begin)
    end = next((place for place in range(begin, len(log)) if log[place].id == through), begin)
    before = (*log[:begin], *log[end + 1 :])
    now = view.estimate(log, limits.overhead)
    if any(message.usage is not None and message.usage.prompt_tokens for message in log[end + 1 :]):
        # The last measured usage is that of the short conversation: only the difference can be estimated.
        more = _size(view.messages(before)) - _size(view.messages(log))
        then = now + round(more * view.estimator.density * view.estimator.whole_scale)
    else:
        then = view.estimate(before, limits.overhead)
    if then > limits.usable:
        return (
            f"Cannot undo the compaction: the context would have {then:,} tokens, and only {limits.usable:,} fit. "
            "The conversation is unchanged."
        )
    edit = ContextEdit(kind="undo_compaction", target=boundary.id, through=through, step="compact", freed=now - then)
    return CompactionUndo(edit, now, then)


async def undo_compaction(
    view: ContextView, log: Sequence[Message], limits: ContextLimits
) -> AsyncGenerator[ev.Event, None]:
    """For `Engine.perform`: the events of the undo and one notice for the user."""
    undoing = planned_undo(view, log, limits)
    if isinstance(undoing, str):
        yield ev.NoticeRaised(text=undoing, level="error", code="command")
        return
    view.edit([undoing.edit], log[-1].id)
    # The cache watch reports the cost with this text after the next response.
    reason = "a compaction was undone"
    edits = [edit_to_dict(undoing.edit)]
    yield ev.ContextEdited(edits=edits, step="compact", freed_tokens=undoing.edit.freed, text=reason)
    yield ev.NoticeRaised(text=_undo_text(undoing, limits), code="command")


def _undo_text(undoing: CompactionUndo, limits: ContextLimits) -> str:
    restored = undoing.tokens_then - undoing.tokens_now
    text = (
        f"The compaction is undone: about {token_count(restored)} tokens are back, "
        f"the context has about {token_count(undoing.tokens_then)} now."
    )
    threshold = int(limits.usable * limits.auto_threshold)
    if limits.auto_compact and undoing.tokens_then >= threshold:
        text += (
            f" Auto-compaction starts at {token_count(threshold)}, so the next prompt compacts it again. "
            "To prevent that, turn off the setting autoCompact."
        )
    return text


def _size(messages: Sequence[Message]) -> int:
    return sum(map(message_tokens, messages))
