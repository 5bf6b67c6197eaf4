"""Microcompact: clear old results that can be obtained again, in batches.

Only above a threshold or when the prompt cache is cold, and only in batches that are worth the broken cache. The call
stays in the conversation; a line in place of its result says how to get it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentcli.context.budget import note_of
from agentcli.context.edits import ContextEdit
from agentcli.context.estimate import block_tokens
from agentcli.context.results import AnsweredCall, ResultReader
from agentcli.context.steps import ContextState, StepPlan, newest_exchange
from agentcli.core.messages import ImageBlock, Json, Message, TextBlock, ToolResultBlock
from agentcli.core.text.plaintext import plain_line

ClearableTools = Mapping[str, tuple[str, str]]
"""Tools whose old results may be cleared: the most telling argument, and how to get such a result again. Results of
others (MCP servers, sub-agents, the user) may not be available a second time."""

MIN_BATCH = 10_000
MIN_BATCH_SHARE = 0.1
_MIN_CHARACTERS = 400
"""Shorter results are hardly longer than their replacement line."""
_MAX_SUBJECT = 80


class Microcompact:
    name = "microcompact"

    def __init__(self, clearable: ClearableTools, keep: int = 8, threshold: float = 0.6) -> None:
        """`keep`: number of the newest results of clearable tools that stay, whatever their size."""
        self._clearable = clearable
        self._keep = keep
        self._threshold = threshold
        self._results = ResultReader()
        self._found: list[AnsweredCall] = []
        """All results of clearable tools, oldest first."""
        self._edits: dict[str, tuple[ContextEdit | None, ContextEdit]] = {}
        """The clearing edit of each block, with the edit that was active when it was made."""

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        fresh = self._results.look(shown)
        if fresh.started_over:
            self._found, self._edits = [], {}
        self._found += [called for called in fresh.results if called.name in self._clearable]
        if state.share < self._threshold and not state.cache_cold:
            return None
        newest = newest_exchange(shown)
        old = self._found[: max(0, len(self._found) - self._keep)]
        edits = [
            edit
            for called in old
            if called.place < newest and called.block not in state.pinned and _is_large(called)
            if (edit := self._clear(called, state)) is not None
        ]
        if not edits or sum([edit.freed for edit in edits]) < min(MIN_BATCH, state.usable * MIN_BATCH_SHARE):
            return None
        count = "an old result" if len(edits) == 1 else f"{len(edits):,} old results"
        return StepPlan(edits, f"cleared {count}")

    def _clear(self, called: AnsweredCall, state: ContextState) -> ContextEdit | None:
        """The edit that clears a result; None if it was edited before, unless it was only moved to a file."""
        before = state.edited(called.block)
        if before is not None and (before.kind, before.step) != ("replace", "budget"):
            self._edits.pop(called.block, None)
            return None
        known = self._edits.get(called.block)
        if known is None or known[0] is not before:
            line = cleared_line(called, *self._clearable[called.name])
            old: TextBlock | ToolResultBlock = called.result
            if before is not None:  # The path of the file must stay visible.
                old, line = TextBlock(before.text), f"{line}\n{note_of(before.text)}"
            freed = block_tokens(old) - block_tokens(TextBlock(line))
            edit = ContextEdit(kind="replace", target=called.block, text=line, step=self.name, freed=max(0, freed))
            known = self._edits[called.block] = (before, edit)
        return known[1] if known[1].freed else None


def cleared_line(called: AnsweredCall, subject: str, again: str) -> str:
    """The replacement line of a cleared result, with bounded length."""
    what = f"{called.name} {plain_line(_text(called.input, subject), _MAX_SUBJECT)}".rstrip()
    lines = called.result.text.count("\n") + 1
    size = (
        f"{lines:,} lines" if lines > 1 else f"{called.characters:,} characters" if called.characters else "a picture"
    )
    return f"[Cleared to make room: the old result of {what} ({size}). {again}]"


def _is_large(called: AnsweredCall) -> bool:
    return called.characters >= _MIN_CHARACTERS or any(isinstance(part, ImageBlock) for part in called.result.content)


def _text(input: Json, name: str) -> str:
    value = input.get(name)
    return value if isinstance(value, str) else ""
