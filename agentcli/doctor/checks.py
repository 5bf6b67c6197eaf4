"""All checks, in display order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentcli.core.errors import AgentError
from agentcli.core.text.plaintext import plain_line
from agentcli.doctor import foreign, machine, model, sandbox, servers, settings, terminal
from agentcli.doctor.check_context import CheckContext
from agentcli.doctor.finding import Finding

Check = Callable[[CheckContext], Iterator[Finding]]

CHECKS: tuple[tuple[str, Check], ...] = (
    ("versions", machine.versions),
    ("programs", machine.programs),
    ("terminal", terminal.terminal),
    ("keyboard", terminal.keyboard),
    ("clipboard", terminal.clipboard),
    ("settings", settings.configuration),
    ("trust", settings.trust),
    ("mcp", servers.servers),
    ("other agents", foreign.setup),
    ("key", model.key),
    ("folders", settings.folders),
    ("sessions", settings.sessions),
    ("sandbox", sandbox.sandbox),
    ("file watcher", machine.watches),
)
ONLINE: tuple[tuple[str, Check], ...] = (("endpoint", model.endpoint),)


def run_checks(context: CheckContext, *, online: bool) -> Iterator[Finding]:
    """Run all checks. Never raises: a failing check becomes a finding."""
    for name, check in (*CHECKS, *(ONLINE if online else ())):
        try:
            yield from check(context)
        except (AgentError, OSError, ValueError) as error:
            yield Finding("fail", name, plain_line(str(error) or type(error).__name__, 400))
