"""Opening the user's browser: by a program outside of the project, with an address and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentcli.core.browser import open_in_browser

NAME = "open" if sys.platform == "darwin" else "xdg-open"


def opener(folder: Path, code: int = 0) -> Path:
    folder.mkdir()
    program = folder / NAME
    program.write_text(f'#!/bin/sh\necho "$#:$1:$SECRET" > {folder}/seen\nexit {code}\n')
    program.chmod(0o755)
    return folder


def test_the_address_is_the_only_argument_and_secrets_stay_behind(tmp_path: Path) -> None:
    folder = opener(tmp_path / "bin")
    assert open_in_browser("https://example.com/?a=1&b=2", {"PATH": f"{folder}", "SECRET": "s"}, [])
    assert (folder / "seen").read_text() == "1:https://example.com/?a=1&b=2:\n"


def test_an_opener_in_a_working_directory_is_not_used(tmp_path: Path) -> None:
    folder = opener(tmp_path / "bin")
    assert not open_in_browser("https://example.com", {"PATH": f"{folder}"}, [tmp_path])
    assert not (folder / "seen").exists()


def test_an_opener_that_fails_opened_nothing(tmp_path: Path) -> None:
    folder = opener(tmp_path / "bin", code=3)
    assert not open_in_browser("https://example.com", {"PATH": f"{folder}"}, [])


def test_only_web_addresses_are_opened() -> None:
    with pytest.raises(ValueError, match="not a web address"):
        open_in_browser("--help", {}, [])
