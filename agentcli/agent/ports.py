"""The extension points of the loop: base classes that do nothing, to be overridden; how hooks are awaited.

An extension must not raise for external failures; an exception that gets through is a bug and ends the submission with
`model_error`, never the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agentcli.agent.loop_state import LoopState
from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.events import ContextEdited, Event
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Message, Origin, ToolResultBlock, ToolUseBlock, user_message
from agentcli.core.usage import Usage
from agentcli.workspace.base import Workspace

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
    """Called around sessions, prompts, tool calls, agents, stops and compactions. Each method does nothing unless it is
    overridden."""

    @property
    def configured(self) -> bool:
        """Whether there is any hook to call."""
        return True

    def bind(self, describe: Callable[[], Json], runs: Iterable[HookRun]) -> None:
        """Called once, before anything else. `describe` returns the current session_id, transcript_path, cwd and
        permission_mode. `runs`: the `listing` of the hooks that these replace."""

    def reporting_to(self, emit: EmitEvent) -> Hooks:
        """The same hooks, reporting their runs as events."""
        return self

    async def before_session(self, source: str) -> tuple[str, ...]:
        """`source`: startup, resume, clear or compact. Returns texts for the model, added to the next prompt."""
        return ()

    async def after_session(self, reason: str) -> None:
        """`reason`: clear, resume, exit or other. Must take at most a few seconds."""

    @property
    def watches_tools(self) -> bool:
        """Whether `before_tool` or `after_tool` can have an effect."""
        kind = type(self)
        return kind.before_tool is not Hooks.before_tool or kind.after_tool is not Hooks.after_tool

    async def before_tool(self, call: ToolUseBlock, input: Json) -> HookVerdict:
        return HookVerdict()

    async def before_question(self, call: ToolUseBlock, input: Json) -> HookVerdict:
        """Called when the user is about to be asked about a call, or would be in an interactive session."""
        return HookVerdict()

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> HookVerdict:
        return HookVerdict()

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> HookVerdict:
        """Called after a call that did not run: unknown, malformed, denied, crashed (PostToolUseFailure)."""
        return HookVerdict()

    @property
    def checks_prompts(self) -> bool:
        """Whether a prompt must not be sent before `before_prompt` has checked it."""
        return type(self).before_prompt is not Hooks.before_prompt

    async def before_prompt(self, text: str) -> HookVerdict:
        return HookVerdict()

    async def before_stop(self, state: LoopState) -> HookVerdict:
        return HookVerdict()

    async def after_failure(self, text: str) -> None:
        """StopFailure: runs in the background; only the end of the session waits for it."""

    async def before_agent(self, agent_id: str, name: str, prompt: str) -> tuple[str, ...]:
        """A sub-agent starts; `name` is its type. Returns texts for it, added to its prompt."""
        return ()

    async def after_agent(self, agent_id: str, name: str, text: str, *, is_active: bool = False) -> HookVerdict:
        """A sub-agent is about to end with `text`. `is_active`: it continued because an earlier end was blocked."""
        return HookVerdict()

    async def before_compact(self, trigger: str, focus: str) -> str | None:
        """Returns the focus to use; None: no compaction."""
        return focus

    async def after_compact(self, trigger: str) -> None: ...

    def attention_needed(self, kind: str, text: str) -> None:
        """The session waits for the user: `permission_prompt` or `idle_prompt`. Returns at once."""

    def listing(self) -> Iterable[HookRun]:
        """The configured hooks and the result of the last run of each."""
        return ()

    async def aclose(self) -> None:
        """Cancel what runs beside the submissions."""


class HookChain(Hooks):
    """Hooks from several sources, called in order; their verdicts are joined. Without sources nothing happens."""

    def __init__(self, sources: Iterable[Hooks] = ()) -> None:
        self.sources = tuple(sources)

    @property
    def configured(self) -> bool:
        return any(source.configured for source in self.sources)

    def bind(self, describe: Callable[[], Json], runs: Iterable[HookRun]) -> None:
        known = list(runs)
        for source in self.sources:
            source.bind(describe, known)

    def reporting_to(self, emit: EmitEvent) -> Hooks:
        reporting = tuple(source.reporting_to(emit) for source in self.sources)
        same = all(one is other for one, other in zip(reporting, self.sources, strict=True))
        return self if same else self.with_sources(reporting)

    def with_sources(self, sources: Iterable[Hooks]) -> HookChain:
        return HookChain(sources)

    async def before_session(self, source: str) -> tuple[str, ...]:
        return tuple([text for hooks in self.sources for text in await hooks.before_session(source)])

    async def after_session(self, reason: str) -> None:
        for source in self.sources:
            await source.after_session(reason)

    @property
    def watches_tools(self) -> bool:
        return any(source.watches_tools for source in self.sources)

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
        return await self._ask(lambda hooks: hooks.before_question(call, input))

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> HookVerdict:
        return await self._ask(lambda hooks: hooks.after_tool(call, input, result), all_of_them=True)

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> HookVerdict:
        return await self._ask(lambda hooks: hooks.after_refused_tool(call, text), all_of_them=True)

    @property
    def checks_prompts(self) -> bool:
        return any(source.checks_prompts for source in self.sources)

    async def before_prompt(self, text: str) -> HookVerdict:
        return await self._ask(lambda hooks: hooks.before_prompt(text))

    async def before_stop(self, state: LoopState) -> HookVerdict:
        return await self._ask(lambda hooks: hooks.before_stop(state))

    async def after_failure(self, text: str) -> None:
        for source in self.sources:
            await source.after_failure(text)

    async def before_agent(self, agent_id: str, name: str, prompt: str) -> tuple[str, ...]:
        return tuple([text for source in self.sources for text in await source.before_agent(agent_id, name, prompt)])

    async def after_agent(self, agent_id: str, name: str, text: str, *, is_active: bool = False) -> HookVerdict:
        return await self._ask(lambda hooks: hooks.after_agent(agent_id, name, text, is_active=is_active))

    async def before_compact(self, trigger: str, focus: str) -> str | None:
        for source in self.sources:
            wanted = await source.before_compact(trigger, focus)
            if wanted is None:
                return None
            focus = wanted
        return focus

    async def after_compact(self, trigger: str) -> None:
        for source in self.sources:
            await source.after_compact(trigger)

    def attention_needed(self, kind: str, text: str) -> None:
        for source in self.sources:
            source.attention_needed(kind, text)

    def listing(self) -> Iterable[HookRun]:
        return [run for source in self.sources for run in source.listing()]

    async def aclose(self) -> None:
        for source in self.sources:
            await source.aclose()


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


@frozen
class Extensions:
    """The replaceable parts of a loop, each with a default that does nothing."""

    hooks: Hooks = field(default_factory=HookChain)
    collapser: Collapser = field(default_factory=Collapser)
    attachments: Attachments = field(default_factory=Attachments)
    workspace: Workspace = field(default_factory=Workspace)


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


MAX_TRIES = 5


class RequireOutput(Hooks):
    """The count restarts with each prompt."""

    def __init__(self, tool_name: str) -> None:
        self._tool_name = tool_name
        self._misses = 0

    @property
    def checks_prompts(self) -> bool:
        return False

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> HookVerdict:
        return self._count(call) if result.is_error else HookVerdict()

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> HookVerdict:
        return self._count(call)

    def _count(self, call: ToolUseBlock) -> HookVerdict:
        if call.name != self._tool_name:
            return HookVerdict()
        self._misses += 1
        if self._misses < MAX_TRIES:
            return HookVerdict()
        return HookVerdict(stop=f"Output did not match the schema in {MAX_TRIES} attempts.", by="schema")

    async def before_prompt(self, text: str) -> HookVerdict:
        self._misses = 0
        return HookVerdict()

    async def before_stop(self, state: LoopState) -> HookVerdict:
        self._misses += 1
        if self._misses >= MAX_TRIES:
            return HookVerdict(stop=f"{self._tool_name} was not called in {MAX_TRIES} attempts.", by="schema")
        return HookVerdict(errors=(f"Give your answer by calling the tool {self._tool_name}.",), by="schema")
