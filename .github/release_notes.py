"""Prints what the changelog says about a version, and fails when a tag must not be released.

    python .github/release_notes.py v0.2.0

The tag has to be the package's own version, and the changelog has to have a dated section for it that says something.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def notes_for(tag: str, version: str, changelog: str) -> str:
    """Raises ValueError with the reason."""
    if tag != f"v{version}":
        raise ValueError(f"The tag is {tag}, the package is {version}: set __version__ or tag v{version}.")
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for section in sections:
        heading, _, text = section.partition("\n")
        if re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d{{2}}-\d{{2}}", heading.strip()):
            notes = re.sub(r"^\[[^\]]+\]: \S+\s*$", "", text, flags=re.MULTILINE).strip()
            if not notes:
                raise ValueError(f"CHANGELOG.md says nothing about {version}.")
            return notes
    raise ValueError(f"CHANGELOG.md has no section '## [{version}] - YEAR-MONTH-DAY'.")


def package_version() -> str:
    found = re.search(r'^__version__ = "([^"]+)"', (ROOT / "agentcli" / "__init__.py").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def main(tag: str) -> int:
    try:
        notes = notes_for(tag, package_version(), (ROOT / "CHANGELOG.md").read_text("utf-8"))
    except ValueError as wrong:
        sys.stderr.write(f"{wrong}\n")
        return 1
    sys.stdout.write(f"{notes}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
