"""What stands in for the model: the recorded events of each reply, and the digests of requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence

from agentcli.agent.costs.cache_watch import (
    Fingerprints,
    Front,
    RequestDigests,
    front_from,
    list_front_changes,
)
from agentcli.core import events as ev
from agentcli.core.aio import Aborted, AbortSignal
from agentcli.core.frozen import replace
from agentcli.core.messages import SUMMARY, Block, Json, Origin, TextBlock, ToolUseBlock
from agentcli.core.usage import Usage
from agentcli.history.replay.tape import Tape, block_of, digest_of, input_of, is_copy, origin_of, usage_of
from agentcli.providers import base as model
from agentcli.session.base import restore_event


class RecordedFronts(Fingerprints):
    """Digests of the system prompt and the tools, as recorded where only their text has changed since."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape
        self._fronts: list[tuple[int, Front]] = []
        for index, record in enumerate(tape.records):
            front = front_from(record.get("front")) if record.get("type") == "request-front" else None
            if front is not None:
                self._fronts.append((index, front))

    def front(self, request: model.Request, model: str, context: str) -> Front:
        front, recorded = super().front(request, model, context), self.expected()
        if recorded is None:
            return front
        # Which tools are offered is decided outside of the loop.
        system = recorded.system if len(front.system) == len(recorded.system) else front.system
        made = replace(front, tools=recorded.tools, system=system)
        if request.purpose == "turn" and request.messages and made != front:
            for what, _why in list_front_changes(made, front):
                self._tape.note_other_front(what)
        return made

    def expected(self) -> Front | None:
        """The front of the next request: it is recorded after its usage, if it is another one than before."""
        tape, seen = self._tape, 0
        limit = tape.end
        for index in range(tape.cursor, tape.end):
            if usage_of(tape.records[index], "turn"):
                seen += 1
                if seen == 2:
                    limit = index
                    break
        return next((front for index, front in reversed(self._fronts) if index < limit), None)


class RecordedDigests(RequestDigests):
    """Digests of requests, except for the definitions of tools that were loaded later, which are not recorded."""

    def __init__(self, tape: Tape, fronts: RecordedFronts) -> None:
        super().__init__(fronts)
        self._tape = tape
        self._fronts = fronts

    def digest(self, request: model.Request) -> str:
        made = super().digest(request)
        recorded = next((found for _index, one in self._tape.ahead() if (found := digest_of(one))), "")
        if made == recorded or made.partition("-")[2] != recorded.partition("-")[2]:
            return made
        if self._fronts.expected() is None:
            self._tape.note_other_front("the model, the tools and the system prompt, which are not recorded")
        elif request.referenced_tools:
            self._tape.note_other_front("the definitions of tools that ToolSearch loaded, which are not recorded")
        else:
            return made
        return recorded


