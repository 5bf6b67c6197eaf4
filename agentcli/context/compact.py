"""Compaction, the pure part: what the model is asked, and what stands in the log afterwards (SPEC 4).

The request shares the prefix of the conversation and the instruction comes last, so that the prompt cache pays
for the history. Running it is the loop's business (`agent/compaction.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.context.estimate import message_tokens
from agentcli.core.messages import ImageBlock, Message, Origin, TextBlock

KEPT_PROMPT_CHARACTERS = 40_000
_UNANSWERED = (Origin.PROMPT, Origin.QUEUED, Origin.ATTACHMENT, Origin.HOOK)

INSTRUCTION = """\
Stop working for a moment and write a hand-over of this conversation. What you write replaces everything above, \
so whoever goes on has nothing else. Call no tools. Write plain text under these headings, leaving out what does \
not apply:

1. Intent: what the user wants, in full, with every constraint they gave.
2. Decisions: what was settled and why, including what was tried and dropped.
3. Files and code: each file that matters, with its path, what is in it or was changed, and the code that will be \
needed verbatim.
4. Errors and fixes: what went wrong and what solved it.
5. User messages: every message of the user, in order, in their own words.
6. Pending: what was asked for and is not done.
7. State: what was being done at this very moment, with exact names and numbers.
8. Next step: the one thing to do next, if it follows from what the user asked."""

LEAD = "This conversation was shortened. A hand-over of what came before:\n\n"
GO_ON = "\n\nGo on from here without mentioning the hand-over."


def instruction(focus: str) -> str:
    return f"{INSTRUCTION}\n\nGive special room to: {focus}" if focus.strip() else INSTRUCTION


def without_oldest(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """The conversation without its oldest group of exchanges: about a fifth of it, cut at a prompt or, within one
    long task, before a reply. None when there is nothing left to leave out."""
    target = sum(map(message_tokens, messages)) / 5
    dropped = 0
    for index, message in enumerate(messages[:-1]):
        dropped += message_tokens(message)
        following = messages[index + 1]
        cut_here = following.origin in (Origin.PROMPT, Origin.QUEUED) or following.role == "assistant"
        if dropped >= target and cut_here:
            return tuple(messages[index + 1 :])
    return None


def split_pending(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What is to be summarised, and what stays as it is behind it: prompts at the end that nobody has answered yet."""
    end = len(messages)
    while end and messages[end - 1].origin in _UNANSWERED:
        end -= 1
    return tuple(messages[:end]), tuple(messages[end:])


def summary_text(summary: str, messages: Sequence[Message]) -> str:
    """The text that stands for the conversation from now on; the user's last prompt is kept in their own words."""
    prompt = _last_prompt(messages)
    kept = ""
    if prompt is not None and prompt.text.strip():
        text = prompt.text
        if len(text) > KEPT_PROMPT_CHARACTERS:
            text = text[:KEPT_PROMPT_CHARACTERS] + "\n[… the rest was left out]"
        kept = f"\n\nThe user's last message, word for word:\n\n{text}"
    return LEAD + summary.strip() + kept + GO_ON


def _last_prompt(messages: Sequence[Message]) -> Message | None:
    return next((m for m in reversed(messages) if m.origin in (Origin.PROMPT, Origin.QUEUED)), None)


def compacted(
    summary: str, messages: Sequence[Message], ids: tuple[str, str], trigger: str, tokens_before: int
) -> tuple[Message, Message]:
    """The boundary and the summary that follow the old messages in the log. Pictures of the last prompt are kept."""
    text = summary_text(summary, messages)
    prompt = _last_prompt(messages)
    pictures = tuple(block for block in prompt.content if isinstance(block, ImageBlock)) if prompt else ()
    after = Message("user", (TextBlock(text), *pictures), ids[1], Origin.SUMMARY)
    meta = {"trigger": trigger, "tokens_before": tokens_before, "tokens_after": message_tokens(after)}
    return Message("user", (), ids[0], Origin.BOUNDARY, meta=meta), after
