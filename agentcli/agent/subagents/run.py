"""One agent from its start to its report. Its events are emitted with its id, as they happen."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import field, replace

from agentcli.agent.ports import EmitEvent
from agentcli.agent.subagents.agents import AGENT
from agentcli.agent.subagents.specs import AgentWorktree, ChildEngine
from agentcli.core import events as ev
from agentcli.core.aio import AbortSignal, in_thread
from agentcli.core.errors import AgentError
from agentcli.core.frozen import slotted
from agentcli.core.ids import Clock
from agentcli.core.messages import TYPED, Message, Origin
from agentcli.core.text.format import counted, format_elapsed, money, token_count
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import AgentTask, Output

MAX_CALLS = 30
MAX_FOUND = 20_000
"""Maximum characters of a failed agent's text."""
_ABORTED = ("aborted_streaming", "aborted_tools")


@slotted
class AgentRun:
    """`run()` ends with the agent; then `output` is the result of the call that started it."""

    id: str
    name: str
    task: AgentTask
    clock: Clock
    engine: ChildEngine | None
    """None once it has ended."""
    parent: str = ""
    """Id of the agent that started it; "" for the main conversation."""
    worktree: AgentWorktree | None = None
    prompt: Message | None = None
    """The prompt of the user that it answers again; None: that of its task."""
    kept: str = ""
    """Path of its worktree, if that has changes and was kept."""
    status: str = "running"
    """running, completed, failed or stopped."""
    text: str = ""
    """Its report; if it failed, the reason and its findings so far."""
    turns: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    began: float = 0.0
    seconds: float = 0.0
    is_reported: bool = False
    """The model has received its report as a result."""
    is_announced: bool = False
    """A message with its report was made."""
    declined: bool = False
    """The user refused one of its calls and asked to stop."""
    said: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    """Its last successful calls, each with a short summary."""
    is_stopped: bool = False
    """The user stopped only this agent."""
    inner: list[str] = field(default_factory=list)
    """Ids of the running agents that it, or one of them, started."""
    asking: set[str] = field(default_factory=set)
    """Its open questions to the user, and those of `inner`."""
    session_id: str = ""
    model: str = ""
    result: ev.Result | None = None
    _titles: dict[str, str] = field(default_factory=dict)
    _outcome: str = ""
    """The next value of `status`."""

    async def run(self, signal: AbortSignal, emit: EmitEvent) -> None:
        """Run the agent. Raises only for cancellation, which also ends the agent."""
        engine, self.began = self.engine, self.clock.monotonic()
        assert engine is not None
        self.session_id, self.model = engine.session_id, engine.model
        unhook = signal.on_abort(engine.abort)
        try:
            await emit(self.started())
            await self._follow(engine, signal, emit)
            self._conclude(signal)
        finally:
            unhook()
            self.engine = None
            waited = self.result.waited_ms / 1000 if self.result is not None else 0.0
            self.seconds = self.clock.monotonic() - self.began - waited
            if not self._outcome:
                self._outcome, self.text = "stopped", f"The agent {self.id} was cut off. {self._report_found()}"
            try:
                await engine.aclose()
                await self._leave_worktree()
            finally:
                # Set last: once the status says that it has ended, its report is complete and nothing of it is running.
                self.status = self._outcome

    async def _leave_worktree(self) -> None:
        worktree = self.worktree
        if worktree is None:
            return
        try:
            kept = await in_thread(worktree.close)
        except AgentError as error:
            self.text += f"\n\n[Its worktree {worktree.path} was not removed: {error}]"
            kept = True
        if kept:
            self.kept = str(worktree.path)
            self.text += (
                f"\n\n[Its changes are in the worktree {worktree.path}, branch {worktree.branch}. What it has not "
                "committed is only in that folder, not on the branch.]"
            )

    def stop(self) -> None:
        """Stop this agent alone; its report mentions that, and its parent continues."""
        self.is_stopped = True
        if self.engine is not None:
            self.engine.abort()

    async def _follow(self, engine: ChildEngine, signal: AbortSignal, emit: EmitEvent) -> None:
        again = self.prompt
        if again is None:
            work = engine.submit(self.task.prompt, mentions="")
        else:
            work = engine.submit(again.content, again.typed, again.meta.get(TYPED))
        async with aclosing(work) as events:
            async for event in events:
                if signal.reason is not None:
                    # The abort may have come before the submission existed.
                    engine.abort(signal.reason)
                elif self.is_stopped:
                    engine.abort()
                self._note(event)
                if event.policy.scope != "submission":
                    await emit(event if event.agent else replace(event, agent=self.id))

    def _note(self, event: ev.Event) -> None:
        match event:
            case ev.PermissionRequested():
                self.asking.add(event.request_id)
            case ev.PermissionResolved():
                self.asking.discard(event.request_id)
            case ev.AgentStarted():
                self.inner.append(event.agent)
            case ev.AgentFinished() if event.agent in self.inner:
                self.inner.remove(event.agent)
        if isinstance(event, ev.UsageReported):
            self.tokens += event.usage.prompt_tokens + event.usage.output_tokens
            known = self.cost_usd is not None and event.cost_usd is not None
            self.cost_usd = (self.cost_usd or 0.0) + (event.cost_usd or 0.0) if known else None
        if event.agent:
            return
        if isinstance(event, ev.ToolFinished):
            self._finish_call(event)
        elif isinstance(event, ev.ToolStarted):
            self._titles[event.tool_use_id] = plain_line(event.title, 120)
        elif isinstance(event, ev.MessageAppended) and event.message.origin is Origin.REPLY:
            self.turns += not event.message.is_copy
            if event.message.text.strip():
                self.said.append(event.message.text.strip())
        elif isinstance(event, ev.Result):
            self.result = event

    def _finish_call(self, event: ev.ToolFinished) -> None:
        title = self._titles.pop(event.tool_use_id, event.name)
        if event.outcome == "done":
            self.calls.append(f"{title}: {plain_line(event.summary, 120)}" if event.summary else title)
            del self.calls[:-MAX_CALLS]

    def _conclude(self, signal: AbortSignal) -> None:
        result = self.result
        assert result is not None
        if not result.is_error:
            self._outcome = "completed"
            self.text = result.text.strip() or "The agent ended without a report."
            return
        aborted = result.terminal in _ABORTED
        self.declined = aborted and not signal.aborted and not self.is_stopped
        self._outcome = "stopped" if aborted else "failed"
        why = "was stopped before it was done" if aborted else f"failed: {'; '.join(result.errors)}"
        self.text = f"The agent {self.id} {why.rstrip('.')}. {self._report_found()}"

    def _report_found(self) -> str:
        said = "\n\n".join(self.said)
        cut = f"[…]{said[-MAX_FOUND:]}" if len(said) > MAX_FOUND else said
        parts = [f"What it had reported until then:\n\n{cut}" if said else "It had reported nothing yet."]
        if self.calls:
            parts.append("\n".join(["Its last calls:", *(f"- {call}" for call in self.calls)]))
        return "\n\n".join(parts)

    # ------------------------------------------------------------------------------------------------ start and end

    def started(self) -> ev.AgentStarted:
        return ev.AgentStarted(
            agent=self.id,
            tool_use_id=self.task.call_id,
            name=self.name,
            description=self.task.description,
            model=self.model,
            background=self.task.background,
            session_id=self.session_id,
            parent=self.parent,
            worktree="" if self.worktree is None else str(self.worktree.path),
        )

    def finished(self) -> ev.AgentFinished:
        return ev.AgentFinished(
            agent=self.id,
            tool_use_id=self.task.call_id,
            name=self.name,
            description=self.task.description,
            status=self.status,
            turns=self.turns,
            tokens=self.tokens,
            cost_usd=self.cost_usd,
            duration_ms=int(self.seconds * 1000),
            text=self.text,
            background=self.task.background,
            worktree=self.kept,
        )

    @property
    def summary(self) -> str:
        """One-line description of how it ended."""
        parts = [counted(self.turns, "turn"), f"{token_count(self.tokens)} tokens"]
        if self.cost_usd is not None:
            parts.append(money(self.cost_usd))
        what = () if self.status == "completed" else (self.status,)
        return " · ".join((*what, *parts, format_elapsed(self.seconds)))

    def output(self) -> Output:
        return Output(
            self.text,
            is_error=self.status != "completed",
            summary=self.summary,
            data={AGENT: self.id},
            structured={
                "status": self.status,
                "agentId": self.id,
                "sessionId": self.session_id,
                "content": [{"type": "text", "text": self.text}],
                "totalTokens": self.tokens,
                "totalDurationMs": int(self.seconds * 1000),
            },
        )
