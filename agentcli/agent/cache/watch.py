"""Watches the prompt cache: what of a request was there before, what changed, and what was really billed again.

The API bills the beginning of a request at a tenth if it is byte for byte what an earlier request began with. So each
request is compared with the last one that was answered, block by block, in the order in which the cache reads it:
model and effort, tools, system prompt, the other settings, messages. Equal prefixes of a conversation are the same
objects (`View.wire`), so comparing costs what is new, not all there is; and the blocks themselves are better than a
hash of them, because they can be named. The response then tells what the change has cost.

One `PrefixBroken` for each break, after the response to the request that it happened in. A compaction is none: it says
itself what it did. What an earlier process has sent is known by its digests only (`fingerprint.py`): enough to name
what has changed before all messages. Never here: anything that changes a request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

from agentcli.agent.cache.difference import blocks_of, changed_message, changed_settings, same_messages
from agentcli.agent.cache.fingerprint import Fingerprints, Front, changed_front, kept_head
from agentcli.core import events as ev
from agentcli.core.format import elapsed, token_count
from agentcli.core.frozen import frozen
from agentcli.core.growing import STEP, Growing
from agentcli.core.lazy_pattern import lazy_pattern
from agentcli.core.messages import Message
from agentcli.core.plaintext import plain_line
from agentcli.core.usage import CacheLosses, Usage
from agentcli.providers.base import Effort, Request, Thinking

SHORT_TTL = 300.0
LONG_TTL = 3600.0
UNKNOWN = "unknown: please report"
"""The reason of a break for which none was given. It is a bug: nothing that was sent may change without a word."""
_LEAST_MISSING = 1_024
"""Tokens; what is missing less is within what estimates and the server's own rounding explain."""
_REASON_LIMIT = 300
_OF_NO_USE = "was not used: effort, tools or prompts have changed, or the server dropped it"
_DROPPED = "The server no longer has the prompt cache of this session"
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
    """What keys the cache and a user can change."""

    model: str
    effort: Effort | None = None
    thinking: Thinking = Thinking()


@frozen
class CacheBreak:
    block: str
    """Which one changed, in words: `the tool Bash`, `the result of Read src/x.py in turn 3`."""
    reason: str


@frozen
class _Sent:
    """A request as the cache sees it."""

    request: Request
    sizes: Growing[int]
    """Characters of the messages up to and including each."""
    head: int
    """Characters of what comes before the messages."""

    @property
    def size(self) -> int:
        return self.head + (self.sizes[-1] if self.sizes else 0)


@frozen
class _Answered:
    sent: _Sent
    model: str
    at: float
    cached: int
    """Tokens at its beginning that are in the cache since."""
    ttl: float
    prompt: int
    """Tokens of all of it."""


@frozen
class _Resumed:
    """What the last response of an earlier process has left."""

    cached: int
    at: float
    """When it came, in the time of this process: before its beginning."""
    ttl: float
    setup: Setup
    front: Front | None = None
    """Of its last request; None where the session file does not have it."""
    kept: float = 1.0
    """The share of what comes before the messages that is still as it was."""
    whole: bool = True
    """All that comes before the first prompt is."""


