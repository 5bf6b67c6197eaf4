"""The provider, independent of the transport: sends requests, reads replies, retries and falls back.

Building a reply is in `accumulate.py`, classifying failures in `failures.py`. Nothing here
knows HTTP.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from agentcli.core.aio import AbortSignal, cancel_and_wait, start_task
from agentcli.core.files.access import is_too_deep
from agentcli.core.frozen import frozen, slotted
from agentcli.core.ids import Ids, RandomIds
from agentcli.core.messages import Json
from agentcli.core.space_saving import RunningValue
from agentcli.core.text.format import format_elapsed, token_count
from agentcli.providers.accumulate import Accumulator, StreamError
from agentcli.providers.base import (
    Broken,
    Dropped,
    Failed,
    Failure,
    FailureKind,
    FellBack,
    ModelEvent,
    Quiet,
    Raw,
    Request,
    Transport,
    TransportFailure,
    Waiting,
)
from agentcli.providers.body import (
    REQUESTED_FEATURES,
    Feature,
    build_body,
    describe_dropped,
    find_blamed_feature,
    output_cap,
    output_room,
)
from agentcli.providers.catalog import Catalog
from agentcli.providers.failures import (
    broken,
    internal,
    is_stall,
    is_worth_fallback,
    make_aborted,
    make_stalled,
    no_content,
)

if TYPE_CHECKING:
    from agentcli.providers.listing import ContextWindows

MAX_UNREAD = 256
"""Events that are read ahead of the consumer."""
DRAIN_SECONDS = 0.05
"""Seconds to wait for the last bytes of a finished reply, so that the connection can be reused."""


@frozen
class RetryPolicy:
    max_retries: int = 10
    max_stalls: int = 3
    """Maximum retries of stalled streams: fewer, because each has already cost `Timeouts.idle_timeout`."""
    base_delay: float = 0.5
    max_delay: float = 32.0
    jitter: float = 0.25
    max_retry_after: float = 60.0
    """Seconds. If the server asks for a longer wait, the request fails and reports it."""
    overloads_before_fallback: int = 3
    overload_cooldown: float = 300.0
    """Seconds during which an overloaded model is skipped after a fallback has taken over."""
    breaks_before_fallback: int = 1
    """Number of cut-off replies after which the fallback model is used, if there is one."""

    def backoff(self, retry: int, chance: float) -> float:
        """Seconds before retry number `retry` (from 1); `chance` in [0, 1) adds jitter in both directions."""
        delay = min(self.base_delay * 2.0 ** min(retry - 1, 30), self.max_delay)
        return delay * (1 + self.jitter * (2 * chance - 1))

    def wait(self, retry: int, retry_after: float | None, chance: float) -> float | None:
        """Seconds before retry number `retry`, never less than the server asks for; None if it asks for too much."""
        if retry_after is None or retry_after <= 0:
            return self.backoff(retry, chance)
        if retry_after > self.max_retry_after:
            return None
        return retry_after + chance * min(1.0, 0.1 * retry_after)


@frozen
class Timeouts:
    """Timeouts for a silent server, in seconds. Pings reset the first two, not the last."""

    quiet_after: float = 30.0
    idle_timeout: float = 90.0
    content_deadline: float = 600.0


class Attempt:
    """One request in progress: a task that reads the reply, a small queue, and a timer that limits silence.

    Call `next` until it returns None or raises `TransportFailure`, then always `close`. A slow consumer pauses the
    reading, and the pause does not count as silence of the server.
    """

    def __init__(self, source: AsyncGenerator[Json, None], timeouts: Timeouts, signal: AbortSignal) -> None:
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._timeouts = timeouts
        self._signal = signal
        self._items: asyncio.Queue[Json | Quiet | None] = asyncio.Queue(MAX_UNREAD)
        """Events; None if the reading has ended."""
        self._failure: Failure | None = None
        self._last_data = self._last_content = self._loop.time()
        """When the last bytes arrived, and the last event that is not a ping."""
        self._is_quiet = False
        self._timer: asyncio.TimerHandle | None = None
        self._reader = start_task(self._read(), name="model reply")
        self._reader.add_done_callback(self._end)
        self._unhook = signal.on_abort(lambda _reason: self._reader.cancel())
        self._watch()

    async def next(self) -> Json | Quiet | None:
        """The next event, `Quiet` after a silent period, or None at the end of the body."""
        item = None
        if not self._items.empty():
            item = self._items.get_nowait()
        elif not self._reader.done():
            item = await self._items.get()
        if self._signal.aborted:
            raise TransportFailure(make_aborted())
        if item is None and self._failure is not None:
            raise TransportFailure(self._failure)
        return item

    async def close(self, *, whole: bool = False) -> None:
        """Stop reading. `whole`: the reply is complete, so read its last bytes first, to reuse the connection."""
        self._unhook()
        if self._timer is not None:
            self._timer.cancel()
        if whole and not self._reader.done():
            await asyncio.wait([self._reader], timeout=DRAIN_SECONDS)
        await cancel_and_wait([self._reader])

    async def _read(self) -> None:
        try:
            async with aclosing(self._source) as source:
                async for item in source:
                    if item and item.get("type") != "ping":
                        self._last_content = self._loop.time()
                    if item:
                        await self._items.put(item)
                    self._last_data = self._loop.time()
                    self._is_quiet = False
        except TransportFailure as error:
            self._failure = self._failure or error.failure
        except Exception as error:  # noqa: BLE001 - the contract is that a provider never raises; reported as a bug
            self._failure = self._failure or internal(error)

    def _end(self, _reader: asyncio.Task[None]) -> None:
        if not self._items.full():
            self._items.put_nowait(None)

    def _watch(self) -> None:
        if self._reader.done():
            return
        limits, now = self._timeouts, self._loop.time()
        if self._items.full():
            self._last_data = self._last_content = now
        idle, deadline = self._last_data + limits.idle_timeout, self._last_content + limits.content_deadline
        if now >= min(idle, deadline):
            self._failure = make_stalled(limits.idle_timeout) if now >= idle else no_content(limits.content_deadline)
            self._reader.cancel()
            return
        quiet = self._last_data + limits.quiet_after
        if now >= quiet and not self._is_quiet:
            self._is_quiet = True
            self._items.put_nowait(Quiet(limits.quiet_after))
        due = min(idle, deadline) if self._is_quiet else min(idle, deadline, quiet)
        self._timer = self._loop.call_at(due, self._watch)


@slotted
class _Learned:
    """Features and limits that this endpoint has refused for one model."""

    dropped: set[Feature] = field(default_factory=set)
    max_output: int | None = None


@slotted
class _RequestProgress:
    model: str
    fallbacks: list[str]
    retries: int = 0
    stalls: int = 0
    overloads: int = 0
    breaks: int = 0
    renewed: bool = False
    max_tokens: int | None = None
    """Output limit that fits beside this input, after the endpoint has refused a higher one."""

    def count(self, failure: Failure, *, started: bool) -> None:
        self.stalls += is_stall(failure)
        self.overloads = self.overloads + 1 if failure.kind is FailureKind.OVERLOADED else 0
        self.breaks += started

    def fall_back(self) -> str:
        """Switch to the next model and reset the attempts. Returns the old model."""
        old, self.model = self.model, self.fallbacks.pop(0)
        self.max_tokens = None
        self.retries = self.stalls = self.overloads = self.breaks = 0
        return old


class MessagesProvider:
    """Implements `Provider` on any transport."""

    def __init__(
        self,
        transport: Transport,
        catalog: Catalog | None = None,
        policy: RetryPolicy | None = None,
        timeouts: Timeouts | None = None,
        ids: Ids | None = None,
        chance: Callable[[], float] = random.random,
        windows: ContextWindows | None = None,
    ) -> None:
        self.name = transport.name
        self._transport = transport
        self._catalog = catalog or Catalog()
        self._policy = policy or RetryPolicy()
        self._timeouts = timeouts or Timeouts()
        self._ids = ids or RandomIds()
        self._chance = chance
        self._windows = windows
        self._learned: dict[str, _Learned] = {}
        self._tool_ids: RunningValue[Json, set[str]] = RunningValue(set, _with_tool_ids)
        """Ids of the tool calls in the messages of the last request."""
        self._cooldowns: dict[str, float] = {}
        """Overloaded models and the end of their cooldown (loop time); until then requests go to the fallback."""

    def first_model(self, request: Request) -> str:
        # Computing a cooldown needs a running event loop; this does not.
        return self._new_progress(request).model if self._cooldowns else request.model

    async def warm(self) -> None:
        await self._transport.warm()

    async def aclose(self) -> None:
        try:
            if self._windows is not None:
                await self._windows.aclose()
        finally:
            await self._transport.aclose()

    async def stream(self, request: Request, signal: AbortSignal) -> AsyncGenerator[ModelEvent, None]:
        progress = self._new_progress(request)
        if self._windows is not None:
            self._windows.ask(progress.model)
        while True:
            body, betas = self._fit(request, progress)
            taken = partial(self._tool_ids.of, request.append_only)
            reply = Accumulator(progress.model, self._ids, taken, fast=body.get("speed") == "fast")
            if signal.aborted:
                failure = make_aborted()
            else:
                attempt = Attempt(self._transport.events(body, betas, signal), self._timeouts, signal)
                try:
                    while not reply.finished:
                        item = await attempt.next()
                        for event in (item,) if isinstance(item, Quiet) else _events_of(item, reply, request):
                            yield event
                    return
                except TransportFailure as error:
                    failure = error.failure
                except StreamError as error:
                    failure = broken(str(error))
                finally:
                    await attempt.close(whole=reply.finished)
            if failure.kind is FailureKind.ABORTED:
                yield Failed(failure, reply.usage, reply.model)
                return
            if reply.started:
                yield Broken(failure, reply.usage, reply.model)
            step = await self._next_step(progress, failure, reply, body)
            if step is not None:
                yield step
            if isinstance(step, Failed):
                return
            if isinstance(step, Waiting) and not await signal.sleep(step.seconds):
                yield Failed(make_aborted(), model=progress.model)
                return

    def _new_progress(self, request: Request) -> _RequestProgress:
        """Start with the first model that is not in a cooldown; if all are, with the requested one."""
        models = [self._catalog.resolve(name) for name in (request.model, *request.fallback_models)]
        now = asyncio.get_running_loop().time()
        ready = [index for index, model in enumerate(models) if self._cooldowns.get(model, 0.0) <= now]
        first = ready[0] if ready else 0
        return _RequestProgress(models[first], models[first + 1 :])

    def _fit(self, request: Request, progress: _RequestProgress) -> tuple[Json, tuple[str, ...]]:
        info, learned = self._catalog.get(progress.model), self._learned.get(progress.model)
        known = (info.max_output, learned.max_output if learned else None, progress.max_tokens)
        info = replace(info, max_output=min(limit for limit in known if limit is not None))
        return build_body(request, info, learned.dropped if learned else ())

    async def _next_step(
        self, progress: _RequestProgress, failure: Failure, reply: Accumulator, body: Json
    ) -> Waiting | FellBack | Dropped | Failed | None:
        """The event after a failed attempt; None: retry immediately without an event."""
        progress.count(failure, started=reply.started)
        if failure.kind is FailureKind.AUTHENTICATION and not progress.renewed:
            progress.renewed = True
            if await self._transport.renew():
                return None
        if failure.status in (400, 403, 422) and not reply.started:
            if (room := output_room(failure.detail, body)) is not None:
                progress.max_tokens = room
                return _limited(f"The context has room for only {token_count(room)} more tokens")
            if (dropped := self._learn(progress.model, failure, body)) is not None:
                return dropped
        policy, given_up = self._policy, failure
        if failure.retryable:
            if progress.fallbacks and progress.overloads >= policy.overloads_before_fallback:
                return self._fall_back(progress, failure)
            if progress.fallbacks and progress.breaks >= policy.breaks_before_fallback:
                return self._fall_back(progress, failure, rest=bool(progress.overloads))
            if progress.retries >= policy.max_retries or progress.stalls > policy.max_stalls:
                given_up = _give_up(failure, progress.retries)
            else:
                progress.retries += 1
                seconds = policy.wait(progress.retries, failure.retry_after, self._chance())
                if seconds is not None:
                    return Waiting(progress.retries, policy.max_retries, seconds, failure)
                given_up = _too_long_to_wait(failure)
        if progress.fallbacks and is_worth_fallback(failure):
            return self._fall_back(progress, failure)
        return Failed(given_up, model=reply.model)

    def _fall_back(self, progress: _RequestProgress, failure: Failure, *, rest: bool = True) -> FellBack:
        """Continue with the next model. `rest`: start a cooldown, in which later requests go to it directly."""
        if rest:
            seconds = max(self._policy.overload_cooldown, failure.retry_after or 0.0)
            self._cooldowns[progress.model] = asyncio.get_running_loop().time() + seconds
        old = progress.fall_back()
        return FellBack(old, progress.model, failure.message)

    def _learn(self, model: str, failure: Failure, body: Json) -> Dropped | None:
        """Remember a feature or limit that the endpoint refused and that can be omitted. Each is dropped only once."""
        learned = self._learned.setdefault(model, _Learned())
        cap = output_cap(failure.detail, body)
        if cap is not None:
            learned.max_output = cap
            return _limited(f"{model} writes at most {token_count(cap)} tokens per reply")
        if failure.kind not in (FailureKind.INVALID_REQUEST, FailureKind.UNSUPPORTED, FailureKind.PERMISSION):
            return None
        feature = find_blamed_feature(failure.detail, body)
        if feature is None or feature in learned.dropped:
            return None
        if failure.kind is FailureKind.PERMISSION and feature not in REQUESTED_FEATURES:
            return None  # Only these are granted to some accounts and not to others.
        learned.dropped.add(feature)
        return Dropped(feature.value, describe_dropped(feature), model, requested=feature in REQUESTED_FEATURES)


def _events_of(item: Json | None, reply: Accumulator, request: Request) -> Iterator[ModelEvent]:
    """The events that one item of the transport means; None is the end of the body. Raises `StreamError`."""
    if item is not None and request.raw_events and not is_too_deep(item):
        yield Raw(item)
    yield from reply.end_of_stream() if item is None else reply.feed(item)


def _with_tool_ids(ids: set[str], message: Json) -> set[str]:
    content = message.get("content")
    if message.get("role") == "assistant" and isinstance(content, list):
        ids.update(str(block.get("id")) for block in content if block.get("type") == "tool_use")
    return ids


def _limited(reason: str) -> Dropped:
    return Dropped("max_tokens", f"{reason}; the reply is limited to that.")


def _give_up(failure: Failure, retries: int) -> Failure:
    if not retries:
        return failure
    times = "once" if retries == 1 else f"{retries} times"
    return replace(failure, message=f"{failure.message} Retried {times} without success. Try again later.")


def _too_long_to_wait(failure: Failure) -> Failure:
    seconds = failure.retry_after or 0
    text = f"The server asks to wait {format_elapsed(seconds)}. Then send the prompt again."
    return replace(failure, message=f"{failure.message} {text}")
