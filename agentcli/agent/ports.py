"""What the loop needs from outside. Its extension points are base classes that do nothing, to be overridden: hooks,
attachments, collapses. The user answers questions and queues prompts while a submission runs.

An extension must not raise for external failures; an exception that gets through is a bug and ends the submission with
`model_error`, never the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agentcli.agent.loop_state import LoopState
from agentcli.core.aio import Aborted, AbortSignal, Outlet, cancel_and_wait, start_task
from agentcli.core.events import ContextEdited, Event, PermissionRequested, PermissionResolved
from agentcli.core.frozen import frozen
from agentcli.core.messages import (
    Block,
    Json,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    clean_text,
    user_message,
)
from agentcli.core.permission import Answer
from agentcli.core.usage import Usage

if TYPE_CHECKING:
    from agentcli.agent.session import Session
    from agentcli.hooks.runner import HookRun


EmitEvent = Callable[[Event], Awaitable[None]]
"""Puts an event into the stream of the submission."""


StopSource = Literal["hook", "schema"]
"""What keeps a submission going or ends it: hooks, or the required structured output (`--json-schema`)."""
END_SECONDS = 1.5
"""Seconds that hooks get while a session ends, when the user waits for it."""


@frozen
class HookVerdict:
    """What hooks answer to one occasion. With nothing set, the work goes on."""

    decision: Literal["none", "allow", "ask", "deny"] = "none"
    """About a call, or in place of the user about a permission question. `allow` never overrides a deny or ask rule."""
    reason: str = ""
    updated_input: Json | None = None
    context: tuple[str, ...] = ()
    """Texts for the model: added to the prompt, or after the results."""
    stop: str | None = None
    """Not None: a prompt is not sent; a call is denied, and the submission ends after this batch; a submission that is
    about to end may not continue. For this reason."""
    errors: tuple[str, ...] = ()
    """Not empty: the end of the submission is blocked; the model gets these texts and continues."""
    by: StopSource = "hook"
    """Source of `stop` and `errors`."""
    interrupt: bool = False
    """A denial also ends the submission."""

    @property
    def is_final(self) -> bool:
        return self.decision == "deny" or self.stop is not None or bool(self.errors)

    def joined(self, later: HookVerdict) -> HookVerdict:
        """Both together: deny is stronger than ask, ask than allow, of equal ones the later counts."""
        stronger = later if _STRENGTH.index(later.decision) >= _STRENGTH.index(self.decision) else self
        return HookVerdict(
            stronger.decision,
            stronger.reason,
            self.updated_input if later.updated_input is None else later.updated_input,
            (*self.context, *later.context),
            self.stop if self.stop is not None else later.stop,
            self.errors or later.errors,
            self.by if self.is_final else later.by,
            stronger.interrupt,
        )


_STRENGTH = ("none", "allow", "ask", "deny")


class Hooks:
    """Called around sessions, prompts, tool calls, agents, stops and compactions. A subclass overrides what it has
    hooks for; any other method asks its `sources`, of which there are usually none."""

    sources: tuple[Hooks, ...] = ()

    @property
    def configured(self) -> bool:
        """Whether there is any hook to call."""
        return True

    def bind(self, describe: Callable[[], Json], runs: Iterable[HookRun]) -> None:
        """Called once, before anything else. `describe` returns the current session_id, transcript_path, cwd and
        permission_mode. `runs`: the `listing` of the hooks that these replace."""
        known = list(runs)
        for source in self.sources:
            source.bind(describe, known)

    def reporting_to(self, emit: EmitEvent) -> Hooks:
        """The same hooks, reporting their runs as events."""
        reporting = tuple(source.reporting_to(emit) for source in self.sources)
        same = all(one is other for one, other in zip(reporting, self.sources, strict=True))
        return self if same else self.with_sources(reporting)

    def with_sources(self, sources: Iterable[Hooks]) -> Hooks:
        return HookChain(sources)

    async def before_session(self, source: str) -> tuple[str, ...]:
        """`source`: startup, resume, clear or compact. Returns texts for the model, added to the next prompt."""
        return tuple([text for hooks in self.sources for text in await hooks.before_session(source)])

    async def after_session(self, reason: str) -> None:
        """`reason`: clear, resume, exit or other. Must take at most a few seconds."""
        for source in self.sources:
            await source.after_session(reason)

    @property
    def watches_tools(self) -> bool:
        """Whether `before_tool` or `after_tool` can have an effect."""
        kind = type(self)
        own = kind.before_tool is not Hooks.before_tool or kind.after_tool is not Hooks.after_tool
        return own or any(source.watches_tools for source in self.sources)

    async def _ask(self, ask: Callable[[Hooks], Awaitable[HookVerdict]], *, all_of_them: bool = False) -> HookVerdict:
        total = HookVerdict()
        for source in self.sources:
            total = total.joined(await ask(source))
            if total.is_final and not all_of_them:
                break
        return total

    async def before_tool(self, call: ToolUseBlock, input: Json) -> HookVerdict:
        total = HookVerdict()
        for source in self.sources:
            seen = input if total.updated_input is None else total.updated_input
            total = total.joined(await source.before_tool(call, seen))
            if total.is_final:
                break
        return total

    async def before_question(self, call: ToolUseBlock, input: Json) -> HookVerdict:
        """Called when the user is about to be asked about a call, or would be in an interactive session."""
        return await self._ask(lambda hooks: hooks.before_question(call, input))

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> HookVerdict:
        return await self._ask(lambda hooks: hooks.after_tool(call, input, result), all_of_them=True)

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> HookVerdict:
        """Called after a call that did not run: unknown, malformed, denied, crashed (PostToolUseFailure)."""
        return await self._ask(lambda hooks: hooks.after_refused_tool(call, text), all_of_them=True)

    @property
    def checks_prompts(self) -> bool:
        """Whether a prompt must not be sent before `before_prompt` has checked it."""
        own = type(self).before_prompt is not Hooks.before_prompt
        return own or any(source.checks_prompts for source in self.sources)

    async def before_prompt(self, text: str) -> HookVerdict:
        return await self._ask(lambda hooks: hooks.before_prompt(text))

    async def before_stop(self, state: LoopState) -> HookVerdict:
        return await self._ask(lambda hooks: hooks.before_stop(state))

    async def after_failure(self, text: str) -> None:
        """StopFailure: runs in the background; only the end of the session waits for it."""
        for source in self.sources:
            await source.after_failure(text)

    async def before_agent(self, agent_id: str, name: str, prompt: str) -> tuple[str, ...]:
        """A sub-agent starts; `name` is its type. Returns texts for it, added to its prompt."""
        return tuple([text for source in self.sources for text in await source.before_agent(agent_id, name, prompt)])

    async def after_agent(self, agent_id: str, name: str, text: str, *, is_active: bool = False) -> HookVerdict:
        """A sub-agent is about to end with `text`. `is_active`: it continued because an earlier end was blocked."""
        return await self._ask(lambda hooks: hooks.after_agent(agent_id, name, text, is_active=is_active))

    async def before_compact(self, trigger: str, focus: str) -> str | None:
        """Returns the focus to use; None: no compaction."""
        wanted: str | None = focus
        for source in self.sources:
            wanted = None if wanted is None else await source.before_compact(trigger, wanted)
        return wanted

    async def after_compact(self, trigger: str) -> None:
        for source in self.sources:
            await source.after_compact(trigger)

    def attention_needed(self, kind: str, text: str) -> None:
        """The session waits for the user: `permission_prompt` or `idle_prompt`. Returns at once."""
        for source in self.sources:
            source.attention_needed(kind, text)

    def listing(self) -> Iterable[HookRun]:
        """The configured hooks and the result of the last run of each."""
        return [run for source in self.sources for run in source.listing()]

    async def aclose(self) -> None:
        """Cancel what runs beside the submissions."""
        for source in self.sources:
            await source.aclose()


class HookChain(Hooks):
    """Hooks from several sources, called in order; their verdicts are joined. Without sources nothing happens."""

    def __init__(self, sources: Iterable[Hooks] = ()) -> None:
        self.sources = tuple(sources)

    @property
    def configured(self) -> bool:
        return any(source.configured for source in self.sources)


Lookup = Callable[[], object]
"""Blocking work for an attachment."""


class Attachments:
    @property
    def waits(self) -> bool:
        """Whether the next `collect` may wait for more than the files that it reads, so that an abort must be able to
        cancel it."""
        return False

    def lookup(self, state: LoopState) -> Lookup | None:
        """Work for the next `collect` with this same state, to be done in one thread together with that of others.
        Optional: without it `collect` uses a thread of its own. None: there is nothing to look up."""
        return None

    async def collect(self, state: LoopState) -> Sequence[Message]:
        """Messages for the model before the next request (SPEC 2.6), each at most once per change."""
        return ()

    def close(self) -> None:
        """Cancel what was prepared for a next request: there will be none."""


PriceOf = Callable[[str, Usage], float | None]


@frozen
class Staging:
    """Input for summaries of old spans, as of the next request."""

    session: Session
    log: Sequence[Message]
    estimate: int
    usable: int
    pinned: frozenset[str] = frozenset()
    """Blocks that the user has pinned, by their current ids."""


class Collapser:
    """Summarises old spans in the background and stages the summaries until needed (SPEC 2.1 step 5). This base class
    makes none."""

    def staged(self) -> int:
        return 0

    def stage(self, staging: Staging, signal: AbortSignal) -> None:
        """Begin summaries if they may be needed soon; returns at once."""

    def drain(self, log: Sequence[Message], pinned: frozenset[str]) -> ContextEdited | None:
        """Commit all staged spans to the view; returns the edit for the record."""
        return None

    async def aclose(self) -> None:
        """Cancel background work at the end of the submission. Staged spans stay."""


T = TypeVar("T")


async def ask_hooks(
    hooks: Hooks, call: Callable[[Hooks], Coroutine[Any, Any, T]], signal: AbortSignal, emit: EmitEvent
) -> T:
    """The verdict of `call`, which gets the hooks to run; emits what they report meanwhile. Raises `Aborted`."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    reporting = hooks.reporting_to(events.put)
    if reporting is hooks:
        return await signal.run(call(hooks))
    task = start_task(signal.run(call(reporting)))
    task.add_done_callback(lambda _task: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            await emit(event)
        return await task
    finally:
        await cancel_and_wait([task])
        if not task.cancelled():
            task.exception()  # retrieved even if the consumer has gone


def hook_message(texts: Iterable[str], message_id: str) -> Message:
    """A message with the texts of hooks, separated by blank lines: a model reads adjacent blocks as one text."""
    return user_message("\n\n".join(texts), message_id, Origin.HOOK)


class Questions:
    """The open questions of a session, by request id."""

    def __init__(self, *, interactive: bool) -> None:
        """`interactive`: whether a user can answer."""
        self.interactive = interactive
        self._open: dict[str, asyncio.Future[Answer]] = {}

    def ask(self, request_id: str) -> asyncio.Future[Answer]:
        """Register a question and return the future of its answer. Call it before the question is shown, or a fast
        answer is lost."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[request_id] = future
        return future

    def withdraw(self, request_id: str) -> None:
        """Cancel a question; does nothing once it is answered."""
        future = self._open.pop(request_id, None)
        if future is not None and not future.done():
            future.cancel()

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Answer a question. False: it does not exist, or was answered or withdrawn before."""
        future = self._open.pop(request_id, None)
        if future is None or future.done():
            return False
        future.set_result(answer)
        return True


class UserQuestion:
    """A question to the user about something other than a tool call."""

    def __init__(self, question: PermissionRequested, questions: Questions, signal: AbortSignal | None) -> None:
        self._question = question
        self._questions = questions
        self._signal = signal
        self.answer: Answer | None = None
        """None until it is asked, and if `signal` aborted."""

    async def ask(self, emit: EmitEvent) -> Answer | None:
        request_id = self._question.request_id
        future = self._questions.ask(request_id)
        try:
            await emit(self._question)
            try:
                self.answer = await (future if self._signal is None else self._signal.run(future))
            except Aborted:
                self.answer = None
        finally:
            self._questions.withdraw(request_id)
        behavior = self.answer.behavior if self.answer is not None else "withdrawn"
        await emit(PermissionResolved(request_id=request_id, tool_use_id="", behavior=behavior))
        return self.answer

    def run(self) -> AsyncGenerator[Event, None]:
        """Ask in a command, which yields events."""
        outlet: Outlet[Event] = Outlet()
        return outlet.deliver(self.ask(outlet.emit))


Priority = Literal["now", "next", "later"]
"""When the running work takes a prompt in: `next` after the next tool results, `later` when the work would end, `now`
at the first of both. What is `next` when the work ends stays queued, for a submission of its own."""
_RANK: dict[Priority, int] = {"now": 0, "next": 1, "later": 2}

Prompt = str | tuple[Block, ...]


@frozen
class QueuedPrompt:
    id: str
    content: tuple[Block, ...]
    priority: Priority
    mentions: str | None = None
    """Text whose `@path` mentions are attached; None: the prompt's own."""

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))


