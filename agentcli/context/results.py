"""Match tool results with their calls, for steps that decide about old results. Reads only new messages.

The steps themselves decide what to do with them.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence

from agentcli.context.edits import block_id
from agentcli.core.append_only import AppendOnly, as_append_only
from agentcli.core.frozen import frozen
from agentcli.core.messages import RESULT_DATA, Json, Message, TextBlock, ToolResultBlock, ToolUseBlock

_PATHS = ("file_path", "notebook_path", "path")
_DISPLAY_ONLY = ("description",)
"""Inputs that are only shown to the user."""


@frozen
class AnsweredCall:
    block: str
    """Block id, see `edits.block_id`."""
    place: int
    """Index of its message."""
    name: str
    input: Json
    result: ToolResultBlock
    is_partial: bool = False
    """Whether it shows only a part of a file."""

    @property
    def characters(self) -> int:
        return sum(len(part.text) for part in self.result.content if isinstance(part, TextBlock))

    @property
    def only_text(self) -> bool:
        return all(isinstance(part, TextBlock) for part in self.result.content)


@frozen
class NewResults:
    """Results since the last call of `look`."""

    started_over: bool
    """Whether the conversation was replaced, so that this contains all of it."""
    results: tuple[AnsweredCall, ...]


class ResultReader:
    """Reads the results of a growing conversation."""

    def __init__(self) -> None:
        self._seen: AppendOnly[Message] = AppendOnly()
        self._uses: dict[str, ToolUseBlock] = {}
        """Calls without a result, by call id."""

    def look(self, messages: Sequence[Message]) -> NewResults:
        now, known = as_append_only(messages), len(self._seen)
        started_over = not self._seen.begins(now)
        if started_over:
            known = 0
            self._uses.clear()
        self._seen = now
        fresh = enumerate(now[known:], known)
        return NewResults(started_over, tuple(called for place, m in fresh for called in self._find_call(place, m)))

    def _find_call(self, place: int, message: Message) -> list[AnsweredCall]:
        found: list[AnsweredCall] = []
        data = message.meta.get(RESULT_DATA, {})
        for number, block in enumerate(message.content):
            if isinstance(block, ToolUseBlock):
                self._uses[block.id] = block
            elif isinstance(block, ToolResultBlock):
                use = self._uses.pop(block.tool_use_id, None)
                if use is not None:
                    is_partial = bool(data.get(use.id, {}).get("partial"))
                    called = AnsweredCall(block_id(message, number), place, use.name, use.input, block, is_partial)
                    found.append(called)
        return found


def same_call(name: str, input: Json) -> str:
    """A key that is equal for equivalent calls, whatever the order of inputs, path spelling and descriptions."""
    asked = {
        key: posixpath.normpath(value) if key in _PATHS and isinstance(value, str) and value else value
        for key, value in input.items()
        if value is not None and key not in _DISPLAY_ONLY
    }
    return f"{name} {json.dumps(asked, sort_keys=True, default=str)}"


def path_of(input: Json) -> str | None:
    """The normalised path of the file in a call's input."""
    for key in ("file_path", "notebook_path"):
        value = input.get(key)
        if isinstance(value, str) and value:
            return posixpath.normpath(value)
    return None
