"""Built-in output styles. A file of the same name in a project or user folder replaces one."""

from __future__ import annotations

from pathlib import Path

from agentcli.core.files.bounded_read import read_bounded
from agentcli.definitions.files import DefinitionOrigin, StyleFile, parse_style
from agentcli.definitions.frontmatter import parse_document
from agentcli.definitions.library import LARGEST_FILE, Library

_FOLDER = Path(__file__).parent / "styles"


def all_styles(library: Library | None) -> dict[str, StyleFile]:
    """Built-in styles and those from files, by name. Blocking."""
    found = {name: _built_in(name) for name in ("concise", "explanatory")}
    if library is not None:
        found.update(library.styles)
    return dict(sorted(found.items()))


def _built_in(name: str) -> StyleFile:
    path = _FOLDER / f"{name}.md"
    origin = DefinitionOrigin(path, "built-in", "built-in")
    text = (read_bounded(path, LARGEST_FILE) or b"").decode()
    return parse_style(name, parse_document(text), origin)
