"""Compress blocks that no request shows any more: those before the last compaction, and cleared ones.

They stay in the log, where undoing a compaction, rewinding or an export finds them unchanged. A little is compressed in
each turn, so that no turn has to process a whole context window, and only when a reply begins, so that no request is
delayed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from agentcli.core import events as ev
from agentcli.core.messages import Block, Json, Message, Origin, ToolResultBlock, compress_block

BYTES_A_TURN = 32 * 1024
"""Bytes to compress per turn: about 0.5 ms of work for source code, 2 ms for random words."""
_SHARE_A_TURN = 16
"""One in this many waiting blocks is compressed per turn whatever its size, so that none waits forever."""


class OldContent:
    """The compressed content of one conversation."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        """`messages`: those of a resumed session."""
        self._due: deque[Block] = deque()
        self._begin = 0
        """Index in the log before which all blocks are compressed or due."""
        places = range(len(messages) - 1, -1, -1)
        self._boundary = next((place for place in places if messages[place].origin is Origin.BOUNDARY), -1)

    def take(self, event: ev.Event, messages: Sequence[Message]) -> None:
        """Process an event of the conversation; `messages`: its log after the event."""
        match event:
            case ev.MessageAppended(message=message) if message.origin is Origin.BOUNDARY:
                self._boundary = len(messages) - 1
            case ev.ContextEdited(edits=edits):
                self._due += _edited_blocks(edits, messages)
            case ev.ReplyStarted() | ev.Result():
                # By now all messages of a compaction are in the log.
                self._pass_boundary(messages)
                self._pack_some()

    def shift(self, places: int, begin: int) -> None:
        """`places` more messages were inserted at the front; those before `begin` are compressed."""
        self._begin, self._boundary = max(self._begin + places, begin), self._boundary + places

    def _pass_boundary(self, messages: Sequence[Message]) -> None:
        if self._begin > self._boundary:
            return
        # The messages that a compaction repeats after its boundary share these blocks.
        shown = {id(block) for message in messages[self._boundary :] for block in message.content}
        for message in messages[self._begin : self._boundary]:
            self._due += [block for block in message.content if id(block) not in shown]
        self._begin = self._boundary + 1

    def _pack_some(self) -> None:
        least, room = len(self._due) // _SHARE_A_TURN, BYTES_A_TURN
        while self._due and (room > 0 or least > 0):
            room -= compress_block(self._due.popleft())
            least -= 1


def _edited_blocks(edits: Iterable[Json], messages: Sequence[Message]) -> list[Block]:
    """The results that these edits clear or drop."""
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
