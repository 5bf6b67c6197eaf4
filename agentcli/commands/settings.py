"""/config, /theme, /output-style and /trust: settings with their sources, and which of them a project may bring."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.agent.live_files import Inactive
from agentcli.commands.front_end import Choice, FrontEnd
from agentcli.config.paths import Paths
from agentcli.config.save import save_setting
from agentcli.config.schema import BY_NAME
from agentcli.config.settings import SettingRow
from agentcli.config.trust import TrustStore
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.text.plaintext import plain_line, show_name
from agentcli.definitions.files import StyleFile
from agentcli.definitions.library import all_styles

_WHEN = {
    "now": "",
    "session": " It takes effect in the next session.",
    "restart": " It takes effect when agentcli is started again.",
}


async def run_config(engine: Engine | None, _arguments: str, front_end: FrontEnd) -> str | None:
    """Shows each value and its source. Enter changes a value, for you or for this project.

    /config  show all settings
    """
    from agentcli.assemble import settings_for

    rows = (await asyncio.to_thread(settings_for, await front_end.options())).describe()
    if engine is not None:
        await engine.live_files.refresh_settings()
        rows = with_inactive(rows, await engine.live_files.inactive())
    if not front_end.has_pages:
        return "\n".join(map(_format_setting, rows))
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


def _format_setting(row: SettingRow) -> str:
    value = json.dumps(row.value, ensure_ascii=False, default=str)
    inactive = f"; not active: {row.inactive}" if row.inactive else ""
    return f"{row.key} = {plain_line(value, 300)}  ({plain_line(row.source)}{inactive})"


async def run_theme(engine: Engine | None, arguments: str, front_end: FrontEnd) -> str | None:
    """auto follows the terminal. Put your own themes into ~/.config/agentcli/themes.

    /theme       choose from a list, with a preview
    /theme nord  use the nord theme
    """
    name = arguments or await front_end.page("theme")
    if name is None:
        return None
    where = await front_end.save_setting("theme", name)
    if engine is not None:
        await engine.live_files.refresh_settings(announce=False)
    return f"The theme is {plain_line(name)}, saved in {where}."


DEFAULT_STYLE = "default"


async def run_output_style(engine: Engine | None, arguments: str, front_end: FrontEnd) -> str | None:
    """A style is text in the system prompt, which is fixed for a session: it takes effect with the next session or
    /clear. Put your own into .agentcli/output-styles/NAME.md or ~/.config/agentcli/output-styles.

    /output-style          list the styles and choose one
    /output-style concise  use the concise style
    """
    if engine is not None:
        await engine.live_files.refresh()
    styles = await asyncio.to_thread(all_styles, engine.session.definitions if engine is not None else None)
    current = (engine.session.output_style if engine is not None else "") or DEFAULT_STYLE
    name = arguments.strip().lower()
    if not name:
        picked = await front_end.choose(f"Output style (now {current})", _style_choices(styles))
        if picked is None:
            return None
        name = picked
    if name not in (*styles, DEFAULT_STYLE):
        raise UsageError(
            f"There is no output style {plain_line(name)!r}. There are: {', '.join((DEFAULT_STYLE, *styles))}."
        )
    options = await front_end.options()
    path = Paths.from_environ(os.environ if options.environ is None else options.environ).user_settings
    if path is None:
        raise AgentError("There is no settings file to save the style in. Set HOME or AGENTCLI_CONFIG_DIR.")
    await asyncio.to_thread(save_setting, path, "outputStyle", "" if name == DEFAULT_STYLE else name)
    return f"The output style is {name}, saved in {path}. It takes effect with the next session or /clear."


def _style_choices(styles: Mapping[str, StyleFile]) -> list[Choice]:
    rows = [Choice(DEFAULT_STYLE, DEFAULT_STYLE, "Brief and concrete")]
    rows += [Choice(style.name, f"{style.name} ({style.origin.scope})", style.description) for style in styles.values()]
    return rows


async def run_trust(engine: Engine | None, _arguments: str, front_end: FrontEnd) -> str:
    """Settings, hooks, MCP servers, commands, skills and agents of a project take effect only after you have trusted
    their content. When one of these files changes, it is off until you trust it again.

    /trust  review new and changed files and trust them
    """
    options = await front_end.options()
    store = TrustStore.of(os.environ if options.environ is None else options.environ)
    state = await asyncio.to_thread(store.state_for_review, options.cwd or Path.cwd())
    root = show_name(str(state.root))
    if options.trust:
        return "This run was started with --trust: all files of this project apply already."
    if not state.parts:
        return f"{root} has no settings, hooks, MCP servers, commands, skills or agents of its own."
    if not state.trusted:
        if not await front_end.review_trust(state):
            return "Nothing was trusted. Only the deny and ask rules of its settings apply."
        await asyncio.to_thread(store.trust, state)
    if engine is not None:
        await engine.reread()
    return f"{root} is trusted. Its settings, hooks, MCP servers and definitions apply now."
