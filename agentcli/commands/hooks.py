"""/hooks: list the hooks with their source and last outcome, and why some are not active."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.agent.engine import Engine
from agentcli.agent.live_files import Inactive
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.core.processes.shell import shown_command
from agentcli.core.text.format import duration
from agentcli.core.text.plaintext import plain_line

MANUAL = Manual(
    "Hooks are commands in the settings that run at fixed points of a session, for example before each tool call. A "
    "changed settings file applies at once, during a prompt when it has ended. The guide shows their format.",
    (("/hooks", "list the hooks, and why some are not active"), ("/hooks Bash", "only those that mention Bash")),
)

LATER = "The settings files have changed. The change applies when the running prompt has ended."
NONE = 'No hooks are configured. Add "hooks" to your settings; the guide has an example.'


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
    inactive: str = ""
    """Why it does not run; "" if it does."""

    @property
    def state(self) -> str:
        if self.inactive:
            return f"not active: {self.inactive}"
        return f"last run: {self.last}" if self.last else "has not run yet"

    @property
    def subject(self) -> str:
        """The event and its matcher."""
        return f"{self.event} {self.matcher}" if self.matcher not in ("", "*") else self.event


async def run(engine: Engine, arguments: str, front_end: FrontEnd) -> str | None:
    await engine.live_files.refresh_settings()
    inactive = await engine.live_files.inactive()
    rows = [row for row in hook_rows(engine, inactive) if _mentions(row, arguments.strip().lower())]
    if not rows and arguments.strip():
        raise UsageError(f"No hook mentions {plain_line(arguments, 80)}.")
    if not rows or not front_end.has_pages:
        return "\n".join([*(listing(rows) or [NONE]), *([LATER] if engine.live_files.is_stale else [])])
    await front_end.page("hooks", rows)
    return None


def hook_rows(engine: Engine, inactive: Sequence[Inactive] = ()) -> list[HookRow]:
    """The active hooks and the inactive ones, by event."""
    rows = [
        HookRow(hook.name, plain_line(hook.matcher, 200), shown_command(hook.text), hook.source, "", hook.reason)
        for hook in inactive
        if hook.kind == "hook"
    ]
    for rule, last in engine.hooks.listing():
        command = shown_command(rule.action) if isinstance(rule.action, str) else rule.title
        ended = f"{last.outcome.replace('_', ' ')}, {duration(last.duration_ms / 1000)}" if last is not None else ""
        rows.append(HookRow(rule.event, plain_line(rule.matcher, 200), command, plain_line(rule.source, 200), ended))
    return sorted(rows, key=lambda row: (_order(row.event), bool(row.inactive)))


def listing(rows: Sequence[HookRow]) -> list[str]:
    lines = []
    for row in rows:
        lines.append(f"{row.subject}: {row.command}")
        where = f"from {row.source}" if row.source else "from the program that uses agentcli"
        lines.append(f"    {where}; {row.state}")
    return lines


def _mentions(row: HookRow, text: str) -> bool:
    return text in f"{row.event} {row.matcher} {row.command} {row.source}".lower()


def _order(event: str) -> int:
    from agentcli.hooks.rules import EVENTS

    return EVENTS.index(event)
