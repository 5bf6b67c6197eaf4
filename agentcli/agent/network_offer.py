"""The wording of the offer to run a command again with network, after it failed without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentcli.core.plaintext import plain_line
from agentcli.permissions.granting import NETWORK
from agentcli.permissions.rules import rule_text
from agentcli.tools.base import Output

_MOST_NAMED = 5


def host_rule(host: str) -> str:
    return rule_text(NETWORK, host)


def network_reason(hosts: Sequence[str]) -> str:
    if not hosts:
        return "Needs network: the command failed because commands have none here. It would run again, with network"
    named = ", ".join(plain_line(host, 100) for host in hosts[:_MOST_NAMED])
    more = f" and {len(hosts) - _MOST_NAMED} more" if len(hosts) > _MOST_NAMED else ""
    return f"Needs network: the command tried to reach {named}{more}. It would run again, with access to that alone"


def declined_network(output: Output, message: str) -> Output:
    """The output of the run without network, with the user's answer for the model."""
    note = "The user declined to run it again with network."
    note += f" They said: {message}" if message else ""
    return replace(output, content=f"{output.content}\n\n{note}" if isinstance(output.content, str) else output.content)
