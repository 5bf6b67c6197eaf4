"""Compaction, the pure part: the instruction to the model and the resulting log messages.

The request shares the prefix of the conversation and the instruction comes last, so that the history is read from the
prompt cache. Afterwards the log has, in this order: a boundary, the summary with the user's own messages verbatim,
pinned content, the last exchange unchanged, restored content, and unanswered prompts. The boundary names all of them:
one that was not written completely (a crash) does not count. `agent/context/compaction.py` runs it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from agentcli.context.edits import NUMBERS, WRITTEN, ContextEdit, block_id, block_number, edit_to_dict
from agentcli.context.estimate import block_tokens, message_tokens
from agentcli.context.steps import ContextLimits
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.frozen import frozen
from agentcli.core.messages import (
    COPY_OF,
    SUMMARY,
    Block,
    ImageBlock,
    Json,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentcli.core.text.format import token_count

PROMPT_TOKENS = 20_000
LAST_WORDS_TOKENS = 4_000
"""Tokens of the user's last messages that are always kept; only the middle of longer text is cut."""
EXCHANGE_TOKENS = 10_000
SHARE_OF_WINDOW = 0.4
SHARE_OF_FREED = 0.5
"""Content kept besides the summary takes at most this share of the window, and of what the summary frees: a compaction
that keeps nearly everything would be due again at once."""

Share = tuple[str, int]
"""A part of the context in the preview of a compaction: description and estimated tokens."""

RESTORED = "restored"
"""Meta key: content that compaction restored from outside the conversation."""
PINNED = "pinned"
"""Meta key: block numbers with the names under which the user pinned them."""

_COPIED = "copied"
"""Meta key of a copy without some blocks of the original: the original numbers of the others."""

_QUESTION_TOOLS = ("AskUserQuestion",)
"""Tools whose results are the user's own answers."""

_UNANSWERED = (Origin.PROMPT, Origin.QUEUED, Origin.ATTACHMENT, Origin.HOOK)
_PROMPTS = (Origin.PROMPT, Origin.QUEUED)
_MAY_BE_WRITTEN = (*_PROMPTS, Origin.TOOL_RESULTS)
_MIN_CUT = 100
_MIN_SHED = 2_000
"""Tokens; cutting shorter texts would not make a request fit."""

INSTRUCTION = """\
Stop working for a moment and write a hand-over of this conversation. What you write replaces everything above, \
so whoever goes on has nothing else. Call no tools, and answer nothing that was asked above: only write the hand-over. \
Write plain text under these headings, leaving out what does not apply:

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
AS_IT_WAS = "\n\nThe last messages before it follow as they were."
_WORD_FOR_WORD = "The user's messages, word for word, the oldest first:"
LEFT_OUT = "[… {count:,} characters were left out here]"


def instruction(focus: str) -> str:
    return f"{INSTRUCTION}\n\nGive special room to: {focus}" if focus.strip() else INSTRUCTION


# ---------------------------------------------------------------------------------------------- content to summarise


def without_oldest(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """The conversation without its oldest fifth, cut at a prompt or, within one long task, before a reply. None if
    nothing more can be left out."""
    target = sum(map(message_tokens, messages)) / 5
    dropped = 0
    for index, message in enumerate(messages[:-1]):
        dropped += message_tokens(message)
        if dropped >= target and _begins(messages, index + 1):
            return tuple(messages[index + 1 :])
    return None


def with_longest_cut(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """The conversation with its longest texts cut to half the length of the longest, for when no exchange can be left
    out, because a single prompt may be too long. None if all are short."""
    longest = max((_tokens(text) for message in messages for text in _texts(message)), default=0)
    if longest < _MIN_SHED:
        return None

    def cut(block: Block) -> Block:
        if isinstance(block, ToolResultBlock):
            return replace(block, content=tuple(shorter(p) if isinstance(p, TextBlock) else p for p in block.content))
        return shorter(block) if isinstance(block, TextBlock) else block

    def shorter(block: TextBlock) -> TextBlock:
        text = cut_middle(block.text, longest // 2)
        return block if text == block.text else TextBlock(text)

    return tuple(replace(message, content=tuple(map(cut, message.content))) for message in messages)


def _texts(message: Message) -> Iterator[str]:
    for block in message.content:
        for part in block.content if isinstance(block, ToolResultBlock) else (block,):
            if isinstance(part, TextBlock):
                yield part.text


def _begins(messages: Sequence[Message], index: int) -> bool:
    """Whether the conversation can be cut here. Consecutive replies belong together: a call may have its result after
    the next one."""
    message = messages[index]
    if message.role == "assistant":
        return index == 0 or messages[index - 1].role != "assistant"
    return message.origin in _PROMPTS


def split_pending(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Split into messages to summarise and unanswered prompts at the end, which stay unchanged."""
    end = len(messages)
    while end and messages[end - 1].origin in _UNANSWERED and not is_restored(messages[end - 1]):
        end -= 1
    return tuple(messages[:end]), tuple(messages[end:])


