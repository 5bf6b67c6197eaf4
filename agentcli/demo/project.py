"""The temporary folder of a demo: a small project with a bug and a failing test, and the demo's settings, sessions,
history and caches, so that nothing is written to the user's folders.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from agentcli.core.processes.own_programs import find_program, isolated_python, run_program

PREFIX = "agentcli-demo-"
NAME = "evening"
CODE = "tab/money.py"
TESTS = "test_tab.py"
TEST_COMMAND = "python3 -m unittest"
TEST_SECONDS = 60.0
GIT_SECONDS = 10.0
_PROGRAMS = ".venv/bin"
_PYTHON = """\
#!/bin/sh
[ -x {own} ] && exec {own} "$@"
PATH=${{PATH#*:}}
exec python3 "$@"
"""

BROKEN = """\
    share = cents // people
    return [share] * people
"""
FIXED = """\
    share, rest = divmod(cents, people)
    return [share + 1] * rest + [share] * (people - rest)
"""
_MONEY = '''\
"""Money in whole cents: no fractions, no surprises."""


def split(cents: int, people: int) -> list[int]:
    """Share a bill: what everybody pays, together exactly the bill."""
    if people < 1:
        raise ValueError("somebody has to pay")
{body}

def shown(cents: int) -> str:
    """As it stands on a receipt: 1234 is 12.34."""
    return f"{{cents // 100}}.{{cents % 100:02d}}"
'''
FILES = {
    "README.md": (
        f"# tab\n\nSplits the bill of an evening among friends, to the cent.\n\nRun the tests with `{TEST_COMMAND}`.\n"
    ),
    "tab/__init__.py": '"""Split a bill."""\n',
    CODE: _MONEY.format(body=BROKEN),
    TESTS: """\
import unittest

from tab.money import shown, split


class Splitting(unittest.TestCase):
    def test_nobody_pays_less_when_it_divides(self):
        self.assertEqual(split(900, 3), [300, 300, 300])

    def test_no_cent_gets_lost(self):
        self.assertEqual(sum(split(1000, 3)), 1000)

    def test_a_receipt_has_two_digits(self):
        self.assertEqual(shown(1205), "12.05")


if __name__ == "__main__":
    unittest.main()
""",
    ".gitignore": "__pycache__/\n.venv/\n",
}
_OF_GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "agentcli demo",
    "GIT_AUTHOR_EMAIL": "demo@localhost",
    "GIT_COMMITTER_NAME": "agentcli demo",
    "GIT_COMMITTER_EMAIL": "demo@localhost",
}
_PASSED_ON = (
    "SHELL", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "NO_COLOR", "COLORFGBG", "EDITOR", "VISUAL",
    "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERMINFO", "TERMINFO_DIRS", "TMUX", "STY", "ESCDELAY",
    "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "WSL_DISTRO_NAME", "WT_SESSION", "KITTY_WINDOW_ID", "VTE_VERSION",
    "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV",
    "PYENV_ROOT", "AGENTCLI_SANDBOX",
)  # fmt: skip


class Project:
    """Use it as a context manager: the folder is deleted afterwards, unless it is kept."""

    def __init__(self, *, keep: bool = False) -> None:
        self.keep = keep
        self.root = Path(os.path.realpath(tempfile.mkdtemp(prefix=PREFIX)))
        self.folder = self.root / NAME
        for name in ("home", "config", "state", "cache", "temp"):
            (self.root / name).mkdir(mode=0o700)
        for name, text in FILES.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if not _has_python(os.environ):
            self._make_python()

    def _make_python(self) -> None:
        """Write a `python3` that runs agentcli's interpreter, or the next one on the PATH if a sandbox hides that. In
        the project, because a sandbox hides the rest of the temporary folder."""
        program = self.folder / _PROGRAMS / "python3"
        program.parent.mkdir(parents=True)
        program.write_text(_PYTHON.format(own=shlex.quote(sys.executable)), encoding="utf-8")
        program.chmod(0o755)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.remove()

    def remove(self) -> None:
        if not self.keep:
            shutil.rmtree(self.root, ignore_errors=True)

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The environment of the demo: the user's terminal and search path, its own folders; no key or proxy."""
        kept = {name: value for name, value in given.items() if name in _PASSED_ON or name.startswith("LC_")}
        own = {f"AGENTCLI_{name.upper()}_DIR": str(self.root / name) for name in ("config", "state", "cache")}
        search_path = given.get("PATH") or os.defpath
        if (self.folder / _PROGRAMS).is_dir():
            search_path = f"{self.folder / _PROGRAMS}{os.pathsep}{search_path}"
        places = {"PATH": search_path, "HOME": str(self.root / "home"), "TMPDIR": str(self.root / "temp")}
        return {**kept, **own, **places}

    def make_repository(self) -> None:
        """Create a git repository, if git is installed. Takes a tenth of a second, so it runs during the start."""
        # The demo may be started in a project whose `.venv/bin` is on the PATH.
        git = find_program("git", os.environ.get("PATH"), [self.folder, Path.cwd()])
        if git is None:
            return
        environ = {"PATH": os.defpath, "HOME": str(self.root / "home"), **_OF_GIT}
        for words in (
            ("init", "-q", "--template=", "-b", "main"),
            ("add", "-A"),
            ("commit", "-q", "--no-verify", "-m", "Split a bill"),
        ):
            if run_program([git, *words], cwd=self.folder, environ=environ, seconds=GIT_SECONDS).code:
                # An old git may not know a flag: the demo works without it.
                shutil.rmtree(self.folder / ".git", ignore_errors=True)
                return

    @property
    def fixed(self) -> bool:
        try:
            return FIXED in (self.folder / CODE).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return False

    def problem(self) -> str:
        """Run the test in a separate process; returns the problem, "" if it passes."""
        name = TESTS.removesuffix(".py")
        command = isolated_python(f"import unittest; unittest.main({name!r})", libraries=[str(self.folder)])
        try:
            done = run_program(command, cwd=self.folder, environ={"PATH": os.defpath}, seconds=TEST_SECONDS)
        except OSError as error:
            return f"it could not be run ({error})"
        text = done.errors.decode("utf-8", "replace")
        if done.code == 0 and "Ran " in text and "Ran 0 tests" not in text:
            return ""
        lines = [line for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else f"it ended with {done.code}"


def _has_python(environ: Mapping[str, str]) -> bool:
    """Whether `python3` works in the demo: shims may need the user's home, and a fresh macOS has only an installer."""
    found = shutil.which("python3", path=environ.get("PATH") or os.defpath)
    home = environ.get("HOME", "")
    at_home = found is not None and len(home) > 1 and found.startswith(f"{home.rstrip('/')}/")
    return found is not None and not at_home and (sys.platform != "darwin" or found != "/usr/bin/python3")
