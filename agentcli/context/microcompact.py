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
from agentcli.context.steps import ContextState, StepPlan, StepTotal, newest_exchange
from agentcli.core.append_only import AppendOnly
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
        self._clearable = clearable
        self._keep = keep
        self._threshold = threshold
        self._results = ResultReader()
        self._candidates: list[AnsweredCall] = []
        """All clearable or cleared results, oldest first."""
        self._edits: dict[str, tuple[ContextEdit | None, ContextEdit]] = {}
        """The clearing edit of each block, with the edit that is active now."""
        self._newest: list[AnsweredCall] = []
        """The newest results of clearable tools, which stay whatever their size."""
        self._seen: tuple[int | None, frozenset[str]] | None = None
        """Version of the edits and pins for which `_ready` was computed."""
        self._ready: AppendOnly[ContextEdit] = AppendOnly()
        self._freed = 0
        self._checked = 0
        """Number of candidates that were checked: they are in `_ready` or need no edit."""

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        self._look(shown)
        if state.share < self._threshold and not state.cache_cold:
            return None
        self._clear(state, newest_exchange(shown))
        edits = self._ready
        if self._freed < min(MIN_BATCH, state.usable * MIN_BATCH_SHARE) or not edits:
            return None
        count = "an old result" if len(edits) == 1 else f"{len(edits):,} old results"
        return StepPlan(edits, f"cleared {count}", total=StepTotal(self._freed, edits[0].target))

    def _clear(self, state: ContextState, before: int) -> None:
        """Extend `_ready`. After other edits and pins all candidates are checked again: cleared results may have been
        restored."""
        seen = (state.version, state.pinned)
        if state.version is None or seen != self._seen:
            self._seen = seen
            self._forget_ready()
        while self._checked < len(self._candidates):
            called = self._candidates[self._checked]
            if called.place >= before:
                return
            self._checked += 1
            if not _is_whole(called, state):
                self._edits.pop(called.block, None)
            elif called.block not in state.pinned:
                edit = self._cleared(called, state)
                if edit.freed > 0:
                    self._ready = self._ready.adding(edit)
                    self._freed += edit.freed

    def _forget_ready(self) -> None:
        self._ready = AppendOnly()
        self._freed = self._checked = 0

    def _cleared(self, called: AnsweredCall, state: ContextState) -> ContextEdit:
        known, edit = self._edits.get(called.block), state.edited(called.block)
        if known is None or known[0] is not edit:
            line = cleared_line(called, *self._clearable[called.name])
            known = self._edits[called.block] = (edit, _cleared(called, state, line))
        return known[1]

    def _look(self, shown: Sequence[Message]) -> None:
        fresh = self._results.look(shown)
        if fresh.started_over:
            self._candidates = []
            self._edits = {}
            self._forget_ready()
            self._newest = []
        self._newest += [called for called in fresh.results if called.name in self._clearable]
        outgoing = max(0, len(self._newest) - self._keep)
        self._candidates += [called for called in self._newest[:outgoing] if _is_large(called)]
        self._newest = self._newest[outgoing:]


def cleared_line(called: AnsweredCall, subject: str, again: str) -> str:
    """The replacement line of a cleared result, with bounded length."""
    what = f"{called.name} {plain_line(_text(called.input, subject), _MAX_SUBJECT)}".rstrip()
    lines = called.result.text.count("\n") + 1
    size = (
        f"{lines:,} lines" if lines > 1 else f"{called.characters:,} characters" if called.characters else "a picture"
    )
    return f"[Cleared to make room: the old result of {what} ({size}). {again}]"


def _cleared(called: AnsweredCall, state: ContextState, line: str) -> ContextEdit:
    old: TextBlock | ToolResultBlock = called.result
    edit = state.edited(called.block)
    if edit is not None:  # Moved to a file before: the path must stay visible.
        old = TextBlock(edit.text)
        line = f"{line}\n{note_of(edit.text)}"
    freed = block_tokens(old) - block_tokens(TextBlock(line))
    return ContextEdit(kind="replace", target=called.block, text=line, step=Microcompact.name, freed=max(0, freed))


def _is_whole(called: AnsweredCall, state: ContextState) -> bool:
    edit = state.edited(called.block)
    return edit is None or (edit.kind == "replace" and edit.step == "budget")


def _is_large(called: AnsweredCall) -> bool:
    return called.characters >= _MIN_CHARACTERS or any(isinstance(part, ImageBlock) for part in called.result.content)


def _text(input: Json, name: str) -> str:
    value = input.get(name)
    return value if isinstance(value, str) else ""
