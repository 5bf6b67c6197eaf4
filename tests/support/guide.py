"""The README and the pages of the guide, whose examples the tests run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / ".github" / "guide").glob("*.md")))
GUIDE = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
REFERENCE = (ROOT / ".github" / "REFERENCE.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = GUIDE) -> list[str]:
    """Code blocks in a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def block_with(language: str, part: str) -> str:
    """The only code block that contains a text."""
    (found,) = (block for block in blocks(language) if part in block)
    return found