# ---------------------------------------------------------------------------------------------------- kept content


def is_restored(message: Message) -> bool:
    return RESTORED in message.meta


def original_id(message: Message) -> str:
    """The id of the message that this one copies; its own id if it is not a copy."""
    return str(message.meta.get(COPY_OF) or message.id)


def copy_message(message: Message, id: str) -> Message:
    """A copy of a message for after the boundary, without its usage, which counted the old context."""
    meta = {name: value for name, value in message.meta.items() if name not in (NUMBERS, _COPIED)}
    numbers = [_number_in_original(message, place) for place in range(len(message.content))]
    if numbers != list(range(len(numbers))):
        meta[_COPIED] = numbers
    carried = message.meta.get(PINNED)
    if isinstance(carried, dict):
        own = ((place, carried.get(str(block_number(message, place)))) for place in range(len(message.content)))
        meta[PINNED] = {str(place): name for place, name in own if name is not None}
    return replace(message, id=id, usage=None, meta={**meta, COPY_OF: original_id(message)})


def _number_in_original(message: Message, place: int) -> int:
    number = block_number(message, place)
    copied = message.meta.get(_COPIED)
    return int(copied[number]) if isinstance(copied, list) and number < len(copied) else number


def last_exchange(
    messages: Sequence[Message],
    budget: int,
    *,
    open_end: bool = False,
    size: Callable[[Message], int] = message_tokens,
) -> tuple[Message, ...]:
    """The end of the conversation, unchanged: from the last prompt on if that fits, else as many of the last replies
    with their results as fit. `open_end`: it may end with a reply, because a user message follows. `size`: a message's
    share of the budget."""
    start = None
    tokens = 0
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.origin is Origin.SUMMARY or is_restored(message):
            break
        tokens += size(message)
        if tokens > budget:
            break
        if _begins(messages, index):
            start = index
        if message.origin is Origin.PROMPT:
            break
    if start is None:
        return ()
    kept = tuple(message for message in messages[start:] if message.content and not message.origin.local)
    return kept if kept and (open_end or kept[-1].role == "user") else ()


def user_messages(
    log: Iterable[Message], shown: Callable[[Message], str], without: frozenset[str] = frozenset()
) -> tuple[list[str], int]:
    """Every message and answer that the user has written, oldest first, including those that earlier compactions
    removed from the context; and how many at the end are their last words: the current task, and everything since.
    `shown` gives the text that may be shown of a message, "" for none; `without`: ids of messages that are kept
    anyway."""
    written = [message for message in log if is_written(message) and shown(message).strip()]
    task = next((place for place in range(len(written) - 1, -1, -1) if written[place].origin is Origin.PROMPT), 0)
    last = sum(message.id not in without for message in written[task:])
    return [shown(message) for message in written if message.id not in without], last


def is_written(message: Message) -> bool:
    """Whether a message may contain words of the user and is not a copy."""
    return message.origin in _MAY_BE_WRITTEN and not message.is_copy


def question_ids(messages: Iterable[Message]) -> frozenset[str]:
    """The ids of the calls that asked the user a question."""
    return frozenset(use.id for message in messages for use in message.tool_uses if use.name in _QUESTION_TOOLS)


def is_answer(block: Block, questions: AbstractSet[str]) -> bool:
    """Whether a block holds the user's answers to questions."""
    return isinstance(block, ToolResultBlock) and block.tool_use_id in questions and not block.is_error


def answers_in(message: Message, questions: AbstractSet[str]) -> str:
    """The user's answers in a message of results, as the model got them."""
    return "\n".join(result.text for result in message.tool_results if is_answer(result, questions))


