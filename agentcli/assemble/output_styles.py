"""The output style of a new session."""

from __future__ import annotations

from agentcli.assemble.environment import Environment
from agentcli.context.prompt import OutputStyle
from agentcli.definitions.library import Library, all_styles


def chosen_style(env: Environment, library: Library) -> OutputStyle | None:
    """The style that the settings name; None for the default one. An unknown name is reported."""
    name = (env.settings.text("outputStyle") or "").strip().lower()
    if name in ("", "default"):
        return None
    if not library.loaded:
        library.refresh()
    styles = all_styles(library)
    style = styles.get(name)
    if style is None:
        known = ", ".join(styles)
        env.warn(f"There is no output style {name!r}, so the default one is used. There are: {known}.", "settings")
        return None
    return OutputStyle(style.name, style.body, style.keep_coding_instructions)
