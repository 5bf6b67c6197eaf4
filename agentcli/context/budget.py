"""The tool-result budget: move results that are too large for the conversation to files.

Decided once, when a result is new, so that nothing already sent changes. The request shows the beginning, the size and
the file, so that the model can read the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from agentcli.context.edits import ContextEdit, block_id
from agentcli.context.estimate import block_tokens
from agentcli.context.steps import ContextState, StepPlan
from agentcli.core.frozen import frozen
from agentcli.core.messages import Message, TextBlock, ToolResultBlock
from agentcli.core.text.lazy_pattern import lazy_pattern

Save = Callable[[str, str], str | None]
"""(file name, text) -> path of the saved file, None if it could not be saved. Saving twice is allowed."""

HEAD = 2_000
TAIL_OF_ERROR = 1_000
"""Characters: error messages are mostly at the end of an output."""
HEAD_WITHOUT_FILE = 15_000
TAIL_WITHOUT_FILE = 5_000
_STAND_IN = HEAD + 500
"""Approximate characters of a replacement; results that are not much larger stay."""
_PLAIN_NAME = lazy_pattern(r"[A-Za-z0-9_-]{1,80}")


@frozen
class _Candidate:
    block: str
    result: ToolResultBlock
    characters: int
    """Size as shown in the request."""
    order: int
    free: bool
    """Whether no edit exists for it yet."""


class ToolResultBudget:
    name = "budget"

    def __init__(self, save: Save, limit: int = 50_000, per_message: int = 200_000) -> None:
        self._save = save
        self._limit = limit
        self._per_message = per_message

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        new = _list_unanswered(shown, state)
        over = [candidate for candidate in new if candidate.free and candidate.characters > self._limit]
        edits = {candidate.order: self._move(candidate) for candidate in over}
        total = sum(
            len(edits[candidate.order].text) if candidate.order in edits else candidate.characters for candidate in new
        )
        rest = [c for c in new if c.free and c.order not in edits and c.characters > 2 * _STAND_IN]
        # The largest first; results with pictures come last, because the pictures are lost.
        for candidate in sorted(rest, key=lambda c: (not _is_only_text(c.result), -c.characters, c.order)):
            if total <= self._per_message:
                break
            edit = self._move(candidate)
            if len(edit.text) < candidate.characters:
                edits[candidate.order] = edit
                total -= candidate.characters - len(edit.text)
        if not edits:
            return None
        count = "a large result" if len(edits) == 1 else f"{len(edits)} large results"
        in_order = tuple(edits[order] for order in sorted(edits))
        return StepPlan(in_order, f"moved {count} out of the conversation", must=True)

    def _move(self, candidate: _Candidate) -> ContextEdit:
        result = candidate.result
        path = self._save(file_name(result), result.text)
        text = stand_in(result, path)
        freed = block_tokens(result) - block_tokens(ToolResultBlock(result.tool_use_id, (TextBlock(text),)))
        return ContextEdit(kind="replace", target=candidate.block, text=text, step=self.name, freed=max(0, freed))


def _list_unanswered(shown: Sequence[Message], state: ContextState) -> list[_Candidate]:
    """The results since the last reply, which form one message of the request."""
    begin = len(shown)
    while begin and shown[begin - 1].role != "assistant":
        begin -= 1
    found: list[_Candidate] = []
    for message in shown[begin:]:
        for number, block in enumerate(message.content):
            if not isinstance(block, ToolResultBlock):
                continue
            id = block_id(message, number)
            edit = state.edited(id)
            size = _characters(block) if edit is None else len(edit.text)
            found.append(_Candidate(id, block, size, len(found), state.is_free(id)))
    return found


def stand_in(result: ToolResultBlock, path: str | None) -> str:
    """The text shown for a result that was moved to a file, or cut if it could not be saved."""
    text = result.text
    head_size, tail_size = (HEAD, 0) if path is not None else (HEAD_WITHOUT_FILE, TAIL_WITHOUT_FILE)
    if path is not None and result.is_error:
        head_size, tail_size = HEAD - TAIL_OF_ERROR, TAIL_OF_ERROR
    head = _whole_lines(text[:head_size])
    tail = text[len(text) - tail_size :] if tail_size else ""
    size = f"{len(text):,} characters, {text.count(chr(10)) + 1:,} lines"
    lost = "" if _is_only_text(result) else " What it held beside text is left out."
    if path is not None:
        note = f"[The whole result ({size}) is in {path}: Read it with offset and limit, or search it with Grep.{lost}]"
    else:
        note = f"[The whole result had {size} and could not be kept: ask for less at once.{lost}]"
    if not tail:
        return f"{head}\n\n[… {len(text) - len(head):,} characters are not shown]\n{note}"
    return f"{head}\n\n[… {len(text) - len(head) - len(tail):,} characters are not shown]\n\n{tail}\n\n{note}"


def note_of(text: str) -> str:
    """The line of a `stand_in` text that names the file."""
    return text[text.rfind("\n") + 1 :]


def file_name(result: ToolResultBlock) -> str:
    """File name for a result. Ids are untrusted: one that is not a simple name is hashed."""
    id = result.tool_use_id
    plain = id if _PLAIN_NAME.fullmatch(id) else hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{plain}.txt"


def _whole_lines(head: str) -> str:
    """Cut at a line end, unless that drops too much."""
    end = head.rfind("\n")
    return head[:end] if end > len(head) * 3 // 4 else head


def _characters(result: ToolResultBlock) -> int:
    return sum(len(part.text) for part in result.content if isinstance(part, TextBlock))


def _is_only_text(result: ToolResultBlock) -> bool:
    return all(isinstance(part, TextBlock) for part in result.content)
