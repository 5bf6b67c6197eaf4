"""`engine.agents`: the sub-agents of a conversation, to start, list and stop, and what the model is told of them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments, EmitEvent
from agentcli.agent.subagents.specs import (
    BUILTIN,
    MAX_DEPTH,
    AgentGroup,
    AgentOrder,
    AgentSetup,
    AgentSpec,
    AgentWorktree,
)
from agentcli.core import events as ev
from agentcli.core.aio import AbortController, AbortReason, AbortSignal, cancel_and_wait, in_thread, start_task
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen
from agentcli.core.ids import Ids
from agentcli.core.messages import NOTE, RESULT_DATA, Message, Origin, user_message
from agentcli.core.space_saving import RunningValue, latest
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import AgentTask, Output, failure
from agentcli.tools.shell.background import BackgroundTask, Status

if TYPE_CHECKING:
    from agentcli.agent.session import Session
    from agentcli.agent.subagents.run import AgentRun


_AGENTS = "agents"
"""Key in a message's meta: the agents that this attachment lists."""
_MAX_LISTED = 50
_MAX_DESCRIPTION = 300
_MAX_REPORT = 30_000

Shown = Callable[[Sequence[Message]], Sequence[Message]]


class AgentList(Attachments):
    """Lists the agents beyond those that the description of Task names. That description is part of the request's
    prefix and never changes, so agents from files, and changes of them, are announced here."""

    def __init__(self, defined: Callable[[], Mapping[str, AgentSpec]], ids: Ids, shown: Shown) -> None:
        self._defined = defined
        self._ids = ids
        self._shown = shown
        self._told: RunningValue[Message, Any] = latest(lambda message: message.meta.get(_AGENTS))

    async def collect(self, state: LoopState) -> Sequence[Message]:
        now = {name: plain_line(spec.description, _MAX_DESCRIPTION) for name, spec in sorted(self._defined().items())}
        if (self._told.of(self._shown(state.messages)) or {}) == now:
            return ()
        lines = [f"- {name}: {description}" for name, description in list(now.items())[:_MAX_LISTED]]
        text = "[Task can also start these agents:\n" + "\n".join(lines) + "]"
        if not now:
            text = "[The agents that were listed before are gone. Task can start explore, general, plan and fork.]"
        return (user_message(text, self._ids.new(), Origin.ATTACHMENT, {_AGENTS: now, NOTE: {"about": _AGENTS}}),)


class AgentReports(Attachments):
    """Passes the reports of background agents to the model, each once. `lost`: agents that ended with an earlier
    process of the session before they could report."""

    def __init__(self, runs: Callable[[], Sequence[AgentRun]], ids: Ids, lost: Sequence[str] = ()) -> None:
        self._runs = runs
        self._lost = lost
        self._ids = ids
        self._reported: dict[str, str] = {}
        """Id of the message with the report, by agent id."""

    async def collect(self, state: LoopState) -> Sequence[Message]:
        ended = [run for run in self._runs() if run.status != "running" and not run.is_reported]
        if not ended and not self._lost:
            return ()
        # A message that an abort kept out of the log is sent again.
        in_log = {message.id for message in state.messages}
        self._lost = [id for id in self._lost if self._reported.get(id, "") not in in_log]
        return [
            *(self._loss(id) for id in self._lost),
            *(self._report(run) for run in ended if self._reported.get(run.id, "") not in in_log),
        ]

    def _loss(self, agent_id: str) -> Message:
        text = (
            f"[agentcli was closed before the report of the background agent {agent_id} reached you. Start the task "
            "again if it is still needed.]"
        )
        return self._message(agent_id, text)

    def _message(self, agent_id: str, text: str) -> Message:
        message_id = self._reported[agent_id] = self._ids.new()
        note = {"about": "background", "agents": [agent_id]}
        return user_message(text, message_id, Origin.ATTACHMENT, {NOTE: note})

    def _report(self, run: AgentRun) -> Message:
        run.is_announced = True
        what = f"{run.id} ({plain_line(run.task.description, 100)})"
        text = run.text if len(run.text) <= _MAX_REPORT else f"{run.text[:_MAX_REPORT]}\n[The rest is cut off.]"
        return self._message(run.id, f"[The background agent {what} has ended: {run.status}. Its report:]\n\n{text}")


AGENT = "agent"
"""Key in `Output.data`: id of the agent that a call has started."""
BACKGROUND = "in_background"
"""Key in `Output.data`: the call has only started the agent; its report comes later."""
ENDED = "ended"
"""Key in `Output.data`: id of the task that a call has stopped."""


