"""Messages to the model about agents: the list of available ones, reports from the background, and those of a resumed
session that were lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments
from agentcli.agent.subagents.specs import AgentSpec
from agentcli.core.append_only import RunningValue, latest
from agentcli.core.ids import Ids
from agentcli.core.messages import NOTE, RESULT_DATA, Message, Origin, user_message
from agentcli.core.text.plaintext import plain_line

if TYPE_CHECKING:
    from agentcli.agent.subagents.run import AgentRun

_AGENTS = "agents"
"""Key in a message's meta: the agents that this attachment lists."""
_MOST_LISTED = 50
_LONGEST = 300
_LONGEST_REPORT = 30_000

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
        now = {name: plain_line(spec.description, _LONGEST) for name, spec in sorted(self._defined().items())}
        if (self._told.of(self._shown(state.messages)) or {}) == now:
            return ()
        lines = [f"- {name}: {description}" for name, description in list(now.items())[:_MOST_LISTED]]
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
        text = run.text if len(run.text) <= _LONGEST_REPORT else f"{run.text[:_LONGEST_REPORT]}\n[The rest is cut off.]"
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
