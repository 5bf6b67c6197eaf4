"""/output-style: list output styles and choose one for new sessions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import Choice, FrontEnd
from agentcli.config.paths import Paths
from agentcli.config.save import save_setting
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.text.plaintext import plain_line
from agentcli.definitions.files import StyleFile
from agentcli.definitions.library import all_styles

MANUAL = Manual(
    "A style is text in the system prompt, which is fixed for a session: it takes effect with the next session or "
    "/clear. Put your own into .agentcli/output-styles/NAME.md or ~/.config/agentcli/output-styles.",
    (("/output-style", "list the styles and choose one"), ("/output-style concise", "use the concise style")),
)
DEFAULT = "default"


async def run(engine: Engine | None, arguments: str, front_end: FrontEnd) -> str | None:
    if engine is not None:
        await engine.live_files.refresh()
    styles = await asyncio.to_thread(all_styles, engine.definitions if engine is not None else None)
    current = (engine.output_style if engine is not None else "") or DEFAULT
    name = arguments.strip().lower()
    if not name:
        picked = await front_end.choose(f"Output style (now {current})", _choices(styles))
        if picked is None:
            return None
        name = picked
    if name not in (*styles, DEFAULT):
        raise UsageError(f"There is no output style {plain_line(name)!r}. There are: {', '.join((DEFAULT, *styles))}.")
    options = await front_end.options()
    path = Paths.from_environ(os.environ if options.environ is None else options.environ).user_settings
    if path is None:
        raise AgentError("There is no settings file to save the style in. Set HOME or AGENTCLI_CONFIG_DIR.")
    await asyncio.to_thread(save_setting, path, "outputStyle", "" if name == DEFAULT else name)
    return f"The output style is {name}, saved in {path}. It takes effect with the next session or /clear."


def _choices(styles: Mapping[str, StyleFile]) -> list[Choice]:
    rows = [Choice(DEFAULT, DEFAULT, "Brief and concrete")]
    rows += [Choice(style.name, f"{style.name} ({style.origin.scope})", style.description) for style in styles.values()]
    return rows