class RecordedModel:
    """A provider that yields the recorded events of a reply for the request that the loop makes."""

    name = "recorded"

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self.check: Callable[[model.Request], str] = lambda _request: ""
        """Returns why the replay ends at a request; "" if it goes on."""
        self.request: model.Request | None = None
        """The request that is being answered."""
        self.last: model.Request | None = None
        """The last request of the conversation."""
        self._events: deque[model.ModelEvent] = deque()
        self._more = asyncio.Event()
        self._has_started = False
        self._is_stopped = False
        """Whether the user has stopped the reply."""
        self._index = 0

    def first_model(self, request: model.Request) -> str:
        return request.model

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...

    async def stream(self, request: model.Request, signal: AbortSignal) -> AsyncGenerator[model.ModelEvent, None]:
        self.request, self._has_started, self._is_stopped, self._index = request, False, False, 0
        self._events.clear()
        if request.purpose == "turn":
            self._tape.request_number += 1
            self.last = request
            if problem := self.check(request):
                self._tape.differ(problem)
        self._tape.changed.set()
        try:
            while True:
                while self._events:
                    event = self._events.popleft()
                    if isinstance(event, model.Finished | model.Failed):
                        self.request = None
                    yield event
                    if isinstance(event, model.Finished | model.Failed):
                        return
                self._more.clear()
                try:
                    await signal.run(self._more.wait())
                except Aborted:
                    self._events.append(self._aborted(request))
        finally:
            self.request = None

    def _send(self, *events: model.ModelEvent) -> None:
        self._events.extend(events)
        self._more.set()

    def _aborted(self, request: model.Request) -> model.Failed:
        failure = model.Failure(model.FailureKind.ABORTED, "aborted")
        usage = next((used for _index, one in self._tape.ahead() if (used := usage_of(one, request.purpose))), None)
        if usage is None:
            if request.purpose == "turn":
                self._tape.counts.unproven.add(self._tape.request_number)
            return model.Failed(failure)
        return model.Failed(failure, _reported(usage), str(usage["model"]))

    # ------------------------------------------------------------------------------------------------- what to send

    def give(self, index: int, record: Json) -> bool:
        """Send what leads to this line; false if there is no request."""
        if self.request is None:
            return False
        if record["type"] == "shown":
            self._announce(restore_event(record["event"], {}))
        elif self.request.purpose != "turn":
            if used := usage_of(record, self.request.purpose):
                self._send_summary(used)
        elif not self._is_stopped:
            self._give_part(index, record)
        return True

    def _give_part(self, index: int, record: Json) -> None:
        """Send what leads to this line of a reply."""
        match record["type"]:
            case "assistant" if not is_copy(record):
                self._begin(index)
                self._send(*self._block(index, record))
            case "event" if used := usage_of(record, "turn"):
                self._end(index, _reported(used))
            case "reply-end":
                self._end(index, Usage.from_wire(record["message"].get("usage") or {}))
            case "input" if input_of(record, "finished"):
                self._end(index, self._usage_after(index)[0])
            case "input" if input_of(record, "broken", "failed"):
                self._fail(index, record)

    def _announce(self, event: ev.Event | None) -> None:
        match event:
            case ev.RetryScheduled():
                failure = model.Failure(model.FailureKind(event.kind), event.text, event.status)
                self._send(model.Waiting(event.attempt, event.max_attempts, event.wait_seconds, failure))
            case ev.ModelFellBack():
                self._send(model.FellBack(event.from_model, event.to_model, event.reason))
            case ev.FeatureDropped():
                self._send(model.Dropped(event.feature, event.text, event.model, event.requested))

    def give_partial(self, index: int) -> bool:
        """Send what had arrived of the reply when the user stopped it: blocks that were read ahead, which are recorded
        before its usage, and the text that was still streaming. False: the loop has yet to make the request."""
        lines = []
        for place, record in self._tape.ahead(index):
            lines.append((place, record))
            if record["type"] in ("reply-end", "tombstone", "submission-end") and not is_copy(record):
                break
        if self.request is None or self.request.purpose != "turn":
            return not any(record["type"] == "assistant" or usage_of(record, "turn") for _place, record in lines)
        self._is_stopped = True
        usage_at = next((place for place, record in lines if usage_of(record, "turn")), -1)
        for place, record in lines:
            if record["type"] in ("assistant", "reply-end", "tombstone") or place == usage_at:
                self._begin(index)
            if record["type"] != "assistant":
                continue
            block = block_of(record)
            if place < usage_at or not isinstance(block, TextBlock):
                self._send(*self._block(place, record))
            else:
                self._send(model.Opened(self._index, "text"), model.Delta(self._index, "text", block.text))
                self._index += 1
        return True

    def _begin(self, index: int) -> None:
        if self._has_started:
            return
        self._has_started, self._index = True, 0
        api_id, name, usage = "", self.request.model if self.request is not None else "", Usage()
        for _index, record in self._tape.ahead(index):
            if record["type"] == "assistant":
                body = record["message"]
                api_id = "" if body["id"] == record["messageId"] else str(body["id"])
                name = str(body["model"])
            elif record["type"] == "reply-end":
                api_id, name = str(record["message"].get("api_id", api_id)), str(record["message"].get("model", name))
                break
            elif used := usage_of(record, "turn"):
                name, usage = str(used["model"]), _reported(used)
                if not used.get("estimated_tokens"):
                    # Another count than at the end: nothing was left to estimate.
                    usage = replace(usage, output_tokens=usage.output_tokens + 1)
                break
        self._send(model.Started(api_id, name, usage))

    def _block(self, index: int, record: Json) -> Sequence[model.ModelEvent]:
        block, place = block_of(record), self._index
        self._index += 1
        kind = str(record["message"]["content"][0].get("type", "text"))
        opened = model.Opened(place, kind, getattr(block, "name", ""))
        return opened, model.Closed(place, block, cut=self._is_cut(index, record, block))

    def _find_end(self, index: int) -> Json:
        """The line that ends the open reply."""
        return next((one for _index, one in self._tape.ahead(index) if _ends_reply(one)), {})

    def _is_cut(self, index: int, record: Json, block: Block) -> bool:
        """Whether the output limit cut this call off, so that it was left out of the reply."""
        end = self._find_end(index)
        is_left_out = record["uuid"] not in end.get("parts", ())
        return isinstance(block, ToolUseBlock) and _stop_reason(end) == "max_tokens" and is_left_out

    def _end(self, index: int, usage: Usage) -> None:
        self._begin(index)
        end = self._find_end(index)
        self._send(model.Finished(_stop_reason(end), usage, end.get("details", {})))

    def _fail(self, index: int, record: Json) -> None:
        failure = model.Failure(**{**record["failure"], "kind": model.FailureKind(record["failure"]["kind"])})
        usage, name = self._usage_after(index)
        if input_of(record, "failed"):
            self._send(model.Failed(failure, usage, name))
            return
        self._begin(index)
        self._send(model.Broken(failure, usage, name))
        self._has_started = False

    def _usage_after(self, index: int) -> tuple[Usage, str]:
        """The usage on the next line and its model; empty if that is another line."""
        following = next((one for _index, one in self._tape.ahead(index + 1)), {})
        used = usage_of(following, "turn")
        return (_reported(used), str(used["model"])) if used else (Usage(), "")

    def _send_summary(self, used: Json) -> None:
        """End a request for a summary with this usage."""
        text, stop = "", "end_turn"
        for index, one in self._tape.ahead():
            if index > self._tape.cursor and usage_of(one, str(used["purpose"])):
                stop = "max_tokens"
                break
            if origin_of(one) == Origin.SUMMARY:
                text = str(one["message"]["meta"].get(SUMMARY, ""))
                break
        usage, name = _reported(used), str(used["model"])
        self._send(model.Started("", name, usage), model.Delta(0, "text", text), model.Finished(stop, usage))


def _ends_reply(record: Json) -> bool:
    return record["type"] in ("reply-end", "tombstone", "submission-end") or bool(
        input_of(record, "finished", "broken", "failed")
    )


def _stop_reason(end: Json) -> str | None:
    found: str | None = end.get("stop_reason") or (end.get("message") or {}).get("stop_reason")
    return found


def _reported(used: Json) -> Usage:
    """Usage as the server reported it, without what was estimated."""
    usage = Usage.from_wire(used.get("usage") or {})
    return replace(usage, output_tokens=usage.output_tokens - int(used.get("estimated_tokens", 0)))
