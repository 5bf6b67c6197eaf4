"""Plan a compaction: which messages it would leave in the log, within which budgets. Changes nothing.

The summary and pinned blocks get what they need. Other kept content gets at most half of what they free and at most two
fifths of the window: the last exchange, then the user's own words, then restored content. The user's last words are
kept whatever is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, partial
from typing import TYPE_CHECKING

from agentcli.agent.attachments.mentions import list_attached_paths
from agentcli.agent.attachments.skills import list_used_skills
from agentcli.agent.context.compaction_restore import (
    canonical_path,
    paths_read,
    recent_files,
)
from agentcli.context import compact as words
from agentcli.context.edits import block_id
from agentcli.context.estimate import block_tokens
from agentcli.context.view import PROMPT_REPAIRS, ContextView
from agentcli.core.aio import AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.messages import ImageBlock, Message, Origin, TextBlock, ToolResultBlock
from agentcli.core.text.format import counted

if TYPE_CHECKING:
    from agentcli.agent.session import Session

_PROMPT_ORIGINS = (Origin.PROMPT, Origin.QUEUED)


@frozen
class CompactionDraft:
    messages: tuple[Message, ...]
    """The messages that would follow the boundary."""
    old_tokens: int
    """Tokens that the summary replaces."""
    pending_tokens: int
    """Tokens that are sent again as they are."""
    has_pins: bool
    kept: list[words.Share]
    gone: list[words.Share]
    """Replaced by the summary."""
    added: list[words.Share]


async def draft_compaction(
    session: Session, log: Sequence[Message], summary: str, signal: AbortSignal, *, manual: bool
) -> CompactionDraft:
    """Draft a compaction. `manual`: the user speaks next. Raises `Aborted`."""
    tokens = session.view.estimator.message
    old, pending = words.split_pending(in_log(session.view, log))
    old_tokens = sum(map(tokens, old))
    pins = words.find_pinned(old, session.pins)
    size = _beside(pins, tokens)
    window = session.context_limits.window
    budget = _budget(window, old_tokens, old_tokens - sum(map(size, old)), summary)
    may_end_with_reply = manual or bool(pending)
    most = min(words.EXCHANGE_TOKENS, budget // 2)
    exchange = words.last_exchange(old, most, open_end=may_end_with_reply, size=size)
    as_it_was = {message.id for message in exchange}
    summarised = [message for message in old if message.id not in as_it_was]
    budget -= sum(map(size, exchange))
    pinned, pinned_meta = words.collect_pinned(summarised, session.pins)

    kept_anyway = frozenset(words.original_id(message) for message in (*exchange, *pending))
    questions = words.question_ids(log)
    said_in = _find_own_words(session.view, log, questions)
    written = [message for message in log if words.is_written(message) and said_in(message).strip()]
    said, last = words.user_messages(written, said_in, kept_anyway)
    least = int(min(words.LAST_WORDS_TOKENS, words.SHARE_OF_WINDOW * window))
    prompts = words.word_for_word(said, max(0, min(words.PROMPT_TOKENS, budget)), last, least)
    said_tokens = block_tokens(TextBlock(prompts)) if prompts else 0
    budget -= said_tokens

    shown = bool(_prompts((*exchange, *pending)))
    pictures = () if shown else _pictures(summarised, max(budget, least - said_tokens))
    budget -= sum(map(block_tokens, pictures))
    files = _files(old, (*exchange, *pending), cache(partial(canonical_path, session)))
    shown_messages = list_used_skills((*exchange, *pending))
    skills = [name for name in list_used_skills(old) if name not in shown_messages]
    back = await session.restore(log, files, max(0, budget), signal, skills)
    pieces = words.CompactionParts(
        summary=summary,
        prompts=prompts,
        pictures=pictures,
        pinned=pinned,
        pinned_meta=pinned_meta,
        exchange=exchange,
        restored=back.blocks,
        restored_meta=back.meta,
        pending=pending,
    )
    kept = _list_kept(pieces, tokens)
    gone = _gone(summarised, prompts, said_in, size)
    added = [("the summary", block_tokens(TextBlock(words.summary_text(summary)))), *back.shares]
    messages = words.build_compacted(pieces, session.ids.new)
    return CompactionDraft(messages, old_tokens, sum(map(tokens, pending)), bool(pins), kept, gone, added)


def _list_kept(pieces: words.CompactionParts, tokens: Callable[[Message], int]) -> list[words.Share]:
    """What stays, for the preview."""
    exchange, pending = (sum(map(tokens, messages)) for messages in (pieces.exchange, pieces.pending))
    said = counted(pieces.prompts.count("<user_message>\n"), "message")
    shares = (
        (f"{said} of yours, word for word", block_tokens(TextBlock(pieces.prompts))),
        (counted(len(pieces.pictures), "picture"), sum(map(block_tokens, pieces.pictures))),
        (f"{counted(len(pieces.pinned), 'pinned item')}, word for word", sum(map(block_tokens, pieces.pinned))),
        (f"the last {counted(len(pieces.exchange), 'message')} as they were", exchange),
        ("what has not been answered yet", pending),
    )
    there = (pieces.prompts, pieces.pictures, pieces.pinned, pieces.exchange, pieces.pending)
    return [share for share, part in zip(shares, there, strict=True) if part]


_KINDS = {
    Origin.REPLY: ("model reply", "model replies"),
    Origin.TOOL_RESULTS: ("result", "results"),
    Origin.PROMPT: ("prompt", "prompts"),
    Origin.QUEUED: ("prompt", "prompts"),
    Origin.SUMMARY: ("earlier summary", "earlier summaries"),
}
_NOTE = ("note to the model", "notes to the model")


def _gone(
    summarised: Sequence[Message], prompts: str, said: Callable[[Message], str], size: Callable[[Message], int]
) -> list[words.Share]:
    """What the summary replaces, for the preview: without prompts that are kept word for word."""
    counts: Counter[tuple[str, str]] = Counter()
    tokens: Counter[tuple[str, str]] = Counter()
    for message in summarised:
        is_kept = message.origin in _PROMPT_ORIGINS and f"<user_message>\n{said(message).strip()}\n" in prompts
        if not message.origin.local and not is_kept:
            kind = _KINDS.get(message.origin, _NOTE)
            counts[kind] += len(message.tool_results) or 1
            tokens[kind] += size(message)
    return [(counted(counts[kind], *kind), tokens[kind]) for kind in counts]


def _files(old: Sequence[Message], shown: Sequence[Message], canonical: Callable[[str], str]) -> list[str]:
    """Files to restore, the last used first: none that the kept messages show."""
    seen = {canonical(path) for path in (*paths_read(shown), *list_attached_paths(shown))}
    return [path for path in recent_files(old, canonical) if canonical(path) not in seen]


def in_log(view: ContextView, log: Sequence[Message]) -> list[Message]:
    """The log as the next request shows it, without the messages that the view puts in front of every request."""
    known = {message.id for message in log}
    return [m for m in view.messages(log) if m.id in known or m.origin is Origin.SUMMARY]


def _find_own_words(view: ContextView, log: Sequence[Message], questions: AbstractSet[str]) -> Callable[[Message], str]:
    """Return a function that gives the user's own words in a message, without anything that the user or a refusal has
    removed, be it from the prompt itself or from a copy made by an earlier compaction. Of tool results it gives the
    user's answers to questions."""
    versions: dict[str, list[Message]] = {}
    for message in log:
        if message.origin in _PROMPT_ORIGINS or (questions and words.answers_in(message, questions)):
            versions.setdefault(words.original_id(message), []).append(message)

    def said(message: Message) -> str:
        copies = versions.get(message.id, ())
        if copies and any(view.has_repair(kind, copy.id) for copy in copies for kind in PROMPT_REPAIRS):
            return ""
        texts: list[str] = []
        for number, block in enumerate(message.content):
            if isinstance(block, ToolResultBlock) and block.tool_use_id not in questions:
                continue
            edits = [edit for copy in copies if (edit := view.edits.edited(block_id(copy, number))) is not None]
            if any(edit.kind != "replace" for edit in edits):
                continue
            if isinstance(block, TextBlock):
                texts.append(edits[-1].text if edits else block.text)
            elif isinstance(block, ToolResultBlock) and words.is_answer(block, questions):
                texts.append(block.text)
        return "\n".join(texts)

    return said


