"""One turn: a request, the streamed reply, and the tools that run meanwhile (SPEC 2.3 to 2.5).

`Turn.run()` emits events; then `outcome`, `added` and `context` hold the results. The provider's stream and the tools
feed one merge, so text, tool progress and results reach the consumer as they happen.

When a stream breaks: if only safe tools have started, the reply is tombstoned and the provider retries; if a tool with
side effects has started, the blocks up to it are kept and the stream is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, field

from agentcli.agent.loop.decide import MIN_WAIT_SECONDS, SECONDS, TurnOutcome
from agentcli.agent.ports import EmitEvent, hook_message
from agentcli.agent.session import Session
from agentcli.agent.side_call import list_consulted, make_announcements
from agentcli.agent.toolcalls.calls import CallResult, Executor, observe_input
from agentcli.context.estimate import block_tokens
from agentcli.core import events as ev
from agentcli.core.aio import AbortSignal, Merge, cancel_and_wait
from agentcli.core.frozen import frozen, replace, slotted
from agentcli.core.messages import (
    NOTHING,
    RESULT_DATA,
    Block,
    Json,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    is_thinking,
)
from agentcli.core.usage import Usage
from agentcli.providers import base as model
from agentcli.providers.body import advisor_of, describe_advice
from agentcli.tools.base import ToolContext

PAUSE_SECONDS = 1.0
"""A pause between two pieces of a block from which on it is recorded."""
MAX_PAUSES = 8


@frozen
class TurnPlan:
    """What differs between turns."""

    request: model.Request
    turn: int
    may_escalate: bool
    """Whether a reply cut by the output cap is requested again with a higher cap, instead of being kept."""
    estimated_tokens: int = 0
    transition: str = ""
    """Why the request is sent, as in `LoopContinued`; "" for the first one of a submission."""


class _Wake:
    """An item without content: `beside` has new events."""


_Item = model.ModelEvent | tuple[Executor, ev.Event | None] | _Wake


class Turn:
    """Results: `outcome`, the messages `added` to the log, and the `context` of the next turn's tools."""

    def __init__(
        self,
        session: Session,
        plan: TurnPlan,
        context: ToolContext,
        emit: EmitEvent,
        signal: AbortSignal,
    ) -> None:
        self._session = session
        servers = session.server_questions
        self._beside = (session.agents, *((servers,) if servers is not None else ()))
        """Sources of events of work that runs beside the turn."""
        self._plan = plan
        self._hand_over = emit
        self._signal = signal
        self._merge: Merge[_Item] = Merge()
        self._retry = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._executor = self._new_executor(context)
        self._reply: Reply | None = None
        self._whole = False
        self._shown_reply = ""
        """Id of the reply whose beginning the consumer got, and not its end."""
        self._began = session.clock.monotonic()
        self._first_ms = 0
        self._heard = self._began
        """When the last item of the stream came."""
        self._pauses: list[list[int]] = []
        self._finished_calls: dict[str, ToolResultBlock] = {}
        self._tool_seconds = 0.0
        """Duration of the longest call."""
        self._results_added = 0
        self._open_questions: dict[str, ev.PermissionRequested] = {}
        self._agent_calls: dict[str, str] = {}
        """Ids of the calls that started sub-agents, by the sub-agent's id."""
        self._asked_model = plan.request.model
        self._consumer_left = False
        self.context = context
        self.added: list[Message] = []
        self.outcome = TurnOutcome()

    async def run(self) -> None:
        plan = self._plan
        await self._emit(
            ev.RequestStarted(
                model=plan.request.model, turn=plan.turn, purpose="turn", estimated_tokens=plan.estimated_tokens
            )
        )
        self._began = self._session.clock.monotonic()
        self._pump = self._merge.start(self._read_stream(), name="model stream")
        last_events = self._last_events()
        unhook = [source.on_event(lambda: self._merge.offer(_Wake())) for source in self._beside]
        try:
            await self._take_items()
            for event in last_events:
                await self._emit(event)
        finally:
            for each in unhook:
                each()
            await self._merge.aclose()
            self._executor.dispose()
            # The consumer has gone away: it does not get the last events, but the log does.
            self._consumer_left = True
            for event in last_events:
                self._note(event)
                if isinstance(event, ev.MessageAppended | ev.ReplyTombstoned):
                    self._session.log.keep(event)

    def _emit(self, event: ev.Event) -> Awaitable[None]:
        self._note(event)
        return self._hand_over(event)

    def _note(self, event: ev.Event) -> None:
        """Keep track of what the consumer gets: it may go away at any event, and get no later one."""
        match event:
            case ev.ReplyStarted(agent=""):
                self._shown_reply = event.message_id
            case ev.ReplyTombstoned(agent=""):
                self._shown_reply = ""
            case ev.MessageAppended(agent=""):
                self._shown_reply = ""
                self.added.append(event.message)

    async def _take_items(self) -> None:
        async for item in self._merge:
            for event in [event for source in self._beside for event in source.take_events()]:
                await self._emit(event)
            if isinstance(item, tuple):
                for event in self._tool_event(*item):
                    await self._emit(event)
            elif isinstance(item, model.Delta):
                self._note_pause()
                await self._emit(self._delta(item))
            elif isinstance(item, _Wake):
                continue
            elif isinstance(item, model.Broken):
                for event in await self._broken(item):
                    await self._emit(event)
            elif isinstance(item, model.Finished):
                for event in await self._finish(item):
                    await self._emit(event)
            else:
                for event in self._model_event(item):
                    await self._emit(event)
                if isinstance(item, model.Closed) and isinstance(item.block, ToolUseBlock):
                    # Let the tool start before the rest of the reply is processed.
                    await asyncio.sleep(0)

    async def _read_stream(self) -> None:
        async with aclosing(self._session.provider.stream(self._plan.request, self._signal)) as stream:
            async for event in stream:
                await self._merge.put(event)
                if isinstance(event, model.Broken):
                    # Requesting the next event means "retry": wait until that is decided.
                    await self._retry.wait()
                    self._retry.clear()

    def _new_executor(self, context: ToolContext) -> Executor:
        session, tuning = self._session, self._session.settings.tuning
        executor = tuning.executor(session.runner, context, tuning.concurrency, self._signal)

        async def put(event: ev.Event | None) -> None:
            await self._merge.put((executor, event))

        executor.connect(self._merge.start, put)
        return executor

    # ------------------------------------------------------------------------------------------------ model events

    def _note_pause(self) -> None:
        now = self._session.clock.monotonic()
        if now - self._heard >= PAUSE_SECONDS and len(self._pauses) < MAX_PAUSES:
            began = max(self._heard, self._began)
            self._pauses.append([int((began - self._began) * 1000), int((now - began) * 1000)])
        self._heard = now

    def _delta(self, delta: model.Delta) -> ev.Event:
        assert self._reply is not None
        message_id = self._reply.message_id
        if delta.kind == "text":
            self._reply.add_text(delta.index, delta.text)
            return ev.TextStreamed(message_id=message_id, index=delta.index, text=delta.text)
        if delta.kind == "thinking":
            return ev.ThinkingStreamed(message_id=message_id, index=delta.index, text=delta.text)
        return ev.ToolInputStreamed(message_id=message_id, index=delta.index, text=delta.text)

    def _model_event(self, item: model.ModelEvent) -> Iterator[ev.Event]:
        match item:
            case model.Started(api_id, name, usage):
                self._reply = Reply(self._session.ids.new(), api_id, name, usage)
                yield ev.ReplyStarted(message_id=self._reply.message_id, api_id=api_id, model=name, usage=usage)
            case model.Opened(index, kind, name):
                assert self._reply is not None
                self._release_held()
                self._reply.opened[index] = self._heard = now = self._session.clock.monotonic()
                self._first_ms = self._first_ms or max(1, int((now - self._began) * 1000))
                yield ev.BlockStarted(message_id=self._reply.message_id, index=index, kind=kind, name=name)
            case model.Closed():
                yield self._block_closed(item)
                if text := describe_advice(item.block, advisor_of(self._plan.request.tools) or "the advisor"):
                    yield ev.NoticeRaised(text=text, code="advisor")
            case model.Failed(failure, usage, name):
                is_aborted = failure.kind is model.FailureKind.ABORTED
                if not is_aborted:
                    self._note_end("failed", {"failure": asdict(failure)})
                yield from self._usage(name, usage, self._estimate_unreported(usage) if is_aborted else 0)
                if not is_aborted:
                    self.outcome = replace(self.outcome, failure=failure)
                self._executor.close()
            case _:
                if isinstance(item, model.FellBack):
                    self._asked_model = item.to_model
                yield from make_announcements(item)

    def _block_closed(self, closed: model.Closed) -> ev.Event:
        reply = self._reply
        assert reply is not None
        block = closed.block
        reply.close_block(closed.index, block)
        if isinstance(block, ToolUseBlock):
            if closed.cut or block.invalid_json is not None:
                reply.held.append((closed.index, block))
            else:
                self._executor.submit(block)
        began = reply.opened.pop(closed.index, None)
        observed: Json | None = None
        if isinstance(block, ToolUseBlock):
            tool = self._session.registry.get(block.name)
            observed = observe_input(tool, block.input, self._executor.given)
        return ev.BlockFinished(
            observed=observed,
            message_id=reply.message_id,
            api_id=reply.api_id,
            model=reply.model,
            index=closed.index,
            block=block,
            duration_ms=None if began is None else int((self._session.clock.monotonic() - began) * 1000),
        )

    def _release_held(self) -> None:
        """Run the calls that were held back because they could be cut: another block follows, so they are complete."""
        if self._reply is not None:
            for _index, call in self._reply.held:
                self._executor.submit(call)
            self._reply.held.clear()

    async def _finish(self, finished: model.Finished) -> list[ev.Event]:
        reply = self._reply
        assert reply is not None
        reply.usage = finished.usage
        events = list(self._usage(reply.model, finished.usage))
        # Only the last block can have been cut by the cap.
        cut = reply.held.pop() if reply.held and finished.stop_reason == "max_tokens" else None
        overrun = finished.stop_reason == "max_tokens" and (cut is not None or not reply.tool_uses)
        if overrun and self._plan.may_escalate and not self._executor.has_unsafe_work:
            self._note_end("finished", {"stop_reason": finished.stop_reason})
            self.outcome = replace(
                self.outcome,
                stop_reason=finished.stop_reason,
                output_tokens=finished.usage.output_tokens,
                overrun=True,
            )
            return [*events, *await self._void("the reply was cut by the output limit")]
        if cut is not None:
            del reply.blocks[cut[0]]
        self._release_held()
        self._classify(reply, finished, overrun)
        if finished.stop_details or reply.says_nothing:
            self._note_end("finished", {"stop_reason": finished.stop_reason, "details": finished.stop_details})
        if reply.says_nothing:
            return [*events, *await self._void("the reply was empty")]
        self._whole = True
        self._executor.close()
        return [*events, _make_appended(reply.message(finished.stop_reason))]

    def _classify(self, reply: Reply, finished: model.Finished, overrun: bool) -> None:
        has_calls = bool(reply.tool_uses)
        reason = finished.stop_reason
        self.outcome = replace(
            self.outcome,
            stop_reason=reason,
            output_tokens=finished.usage.output_tokens,
            overrun=overrun and not has_calls,
            paused=reason == "pause_turn" and not has_calls and not reply.says_nothing,
            context_exceeded=reason == "model_context_window_exceeded" and not has_calls,
            refused=_refusal(finished) if reason == "refusal" and not has_calls else None,
            empty=reply.says_nothing and reason not in ("refusal", "max_tokens", "model_context_window_exceeded"),
        )

    def _note_end(self, kind: str, fields: Json) -> None:
        """Record the end of a request that no message shows."""
        digest = self._session.digests.digest(self._plan.request)
        self._session.store.note_input(kind, {"request": digest, **{name: v for name, v in fields.items() if v}})

    async def _broken(self, broken: model.Broken) -> list[ev.Event]:
        self._note_end("broken", {"failure": asdict(broken.failure)})
        events = list(self._usage(broken.model, broken.usage))
        if self._reply is None or not self._executor.has_unsafe_work:
            events += await self._void(broken.failure.message)
            self._retry.set()
            return events
        assert self._pump is not None
        await cancel_and_wait([self._pump])
        self._executor.drop_unstarted()
        self._reply.drop_after(self._executor.last_begun)
        self._reply.usage = broken.usage
        self._whole = True
        self._executor.close()
        return [*events, *self._withdrawn_questions(), _make_appended(self._reply.message(None))]

    async def _void(self, reason: str) -> list[ev.Event]:
        """Discard the reply so far: end its tools, drop its results, notify consumers."""
        await self._executor.abandon()
        events = self._withdrawn_questions()
        self._finished_calls.clear()
        self._results_added = 0
        self._executor = self._new_executor(self.context)
        reply, self._reply = self._reply, None
        if reply is not None:
            events.append(ev.ReplyTombstoned(message_id=reply.message_id, reason=reason))
        return events

    def _withdrawn_questions(self) -> list[ev.Event]:
        """Resolve the questions of discarded calls. Calls that are still running resolve their own."""
        alive = set(self._executor.waiting_ids)
        asked = self._open_questions.values()
        gone = [one for one in asked if self._agent_calls.get(one.agent, one.tool_use_id) not in alive]
        for one in gone:
            del self._open_questions[one.request_id]
        return [
            ev.PermissionResolved(
                agent=one.agent, request_id=one.request_id, tool_use_id=one.tool_use_id, behavior="withdrawn"
            )
            for one in gone
        ]

    def _estimate_unreported(self, usage: Usage) -> int:
        """Estimated output tokens of a stopped reply that its usage lacks. The API reports the output only at the end;
        once it has, the count is exact."""
        if not usage or self._reply is None or usage.output_tokens != self._reply.usage.output_tokens:
            return 0
        return max(0, self._reply.estimated_tokens - usage.output_tokens)

    def _usage(self, name: str, usage: Usage, estimated: int = 0) -> Iterator[ev.Event]:
        """`estimated`: output tokens that the usage lacks."""
        if usage:
            if estimated:
                usage = replace(usage, output_tokens=usage.output_tokens + estimated)
            elapsed = int((self._session.clock.monotonic() - self._began) * 1000)
            cost = self._session.price(name, usage)
            if cost is None:
                # A gateway may report another model name than the requested one.
                cost = self._session.price(self._asked_model, usage)
            yield ev.UsageReported(
                model=name,
                usage=usage.alone,
                estimated_tokens=estimated,
                cost_usd=cost,
                duration_ms=elapsed,
                first_ms=self._first_ms,
                transition=self._plan.transition,
                pauses=self._pauses,
                request=self._session.digests.digest(self._plan.request),
                max_tokens=self._plan.request.max_tokens,
            )
            yield from list_consulted(name, usage, self._session.price)
        self._began = self._heard = self._session.clock.monotonic()
        self._first_ms, self._pauses = 0, []

    # ------------------------------------------------------------------------------------------------- tool events

    def _tool_event(self, executor: Executor, event: ev.Event | None) -> Iterator[ev.Event]:
        if executor is not self._executor:
            return  # It belongs to a discarded reply.
        if event is None:
            yield from self._order_results(executor.results_ready())
            return
        match event:
            case ev.PermissionRequested():
                self._open_questions[event.request_id] = event
            case ev.PermissionResolved():
                self._open_questions.pop(event.request_id, None)
            case ev.AgentStarted():
                self._agent_calls[event.agent] = self._agent_calls.get(event.parent, event.tool_use_id)
            case ev.ToolFinished() if not event.agent:
                self._finished_calls[event.tool_use_id] = event.result
                self._tool_seconds = max(self._tool_seconds, event.duration_ms / 1000)
        yield event

    def _order_results(self, ready: Sequence[CallResult]) -> Iterator[ev.Event]:
        for result in ready[self._results_added :]:
            if result.call.id not in self._finished_calls:
                return  # Its ToolFinished has not arrived yet and must come first.
            self._results_added += 1
            yield ev.ToolResultAdded(
                tool_use_id=result.call.id,
                name=result.call.name,
                result=result.block,
                structured=result.output.structured,
            )

    # ---------------------------------------------------------------------------------------------------------- end

    def _last_events(self) -> Iterator[ev.Event]:
        """Everything has ended: complete the partial reply and the results of all calls, and set the outcome. If the
        consumer goes away in between, `run` processes the remaining events."""
        yield from self._partial_reply()
        results = self._executor.results() if self.added and self.added[-1].tool_uses else []
        for result in results:
            if result.call.id not in self._finished_calls:
                self._finished_calls[result.call.id] = result.block
                yield ev.ToolFinished(
                    tool_use_id=result.call.id,
                    name=result.call.name,
                    result=result.block,
                    summary=result.output.summary,
                    outcome=result.outcome,
                    denied_by=result.denied_by,
                )
        if results:
            yield from self._order_results(results)
            for message in self._result_messages(results):
                yield _make_appended(message)
            if self._executor.context.cwd != self.context.cwd:
                yield ev.DirectoryChanged(cwd=str(self._executor.context.cwd))
            self.context = self._executor.context
        final = next((r.output.final for r in results if r.output.final is not None), None)
        self.outcome = replace(
            self.outcome,
            aborted=self._signal.reason,
            aborted_in="tools" if self._whole and results else "streaming",
            tool_results=tuple(result.call.id for result in results),
            hook_stop=next((r.hook_stop for r in results if r.hook_stop is not None), None),
            stopped_by=next((r.stopped_by for r in results if r.hook_stop is not None), "hook"),
            completed_by_tool=final is not None,
            final=final,
        )

    def _partial_reply(self) -> Iterator[ev.Event]:
        """Keep the received part of an interrupted reply; void one that failed or has no content."""
        reply = self._reply
        interrupted = self._signal.aborted or (self._consumer_left and self.outcome.failure is None)
        if reply is not None and not self.added and interrupted:
            if not self._whole:
                reply.keep_what_came()
            if not reply.says_nothing:
                yield _make_appended(reply.message(self.outcome.stop_reason))
        if self._shown_reply:
            yield ev.ReplyTombstoned(message_id=self._shown_reply, reason="interrupted")

    def _result_messages(self, results: Sequence[CallResult]) -> Iterator[Message]:
        """The results of the calls, then the user's messages about them, then texts of hooks."""
        ids = self._session.ids
        data = {result.call.id: result.output.data for result in results if result.output.data}
        seconds = self._tool_seconds if self._tool_seconds >= MIN_WAIT_SECONDS else 0
        meta = {name: value for name, value in ((RESULT_DATA, data), (SECONDS, seconds)) if value}
        blocks = tuple(self._finished_calls[result.call.id] for result in results)
        yield Message("user", blocks, ids.new(), Origin.TOOL_RESULTS, meta=meta or NOTHING)
        for result in results:
            for words in result.said:
                yield words.message(ids.new())
        if hook_texts := [text for result in results for text in result.hook_context]:
            yield hook_message(hook_texts, ids.new())


