"""/config: show all settings with their sources, and change one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

from agentcli.agent.engine import Engine
from agentcli.agent.live_files import Inactive
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd
from agentcli.config.schema import BY_NAME
from agentcli.config.settings import SettingRow
from agentcli.core.text.plaintext import plain_line

MANUAL = Manual(
    "Shows each value and its source. Enter changes a value, for you or for this project.",
    (("/config", "show all settings"),),
)


_WHEN = {
    "now": "",
    "session": " It takes effect in the next session.",
    "restart": " It takes effect when agentcli is started again.",
}


async def run(engine: Engine | None, _arguments: str, front_end: FrontEnd) -> str | None:
    from agentcli.assemble import settings_for

    rows = (await asyncio.to_thread(settings_for, await front_end.options())).describe()
    if engine is not None:
        await engine.live_files.refresh_settings()
        rows = with_inactive(rows, await engine.live_files.inactive())
    if not front_end.has_pages:
        return "\n".join(map(_line, rows))
    change = await front_end.page("settings", rows)
    if change is None:
        return None
    where = await front_end.save_setting(change.key, change.value, change.scope)
    if engine is not None:
        await engine.live_files.refresh_settings(announce=False)
    return f"{change.key} is saved in {where}.{_WHEN[BY_NAME[change.key].applies]}"


def with_inactive(rows: Sequence[SettingRow], inactive: Sequence[Inactive]) -> list[SettingRow]:
    """Mark values that the session does not use, and add those of untrusted files."""
    later = {each.name: each.reason for each in inactive if each.is_due}
    marked = [replace(row, inactive=later.get(row.key, "")) for row in rows]
    ignored = [each for each in inactive if each.kind != "hook" and not each.is_due]
    extra = [SettingRow(each.name, each.text, each.source, "", inactive=each.reason) for each in ignored]
    return [*marked, *extra]


def _line(row: SettingRow) -> str:
    value = json.dumps(row.value, ensure_ascii=False, default=str)
    inactive = f"; not active: {row.inactive}" if row.inactive else ""
    return f"{row.key} = {plain_line(value, 300)}  ({plain_line(row.source)}{inactive})"
