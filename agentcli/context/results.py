"""Which call gave which result, for steps that decide about old results. Looks only at what is new.

Never here: what is to be done with them.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from operator import is_

from agentcli.context.edits import block_id
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Message, TextBlock, ToolResultBlock, ToolUseBlock

_PATHS = ("file_path", "notebook_path", "path")
_SAYS_NOTHING = ("description",)
"""What a call says for people only."""


@frozen
class Called:
    """A result and the call that it answers."""

    block: str
    """By `edits.block_id`."""
    place: int
    """Of its message among those looked at."""
    name: str
    input: Json
    result: ToolResultBlock

    @property
    def characters(self) -> int:
        return sum(len(part.text) for part in self.result.content if isinstance(part, TextBlock))

    @property
    def only_text(self) -> bool:
        return all(isinstance(part, TextBlock) for part in self.result.content)


@frozen
class Fresh:
    """What has come since the last look."""

    started_over: bool
    """The conversation is another one than at the last look: all of it is in here."""
    messages: tuple[tuple[int, Message], ...]
    results: tuple[Called, ...]


class Results:
    """A conversation that grows at its end."""

    def __init__(self) -> None:
        self._seen: list[Message] = []
        self._uses: dict[str, ToolUseBlock] = {}

    def look(self, messages: Sequence[Message]) -> Fresh:
        known = len(self._seen)
        started_over = known > len(messages) or not all(map(is_, self._seen, messages))
        if started_over:
            known = 0
            self._seen.clear()
            self._uses.clear()
        fresh = tuple(enumerate(messages[known:], known))
        self._seen += messages[known:]
        results = tuple(called for place, message in fresh for called in self._called(place, message))
        return Fresh(started_over, fresh, results)

    def _called(self, place: int, message: Message) -> list[Called]:
        found: list[Called] = []
        for number, block in enumerate(message.content):
            if isinstance(block, ToolUseBlock):
                self._uses[block.id] = block
            elif isinstance(block, ToolResultBlock):
                use = self._uses.get(block.tool_use_id)
                if use is not None:
                    found.append(Called(block_id(message, number), place, use.name, use.input, block))
        return found


def same_call(name: str, input: Json) -> str:
    """Equal for calls that ask for the same: the order of what is given, what is given as nothing, how a path is
    spelled and what is said for people do not count."""
    asked = {
        key: posixpath.normpath(value) if key in _PATHS and isinstance(value, str) and value else value
        for key, value in input.items()
        if value is not None and key not in _SAYS_NOTHING
    }
    return f"{name} {json.dumps(asked, sort_keys=True, default=str)}"


def path_of(input: Json) -> str | None:
    """The file that a call is about, in one spelling."""
    for key in ("file_path", "notebook_path"):
        value = input.get(key)
        if isinstance(value, str) and value:
            return posixpath.normpath(value)
    return None