def word_for_word(texts: Sequence[str], budget: int, last: int = 0, least: int = 0) -> str:
    """The user's messages as one text of about `budget` tokens: the newest take precedence, a message that is too long
    keeps its beginning and end, the oldest are dropped with a note. `last`: this many at the end are included whatever
    the budget is, with `least` tokens for all of them if that is more."""
    sizes = [_tokens(text) for text in texts]
    each = budget if sum(sizes) <= budget or len(texts) == 1 else max(budget // 2, 1)
    left = budget
    kept: list[str] = []
    for text in reversed(texts):
        limit = min(each, left)
        if len(kept) < last:
            limit = max(limit, least // (last - len(kept)), _MIN_CUT)
        if _tokens(text) > limit and limit < _MIN_CUT:
            break
        shown = cut_middle(text, limit)
        kept.append(f"<user_message>\n{shown.strip()}\n</user_message>")
        used = min(_tokens(text), limit)
        left, least = max(0, left - used), max(0, least - used)
    if not kept:
        return ""
    missing = len(texts) - len(kept)
    note = f"\n({missing} earlier {'one is' if missing == 1 else 'ones are'} left out here.)" if missing else ""
    return _WORD_FOR_WORD + note + "\n" + "\n".join(reversed(kept))


def cut_middle(text: str, tokens: int) -> str:
    """The beginning and end of a text, cut to about `tokens`, with a note of what is missing."""
    size = _tokens(text)
    if size <= tokens:
        return text
    kept = int(len(text) * max(tokens, 0) / size)
    head, tail = kept - kept // 3, kept // 3
    note = LEFT_OUT.format(count=len(text) - head - tail)
    return f"{text[:head]}\n{note}\n{text[len(text) - tail :]}"


def _tokens(text: str) -> int:
    return block_tokens(TextBlock(text))


# ---------------------------------------------------------------------------------------------------------- pinned


def pin_name(message: Message, place: int) -> str:
    """The name under which a block is pinned; its copies after compactions keep it."""
    carried = message.meta.get(PINNED)
    name = carried.get(str(block_number(message, place))) if isinstance(carried, dict) else None
    return str(name) if name is not None else f"{original_id(message)}:{_number_in_original(message, place)}"


def find_pinned(messages: Iterable[Message], pinned: AbstractSet[str]) -> frozenset[str]:
    """Pinned blocks of these messages by their current ids: compaction copies pinned content to other messages."""
    if not pinned:
        return frozenset()
    return frozenset(block_id(message, number) for message, number, _name in _pins(messages, pinned))


def collect_pinned(messages: Sequence[Message], pinned: AbstractSet[str]) -> tuple[tuple[Block, ...], Json]:
    """Pinned content of these messages as blocks of a user message, and the meta with their pin names."""
    if not pinned:
        return (), {}
    calls = {use.id: use for message in messages for use in message.tool_uses}
    blocks: list[Block] = []
    names: Json = {}
    for message, number, name in _pins(messages, pinned):
        block = message.content[number]
        for part in [block] if PINNED in message.meta else _keep_block(block, calls):
            names[str(len(blocks))] = name
            blocks.append(part)
    return tuple(blocks), {RESTORED: [PINNED], PINNED: names} if blocks else {}


def _pins(messages: Iterable[Message], pinned: AbstractSet[str]) -> Iterable[tuple[Message, int, str]]:
    for message in messages:
        for place in range(len(message.content)):
            own, name = block_id(message, place), pin_name(message, place)
            if name in pinned or own in pinned:
                yield message, place, name if name in pinned else own


def _keep_block(block: Block, calls: dict[str, ToolUseBlock]) -> list[Block]:
    match block:
        case TextBlock():
            return [TextBlock(f"Kept from before, at the user's wish:\n{block.text}")]
        case ImageBlock():
            return [block]
        case ToolUseBlock():
            given = json.dumps(block.input, ensure_ascii=False)
            return [TextBlock(f"Kept from before, at the user's wish: a call of {block.name} with {given}")]
        case ToolResultBlock():
            call = calls.get(block.tool_use_id)
            what = "a call"
            if call is not None:
                what = f"{call.name} with {json.dumps(call.input, ensure_ascii=False)}"
            pictures = [part for part in block.content if isinstance(part, ImageBlock)]
            return [TextBlock(f"Kept from before, at the user's wish: the result of {what}:\n{block.text}"), *pictures]
    return []


# ------------------------------------------------------------------------------------------------- log messages


@frozen(kw_only=True)
class CompactionParts:
    """The results of a compaction, before messages get ids; the module docstring describes their order."""

    summary: str
    prompts: str = ""
    pictures: tuple[ImageBlock, ...] = ()
    pinned: tuple[Block, ...] = ()
    pinned_meta: Json
    exchange: tuple[Message, ...] = ()
    restored: tuple[Block, ...] = ()
    restored_meta: Json
    pending: tuple[Message, ...] = ()


def summary_text(summary: str, prompts: str = "", *, follows: bool = False) -> str:
    """The text that replaces the conversation, with the user's messages verbatim."""
    kept = f"\n\n{prompts}" if prompts else ""
    return LEAD + summary.strip() + kept + (AS_IT_WAS if follows else "") + GO_ON


def build_compacted(pieces: CompactionParts, new_id: Callable[[], str]) -> tuple[Message, ...]:
    """The messages that follow the boundary."""
    text = summary_text(pieces.summary, pieces.prompts, follows=bool(pieces.exchange))
    meta = {SUMMARY: pieces.summary.strip()}
    messages = [Message("user", (TextBlock(text), *pieces.pictures), new_id(), Origin.SUMMARY, meta=meta)]
    if pieces.pinned:
        messages.append(Message("user", pieces.pinned, new_id(), Origin.ATTACHMENT, meta=pieces.pinned_meta))
    messages += [copy_message(message, new_id()) for message in pieces.exchange]
    if pieces.restored:
        messages.append(Message("user", pieces.restored, new_id(), Origin.ATTACHMENT, meta=pieces.restored_meta))
    # Unanswered prompts are copied verbatim with their pictures.
    messages += [copy_message(message, new_id()) for message in pieces.pending]
    return tuple(messages)


def boundary(id: str, trigger: str, tokens: tuple[int, int], messages: Sequence[Message]) -> Message:
    """The boundary message before the compacted ones; `tokens` before and after."""
    meta = {
        "trigger": trigger,
        "tokens_before": tokens[0],
        "tokens_after": tokens[1],
        WRITTEN: [message.id for message in messages],
    }
    return Message("user", (), id, Origin.BOUNDARY, meta=meta)


NOTHING = "There is no compaction to undo in this conversation."
UNREADABLE = "Cannot undo the compaction: the session file cannot be read any more."


async def undo_compaction(
    view: ContextView, log: Sequence[Message], limits: ContextLimits
) -> AsyncGenerator[ev.Event, None]:
    """For `Engine.perform`: undo the last active compaction. The events, and one notice for the user."""
    boundary = view.edits.boundary(log)
    if boundary is None:
        yield ev.NoticeRaised(text=NOTHING, level="error", code="command")
        return
    begin = next(place for place, message in enumerate(log) if message.id == boundary.id)
    written = boundary.meta.get(WRITTEN, ())
    end = begin + len(written)
    before = (*log[:begin], *log[end + 1 :])
    now = view.estimate(log, limits.overhead)
    if any(message.usage is not None and message.usage.prompt_tokens for message in log[end + 1 :]):
        # The last measured usage is that of the short conversation: only the difference can be estimated.
        more = sum(map(message_tokens, view.messages(before))) - sum(map(message_tokens, view.messages(log)))
        then = now + more
    else:
        then = view.estimate(before, limits.overhead)
    if then > limits.usable:
        text = f"Cannot undo the compaction: the context would have {then:,} tokens, and only {limits.usable:,} fit. "
        yield ev.NoticeRaised(text=f"{text}The conversation is unchanged.", level="error", code="command")
        return
    through = written[-1] if written else boundary.id
    edit = ContextEdit(kind="undo_compaction", target=boundary.id, through=through, step="compact", freed=now - then)
    view.edit([edit], log[-1].id)
    # The cache watch reports the cost with this text after the next response.
    reason = "a compaction was undone"
    yield ev.ContextEdited(edits=[edit_to_dict(edit)], step="compact", freed_tokens=edit.freed, text=reason)
    text = (
        f"The compaction is undone: about {token_count(then - now)} tokens are back, "
        f"the context has about {token_count(then)} now."
    )
    threshold = int(limits.usable * limits.auto_threshold)
    if limits.auto_compact and then >= threshold:
        text += (
            f" Auto-compaction starts at {token_count(threshold)}, so the next prompt compacts it again. "
            "To prevent that, turn off the setting autoCompact."
        )
    yield ev.NoticeRaised(text=text, code="command")
