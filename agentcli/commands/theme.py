"""/theme: choose the colours of the app and save the choice."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd
from agentcli.core.text.plaintext import plain_line

MANUAL = Manual(
    "auto follows the terminal. Put your own themes into ~/.config/agentcli/themes.",
    (("/theme", "choose from a list, with a preview"), ("/theme nord", "use the nord theme")),
)


async def run(engine: Engine | None, arguments: str, front_end: FrontEnd) -> str | None:
    name = arguments or await front_end.page("theme")
    if name is None:
        return None
    where = await front_end.save_setting("theme", name)
    if engine is not None:
        await engine.live_files.refresh_settings(announce=False)
    return f"The theme is {plain_line(name)}, saved in {where}."