def _make_appended(message: Message) -> ev.MessageAppended:
    return ev.MessageAppended(message=message)


def _refusal(finished: model.Finished) -> str:
    category = finished.stop_details.get("category")
    because = f" ({category})" if isinstance(category, str) else ""
    return f"The model declined to answer{because}. The prompt is left out; change it and send it again."


@slotted
class Reply:
    """Mutable and private to one `Turn`; `message` makes an immutable value of it."""

    message_id: str
    api_id: str
    model: str
    usage: Usage
    blocks: dict[int, Block] = field(default_factory=dict)
    """Complete blocks, by index."""
    open_text: dict[int, list[str]] = field(default_factory=dict)
    """Text of blocks that are still streaming; kept when the user interrupts."""
    opened: dict[int, float] = field(default_factory=dict)
    """Start time of each block, on the monotonic clock."""
    held: list[tuple[int, ToolUseBlock]] = field(default_factory=list)
    """Tool calls that the output cap may have cut: they do not run until the next block or the end proves otherwise."""

    def add_text(self, index: int, text: str) -> None:
        self.open_text.setdefault(index, []).append(text)

    def close_block(self, index: int, block: Block) -> None:
        self.open_text.pop(index, None)
        self.blocks[index] = block

    def drop_after(self, call: ToolUseBlock | None) -> None:
        """Keep the blocks up to and including a call; for a reply that was cut off after it."""
        last = next((index for index, block in self.blocks.items() if block is call), -1)
        self.blocks = {index: block for index, block in self.blocks.items() if index <= last}
        self.open_text.clear()
        self._drop_unanswered()

    def keep_what_came(self) -> None:
        """End the reply here: keep its text, drop calls that may be incomplete."""
        for index, _call in self.held:
            self.blocks.pop(index, None)
        for index, parts in self.open_text.items():
            text = "".join(parts)
            if text.strip():
                self.blocks[index] = TextBlock(text)
        self.open_text.clear()
        self._drop_unanswered()

    def _drop_unanswered(self) -> None:
        """Drop calls of server tools whose results did not arrive: no later request could add them."""
        unknown = [(index, block.data) for index, block in self.blocks.items() if isinstance(block, UnknownBlock)]
        answered = {data.get("tool_use_id") for _index, data in unknown}
        for index, data in unknown:
            if data.get("type") == "server_tool_use" and data.get("id") not in answered:
                del self.blocks[index]

    @property
    def content(self) -> tuple[Block, ...]:
        return tuple(self.blocks[index] for index in sorted(self.blocks))

    @property
    def estimated_tokens(self) -> int:
        """Tokens of everything received, except thinking and calls that are still streaming."""
        open_blocks = [TextBlock("".join(parts)) for parts in self.open_text.values()]
        return sum(map(block_tokens, (*self.blocks.values(), *open_blocks)))

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolUseBlock))

    @property
    def says_nothing(self) -> bool:
        """No text and no call, only thinking and white space. Such a reply is never stored."""
        return all(
            is_thinking(block) or (isinstance(block, TextBlock) and not block.text.strip()) for block in self.content
        )

    def message(self, stop_reason: str | None) -> Message:
        return Message(
            role="assistant",
            content=self.content,
            id=self.message_id,
            origin=Origin.REPLY,
            api_id=self.api_id,
            model=self.model,
            stop_reason=stop_reason,
            usage=self.usage,
        )
