"""The provider: the same on every transport. Asks, reads, retries, falls back, gives up.

What a reply consists of is `accumulate.py`'s business, what a failure means `failures.py`'s, how long to wait
`retry.py`'s. Nothing here knows HTTP.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentcli.core.abort import AbortSignal
from agentcli.core.bounded_json import is_too_deep
from agentcli.core.format import elapsed, token_count
from agentcli.core.frozen import frozen
from agentcli.core.ids import Ids, RandomIds
from agentcli.core.messages import Json
from agentcli.core.usage import Usage
from agentcli.providers.accumulate import Accumulator, StreamError
from agentcli.providers.attempt import Attempt
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
    Waiting,
)
from agentcli.providers.body import Feature, blamed_feature, build_body, dropped_message, output_cap, output_room
from agentcli.providers.catalog import Catalog, ModelInfo
from agentcli.providers.failures import aborted, another_model_may_answer, broken, is_stall
from agentcli.providers.retry import Patience, RetryPolicy
from agentcli.providers.transport import Transport, TransportFailure

if TYPE_CHECKING:
    from agentcli.providers.windows import Windows


@dataclass(slots=True)
class _Learned:
    """What this endpoint has refused for one model."""

    dropped: set[Feature] = field(default_factory=set)
    max_output: int | None = None


@dataclass(slots=True)
class _Course:
    """How far one request has come: its attempts so far."""

    model: str
    fallbacks: list[str]
    retries: int = 0
    stalls: int = 0
    overloads: int = 0
    """In a row."""
    breaks: int = 0
    renewed: bool = False
    max_tokens: int | None = None
    """Room for the reply beside this input, once the endpoint has refused more."""

    def count(self, failure: Failure, *, started: bool) -> None:
        self.stalls += is_stall(failure)
        self.overloads = self.overloads + 1 if failure.kind is FailureKind.OVERLOADED else 0
        self.breaks += started

    def fall_back(self) -> str:
        """Go on with the next model, which gets its attempts anew. Returns the old one."""
        old, self.model = self.model, self.fallbacks.pop(0)
        self.max_tokens = None
        self.retries = self.stalls = self.overloads = self.breaks = 0
        return old


@frozen
class _Lost:
    """How an attempt that brought no whole reply ended; never leaves this module."""

    failure: Failure
    usage: Usage
    model: str
    started: bool
    body: Json


class MessagesProvider:
    """Implements `Provider` on any transport."""

    def __init__(
        self,
        transport: Transport,
        catalog: Catalog | None = None,
        policy: RetryPolicy | None = None,
        patience: Patience | None = None,
        ids: Ids | None = None,
        chance: Callable[[], float] = random.random,
        windows: Windows | None = None,
    ) -> None:
        self.name = transport.name
        self._transport = transport
        self._catalog = catalog or Catalog()
        self._policy = policy or RetryPolicy()
        self._patience = patience or Patience()
        self._ids = ids or RandomIds()
        self._chance = chance
        self._windows = windows
        self._learned: dict[str, _Learned] = {}
        self._resting: dict[str, float] = {}
        """Overloaded models, and until when (loop time) requests go straight to the fallback."""

    def begins_with(self, request: Request) -> str:
        # Without a model that rests there need not be an event loop to tell the time.
        return self._course(request).model if self._resting else request.model

    async def warm(self) -> None:
        await self._transport.warm()

    async def aclose(self) -> None:
        try:
            if self._windows is not None:
                await self._windows.aclose()
        finally:
            await self._transport.aclose()

    async def stream(self, request: Request, signal: AbortSignal) -> AsyncGenerator[ModelEvent, None]:
        course = self._course(request)
        if self._windows is not None:
            self._windows.ask(course.model)
        while True:
            lost: _Lost | None = None
            async with aclosing(self._attempt(request, course, signal)) as events:
                async for event in events:
                    if isinstance(event, _Lost):
                        lost = event
                    else:
                        yield event
            if lost is None:
                return
            if lost.failure.kind is FailureKind.ABORTED:
                yield Failed(lost.failure, lost.usage, lost.model)
                return
            if lost.started:
                yield Broken(lost.failure, lost.usage, lost.model)
            course.count(lost.failure, started=lost.started)
            step = await self._next_step(course, lost)
            if isinstance(step, Failed):
                yield step
                return
            if step is not None:
                yield step
            if isinstance(step, Waiting) and not await signal.sleep(step.seconds):
                yield Failed(aborted(), model=course.model)
                return

    def _course(self, request: Request) -> _Course:
        """Begin with the first model that is not known to be overloaded; if all are, with the one asked for."""
        models = [self._catalog.resolve(name) for name in (request.model, *request.fallback_models)]
        now = asyncio.get_running_loop().time()
        ready = [index for index, model in enumerate(models) if self._resting.get(model, 0.0) <= now]
        first = ready[0] if ready else 0
        return _Course(models[first], models[first + 1 :])

    # ------------------------------------------------------------------------------------------------ one attempt

    async def _attempt(
        self, request: Request, course: _Course, signal: AbortSignal
    ) -> AsyncGenerator[ModelEvent | _Lost, None]:
        """Ends with `Finished` or `_Lost`, and then the connection is already given back."""
        body, betas = self._fit(request, course)
        reply = Accumulator(course.model, self._ids, lambda: _tool_ids(request.messages))
        if signal.aborted:
            yield _Lost(aborted(), Usage(), course.model, False, body)
            return
        attempt = Attempt(self._transport.events(body, betas), self._patience, signal)
        failure: Failure | None = None
        try:
            while not reply.finished:
                item = await attempt.next()
                if isinstance(item, Quiet):
                    yield item
                    continue
                if item is not None and request.raw_events and not is_too_deep(item):
                    yield Raw(item)
                for event in reply.end_of_stream() if item is None else reply.feed(item):
                    yield event
        except TransportFailure as error:
            failure = error.failure
        except StreamError as error:
            failure = broken(str(error))
        finally:
            await attempt.close(whole=reply.finished)
        if failure is not None:
            yield _Lost(failure, reply.usage, reply.model, reply.started, body)

    def _fit(self, request: Request, course: _Course) -> tuple[Json, tuple[str, ...]]:
        if course.max_tokens is not None:
            request = replace(request, max_tokens=min(request.max_tokens, course.max_tokens))
        learned = self._learned.get(course.model)
        return build_body(request, self._info(course.model), learned.dropped if learned else ())

    def _info(self, model: str) -> ModelInfo:
        info = self._catalog.get(model)
        learned = self._learned.get(model)
        if learned is not None and learned.max_output is not None:
            info = replace(info, max_output=min(info.max_output, learned.max_output))
        return info

    # -------------------------------------------------------------------------------------------- after a failure

    async def _next_step(self, course: _Course, lost: _Lost) -> Waiting | FellBack | Dropped | Failed | None:
        """What comes after a lost attempt; None: try again at once and without a word."""
        failure = lost.failure
        if failure.kind is FailureKind.AUTHENTICATION and not course.renewed:
            course.renewed = True
            if await self._transport.renew():
                return None
        if failure.status in (400, 422) and not lost.started:
            dropped = self._lower_output(course, lost) or self._learn(course.model, failure, lost.body)
            if dropped is not None:
                return dropped
        policy, given_up = self._policy, failure
        if failure.retryable:
            if course.fallbacks and course.overloads >= policy.overloads_before_fallback:
                return self._fall_back(course, failure)
            if course.fallbacks and course.breaks >= policy.breaks_before_fallback:
                return self._fall_back(course, failure, rest=bool(course.overloads))
            if course.retries >= policy.max_retries or course.stalls > policy.max_stalls:
                given_up = _exhausted(failure, course.retries)
            else:
                course.retries += 1
                seconds = policy.wait(course.retries, failure.retry_after, self._chance())
                if seconds is not None:
                    return Waiting(course.retries, policy.max_retries, seconds, failure)
                given_up = _too_long_to_wait(failure)
        if course.fallbacks and another_model_may_answer(failure):
            return self._fall_back(course, failure)
        return Failed(given_up, model=lost.model)

    def _fall_back(self, course: _Course, failure: Failure, *, rest: bool = True) -> FellBack:
        """Continue with the next model. `rest`: later requests go straight to it for a while."""
        if rest:
            seconds = max(self._policy.overload_rest, failure.retry_after or 0.0)
            self._resting[course.model] = asyncio.get_running_loop().time() + seconds
        old = course.fall_back()
        return FellBack(old, course.model, failure.message)

    def _lower_output(self, course: _Course, lost: _Lost) -> Dropped | None:
        """Ask for no more output than the context has room for. Holds for this request only."""
        room = output_room(lost.failure.detail, lost.body)
        if room is None:
            return None
        course.max_tokens = room
        text = f"The context has room for {token_count(room)} more tokens; the limit of this reply is lowered to that."
        return Dropped("max_tokens", text)

    def _learn(self, model: str, failure: Failure, body: Json) -> Dropped | None:
        """Remember what the endpoint refused, if it is something that can be left out. Each is dropped once only."""
        learned = self._learned.setdefault(model, _Learned())
        cap = output_cap(failure.detail, body)
        if cap is not None:
            learned.max_output = cap
            text = f"{model} writes at most {token_count(cap)} tokens in one reply; the limit is lowered to that."
            return Dropped("max_tokens", text)
        if failure.kind not in (FailureKind.INVALID_REQUEST, FailureKind.UNSUPPORTED):
            return None
        feature = blamed_feature(failure.detail, body)
        if feature is None or feature in learned.dropped:
            return None
        learned.dropped.add(feature)
        return Dropped(feature.value, dropped_message(feature))


def _tool_ids(messages: tuple[Json, ...]) -> set[str]:
    ids: set[str] = set()
    for message in messages:
        content = message.get("content")
        if message.get("role") == "assistant" and isinstance(content, list):
            ids.update(str(block.get("id")) for block in content if block.get("type") == "tool_use")
    return ids


def _exhausted(failure: Failure, retries: int) -> Failure:
    if not retries:
        return failure
    times = "once" if retries == 1 else f"{retries} times"
    return replace(failure, message=f"{failure.message} Tried again {times} without success; try again later.")


def _too_long_to_wait(failure: Failure) -> Failure:
    seconds = failure.retry_after or 0
    text = f"The server asks to wait {elapsed(seconds)}; send the prompt again then."
    return replace(failure, message=f"{failure.message} {text}")
