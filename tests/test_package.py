"""What users install: the wheel and the sdist are built here, without a network, and inspected."""

from __future__ import annotations

import functools
import gzip
import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import hatchling.build
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built(hatchling.build.build_wheel, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built(hatchling.build.build_sdist, tmp_path_factory.mktemp("sdist"))


def _built(build: Callable[[str], str], folder: Path) -> Path:
    """Call the build backend as pip does, except that the sdist is not compressed: that took half of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(gzip, "GzipFile", functools.partial(gzip.GzipFile, compresslevel=0))
        return folder / build(str(folder))


def test_the_wheel_has_every_file_that_the_program_reads(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "agentcli"
    wanted = {
        f"agentcli/{path.relative_to(package)}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= names
    assert {f"agentcli/data/themes/{path.name}" for path in (ROOT / "themes").glob("*.toml")} <= names
    assert "agentcli/py.typed" in names
    assert not [name for name in names if name.startswith("tests/")]


def test_the_sdist_can_be_tested_and_built_from(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "tests/conftest.py", "themes/dark.toml"):
        assert name in names


def test_the_wheel_runs_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """From the archive's own files: what is missing in it cannot be found elsewhere."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import agentcli; from agentcli.config.themes import load_themes, theme_folders; "
        "print(agentcli.__file__); print(len(load_themes(theme_folders(None))))"
    )
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    where, themes = done.stdout.splitlines()
    assert where.startswith(str(tmp_path))
    assert int(themes) == len(list((ROOT / "themes").glob("*.toml")))


def _release_notes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release_notes", ROOT / ".github" / "release_notes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHANGELOG = """# Changelog

## [Unreleased]

## [1.2.0] - 2026-01-02

### Added

- A thing.

## [1.1.0] - 2026-01-01

- Old.
"""


def test_a_release_has_its_part_of_the_changelog_as_notes() -> None:
    assert _release_notes().notes_for("v1.2.0", "1.2.0", CHANGELOG) == "### Added\n\n- A thing."


@pytest.mark.parametrize(
    ("tag", "version", "changelog", "reason"),
    [
        ("v1.3.0", "1.2.0", CHANGELOG, "the package is 1.2.0"),
        ("v1.3.0", "1.3.0", CHANGELOG, "no section"),
        ("v1.2.0", "1.2.0", "## [1.2.0] - 2026-01-02\n\n## [1.1.0] - 2026-01-01\n- x\n", "says nothing"),
        ("v1.2.0", "1.2.0", "## [1.2.0]\n- undated\n", "no section"),
    ],
)
def test_a_tag_that_does_not_match_the_version_is_refused(tag: str, version: str, changelog: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _release_notes().notes_for(tag, version, changelog)
