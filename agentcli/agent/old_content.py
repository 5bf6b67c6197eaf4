"""Blocks that no request shows any more, kept compressed: those before the last compaction, and cleared ones.

They stay in the log, where undoing a compaction, rewinding or an export finds them as they were. A little is compressed
in each turn, so that no turn waits for a whole window of it, and when its reply begins, so that no request waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from agentcli.core import events as ev
from agentcli.core.messages import Block, Json, Message, Origin, ToolResultBlock, pack_block

BYTES_A_TURN = 32 * 1024
"""Some 0.5 ms of work for source code, 2 ms for random words."""
_SHARE_A_TURN = 16
"""Of many blocks that wait, one in so many is compressed in a turn, whatever its size: none waits for ever."""


class OldContent:
    """One per conversation."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        """`messages`: those of a resumed session."""
        self._due: deque[Block] = deque()
        self._begin = 0
        """Place in the log before which all blocks are compressed, or due."""
        places = range(len(messages) - 1, -1, -1)
        self._boundary = next((place for place in places if messages[place].origin is Origin.BOUNDARY), -1)

    def take(self, event: ev.Event, messages: Sequence[Message]) -> None:
        """Take an event of the conversation in, whose log now has these messages."""
        match event:
            case ev.MessageAppended(message=message) if message.origin is Origin.BOUNDARY:
                self._boundary = len(messages) - 1
            case ev.ContextEdited(edits=edits):
                self._due += _edited_blocks(edits, messages)
            case ev.ReplyStarted() | ev.Result():
                # By now all that belongs to a compaction is in the log.
                self._pass_boundary(messages)
                self._pack_some()

    def shift(self, places: int, begin: int) -> None:
        """So many messages more are before all others; those before `begin` are compressed."""
        self._begin, self._boundary = max(self._begin + places, begin), self._boundary + places

    def _pass_boundary(self, messages: Sequence[Message]) -> None:
        if self._begin > self._boundary:
            return
        # What a compaction repeats behind its boundary are the same blocks.
        shown = {id(block) for message in messages[self._boundary :] for block in message.content}
        for message in messages[self._begin : self._boundary]:
            self._due += [block for block in message.content if id(block) not in shown]
        self._begin = self._boundary + 1

    def _pack_some(self) -> None:
        least, room = len(self._due) // _SHARE_A_TURN, BYTES_A_TURN
        while self._due and (room > 0 or least > 0):
            room -= pack_block(self._due.popleft())
            least -= 1


def _edited_blocks(edits: Iterable[Json], messages: Sequence[Message]) -> list[Block]:
    """The results that these edits clear or leave out of requests."""
    wanted: dict[str, set[int]] = {}
    for edit in edits:
        message_id, _colon, number = str(edit.get("target", "")).rpartition(":")
        if edit.get("kind") in ("replace", "drop") and number.isdigit():
            wanted.setdefault(message_id, set()).add(int(number))
    found: list[Block] = []
    for message in reversed(messages):
        if not wanted:
            break
        numbers = wanted.pop(message.id, ())
        found += [message.content[number] for number in sorted(numbers) if number < len(message.content)]
    return [block for block in reversed(found) if isinstance(block, ToolResultBlock)]
