"""The texts of the demo: what the user sends, and the scripted replies, which are in `replies.md`.

Nothing in them pretends to be a model: where it matters, the text states that it comes from a script.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentcli.demo import FIRST_PROMPT

MODEL = "demo-script"
"""The model name of the script; the status line shows it."""

FIX = FIRST_PROMPT
FIX_AGAIN = "Please fix it after all"
TALK = "How does an agent work? At length"
STEER = "In one sentence, please"
GOODBYE = "What next?"

WELCOME = (
    "A scripted demo: no key, no cost · prices shown are simulated",
    "Only the replies are scripted · files, tools and permissions are real, in a temporary project",
    "Enter begins · or type anything",
)


def _read_replies() -> dict[str, str]:
    """The text below each heading of the first level."""
    sections = f"\n{Path(__file__).with_name('replies.md').read_text(encoding='utf-8')}".split("\n# ")[1:]
    parts = (section.partition("\n\n") for section in sections)
    return {title: text.strip() for title, _blank, text in parts}


REPLIES: Mapping[str, str] = _read_replies()