class CacheWatch:
    """One for each conversation. For each request `look`, then `answered` for each usage that its responses report;
    `note` takes every event that is about to be shown, for the reasons in it."""

    def __init__(self) -> None:
        self._last: _Answered | None = None
        self._asked: _Sent | None = None
        self._asked_at = 0.0
        self._break: CacheBreak | None = None
        self._known: tuple[_Sent, _Sent, int] | None = None
        """A request, the one before it, and the characters of the first that the cache may know from the second."""
        self._reasons: list[str] = []
        self._refused: list[str] = []
        """What the endpoint does not take, and requests go without since the last response."""
        self._compactions = 0
        """Since the last response, and not undone."""
        self._resumed: _Resumed | None = None
        self._fingerprints = Fingerprints()
        self._user_context: Callable[[], str] = lambda: ""
        self._keep: Callable[[Front], None] = lambda _front: None
        self._front: Front | None = None
        """That was kept last."""
        self.losses = CacheLosses()
        """What was in the cache and had to be billed again, in this process."""

    # ---------------------------------------------------------------------------------------------- for others to know

    @property
    def cached_tokens(self) -> int:
        """At the beginning of the next request, if nothing in it has changed; true as long as it is not `cold`."""
        left = self._left
        return left.cached if left is not None else 0

    @property
    def prompt_tokens(self) -> int:
        """Of the last request that this process got a response to."""
        return self._last.prompt if self._last is not None else 0

    def cold(self, now: float) -> bool:
        """Whether what was cached has run out, so that rewriting old content costs nothing; or is of no use, because
        what comes before all of it is not what it was in an earlier process."""
        left = self._left
        useless = isinstance(left, _Resumed) and not left.kept
        return left is not None and (useless or now - left.at >= left.ttl)

    def seconds_left(self, now: float) -> float | None:
        """Until what is cached runs out; None: nothing is."""
        left = self._left
        return None if left is None or self.cold(now) else left.at + left.ttl - now

    @property
    def long_lived(self) -> bool:
        """What is cached is kept for an hour, and writing it costs more."""
        left = self._left
        return left is not None and left.ttl >= LONG_TTL

    def expected(self, setup: Setup, now: float, head: int) -> int:
        """Tokens that a request with this setup would read from the cache, if nothing old is shown otherwise in it.
        `head`: what comes before the messages; it is all that a compaction, or another way of thinking, leaves."""
        left = self._left
        if left is None or self.cold(now):
            return 0
        made_with = left.setup if isinstance(left, _Resumed) else _setup_of(left)
        if _named(setup.model) != _named(made_with.model) or setup.effort != made_with.effort:
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
        """The conversation goes on in a new process: what its last response, at the time `at` and with this setup, left
        in the cache may still be there. `compacted`, `freed`: what was done to it after that response."""
        used = [message.usage for message in messages if message.usage is not None and message.usage.prompt_tokens]
        if used:
            cached = used[-1].cache_read_input_tokens + used[-1].cache_creation_input_tokens
            written = next((one for one in reversed(used) if one.cache_creation_input_tokens), used[-1])
            ttl = LONG_TTL if written.cache_write_1h_tokens else SHORT_TTL
            self._resumed = _Resumed(max(0, cached - max(0, freed)), at, ttl, setup)
            self._compactions = int(compacted)

    def recall(self, front: Front, request: Request) -> None:
        """After `resume`: how the last request of the earlier process began, and how those of this one do."""
        if self._resumed is not None:
            now = self._fingerprints.front(request, request.model, self._user_context())
            kept = kept_head(front, now, request)
            setup = Setup(front.model, front.effort, front.thinking)
            whole = kept == 1.0 and front.system == now.system and front.context == now.context
            self._resumed = replace(self._resumed, setup=setup, front=front, kept=kept, whole=whole)

    def keep_fronts(self, user_context: Callable[[], str], keep: Callable[[Front], None]) -> None:
        """`keep` gets the front of a request that was answered, whenever it is another one than before."""
        self._user_context, self._keep = user_context, keep

    # ------------------------------------------------------------------------------------------------------ the reasons

    def explain(self, reason: str) -> None:
        """Why the next request may differ from the one before it."""
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

    # ----------------------------------------------------------------------------------------------------- the requests

    def look(self, request: Request, now: float) -> CacheBreak | None:
        """Compare a request that is about to be sent with the last one that was answered."""
        for _step in self.look_in_steps(request, now):
            pass
        return self._break

    def look_in_steps(self, request: Request, now: float) -> Iterator[None]:
        """The same; yields after each step, so that other work can be done. The last step notes what was found."""
        before = self._last.sent if self._last is not None else None
        asked = yield from _measured(request, self._asked or before)
        known: tuple[_Sent, _Sent, int] | None = None
        found: CacheBreak | None = None
        # A compaction makes another conversation of it.
        if before is not None and not self._compactions:
            found = self._found(before.request, request)
            # For `answered`, after which the next request is waited for.
            known = (asked, before, (yield from _known_size(asked, before)))
        self._asked, self._asked_at, self._break, self._known = asked, now, found, known

    def answered(self, model: str, usage: Usage, now: float) -> list[ev.Event]:
        """What there is to say about the cache after a response; a reply that broke off counts, its prompt was read.

        `model`: the one that answered, which is not the one asked for after a fallback."""
        asked = self._asked
        if asked is None or not usage.prompt_tokens:
            return []
        front = self._fingerprints.front(asked.request, _asked_name(asked.request, model), self._user_context())
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
        missing = self._missing(asked, last, usage)
        found = self._break
        much = missing >= max(_LEAST_MISSING, last.cached // 10)
        if found is None and not much:
            return []
        idle = self._asked_at - last.at
        if idle >= last.ttl and much:
            # Whatever else has changed has cost nothing: it was gone, and steps wait for that to change old content.
            self._lose(model, missing, usage, broken=False)
            return [_cold(f"The prompt cache had gone cold (idle {elapsed(idle)}): {_rebilled(missing)}")]
        if found is None and model != last.model:
            found = CacheBreak("the model", plain_line(f"{model} answered instead of {last.model}", _REASON_LIMIT))
        if found is None and self._refused:
            # Nothing in the conversation changed, but what the endpoint was asked with did.
            found = CacheBreak("the settings of the request", plain_line("; ".join(self._refused), _REASON_LIMIT))
        self._lose(model, missing, usage, broken=found is not None)
        if found is not None:
            return [ev.PrefixBroken(reason=found.reason, block=found.block, rebilled_tokens=missing)]
        return [_cold(f"The server dropped the prompt cache: {_rebilled(missing)}")]

    def _first_findings(self, model: str, usage: Usage, front: Front) -> list[ev.Event]:
        """Of this process: what is compared with is how much the one before it left, and the digests of its front."""
        resumed = self._resumed
        if resumed is None:
            return []
        missing = min(resumed.cached, usage.prompt_tokens) - usage.cache_read_input_tokens
        found = self._changed_since_left(resumed, model, front)
        much = missing >= max(_LEAST_MISSING, resumed.cached // 10)
        if not much and (found is None or missing <= 0):
            return []
        is_cold = self._asked_at - resumed.at >= resumed.ttl
        self._lose(model, missing, usage, broken=not is_cold)
        if is_cold:
            return [_cold(f"The prompt cache of this session had gone cold: {_rebilled(missing)}")]
        if found is None and self._reasons:
            found = CacheBreak("what was sent before", self._reason())
        if found is not None:
            reason = plain_line(found.reason, _REASON_LIMIT)
            return [ev.PrefixBroken(reason=reason, block=found.block, rebilled_tokens=missing)]
        gone = f"The prompt cache of this session {_OF_NO_USE}" if resumed.front is None else _DROPPED
        return [_cold(f"{gone}: {_rebilled(missing)}")]

    def _changed_since_left(self, resumed: _Resumed, model: str, front: Front) -> CacheBreak | None:
        before = resumed.front
        # A response may have a server's own name for the model: with digests it is known what was asked for.
        answering = model if before is None else front.model
        if _named(answering) != _named(resumed.setup.model):
            return CacheBreak("the model", f"{answering} answered instead of {resumed.setup.model}")
        changed = changed_front(before, front) if before is not None else None
        return None if changed is None else CacheBreak(*changed)

    def _missing(self, asked: _Sent, last: _Answered, usage: Usage) -> int:
        """Tokens that this request shares with the one before it, that were in the cache, and that were not read from
        it.

        What was left out of the request is not billed again, and neither is what is new in it: of the true size of the
        prompt the share counts that is made of known blocks.
        """
        if self._known is None or self._known[0] is not asked or self._known[1] is not last.sent:
            self._known = (asked, last.sent, _at_once(_known_size(asked, last.sent)))
        shared = int(usage.prompt_tokens * self._known[2] / max(asked.size, 1))
        return max(0, min(last.cached, shared) - usage.cache_read_input_tokens)

    def _lose(self, model: str, missing: int, usage: Usage, *, broken: bool) -> None:
        self.losses = self.losses.adding(
            model, missing, long_lived=self.long_lived, broken=broken, prompt=usage.prompt_tokens
        )

    def _found(self, before: Request, now: Request) -> CacheBreak | None:
        for block, own_reason in changed_settings(before, now):
            return CacheBreak(block, own_reason or self._reason())
        changed = changed_message(before, now)
        return None if changed is None else CacheBreak(changed, self._reason())

    def _reason(self) -> str:
        return plain_line("; ".join(self._reasons), _REASON_LIMIT) or UNKNOWN


def _setup_of(answered: _Answered) -> Setup:
    """The cache belongs to the model that answered, after a fallback another one. Other names are a server's own."""
    request = answered.sent.request
    return Setup(_asked_name(request, answered.model), request.effort, request.thinking)


def _asked_name(request: Request, answering: str) -> str:
    """The name by which requests ask for the model that answered one."""
    return answering if answering in request.fallback_models else request.model


def _named(model: str) -> str:
    """Without the date of a snapshot: responses may say it where requests do not."""
    return _SNAPSHOT.sub("", model)


def _thinks_alike(one: Thinking, other: Thinking) -> bool:
    return one.mode == other.mode and (one.mode != "enabled" or one.budget_tokens == other.budget_tokens)


def _rebilled(tokens: int) -> str:
    return f"{token_count(tokens)} tokens were billed again."


def _cold(text: str) -> ev.NoticeRaised:
    return ev.NoticeRaised(text=text, code="cache")


# ------------------------------------------------------------------------------------------------- what it has cost


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


def _measured(request: Request, before: _Sent | None) -> Generator[None, None, _Sent]:
    same = same_messages(before.request, request) if before is not None else 0
    sizes = before.sizes.first(same) if before is not None else Growing()
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
