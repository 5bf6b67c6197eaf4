"""Watch the prompt cache: find which part of a request was cached, what changed, and what was billed again.

The API bills the beginning of a request at a tenth if it is byte for byte what an earlier request began with. So each
request is compared with the last one that was answered, block by block, in the order in which the cache reads it: model
and effort, tools, system prompt, other settings, messages. Equal prefixes of a conversation are the same objects
(`ContextView.wire`), so the cost of comparing depends only on what is new. Blocks are compared instead of hashes
because a changed block can then be named. The usage in the response shows what the change has cost.

Each break yields one `PrefixBroken`, after the response to the request in which it happened. A compaction is not a
break: it reports itself. Of the requests of an earlier process only digests are known (`fingerprint.py`), enough to
name changes in front of the messages. Never here: anything that changes a request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

from agentcli.agent.costs.cache_difference import (
    Fingerprints,
    Front,
    blocks_of,
    changed_front,
    changed_message,
    changed_settings,
    kept_head,
    same_messages,
)
from agentcli.core import events as ev
from agentcli.core.append_only import STEP, AppendOnly
from agentcli.core.frozen import frozen
from agentcli.core.messages import Message
from agentcli.core.text.format import elapsed, token_count
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import CacheLosses, Usage
from agentcli.providers.base import Effort, Request, Thinking

SHORT_TTL = 300.0
LONG_TTL = 3600.0
UNKNOWN = "unknown: please report"
"""Reason of a break that no code explained. This is a bug: every change to sent content must be explained."""
_MIN_MISSING = 1_024
"""Tokens. A smaller loss can be an error of the estimate or rounding by the server."""
_REASON_LIMIT = 300
_UNUSED_TEXT = "was not used: effort, tools or prompts have changed, or the server dropped it"
_DROPPED_TEXT = "The server no longer has the prompt cache of this session"
_SNAPSHOT = lazy_pattern(r"[@-]\d{8}$")
_REPAIRS = {
    "strip_thinking": "thinking that the API refused is left out",
    "drop_images": "pictures that the API refused are left out",
    "flatten_tools": "calls that the API refused are sent as text",
    "leave_out_prompt": "a prompt that was declined is left out",
    "leave_out_unchecked": "a prompt that hooks had not checked is left out",
}


@frozen
class Setup:
    """Settings that key the cache and that a user can change."""

    model: str
    effort: Effort | None = None
    thinking: Thinking = Thinking()
    fast: bool = False
    """Whether fast mode is requested: requests of different speeds share no cache."""


@frozen
class CacheBreak:
    block: str
    """The changed block, in words: `the tool Bash`, `the result of Read src/x.py in turn 3`."""
    reason: str


@frozen
class _Sent:
    """A request with the sizes of its parts."""

    request: Request
    sizes: AppendOnly[int]
    """Cumulative size in characters up to and including each message."""
    head: int
    """Size in characters of everything in front of the messages."""

    @property
    def size(self) -> int:
        return self.head + (self.sizes[-1] if self.sizes else 0)


@frozen
class _Answered:
    sent: _Sent
    model: str
    at: float
    cached: int
    """Tokens at the beginning of the request that are cached since."""
    ttl: float
    prompt: int
    """Tokens of the whole prompt."""


@frozen
class _Resumed:
    """What the last response of an earlier process left in the cache."""

    cached: int
    at: float
    """Time of that response on this process's clock, so before its start."""
    ttl: float
    setup: Setup
    front: Front | None = None
    """Front of its last request; None if the session file does not have it."""
    kept: float = 1.0
    """Unchanged share (0 to 1) of what precedes the messages."""
    whole: bool = True
    """Whether everything before the first prompt is unchanged."""


