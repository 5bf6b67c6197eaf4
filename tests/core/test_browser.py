"""Opening the user's browser: by a program outside of the project, with an address and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentcli.core.processes.own_programs import open_in_browser

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="the opener has another name")


def opener(folder: Path, name: str = "xdg-open", code: int = 0) -> Path:
    """Install an opener that writes down its arguments and environment; returns that file."""
    folder.mkdir(exist_ok=True)
    program, opened = folder / name, folder / "opened"
    program.write_text(f'#!/bin/sh\n{{ echo "$#|$1"; env; }} > {opened}.new\nmv {opened}.new {opened}\nexit {code}\n')
    program.chmod(0o755)
    return opened


def test_an_address_is_one_argument_without_characters_of_a_shell(tmp_path: Path) -> None:
    opened = opener(tmp_path / "bin")
    environ = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "DISPLAY": ":0",
        "API_KEY": "mine",
        "BROWSER": "evil",
        "XDG_CURRENT_DESKTOP": "GNOME",
        "XDG_DATA_DIRS": f"{tmp_path / 'work'}:/usr/share",
    }
    assert open_in_browser("https://example.com/a?b=$(id)'`|&c=%20\"", environ, [tmp_path / "work"])
    first, *variables = opened.read_text().splitlines()
    assert first == "1|https://example.com/a?b=%24%28id%29%27%60%7C&c=%20%22"
    assert "XDG_CURRENT_DESKTOP=GNOME" in variables
    assert "XDG_DATA_DIRS=/usr/share" in variables
    assert not any(line.startswith(("API_KEY=", "BROWSER=")) for line in variables)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:alert(1)", "-h", "/bin/sh", "ftp://example.com"])
def test_other_addresses_are_not_opened(tmp_path: Path, url: str) -> None:
    opened = opener(tmp_path / "bin")
    assert not open_in_browser(url, {"PATH": f"{tmp_path / 'bin'}:/bin", "DISPLAY": ":0"}, [])
    assert not opened.exists()


def test_without_a_display_or_an_opener_outside_of_the_project_nothing_is_opened(tmp_path: Path) -> None:
    opener(tmp_path / "bin")
    path = str(tmp_path / "bin")
    assert not open_in_browser("https://example.com/", {"PATH": path}, [])
    assert not open_in_browser("https://example.com/", {"PATH": path, "DISPLAY": ":0"}, [tmp_path])
    assert not open_in_browser("https://example.com/", {"PATH": "/nowhere", "DISPLAY": ":0"}, [])


def test_windows_below_linux_has_an_opener_of_its_own(tmp_path: Path) -> None:
    opened = opener(tmp_path / "bin", "wslview")
    assert open_in_browser("https://example.com/", {"PATH": f"{tmp_path / 'bin'}:/bin", "WSL_DISTRO_NAME": "x"}, [])
    assert opened.read_text().startswith("1|https://example.com/\n")


def test_an_opener_that_fails_opened_nothing(tmp_path: Path) -> None:
    opener(tmp_path / "bin", code=3)
    environ = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "DISPLAY": ":0"}
    assert not open_in_browser("https://example.com", environ, [])