def prompt_blocks(prompt: Prompt) -> tuple[Block, ...]:
    return (TextBlock(clean_text(prompt)),) if isinstance(prompt, str) else tuple(prompt)


class PromptQueue:
    def __init__(self) -> None:
        self._waiting: list[QueuedPrompt] = []

    def add(self, prompt: QueuedPrompt) -> None:
        self._waiting.append(prompt)

    def take(self, most: Priority = "later") -> tuple[QueuedPrompt, ...]:
        """Remove and return all prompts up to a priority, `now` first, in order of arrival within one priority."""
        taken = sorted(
            (p for p in self._waiting if _RANK[p.priority] <= _RANK[most]), key=lambda prompt: _RANK[prompt.priority]
        )
        self._waiting = [p for p in self._waiting if p not in taken]
        return tuple(taken)

    def first(self, most: Priority = "later") -> QueuedPrompt | None:
        """The next prompt up to a priority. The caller that logs it removes it in the same step, so that it is never
        lost."""
        waiting = [p for p in self._waiting if _RANK[p.priority] <= _RANK[most]]
        return min(waiting, key=lambda prompt: _RANK[prompt.priority], default=None)

    @property
    def holds_back_end(self) -> bool:
        """Whether the work may not end before the queued prompts are taken in."""
        return any(prompt.priority != "next" for prompt in self._waiting)

    def remove(self, prompt_id: str) -> QueuedPrompt | None:
        found = next((prompt for prompt in self._waiting if prompt.id == prompt_id), None)
        if found is not None:
            self._waiting.remove(found)
        return found

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(prompt.id for prompt in self._waiting)
