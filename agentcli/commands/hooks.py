"""/hooks: list the active hooks with their source and last outcome."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.core.processes.shell import shown_command
from agentcli.core.text.format import duration
from agentcli.core.text.plaintext import plain_line

MANUAL = Manual(
    "Hooks are commands in the settings that run at fixed points of a session, for example before each tool call. The "
    "settings are read again first. The README shows their format.",
    (("/hooks", "list the active hooks"), ("/hooks Bash", "only those that mention Bash")),
)

NONE = 'No hooks are configured. Add "hooks" to your settings; the README has an example.'


@frozen
class HookRow:
    event: str
    matcher: str
    """Pattern of the matched tools or sources; "" for all."""
    command: str
    """Command, or name of a function. Hidden characters are spelled out."""
    source: str
    last: str
    """Last outcome and duration; "" before the first run."""

    @property
    def subject(self) -> str:
        """The event and its matcher."""
        return f"{self.event} {self.matcher}" if self.matcher not in ("", "*") else self.event


async def run(engine: Engine, arguments: str, front_end: FrontEnd) -> str | None:
    await engine.reread()
    rows = [row for row in hook_rows(engine) if _mentions(row, arguments.strip().lower())]
    if not rows and arguments.strip():
        raise UsageError(f"No hook mentions {plain_line(arguments, 80)}.")
    if not rows or not front_end.has_pages:
        return "\n".join(listing(rows)) or NONE
    await front_end.page("hooks", rows)
    return None


def hook_rows(engine: Engine) -> list[HookRow]:
    rows = []
    for rule, last in engine.hooks.listing():
        command = shown_command(rule.action) if isinstance(rule.action, str) else rule.title
        ended = f"{last.outcome.replace('_', ' ')}, {duration(last.duration_ms / 1000)}" if last is not None else ""
        rows.append(HookRow(rule.event, plain_line(rule.matcher, 200), command, plain_line(rule.source, 200), ended))
    return sorted(rows, key=lambda row: _order(row.event))


def listing(rows: Sequence[HookRow]) -> list[str]:
    lines = []
    for row in rows:
        lines.append(f"{row.subject}: {row.command}")
        where = f"from {row.source}" if row.source else "from the program that uses agentcli"
        lines.append(f"    {where}; {f'last run: {row.last}' if row.last else 'has not run yet'}")
    return lines


def _mentions(row: HookRow, text: str) -> bool:
    return text in f"{row.event} {row.matcher} {row.command} {row.source}".lower()


def _order(event: str) -> int:
    from agentcli.hooks.rules import EVENTS

    return EVENTS.index(event)