def _budget(window: int, old_tokens: int, pinned_tokens: int, summary: str) -> int:
    freed = old_tokens - pinned_tokens - block_tokens(TextBlock(words.summary_text(summary)))
    return max(0, int(min(words.SHARE_OF_WINDOW * window - pinned_tokens, words.SHARE_OF_FREED * freed)))


def _beside(pins: AbstractSet[str], tokens: Callable[[Message], int]) -> Callable[[Message], int]:
    """A function for the size of a message without its pinned blocks, which are kept in any case."""
    if not pins:
        return tokens

    def size(message: Message) -> int:
        named = ((block_id(message, place), block) for place, block in enumerate(message.content))
        return tokens(message) - sum(block_tokens(block) for name, block in named if name in pins)

    return size


def _prompts(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message.origin in _PROMPT_ORIGINS]


def _pictures(summarised: Sequence[Message], budget: int) -> tuple[ImageBlock, ...]:
    """Pictures of the last prompt, if there is room for them; an earlier compaction has moved them to its summary."""
    last = _prompts(summarised)[-1:] or [message for message in summarised if message.origin is Origin.SUMMARY][-1:]
    found = tuple(block for message in last for block in message.content if isinstance(block, ImageBlock))
    return found if sum(map(block_tokens, found)) <= budget else ()
