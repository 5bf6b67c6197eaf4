"""/config: show all settings with their sources, and change one."""

from __future__ import annotations

import asyncio
import json

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd
from agentcli.config.settings import SettingRow
from agentcli.core.text.plaintext import plain_line

MANUAL = Manual(
    "Shows each value and its source. Enter changes a value, for you or for this project.",
    (("/config", "show all settings"),),
)


async def run(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> str | None:
    from agentcli.assemble import settings_for

    rows = (await asyncio.to_thread(settings_for, await front_end.options())).describe()
    if not front_end.has_pages:
        return "\n".join(map(_line, rows))
    change = await front_end.page("settings", rows)
    if change is None:
        return None
    where = await front_end.save_setting(change.key, change.value, change.scope)
    later = "" if change.key == "theme" else " It takes effect in the next session."
    return f"{change.key} is saved in {where}.{later}"


def _line(row: SettingRow) -> str:
    value = json.dumps(row.value, ensure_ascii=False, default=str)
    return f"{row.key} = {plain_line(value, 300)}  ({plain_line(row.source)})"