def highest_numbers(log: Sequence[Message]) -> dict[str, int]:
    """The highest number used per agent name: 2 if there was an `explore-2`."""
    numbers: dict[str, int] = {}
    for data in _data(log):
        name, _, number = str(data.get(AGENT, "")).rpartition("-")
        if name and number.isdecimal():
            numbers[name] = max(numbers.get(name, 0), int(number))
    return numbers


def lost_agents(log: Sequence[Message]) -> list[str]:
    """Ids of background agents whose report the model has not received."""
    started = [str(data.get(AGENT, "")) for data in _data(log) if data.get(BACKGROUND)]
    announced = {str(data.get(ENDED, "")) for data in _data(log)}
    for message in log:
        announced.update(map(str, message.meta.get(NOTE, {}).get("agents", ())))
    return [agent_id for agent_id in started if agent_id not in announced]


def _data(log: Sequence[Message]) -> Iterator[Mapping[str, object]]:
    for message in log:
        yield from message.meta.get(RESULT_DATA, {}).values()


CLOSE_SECONDS = 3.0
"""Seconds that background agents may take to end with the session before they are cancelled."""
MAX_EVENTS = 1_000
"""Maximum queued events of background agents; beyond that events within an agent are dropped."""
_MAX_KEPT = 20
"""Number of listed background agents beyond which ended ones are removed."""
_STATUS: Mapping[str, Status] = {"running": "running", "completed": "completed", "failed": "failed"}


class _Foreground:
    """An agent whose call waits for it, until the user moves it to the background."""

    def __init__(self, run: AgentRun, signal: AbortSignal, emit: EmitEvent) -> None:
        self.run = run
        self.controller = AbortController(parent=signal)
        self.is_unwanted = asyncio.Event()
        """Set when the user wants it in the background."""
        self._emit = emit
        self._emitting = asyncio.Lock()

    async def put(self, event: ev.Event) -> None:
        async with self._emitting:
            await self._emit(event)

    async def redirect(self, emit: EmitEvent) -> None:
        """Emit the following events elsewhere, after the current one."""
        async with self._emitting:
            self._emit = emit


class _Background:
    """An agent that runs beside the submissions."""

    def __init__(self, run: AgentRun, controller: AbortController) -> None:
        self.run = run
        self.controller = controller
        self.working: asyncio.Task[None] | None = None

    @property
    def task(self) -> BackgroundTask:
        run = self.run
        over = run.status != "running"
        seconds = run.seconds if over else run.clock.monotonic() - run.began
        what = plain_line(f"{run.name}: {run.task.description}")
        return BackgroundTask(run.id, what, _STATUS.get(run.status, "killed"), run.summary if over else "", seconds)


