"""Preview of a compaction: what it keeps, summarises and adds, in tokens that sum up exactly. For display only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from agentcli.context import compact as words
from agentcli.context.edits import block_id
from agentcli.context.estimate import block_tokens, split_tokens
from agentcli.core.aio import paced
from agentcli.core.frozen import frozen
from agentcli.core.messages import ImageBlock, Message, Origin, TextBlock, ToolResultBlock

REST = "the system prompt, the tools and instructions"
_SAID = "<user_message>\n"
_KINDS = {
    Origin.REPLY: "model reply",
    Origin.TOOL_RESULTS: "result",
    Origin.PROMPT: "prompt",
    Origin.QUEUED: "prompt",
    Origin.SUMMARY: "earlier summary",
}
_NOTE = "note to the model"
_PLURALS = {
    "model reply": "model replies",
    "note to the model": "notes to the model",
    "earlier summary": "earlier summaries",
}


@frozen
class Share:
    """A part of the context: description and size in estimated tokens."""

    what: str
    tokens: int


@frozen
class RequestTokens:
    """Tokens of a request before and after, and of the fixed part that is not messages."""

    before: int
    after: int
    fixed: int


@frozen
class Shares:
    kept: tuple[Share, ...]
    gone: tuple[Share, ...]
    """Replaced by the summary."""
    added: tuple[Share, ...]

    def lines(self, totals: RequestTokens, density: float) -> tuple[list[str], list[str], list[str]]:
        """Kept, gone and added, one line per share, with exact sums of `totals`. `density`: true tokens per estimated
        token."""
        kept = [Share(share.what, round(share.tokens * density)) for share in self.kept]
        kept = [Share(REST, totals.fixed), *kept] if totals.fixed > 0 else kept
        least = min(totals.before, totals.after)
        gone = [share.tokens for share in self.gone]
        # Where the server counts fewer tokens than estimated, scale all shares down alike.
        estimated = sum(share.tokens for share in kept) + round(sum(gone) * density)
        if estimated > totals.before or sum(share.tokens for share in kept) > least:
            most = min(least, totals.before * sum(share.tokens for share in kept) // max(1, estimated))
            sizes = split_tokens(most, [share.tokens for share in kept])
            kept = _resize(kept, sizes)
        stays = sum(share.tokens for share in kept)
        added = [share.tokens for share in self.added]
        return (
            _lines(kept),
            _lines(_resize(self.gone, split_tokens(totals.before - stays, gone))),
            _lines(_resize(self.added, split_tokens(totals.after - stays, added))),
        )


def _resize(shares: Sequence[Share], sizes: Sequence[int]) -> list[Share]:
    return [Share(share.what, size) for share, size in zip(shares, sizes, strict=True)]


def _lines(shares: Sequence[Share]) -> list[str]:
    return [f"{share.what} (about {share.tokens:,} tokens)" for share in shares]


@frozen(kw_only=True)
class Material:
    """Decisions of a compaction that the shares depend on."""

    summarised: Sequence[Message]
    pieces: words.CompactionParts
    pins: AbstractSet[str]
    questions: AbstractSet[str]
    said: Callable[[Message], str]
    """The user's own words in a message."""
    restored: Sequence[Share]
    tokens: Callable[[Message], int]
    """The size of a message."""


async def shares_of(material: Material) -> Shares:
    pieces = material.pieces
    kept: Counter[str] = Counter()
    gone: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    async for message in paced(material.summarised):
        if message.origin.local:
            continue
        left = material.tokens(message)
        if stays := _list_staying(message, material):
            left -= sum(stays.values())
            kept.update(stays)
            if not _has_more(message, material):
                kept[next(iter(stays))] += left
                continue
        kind = _KINDS.get(message.origin, _NOTE)
        gone[kind] += left
        counts[kind] += len(message.tool_results) or 1
    _move_earlier_words(kept, gone, pieces)
    found = []
    if count := pieces.prompts.count(_SAID):
        found.append(Share(f"{_count(count, 'message')} of yours, word for word", kept["words"]))
    if pieces.pictures:
        found.append(Share(_count(len(pieces.pictures), "picture"), kept["pictures"]))
    if pieces.pinned:
        found.append(Share(f"{_count(len(pieces.pinned), 'pinned item')}, word for word", kept["pinned"]))
    if pieces.exchange:
        size = sum(map(material.tokens, pieces.exchange))
        found.append(Share(f"the last {_count(len(pieces.exchange), 'message')} as they were", size))
    if pieces.pending:
        found.append(Share("what has not been answered yet", sum(map(material.tokens, pieces.pending))))
    summary = Share("the summary", block_tokens(TextBlock(words.summary_text(pieces.summary))))
    goes = tuple(Share(_count(counts[kind], kind), gone[kind]) for kind in counts)
    return Shares(tuple(found), goes, (summary, *material.restored))


def _list_staying(message: Message, material: Material) -> Mapping[str, int]:
    """Tokens of the kept blocks of a message, by the way they are kept."""
    own = material.said(message).strip()
    if not own and not material.pins and not material.pieces.pictures:
        return {}
    found: Counter[str] = Counter()
    whole = bool(own) and f"{_SAID}{own}\n" in material.pieces.prompts
    for place, block in enumerate(message.content):
        if block_id(message, place) in material.pins:
            found["pinned"] += block_tokens(block)
        elif isinstance(block, ImageBlock) and block in material.pieces.pictures:
            found["pictures"] += block_tokens(block)
        elif whole and (isinstance(block, TextBlock) or words.is_answer(block, material.questions)):
            found["words"] += block_tokens(block)
    return found


def _has_more(message: Message, material: Material) -> bool:
    """Whether some part of a message is summarised although other parts of it are kept."""
    if any(isinstance(block, ToolResultBlock) for block in message.content):
        return not all(
            words.is_answer(block, material.questions) or block_id(message, place) in material.pins
            for place, block in enumerate(message.content)
        )
    return message.origin not in (Origin.PROMPT, Origin.QUEUED) or any(
        isinstance(block, ImageBlock) and block not in material.pieces.pictures for block in message.content
    )


def _move_earlier_words(kept: Counter[str], gone: Counter[str], pieces: words.CompactionParts) -> None:
    """Count the user's words inside an earlier summary as kept: they stay although that summary is replaced."""
    if not pieces.prompts or "earlier summary" not in gone:
        return
    missing = block_tokens(TextBlock(pieces.prompts)) - kept["words"]
    moved = max(0, min(missing, gone["earlier summary"]))
    kept["words"] += moved
    gone["earlier summary"] -= moved


def _count(count: int, what: str) -> str:
    return f"{count:,} {what if count == 1 else _PLURALS.get(what, what + 's')}"
