"""/permissions: the rules in force, with where each is from. Deny beats ask beats allow, then the mode decides."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import say
from agentcli.core.events import Event
from agentcli.core.plaintext import plain_line


async def run(engine: Engine, _arguments: str) -> AsyncGenerator[Event, None]:
    policy = engine.policy
    lines = [f"The mode is {engine.permission_mode.value}."]
    for behavior, rules in (("deny", policy.deny), ("ask", policy.ask), ("allow", policy.allow)):
        lines += [f"  {behavior:<5} {plain_line(rule.text, 300)}  ({plain_line(rule.source, 300)})" for rule in rules]
    if len(lines) == 1:
        lines.append("There are no rules. They go into the settings (permissions.allow, ask, deny) or --allowedTools.")
    denials = engine.denials
    if denials:
        lines.append("Refused in this process so far:")
        lines += [f"  {plain_line(str(denial['tool_name']))}  {plain_line(str(denial['tool_input']), 200)}"
                  for denial in denials[-10:]]  # fmt: skip
    yield say("\n".join(lines))
