"""What every layer may ask about the text of a shell command. What it does is analysed in `permissions`."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def has_control_characters(command: str) -> bool:
    """Control characters other than tab and line feed have no place in a command (S8)."""
    return _CONTROL.search(command) is not None
