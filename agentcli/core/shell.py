"""What every layer may ask about the text of a shell command. What it does is analysed in `permissions`."""

from __future__ import annotations

import re
import unicodedata

from agentcli.core.plaintext import visible_text

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def has_control_characters(command: str) -> bool:
    """Control characters other than tab and line feed have no place in a command (S8)."""
    return _CONTROL.search(command) is not None


def shown_command(command: str) -> str:
    """The whole command as a person can judge it: what is invisible or turns the direction of text is spelled out."""
    if command.isascii():
        return visible_text(command)
    hidden = ("Cf", "Zl", "Zp", "Co", "Cn", "Cs")
    spelled = (f"<U+{ord(c):04X}>" if unicodedata.category(c) in hidden or c == "\u00a0" else c for c in command)
    return visible_text("".join(spelled))
