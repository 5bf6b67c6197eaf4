"""Watch the prompt cache: what the next request can read from it, what broke it, and what was billed again for that.

The API bills the beginning of a request at a tenth if it is byte for byte what an earlier request began with. So each
answered request is compared with the one before, in the order in which the cache reads it: model and effort, tools,
system prompt, other settings, messages. The usage in the response shows what a change has cost.

Each break yields one `PrefixBroken`, after the response to the request in which it happened. A compaction is not a
break: it reports itself. Of the last request of an earlier process only digests are known (`cache_difference.Front`),
enough to name changes in front of the messages. Never here: anything that changes a request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentcli.agent.costs.cache_difference import (
    Fingerprints,
    Front,
    changed_front,
    changed_message,
    changed_since_closed,
    kept_head,
    known_share,
    same_model,
    think_alike,
)
from agentcli.core import events as ev
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import Message
from agentcli.core.text.format import elapsed, token_count
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
class _Cached:
    """What the last response left in the cache."""

    front: Front
    model: str
    """Model that answered, by its own name; "": unknown."""
    at: float
    tokens: int
    """Tokens at the beginning of the request that are cached since."""
    ttl: float
    prompt: int = 0
    """Tokens of the whole prompt."""
    request: Request | None = None
    """None: an earlier process sent it."""
    kept: float = 1.0
    """Share (0 to 1) of what precedes the messages that this process sends unchanged."""
    is_whole: bool = True
    """Whether this process sends everything before the first prompt unchanged."""


class CacheWatch:
    """Cache state of one conversation. Call `sent` for each request, then `answered` for each usage that its responses
    report. Pass `note` every event that is about to be shown: some explain a change."""

    def __init__(self) -> None:
        self._cached: _Cached | None = None
        self._sent: tuple[Request, float] | None = None
        """The request that is to be answered, and when it was sent."""
        self._reasons: list[str] = []
        self._refused: list[str] = []
        """Features that the endpoint refused and that requests omit since the last response."""
        self._compactions = 0
        """Compactions since the last response that were not undone."""
        self._fingerprints = Fingerprints()
        self._user_context: Callable[[], str] = lambda: ""
        self._keep: Callable[[Front], None] = lambda _front: None
        self._kept_front: Front | None = None
        """The front that was stored last."""
        self.losses = CacheLosses()
        """Tokens that had been cached and were billed again, in this process."""

    # -------------------------------------------------------------------------------------------------------- state

    @property
    def cached_tokens(self) -> int:
        """Cached tokens at the beginning of the next request if nothing in it has changed; valid until `cold`."""
        return self._cached.tokens if self._cached is not None else 0

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of the last request that this process got a response to."""
        return self._cached.prompt if self._cached is not None else 0

    def cold(self, now: float) -> bool:
        """Whether the cache has expired, so that rewriting old content costs nothing; or is useless because the front
        of requests differs from that of the earlier process."""
        cached = self._cached
        return cached is not None and (not cached.kept or now - cached.at >= cached.ttl)

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the cache expires; None if nothing is cached."""
        cached = self._cached
        return None if cached is None or self.cold(now) else cached.at + cached.ttl - now

    @property
    def long_lived(self) -> bool:
        """Whether the cache is kept for an hour, which makes writing it more expensive."""
        return self._cached is not None and self._cached.ttl >= LONG_TTL

    def expected(self, setup: Setup, now: float, head: int) -> int:
        """Tokens that a request with this setup would read from the cache if no old content is changed in it. `head`:
        tokens in front of the messages, which is all that stays cached after a compaction or a change of thinking."""
        cached = self._cached
        if cached is None or self.cold(now) or not same_model(setup.model, cached.front.model):
            return 0
        if (setup.effort, setup.fast) != (cached.front.effort, cached.front.fast):
            return 0
        if cached.is_whole and not self._compactions and think_alike(setup.thinking, cached.front.thinking):
            return cached.tokens
        return min(int(head * cached.kept), cached.tokens)

    def keep_fronts(self, user_context: Callable[[], str], keep: Callable[[Front], None]) -> None:
        """Register `keep`, which gets the front of an answered request whenever it has changed."""
        self._user_context, self._keep = user_context, keep

    def resume(
        self, replies: Sequence[Message], front: Front, at: float, *, compacted: bool = False, freed: int = 0
    ) -> None:
        """Continue a conversation of an earlier process: what its last response, at time `at` and to a request with
        this front, left in the cache may still be there. `compacted`, `freed`: changes made after that response."""
        used = [reply.usage for reply in replies if reply.usage is not None and reply.usage.prompt_tokens]
        if used:
            tokens = used[-1].cache_read_input_tokens + used[-1].cache_creation_input_tokens
            written = next((one for one in reversed(used) if one.cache_creation_input_tokens), used[-1])
            ttl = LONG_TTL if written.cache_write_1h_tokens else SHORT_TTL
            self._cached = _Cached(front, replies[-1].model or "", at, max(0, tokens - max(0, freed)), ttl)
            self._compactions = int(compacted)

    def compare_front(self, request: Request) -> None:
        """After `resume`, and when the tools have changed since: compare the front of the earlier process with that of
        this request."""
        if self._cached is not None and self._cached.request is None:
            before, now = self._cached.front, self._fingerprints.front(request, request.model, self._user_context())
            kept = kept_head(before, now, request)
            is_whole = kept == 1.0 and (before.system, before.context) == (now.system, now.context)
            self._cached = replace(self._cached, kept=kept, is_whole=is_whole)

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

    def sent(self, request: Request, now: float) -> None:
        self._sent = (request, now)

    def answered(self, model: str, usage: Usage, now: float) -> list[ev.Event]:
        """Events about the cache after a response. An interrupted reply counts: its prompt was read. `model`: the one
        that answered, which after a fallback is not the one requested."""
        if self._sent is None or not usage.prompt_tokens:
            return []
        request, sent_at = self._sent
        asked = model if model in request.fallback_models else request.model
        front = self._fingerprints.front(request, asked, self._user_context())
        events: list[ev.Event] = []
        if self._cached is not None and not self._compactions:
            events += self._compare(self._cached, request, front, model, usage, sent_at)
        tokens = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
        ttl = LONG_TTL if usage.cache_write_1h_tokens or self.long_lived else SHORT_TTL
        self._cached = _Cached(front, model, now, tokens, ttl, usage.prompt_tokens, request)
        self._reasons.clear()
        self._refused.clear()
        self._compactions = 0
        if front != self._kept_front:
            self._kept_front = front
            self._keep(front)
        return events

    def _compare(
        self, before: _Cached, request: Request, front: Front, model: str, usage: Usage, sent_at: float
    ) -> list[ev.Event]:
        """What happened to the cache between two requests."""
        found = self._find_break(before, request, front)
        shared = usage.prompt_tokens
        if found is not None and before.request is not None:
            # What was left out of the request is not billed again, nor is new content.
            shared = int(shared * known_share(before.request, request))
        missing = max(0, min(before.tokens, shared) - usage.cache_read_input_tokens)
        is_much = missing >= max(_MIN_MISSING, before.tokens // 10)
        if not is_much and (found is None or (before.request is None and not missing)):
            return []
        idle = sent_at - before.at
        is_cold = is_much and idle >= before.ttl
        if found is None and before.model not in ("", model):
            found = CacheBreak("the model", plain_line(f"{model} answered instead of {before.model}", _REASON_LIMIT))
        if found is None and self._refused:
            # Nothing in the conversation changed, but features of the request were dropped.
            found = CacheBreak("the settings of the request", plain_line("; ".join(self._refused), _REASON_LIMIT))
        if found is None and before.request is None and self._reasons:
            found = CacheBreak("what was sent before", self._reason())
        self.losses = self.losses.adding(
            model,
            missing,
            long_lived=self.long_lived,
            broken=found is not None and not is_cold,
            prompt=usage.prompt_tokens,
            fast=usage.fast,
        )
        rebilled = f"{token_count(missing)} tokens were billed again."
        if is_cold:
            # Any other change cost nothing then; steps that change old content wait for that.
            text = f"The prompt cache had gone cold (idle {elapsed(idle)}): {rebilled}"
        elif found is not None:
            return [ev.PrefixBroken(reason=found.reason, block=found.block, rebilled_tokens=missing)]
        else:
            text = f"The server dropped the prompt cache: {rebilled}"
        return [ev.NoticeRaised(text=text, code="cache")]

    def _find_break(self, before: _Cached, request: Request, front: Front) -> CacheBreak | None:
        """The first block of the previous request that this one does not have at the same place."""
        if before.request is None:
            changed = changed_since_closed(before.front, front)
            return None if changed is None else CacheBreak(changed[0], plain_line(changed[1], _REASON_LIMIT))
        for block, own_reason in changed_front(before.front, front):
            return CacheBreak(block, own_reason or self._reason())
        changed_block = changed_message(before.request, request)
        return None if changed_block is None else CacheBreak(changed_block, self._reason())

    def _reason(self) -> str:
        return plain_line("; ".join(self._reasons), _REASON_LIMIT) or UNKNOWN