class CacheWatch:
    """Cache state of one conversation. Call `look` for each request, then `answered` for each usage that its responses
    report. Pass `note` every event that is about to be shown: some explain a change."""

    def __init__(self) -> None:
        self._last: _Answered | None = None
        self._asked: _Sent | None = None
        self._asked_at = 0.0
        self._break: CacheBreak | None = None
        self._known: tuple[_Sent, _Sent, int] | None = None
        """A request, the previous one, and the number of characters of the first that may be cached from the second."""
        self._reasons: list[str] = []
        self._refused: list[str] = []
        """Features that the endpoint refused and that requests omit since the last response."""
        self._compactions = 0
        """Compactions since the last response that were not undone."""
        self._resumed: _Resumed | None = None
        self._fingerprints = Fingerprints()
        self._user_context: Callable[[], str] = lambda: ""
        self._keep: Callable[[Front], None] = lambda _front: None
        self._front: Front | None = None
        """The front that was stored last."""
        self.losses = CacheLosses()
        """Tokens that had been cached and were billed again, in this process."""

    # -------------------------------------------------------------------------------------------------------- state

    @property
    def cached_tokens(self) -> int:
        """Cached tokens at the beginning of the next request if nothing in it has changed; valid until `cold`."""
        left = self._left
        return left.cached if left is not None else 0

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of the last request that this process got a response to."""
        return self._last.prompt if self._last is not None else 0

    def cold(self, now: float) -> bool:
        """Whether the cache has expired, so that rewriting old content costs nothing; or is useless because the front
        of requests differs from that of the earlier process."""
        left = self._left
        useless = isinstance(left, _Resumed) and not left.kept
        return left is not None and (useless or now - left.at >= left.ttl)

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the cache expires; None if nothing is cached."""
        left = self._left
        return None if left is None or self.cold(now) else left.at + left.ttl - now

    @property
    def long_lived(self) -> bool:
        """Whether the cache is kept for an hour, which makes writing it more expensive."""
        left = self._left
        return left is not None and left.ttl >= LONG_TTL

    def expected(self, setup: Setup, now: float, head: int) -> int:
        """Tokens that a request with this setup would read from the cache if no old content is changed in it. `head`:
        tokens in front of the messages, which is all that stays cached after a compaction or a change of thinking."""
        left = self._left
        if left is None or self.cold(now):
            return 0
        made_with = left.setup if isinstance(left, _Resumed) else _setup_of(left)
        if _strip_snapshot(setup.model) != _strip_snapshot(made_with.model):
            return 0
        if (setup.effort, setup.fast) != (made_with.effort, made_with.fast):
            return 0
        whole = not self._compactions and _thinks_alike(setup.thinking, made_with.thinking)
        if isinstance(left, _Resumed):
            whole, head = whole and left.whole, int(head * left.kept)
        return left.cached if whole else min(head, left.cached)

    @property
    def _left(self) -> _Answered | _Resumed | None:
        return self._last if self._last is not None else self._resumed

    def resume(
        self, messages: Sequence[Message], setup: Setup, at: float, *, compacted: bool = False, freed: int = 0
    ) -> None:
        """Continue a conversation of an earlier process: what its last response, at time `at` and with this setup, left
        in the cache may still be there. `compacted`, `freed`: changes made after that response."""
        used = [message.usage for message in messages if message.usage is not None and message.usage.prompt_tokens]
        if used:
            cached = used[-1].cache_read_input_tokens + used[-1].cache_creation_input_tokens
            written = next((one for one in reversed(used) if one.cache_creation_input_tokens), used[-1])
            ttl = LONG_TTL if written.cache_write_1h_tokens else SHORT_TTL
            self._resumed = _Resumed(max(0, cached - max(0, freed)), at, ttl, setup)
            self._compactions = int(compacted)

    def recall(self, front: Front, request: Request) -> None:
        """After `resume`: compare the front of the earlier process's last request with that of `request`."""
        if self._resumed is not None:
            now = self._fingerprints.front(request, request.model, self._user_context())
            kept = kept_head(front, now, request)
            setup = Setup(front.model, front.effort, front.thinking, front.fast)
            whole = kept == 1.0 and front.system == now.system and front.context == now.context
            self._resumed = replace(self._resumed, setup=setup, front=front, kept=kept, whole=whole)

    def keep_fronts(self, user_context: Callable[[], str], keep: Callable[[Front], None]) -> None:
        """Register `keep`, which gets the front of an answered request whenever it has changed."""
        self._user_context, self._keep = user_context, keep

    # ------------------------------------------------------------------------------------------------------ reasons

    def explain(self, reason: str) -> None:
        """Add a reason why the next request may differ from the previous one."""
        if reason and not any(reason.endswith(known) for known in self._reasons):
            self._reasons.append(reason)

    def note(self, event: ev.Event) -> None:
        if event.agent:
            return
        match event:
            case ev.ContextEdited():
                undone = sum(edit.get("kind") == "undo_compaction" for edit in event.edits)
                self._compactions = max(0, self._compactions - undone)
                self.explain(event.text or f"{event.step} changed old content")
            case ev.RequestRepaired():
                self.explain(_REPAIRS.get(event.repair, event.repair))
            case ev.FeatureDropped():
                self.explain(event.text)
                self._refused.append(event.text)
            case ev.ContextCompacted():
                self._compactions += 1
            case ev.PrefixBroken(block="") if not event.rebilled_tokens:
                self.explain(event.reason)

    # ----------------------------------------------------------------------------------------------------- requests

    def look(self, request: Request, now: float) -> CacheBreak | None:
        """Compare a request that is about to be sent with the last one that was answered."""
        for _step in self.look_in_steps(request, now):
            pass
        return self._break

    def look_in_steps(self, request: Request, now: float) -> Iterator[None]:
        """`look` as a generator that yields after each step, so that other work can run. The last step stores the
        finding."""
        before = self._last.sent if self._last is not None else None
        asked = yield from _measure(request, self._asked or before)
        known: tuple[_Sent, _Sent, int] | None = None
        found: CacheBreak | None = None
        # After a compaction the conversation is a different one and is not compared.
        if before is not None and not self._compactions:
            found = self._found(before.request, request)
            # Computed here, ahead of `answered`, because the next request waits for that.
            known = (asked, before, (yield from _known_size(asked, before)))
        self._asked, self._asked_at, self._break, self._known = asked, now, found, known

    def answered(self, model: str, usage: Usage, now: float) -> list[ev.Event]:
        """Events about the cache after a response. An interrupted reply counts: its prompt was read. `model`: the one
        that answered, which after a fallback is not the one requested."""
        asked = self._asked
        if asked is None or not usage.prompt_tokens:
            return []
        front = self._fingerprints.front(asked.request, _name_asked(asked.request, model), self._user_context())
        events = self._findings(asked, model, usage, front)
        cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
        ttl = LONG_TTL if usage.cache_write_1h_tokens or self.long_lived else SHORT_TTL
        self._last = _Answered(asked, model, now, cached, ttl, usage.prompt_tokens)
        self._break = None
        self._reasons.clear()
        self._refused.clear()
        self._compactions = 0
        self._resumed = None
        if front != self._front:
            self._front = front
            self._keep(front)
        return events

    def _findings(self, asked: _Sent, model: str, usage: Usage, front: Front) -> list[ev.Event]:
        last = self._last
        if self._compactions:
            return []
        if last is None:
            return self._first_findings(model, usage, front)
        missing = self._count_missing(asked, last, usage)
        found = self._break
        much = missing >= max(_MIN_MISSING, last.cached // 10)
        if found is None and not much:
            return []
        idle = self._asked_at - last.at
        if idle >= last.ttl and much:
            # The cache had expired, so any other change cost nothing; steps that change old content wait for that.
            self._lose(model, missing, usage, broken=False)
            return [_cold(f"The prompt cache had gone cold (idle {elapsed(idle)}): {_say_rebilled(missing)}")]
        if found is None and model != last.model:
            found = CacheBreak("the model", plain_line(f"{model} answered instead of {last.model}", _REASON_LIMIT))
        if found is None and self._refused:
            # Nothing in the conversation changed, but features of the request were dropped.
            found = CacheBreak("the settings of the request", plain_line("; ".join(self._refused), _REASON_LIMIT))
        self._lose(model, missing, usage, broken=found is not None)
        if found is not None:
            return [ev.PrefixBroken(reason=found.reason, block=found.block, rebilled_tokens=missing)]
        return [_cold(f"The server dropped the prompt cache: {_say_rebilled(missing)}")]

    def _first_findings(self, model: str, usage: Usage, front: Front) -> list[ev.Event]:
        """Findings after the first response of this process: compare with the tokens that the earlier process left and
        the digests of its front."""
        resumed = self._resumed
        if resumed is None:
            return []
        missing = min(resumed.cached, usage.prompt_tokens) - usage.cache_read_input_tokens
        found = self._changed_since_left(resumed, model, front)
        much = missing >= max(_MIN_MISSING, resumed.cached // 10)
        if not much and (found is None or missing <= 0):
            return []
        is_cold = self._asked_at - resumed.at >= resumed.ttl
        self._lose(model, missing, usage, broken=not is_cold)
        if is_cold:
            return [_cold(f"The prompt cache of this session had gone cold: {_say_rebilled(missing)}")]
        if found is None and self._reasons:
            found = CacheBreak("what was sent before", self._reason())
        if found is not None:
            reason = plain_line(found.reason, _REASON_LIMIT)
            return [ev.PrefixBroken(reason=reason, block=found.block, rebilled_tokens=missing)]
        gone = f"The prompt cache of this session {_UNUSED_TEXT}" if resumed.front is None else _DROPPED_TEXT
        return [_cold(f"{gone}: {_say_rebilled(missing)}")]

    def _changed_since_left(self, resumed: _Resumed, model: str, front: Front) -> CacheBreak | None:
        before = resumed.front
        # A response may carry a server's own model name; with digests the requested name is known.
        answering = model if before is None else front.model
        if _strip_snapshot(answering) != _strip_snapshot(resumed.setup.model):
            return CacheBreak("the model", f"{answering} answered instead of {resumed.setup.model}")
        changed = changed_front(before, front) if before is not None else None
        return None if changed is None else CacheBreak(*changed)

    def _count_missing(self, asked: _Sent, last: _Answered, usage: Usage) -> int:
        """Tokens that this request shares with the previous one, that were cached, and that were not read from the
        cache.

        What was left out of the request is not billed again, nor is new content: only the share of the prompt that
        consists of known blocks counts.
        """
        if self._known is None or self._known[0] is not asked or self._known[1] is not last.sent:
            self._known = (asked, last.sent, _at_once(_known_size(asked, last.sent)))
        shared = int(usage.prompt_tokens * self._known[2] / max(asked.size, 1))
        return max(0, min(last.cached, shared) - usage.cache_read_input_tokens)

    def _lose(self, model: str, missing: int, usage: Usage, *, broken: bool) -> None:
        self.losses = self.losses.adding(
            model, missing, long_lived=self.long_lived, broken=broken, prompt=usage.prompt_tokens, fast=usage.fast
        )

    def _found(self, before: Request, now: Request) -> CacheBreak | None:
        for block, own_reason in changed_settings(before, now):
            return CacheBreak(block, own_reason or self._reason())
        changed = changed_message(before, now)
        return None if changed is None else CacheBreak(changed, self._reason())

    def _reason(self) -> str:
        return plain_line("; ".join(self._reasons), _REASON_LIMIT) or UNKNOWN


def _setup_of(answered: _Answered) -> Setup:
    """Setup that the cache belongs to: that of the model that answered, which after a fallback is another one. Other
    names are a server's own."""
    request = answered.sent.request
    return Setup(_name_asked(request, answered.model), request.effort, request.thinking, request.fast)


def _name_asked(request: Request, answering: str) -> str:
    """The name by which requests ask for the model that answered."""
    return answering if answering in request.fallback_models else request.model


def _strip_snapshot(model: str) -> str:
    """The model's name without a snapshot date, which responses may have where requests do not."""
    return _SNAPSHOT.sub("", model)


def _thinks_alike(one: Thinking, other: Thinking) -> bool:
    return one.mode == other.mode and (one.mode != "enabled" or one.budget_tokens == other.budget_tokens)


def _say_rebilled(tokens: int) -> str:
    return f"{token_count(tokens)} tokens were billed again."


def _cold(text: str) -> ev.NoticeRaised:
    return ev.NoticeRaised(text=text, code="cache")


# ---------------------------------------------------------------------------------------------------------- sizes


def _known_size(asked: _Sent, before: _Sent) -> Generator[None, None, int]:
    same = same_messages(before.request, asked.request)
    known = asked.sizes[same - 1] if same else 0
    rest, gone = asked.request.messages[same:], before.request.messages[same:]
    if rest and gone:
        old: set[str] = set()
        for begin in range(0, len(gone), STEP):
            old.update(_text(block) for message in gone[begin : begin + STEP] for block in blocks_of(message))
            yield
        for begin in range(0, len(rest), STEP):
            texts = (_text(block) for message in rest[begin : begin + STEP] for block in blocks_of(message))
            known += sum(len(text) for text in texts if text in old)
            yield
    if _same_head(asked, before):
        return known + asked.head
    old_head = {_text(part) for part in (*before.request.tools, *before.request.system)}
    head = (_text(part) for part in (*asked.request.tools, *asked.request.system))
    return known + sum(len(text) for text in head if text in old_head)


def _at_once(steps: Generator[None, None, int]) -> int:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return int(end.value)


def _measure(request: Request, before: _Sent | None) -> Generator[None, None, _Sent]:
    same = same_messages(before.request, request) if before is not None else 0
    sizes = before.sizes.first(same) if before is not None else AppendOnly()
    size = sizes[-1] if sizes else 0
    for number, message in enumerate(request.messages[same:], 1):
        size += sum(len(_text(block)) for block in blocks_of(message))
        sizes = sizes.adding(size)
        if number % STEP == 0:
            yield
    if before is not None and before.request.tools is request.tools and before.request.system is request.system:
        return _Sent(request, sizes, before.head)
    return _Sent(request, sizes, sum(len(_text(part)) for part in (*request.tools, *request.system)))


def _same_head(asked: _Sent, before: _Sent) -> bool:
    return asked.request.tools is before.request.tools and asked.request.system is before.request.system


_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str).encode


def _text(value: object) -> str:
    return value if isinstance(value, str) else _encode(value)
