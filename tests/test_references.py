"""Every document and requirement that a comment, a docstring or a test's message cites is in the repository."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SPEC = (ROOT / ".github" / "SPEC.md").read_text(encoding="utf-8")
SECTIONS = set(re.findall(r"^##+ (\d(?:\.\d)?)\b", SPEC, re.MULTILINE))
REQUIREMENTS = set(re.findall(r"^- \*\*([LTDI]\d+)\*\*", SPEC, re.MULTILINE))
PROJECT_FILES = {"AGENTS.md", "CLAUDE.md", "MEMORY.md", "SKILL.md", "AGENTS.local.md", "CLAUDE.local.md"} | {
    "ID.md",
    "NAME.md",
}
"""Documents of the user's project, not of this repository; ID and NAME stand for any."""

DOCUMENT = re.compile(r"(?:\.github/)?(?:[a-z]+/)?[A-Z][A-Za-z]*(?:\.local)?\.md\b")
OTHER_PAGE = re.compile(r"\b(?:SURFACE|PROTOCOLS|FAULTS|DESIGN)\b|\bS\d{1,2}\b")
CITATION = re.compile(r"\bSPEC (\d(?:\.\d)?)")
REQUIREMENT = re.compile(r"\b[LTDI]\d{1,2}\b")


def explanations(text: str) -> Iterator[str]:
    """Comments, docstrings (also those of fields) and messages of assertions."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and "noqa" not in token.string:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        said = node.value if isinstance(node, ast.Expr) else node.msg if isinstance(node, ast.Assert) else None
        if isinstance(said, ast.Constant) and isinstance(said.value, str):
            yield said.value


def unresolved(text: str) -> Iterator[str]:
    for document in DOCUMENT.findall(text):
        name = document.removeprefix(".github/")
        if name.rpartition("/")[2] not in PROJECT_FILES and not (
            (ROOT / name).exists() or (ROOT / ".github" / name).exists()
        ):
            yield document
    yield from OTHER_PAGE.findall(text)
    yield from (f"SPEC {section}" for section in CITATION.findall(text) if section not in SECTIONS)
    yield from (name for name in REQUIREMENT.findall(text) if name not in REQUIREMENTS)


def test_every_reference_resolves_inside_the_repository() -> None:
    assert len(SECTIONS) >= 16
    assert len(REQUIREMENTS) == 6 + 10 + 5 + 9
    found = []
    for path in (*(ROOT / "agentcli").rglob("*.py"), *(ROOT / "tests").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if path == Path(__file__) or not any(unresolved(source)):  # parsing all files takes ten seconds
            continue
        found += [f"{path.relative_to(ROOT)}: {name}" for text in explanations(source) for name in unresolved(text)]
    assert sorted(found) == []


MODULES = re.compile(r"(?:^|  )([a-z_]+(?:, [a-z_]+)*/?)  ", re.MULTILINE)
"""Names in the list of modules of a package's docstring: each row has one or two columns of names and texts."""


def missing_modules(package: Path) -> Iterator[str]:
    """Modules and packages that the docstring of a package lists and that do not exist."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    for names in MODULES.findall(text):
        for name in names.removesuffix("/").split(", "):
            if not ((package / name).is_dir() or (package / f"{name}.py").is_file()):
                yield name


def test_every_module_that_a_package_lists_exists(tmp_path: Path) -> None:
    packages = [path.parent for path in (ROOT / "agentcli").rglob("__init__.py")]
    missing = [f"{package.relative_to(ROOT)}: {name}" for package in packages for name in missing_modules(package)]
    assert missing == [], "these packages list modules that are not there"

    (tmp_path / "here.py").touch()
    (tmp_path / "__init__.py").write_text('"""A package.\n\nhere, gone     two modules      sub/    a package\n"""\n')
    assert list(missing_modules(tmp_path)) == ["gone", "sub"]


def test_a_reference_to_nothing_is_found() -> None:
    assert list(unresolved("as in NOTES.md and SPEC 9.1 (S4, L7)")) == ["NOTES.md", "S4", "SPEC 9.1", "L7"]
