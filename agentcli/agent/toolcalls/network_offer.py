"""Wording of the offer to run a command again with network access after it failed without."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from agentcli.agent.toolcalls.calls import UserWords, describe_decline
from agentcli.core.frozen import frozen
from agentcli.core.permission import RuleChoice
from agentcli.core.text.plaintext import plain_line
from agentcli.permissions.command_grant import NETWORK
from agentcli.permissions.rules import rule_text
from agentcli.tools.base import Output

_MAX_NAMED = 5
MAX_OFFERS = 3
"""Maximum questions about one command: a download often starts at one host and continues at another."""


@frozen
class NetworkResult:
    """The output of a command after the offers to run it again with network."""

    output: Output
    waited: float = 0.0
    """Seconds until the offers were answered."""
    said: tuple[UserWords, ...] = ()
    """The user's texts with answers to the offers, for the model."""
    is_declined: bool = False


def host_rule(host: str) -> str:
    return rule_text(NETWORK, host)


def network_reason(hosts: Sequence[str]) -> str:
    if not hosts:
        return "It failed without network. It would run again with access to the whole network."
    return f"It tried to reach {_list_hosts(hosts)}. It would run again with access to {_those(hosts)} only."


def decline_network(output: Output, has_words: bool) -> Output:
    """The output of the run without network, with the user's answer for the model."""
    noted = _with_note(output, describe_decline("The user declined to run it again with network.", has_words))
    return replace(noted, summary=f"{output.summary}, network denied by you")


def refuse_network(output: Output, hosts: Sequence[str]) -> Output:
    """The output of the run without network in a non-interactive session, with the flag that would have allowed it."""
    if not hosts:
        return output
    flags = " ".join(shlex.quote(host_rule(host)) for host in hosts[:_MAX_NAMED])
    return _with_note(output, f"To allow {_those(hosts)}: --allowedTools {flags}")


def _with_note(output: Output, note: str) -> Output:
    return replace(output, content=f"{output.content}\n\n{note}" if isinstance(output.content, str) else output.content)


def _list_hosts(hosts: Sequence[str]) -> str:
    named = ", ".join(plain_line(host, 100) for host in hosts[:_MAX_NAMED])
    return f"{named} and {len(hosts) - _MAX_NAMED} more" if len(hosts) > _MAX_NAMED else named


def _those(hosts: Sequence[str]) -> str:
    return "that host" if len(hosts) == 1 else "those hosts"


def network_choices(hosts: Sequence[str], credentials: Sequence[str]) -> list[RuleChoice]:
    """Rules that "always" can save: the hosts, and the hosts with the program's credential variables."""
    if not hosts:
        return []
    rules = tuple(map(host_rule, hosts))
    named = ", ".join(plain_line(host, 100) for host in hosts[:_MAX_NAMED])
    covers = f"access to {named} for commands without network"
    found = [RuleChoice(rules, covers)]
    if credentials:
        names = ", ".join(rule.partition(":")[2].removesuffix(")") for rule in credentials)
        found.append(RuleChoice((*rules, *credentials), f"{covers}, and {names} for this program"))
    return found
