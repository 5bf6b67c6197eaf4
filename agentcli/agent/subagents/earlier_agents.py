"""Agents of earlier processes of a resumed session: their ids, and background agents that ended with the process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentcli.core.messages import NOTE, RESULT_DATA, Message

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