class Agents:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._setup = setup = session.agent_setup
        self._depth = session.depth
        most = setup.most if setup is not None else 1
        parent = session.parent
        self._group: AgentGroup = (
            AgentGroup(most, highest_numbers(session.log.messages)) if parent is None else parent.agents._group
        )
        self._foreground: dict[str, _Foreground] = {}
        self._background: dict[str, _Background] = {}
        self._events: deque[ev.Event] = deque()
        self._news = asyncio.Event()
        self._wake: Callable[[], object] = lambda: None
        self.can_outlive_prompt = True
        """False: the session ends with the running prompt, so agents never run in the background: their reports would
        be lost."""

    # ------------------------------------------------------------------------------------------------------------ state

    def defined(self) -> Mapping[str, AgentSpec]:
        """Agents beyond the built-in ones, by name."""
        return self._setup.defined() if self._setup is not None else {}

    def available(self) -> Mapping[str, AgentSpec]:
        """All agents that Task can start, by name; empty if there are none here."""
        return {**BUILTIN, **self.defined()} if self._setup is not None else {}

    @property
    def running(self) -> list[AgentRun]:
        """Agents that this engine has started and that are running."""
        beside = (one.run for one in self._background.values() if one.run.status == "running")
        return [*(one.run for one in self._foreground.values()), *beside]

    @property
    def background_runs(self) -> list[AgentRun]:
        return [one.run for one in self._background.values()]

    @property
    def tasks(self) -> list[BackgroundTask]:
        """The background agents, oldest first, including those that have ended."""
        return [one.task for one in self._background.values()]

    def unreported(self) -> list[BackgroundTask]:
        """Background agents that have ended, and whose report was not passed to the model."""
        runs = (one for one in self._background.values() if one.run.status in ("completed", "failed"))
        return [one.task for one in runs if not one.run.is_reported and not one.run.is_announced]

    def output(self, agent_id: str) -> str:
        """What a background agent has reported so far."""
        one = self._background.get(agent_id)
        return "" if one is None else one.run.text or "\n\n".join(one.run.said)

    def mark_reported(self, agent_id: str) -> None:
        """Record that the model has received the report of a background agent as a result."""
        if (one := self._background.get(agent_id)) is not None:
            one.run.is_reported = True

    def new_id(self, name: str) -> str:
        """As `AgentGroup.new_id`."""
        return self._group.new_id(name)

    # --------------------------------------------------------------------------------------------------------- starting

    def problem(self, task: AgentTask) -> str | None:
        known = self.available()
        if not known or self._depth >= MAX_DEPTH:
            return "Agents are not available here. Do the work yourself."
        if task.agent not in known:
            return f"There is no agent called {plain_line(task.agent, 80)!r}. There are: {', '.join(sorted(known))}."
        if known[task.agent].shares_context and task.worktree:
            return f"{task.agent} cannot work in a worktree: it shares this conversation, which is about this folder."
        if task.is_planned and (task.worktree or known[task.agent].worktree):
            return "A worktree changes the repository, which plan mode does not allow. Use an agent without a worktree."
        return None

    async def start(self, task: AgentTask, signal: AbortSignal, emit: EmitEvent) -> Output:
        """Run a task to its end; a background task is only started. `emit` takes the events of a foreground agent."""
        setup, spec = self._setup, self.available().get(task.agent)
        if setup is None or spec is None:
            return failure(self.problem(task) or "Agents are not available here.")
        # Background agents belong to the session, not to another agent.
        beside = self.can_outlive_prompt and self._depth == 0
        task = replace(task, background=(task.background or spec.background) and beside)
        if spec.shares_context:
            task = replace(task, prompt=f"{spec.prompt}\n\n{task.prompt}")
        slots = self._group.slots
        if slots.locked() and (self._depth or task.background):
            # An agent that holds a slot must not wait for another one.
            return failure(f"{self._group.most} agents are at work, which is the limit. Do the work yourself.")
        await signal.acquire(slots)
        agent_id = self._group.new_id(spec.name)
        opened: list[AgentWorktree] = []
        try:
            if task.worktree or spec.worktree:
                # A list, because a cancelled call waits for the thread but gets no result.
                await in_thread(lambda: opened.append(self._open_worktree(setup)))
            run = self._built(agent_id, setup, spec, task, opened[0] if opened else None)
        except BaseException as error:
            slots.release()
            for worktree in opened:
                await in_thread(worktree.close)
            if isinstance(error, AgentError | OSError):
                return failure(f"The agent could not be started: {error}")
            raise
        if task.background:
            return self._start_background(run)
        return await self._run_foreground(run, signal, emit)

    def _open_worktree(self, setup: AgentSetup) -> AgentWorktree:
        if setup.open_worktree is None or self._session.tool_context.launcher.copies:
            raise AgentError("There are no git worktrees here.")
        return setup.open_worktree(self._session.main)

    def _built(
        self, agent_id: str, setup: AgentSetup, spec: AgentSpec, task: AgentTask, worktree: AgentWorktree | None
    ) -> AgentRun:
        from agentcli.agent.subagents.run import AgentRun

        session = self._session
        engine = setup.build(session, AgentOrder(agent_id, spec, task.description, task.model, worktree))
        return AgentRun(agent_id, spec.name, task, session.clock, engine, session.agent, worktree)

    async def _run_foreground(self, run: AgentRun, signal: AbortSignal, emit: EmitEvent) -> Output:
        one = self._foreground[run.id] = _Foreground(run, signal, emit)
        working = start_task(run.run(one.controller.signal, one.put), name=f"agent {run.id}")
        unwanted = start_task(one.is_unwanted.wait())
        is_moved = ended = False
        try:
            await asyncio.wait({working, unwanted}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                is_moved = True
                return await self._move(one, working, emit)
            await working
            ended = True
            await emit(run.finished())
        finally:
            try:
                await cancel_and_wait([unwanted] if is_moved else [unwanted, working])
            finally:
                del self._foreground[run.id]
                if not is_moved:
                    one.controller.close()
                    self._group.slots.release()
                if not is_moved and not ended:
                    # The call was cancelled: nothing reads its events any more, but the loop may still show this one.
                    self._session.emit_soon(run.finished())
        if run.declined:
            self._session.abort()
        return run.output()

    def detach(self, tool_use_id: str) -> bool:
        """Move the agent of this call to the background; false if it runs none, or one that waits for an answer."""
        for one in self._foreground.values():
            if one.run.task.call_id == tool_use_id and self.can_outlive_prompt and not one.run.asking:
                one.is_unwanted.set()
                return True
        return False

    async def _move(self, one: _Foreground, working: asyncio.Task[None], emit: EmitEvent) -> Output:
        """Let a foreground agent continue beside the submissions. An abort of its call no longer stops it."""
        run = one.run
        run.task = replace(run.task, background=True)
        one.controller.close()
        self._keep(_Background(run, one.controller), working)
        await one.redirect(self._put_later)
        agents = [run.id, *run.inner]
        call_id, description = run.task.call_id, run.task.description
        await emit(ev.AgentMoved(agent=run.id, tool_use_id=call_id, description=description, agents=agents))
        return _in_background(run, "The user moved the agent {id} to the background, where it continues.")

    def _start_background(self, run: AgentRun) -> Output:
        run.began = run.clock.monotonic()
        one = _Background(run, AbortController())
        self._keep(one, run.run(one.controller.signal, self._put_later))
        return _in_background(run, "The agent {id} works in the background.")

    def _keep(self, one: _Background, work: Awaitable[None]) -> None:
        self._background[one.run.id] = one
        over = [id for id, each in self._background.items() if each.run.status != "running"]
        for old in over[: max(0, len(self._background) - _MAX_KEPT)]:
            del self._background[old]
        one.working = start_task(self._work(one, work), name=f"agent {one.run.id} in the background")

    async def _work(self, one: _Background, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception:
            logging.getLogger("agentcli").exception("a background agent failed")
        finally:
            self._group.slots.release()
            self._put(one.run.finished())

    # ------------------------------------------------------------------------------------------------- background
    # events

    def _put(self, event: ev.Event) -> None:
        if len(self._events) < MAX_EVENTS or event.policy.scope != "agent":
            self._events.append(event)
            self._news.set()
            self._wake()

    async def _put_later(self, event: ev.Event) -> None:
        self._put(event)

    def take_events(self) -> Sequence[ev.Event]:
        """Events of background agents since the last call."""
        if not self._events:
            return ()
        taken = tuple(self._events)
        self._events.clear()
        self._news.clear()
        return taken

    def on_event(self, wake: Callable[[], object]) -> Callable[[], None]:
        """Call `wake` for each new event, until the returned function is called."""
        self._wake = wake

        def unhook() -> None:
            self._wake = lambda: None

        return unhook

    async def wait_for_events(self) -> None:
        """Wait until `take_events` has something to return."""
        await self._news.wait()

    # ------------------------------------------------------------------------------------------------------- stopping

    async def stop(self, agent_id: str, reason: AbortReason = AbortReason.USER_CANCEL) -> bool:
        """Stop an agent that this engine has started; false if there is no such agent."""
        if (waited_for := self._foreground.get(agent_id)) is not None:
            waited_for.run.stop()
            return True
        one = self._background.get(agent_id)
        if one is None or one.working is None:
            return False
        one.controller.abort(reason)
        await asyncio.wait([one.working], timeout=CLOSE_SECONDS)
        await cancel_and_wait([one.working])
        return True

    async def aclose(self) -> None:
        """Stop all background agents at the end of the session."""
        ids = [id for id, one in self._background.items() if one.working is not None and not one.working.done()]
        await asyncio.gather(*(self.stop(id, AbortReason.SHUTDOWN) for id in ids))


def _in_background(run: AgentRun, first: str) -> Output:
    """The result of a call whose agent runs in the background."""
    text = (
        f"{first.format(id=run.id)} Its report comes in a later message: continue with other work, and do not guess "
        "what it will say. KillShell stops it by this id."
    )
    shown = {"kind": "text", "background": True}
    structured = {"status": "running", "agentId": run.id}
    data = {AGENT: run.id, BACKGROUND: True}
    return Output(text, summary=f"{run.id} in the background", display=shown, structured=structured, data=data)


@frozen
class CallAgents:
    """Implements `AgentStarter` for one call."""

    session: Session
    emit: EmitEvent

    @property
    def agents(self) -> Agents:
        return self.session.agents

    def problem(self, task: AgentTask) -> str | None:
        return self.agents.problem(task)

    async def start(self, task: AgentTask, signal: AbortSignal) -> Output:
        return await self.agents.start(task, signal, self.emit)

    def has_background(self, agent_id: str) -> bool:
        return any(task.id == agent_id for task in self.agents.tasks)

    async def stop(self, agent_id: str) -> str:
        await self.agents.stop(agent_id)
        self.agents.mark_reported(agent_id)
        return self.agents.output(agent_id)
