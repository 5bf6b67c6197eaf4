"""Watch the prompt cache: what the next request can read from it, what broke it, and what was billed again for that.

The API bills the beginning of a request at a tenth if it is byte for byte what an earlier request began with. So each
answered request is compared with the one before, in the order in which the cache reads it: model and effort, tools,
system prompt, other settings, messages. The usage in the response shows what a change has cost.

Each break yields one `PrefixBroken`, after the response to the request in which it happened. A compaction is not a
break: it reports itself. Of the last request of an earlier process only digests are known (`Front`),
enough to name changes in front of the messages. Never here: anything that changes a request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from operator import eq, is_
from typing import Any, get_args

from agentcli import __version__
from agentcli.core import events as ev
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import Json, Message
from agentcli.core.space_saving import AppendOnly
from agentcli.core.text.format import format_elapsed, token_count
from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import CacheLosses, Usage
from agentcli.providers.base import Effort, Request, Thinking, ThinkingMode
from agentcli.providers.body import USUAL_THINKING_BUDGET

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
    is_usable: bool = True
    """Whether this process sends the same tools and system prompt."""
    is_whole: bool = True
    """Whether this process sends everything before the first prompt unchanged."""


class CacheWatch:
    """Cache state of one conversation. Call `sent` for each request, then `answered` for each usage that its responses
    report. Pass `note` every event that is about to be shown: some explain a change."""

    def __init__(self, fingerprints: Fingerprints | None = None) -> None:
        self._cached: _Cached | None = None
        self._sent: tuple[Request, float] | None = None
        """The request that is to be answered, and when it was sent."""
        self._reasons: list[str] = []
        self._refused: list[str] = []
        """Features that the endpoint refused and that requests omit since the last response."""
        self._compactions = 0
        """Compactions since the last response that were not undone."""
        self._fingerprints = fingerprints or Fingerprints()
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
        return cached is not None and (not cached.is_usable or now - cached.at >= cached.ttl)

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the cache expires; None if nothing is cached."""
        cached = self._cached
        return None if cached is None or self.cold(now) else cached.at + cached.ttl - now

    @property
    def long_lived(self) -> bool:
        """Whether the cache is kept for an hour, which makes writing it more expensive."""
        return self._cached is not None and self._cached.ttl >= LONG_TTL

    def expected(self, front: Front, now: float, head: int) -> int:
        """Tokens that a request with this front would read from the cache if no old content is changed in it. `head`:
        tokens in front of the messages, which is all that stays cached after a compaction or a change of thinking."""
        cached = self._cached
        if cached is None or self.cold(now) or not same_model(front.model, cached.front.model):
            return 0
        if (front.effort, front.fast) != (cached.front.effort, cached.front.fast):
            return 0
        if cached.is_whole and not self._compactions and think_alike(front.thinking, cached.front.thinking):
            return cached.tokens
        return min(head, cached.tokens)

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
            is_usable = (before.tools, before.system) == (now.tools, now.system)
            is_whole = is_usable and before.context == now.context
            self._cached = replace(self._cached, is_usable=is_usable, is_whole=is_whole)

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
        missing = max(0, min(before.tokens, usage.prompt_tokens) - usage.cache_read_input_tokens)
        if missing and found is not None and before.request is not None:
            # What was left out of the request is not billed again, nor is new content.
            shared = int(usage.prompt_tokens * measure_known_share(before.request, request))
            missing = max(0, min(before.tokens, shared) - usage.cache_read_input_tokens)
        is_much = missing >= max(_MIN_MISSING, before.tokens // 10)
        if not is_much and (found is None or (before.request is None and not missing)):
            return []
        idle = sent_at - before.at
        is_cold = is_much and idle >= before.ttl
        if found is None and before.model not in ("", model):
            found = ("the model", plain_line(f"{model} answered instead of {before.model}", _REASON_LIMIT))
        if found is None and self._refused:
            # Nothing in the conversation changed, but features of the request were dropped.
            found = ("the settings of the request", plain_line("; ".join(self._refused), _REASON_LIMIT))
        if found is None and before.request is None and self._reasons:
            found = ("what was sent before", self._reason())
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
            text = f"The prompt cache had gone cold (idle {format_elapsed(idle)}): {rebilled}"
        elif found is not None:
            return [ev.PrefixBroken(block=found[0], reason=found[1], rebilled_tokens=missing)]
        else:
            text = f"The server dropped the prompt cache: {rebilled}"
        return [ev.NoticeRaised(text=text, code="cache")]

    def _find_break(self, before: _Cached, request: Request, front: Front) -> tuple[str, str] | None:
        """The first block of the previous request that this one does not have at the same place, in words (`the result
        of Read src/x.py in turn 3`), and the reason."""
        if before.request is None:
            changed = find_change_since_closed(before.front, front)
            return None if changed is None else (changed[0], plain_line(changed[1], _REASON_LIMIT))
        for block, own_reason in list_front_changes(before.front, front):
            return block, own_reason or self._reason()
        changed_block = find_changed_message(before.request, request)
        return None if changed_block is None else (changed_block, self._reason())

    def _reason(self) -> str:
        return plain_line("; ".join(self._reasons), _REASON_LIMIT) or UNKNOWN


def same_messages(before: Request, now: Request) -> int:
    """The number of messages that both requests begin with."""
    if before.sequence is None or now.sequence is None:
        return sum(takewhile(bool, map(is_, before.messages, now.messages)))
    return before.append_only.count_shared(now.append_only)


def blocks_of(message: Json) -> Sequence[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def measure_known_share(before: Request, now: Request) -> float:
    """The share of a request, by its characters, that consists of blocks which an earlier request had too."""
    old = set(_texts(before))
    known = total = 0
    for text in _texts(now):
        total += len(text)
        known += len(text) if text in old else 0
    return known / max(total, 1)


def _texts(request: Request) -> Iterator[str]:
    for block in (*request.tools, *(block for message in request.messages for block in blocks_of(message))):
        yield _encode(block)
    yield from request.system


_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str).encode


def list_front_changes(before: Front, now: Front) -> Iterator[tuple[str, str]]:
    """What differs in front of the messages, in the order in which the cache reads it: name and reason. The reason is
    "" unless the change explains itself."""
    if not same_model(before.model, now.model):
        yield "the model", f"it was changed from {before.model} to {now.model}"
    if before.effort != now.effort:
        yield "the effort", f"it was changed from {before.effort or 'auto'} to {now.effort or 'auto'}"
    if before.fast != now.fast:
        yield "the speed", f"fast mode was turned {'on' if now.fast else 'off'}"
    yield from _list_tool_changes(dict(before.tools), dict(now.tools))
    if before.system != now.system:
        same = sum(takewhile(bool, map(eq, before.system, now.system)))
        yield ("the system prompt" if same == 0 else f"part {same + 1} of the system prompt"), ""
    if not think_alike(before.thinking, now.thinking):
        modes = before.thinking.mode, now.thinking.mode
        changed = "its budget was changed" if modes[0] == modes[1] else f"it was changed from {modes[0]} to {modes[1]}"
        yield "the thinking setting", changed
    if before.context != now.context:
        yield "the instructions before all messages", ""


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: responses may have a snapshot date where requests have none."""
    return _SNAPSHOT.sub("", one) == _SNAPSHOT.sub("", other)


def think_alike(one: Thinking, other: Thinking) -> bool:
    if one.mode != other.mode or one.mode != "enabled":
        return one.mode == other.mode
    return (one.budget_tokens or USUAL_THINKING_BUDGET) == (other.budget_tokens or USUAL_THINKING_BUDGET)


def _list_tool_changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each changed tool and the reason. The values are digests of definitions, by the tool's name."""
    for name in dict.fromkeys((*before, *now)):
        block = f"the tool {plain_line(name, 128)}"
        if name not in now:
            yield block, "it was removed"
        elif name not in before:
            yield block, "tools of MCP servers were loaded" if name.startswith("mcp__") else "it was added"
        elif before[name] != now[name]:
            yield block, ""
    if list(before) != list(now) and before.keys() == now.keys():
        yield "the order of the tools", ""


def find_changed_message(earlier: Request, later: Request) -> str | None:
    """Describe the first block of the old messages that is not at the same place in the new ones; None if all are."""
    before, now = earlier.messages, later.messages
    for place in range(same_messages(earlier, later), len(before)):
        old = blocks_of(before[place])
        new = blocks_of(now[place]) if place < len(now) and now[place]["role"] == before[place]["role"] else ()
        for number, block in enumerate(old):
            if number >= len(new) or new[number] != block:
                return _name_block(block, before, place)
        if len(new) > len(old) and place < len(before) - 1:
            following, after = before[place + 1], now[place + 1 : place + 2]
            if list(after) == [following] or not (gone := blocks_of(following)):
                return f"what was added to the message in turn {_turn(before, place)}"
            # The message between two messages of the same role was removed, so those two are merged now.
            return _name_block(gone[0], before, place + 1)
    return None


def _name_block(block: Json, messages: Sequence[Json], place: int) -> str:
    turn = f"in turn {_turn(messages, place)}"
    match block.get("type"):
        case "tool_result":
            return f"the result of {_call(str(block.get('tool_use_id')), messages[:place])} {turn}"
        case "tool_use":
            return f"the call {_name_call(block)} {turn}"
        case "thinking" | "redacted_thinking":
            return f"the thinking {turn}"
        case "image":
            return f"a picture {turn}"
        case "text":
            said = plain_line(str(block.get("text", "")), 40)
            is_answer = messages[place]["role"] == "assistant"
            return f"the answer “{said}” {turn}" if is_answer else f"the message “{said}” {turn}"
    return f"a block of type {plain_line(str(block.get('type')), 40)} {turn}"


def _turn(messages: Sequence[Json], place: int) -> int:
    """Turn number of a message, counted by replies: the prompt that a reply answers and the results of its calls belong
    to its turn."""
    replies = sum(1 for message in messages[: place + 1] if message["role"] == "assistant")
    answers = any(block.get("type") == "tool_result" for block in blocks_of(messages[place]))
    return replies if answers or messages[place]["role"] == "assistant" else replies + 1


def _call(id: str, messages: Sequence[Json]) -> str:
    for message in reversed(messages):
        for block in blocks_of(message):
            if block.get("type") == "tool_use" and block.get("id") == id:
                return _name_call(block)
    return "a call"


def _name_call(block: Json) -> str:
    input = block.get("input")
    values = input if isinstance(input, dict) else {}
    names = ("file_path", "notebook_path", "command", "pattern", "url", "query")
    gist = next((str(values[name]) for name in names if name in values), "")
    return plain_line(f"{block.get('name')} {gist}", 100).rstrip()


_SNAPSHOT = lazy_pattern(r"[@-]\d{8}$")
_DIGEST_BYTES = 8
_MAX_NAME = 128
_CHANGED_SINCE_CLOSED = "it has changed since the session was closed"
_MAX_NAMED = 3
"""How many changes to list besides the first one, which is the one that breaks the cache."""


@frozen
class Front:
    model: str
    """Model that answered, by the name that requests use."""
    effort: Effort | None = None
    thinking: Thinking = Thinking()
    tools: tuple[tuple[str, str], ...] = ()
    """Tool names with digests, in the order of the request."""
    system: tuple[str, ...] = ()
    """Digests of the parts of the system prompt."""
    context: str = ""
    """Digest of the user context; "" if there is none."""
    fast: bool = False
    version: str = ""
    """Version of the agentcli that sent it, if that was another process; "": unknown, or this process."""

    def to_dict(self) -> Json:
        """The front as JSON for the session file, which stores the version separately."""
        return {
            "model": self.model,
            "effort": self.effort,
            "thinking": {"mode": self.thinking.mode, "budget": self.thinking.budget_tokens},
            "tools": [list(tool) for tool in self.tools],
            "system": list(self.system),
            "context": self.context,
            **({"fast": True} if self.fast else {}),
        }


def front_from(found: Mapping[str, Any] | None, version: str = "") -> Front | None:
    """The reverse of `Front.to_dict`; None if the data has another form, or that of a newer version."""
    if found is None:
        return None
    try:
        effort, thinking = found["effort"], found["thinking"]
        mode, budget = thinking["mode"], thinking["budget"]
        if effort is not None and effort not in get_args(Effort):
            return None
        if mode not in get_args(ThinkingMode) or not (budget is None or type(budget) is int):
            return None
        return Front(
            model=plain_line(str(found["model"]), _MAX_NAME),
            effort=effort,
            thinking=Thinking(mode, budget),
            tools=tuple((str(name), str(digest)) for name, digest in found["tools"]),
            system=tuple(map(str, found["system"])),
            context=str(found["context"]),
            fast=found.get("fast") is True,
            version=plain_line(version, 40),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


class Fingerprints:
    """Make fronts. Values equal to those of the last call are not digested again."""

    def __init__(self) -> None:
        self._tools: tuple[Sequence[Json], tuple[tuple[str, str], ...]] = ((), ())
        self._system: tuple[Sequence[str], tuple[str, ...]] = ((), ())
        self._context: tuple[str, str] = ("", "")

    def front(self, request: Request, model: str, context: str) -> Front:
        """`model`: the one that answers the request; `context`: the user context at its beginning."""
        if self._tools[0] != request.tools:
            digests = tuple((str(tool.get("name")), digest_value(tool)) for tool in request.tools)
            self._tools = (request.tools, digests)
        if self._system[0] != request.system:
            self._system = (request.system, tuple(map(digest_value, request.system)))
        if self._context[0] != context:
            self._context = (context, digest_value(context) if context else "")
        thinking = request.thinking
        if thinking.mode != "enabled" and thinking.budget_tokens is not None:
            thinking = Thinking(thinking.mode)
        return Front(model, request.effort, thinking, self._tools[1], self._system[1], self._context[1], request.fast)


def digest_value(value: object) -> str:
    """Digest of a tool's definition, a part of the system prompt, or another part of a request."""
    # Digest the text as sent: key order and number types matter for the cache.
    from hashlib import blake2b

    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


class RequestDigests:
    """Digests of whole requests. Of messages that the last request had too, nothing is encoded again."""

    def __init__(self, fingerprints: Fingerprints | None = None) -> None:
        self._fingerprints = fingerprints or Fingerprints()
        self._last: AppendOnly[Json] = AppendOnly()
        self._chain = bytearray()
        """For each message of the last request, the digest of it and all before it: one object, however many."""

    def digest(self, request: Request) -> str:
        """`front-messages`: digests of what is in front of the messages, and of the messages."""
        messages = request.append_only
        known = self._last.count_shared(messages)
        del self._chain[known * _DIGEST_BYTES :]
        self._last = messages
        for message in messages[known:]:
            self._chain += bytes.fromhex(digest_value([self._chain[-_DIGEST_BYTES:].hex(), message]))
        front = self._fingerprints.front(request, request.model, "")
        return f"{digest_front(front, request)}-{self._chain[-_DIGEST_BYTES:].hex()}"


def digest_front(front: Front, request: Request) -> str:
    """Digest of a request without its messages. `front`: with the requested model, without the user context."""
    rest = [request.max_tokens, request.deferred_tools, request.forbid_tools, request.task_budget_remaining]
    return digest_value([front.to_dict(), rest])


def find_change_since_closed(before: Front, now: Front) -> tuple[str, str] | None:
    """What has changed since an earlier process: the first difference and the reason, with the names of others; None if
    nothing has."""
    changes = list(list_front_changes(before, now))
    if not changes:
        return None
    (block, reason), *others = changes
    updated = before.version not in ("", __version__)
    why = f"agentcli was updated from {before.version} to {__version__}" if updated else _CHANGED_SINCE_CLOSED
    named = [name for name, _reason in others]
    also = f"; also changed: {', '.join(named[:_MAX_NAMED])}" if named else ""
    more = f" and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    return block, f"{reason or why}{also}{more}"
