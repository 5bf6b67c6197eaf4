"""Saves the app's look for the instant prompt of the next start, so that colours do not change when the app appears."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.color import ColorSystem
from rich.style import Style

from agentcli.tui.prompt.box import IDLE_HINT
from agentcli.tui.prompt.rows import PromptMark, PromptRule
from agentcli.tui.terminal.instant import look_path, save_look

if TYPE_CHECKING:
    from agentcli.tui.chat import ChatScreen

_SYSTEMS = {"truecolor": ColorSystem.TRUECOLOR, "256": ColorSystem.EIGHT_BIT, "16": ColorSystem.STANDARD}
_SGR = re.compile(r"\x1b\[([\d;]*)m")


def keep_look(chat: ChatScreen, environ: Mapping[str, str], colours: str) -> None:
    path = look_path(environ)
    if path and chat.is_attached:
        save_look(path, look_of(chat, _SYSTEMS.get(colours)))


def look_of(chat: ChatScreen, system: ColorSystem | None) -> dict[str, str]:
    def numbers(style: Style) -> str:
        found = _SGR.match(style.render("x", color_system=system)) if system is not None else None
        return found.group(1) if found else ""

    rule, mark, palette = chat.query_one(PromptRule), chat.query_one(PromptMark), chat.palette
    background = chat.rich_style.background_style
    return {
        "background": numbers(background),
        "rule": numbers(rule.rich_style),
        "mark": numbers(mark.rich_style),
        "text": numbers(palette.text),
        "placeholder": numbers(palette.faint),
        "status": numbers(palette.muted),
        "label_style": numbers(palette.muted),
        "placeholder_text": IDLE_HINT,
    }
