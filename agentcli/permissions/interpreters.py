"""Programs that run what they are given: as text, as a file, or through their input.

A rule that names such a program without its arguments allows everything. So none is ever suggested, and an exact rule
does not cover a call that takes its program from standard input.
"""

from __future__ import annotations

import re
from itertools import pairwise

INTERPRETERS = re.compile(
    r"(?:ba|da|z|k|mk|c|tc|fi|a)?sh|pwsh|nu|python[\d.]*|pypy[\d.]*|ipython[\d.]*|node|nodejs|deno|bun|tsx|ts-node|ruby|irb"
    r"|perl[\d.]*|php[\d.]*|lua[\d.]*|luajit|tclsh|wish|expect|R|Rscript|julia|ghci|runghc|osascript|groovy|scala|jshell"
    r"|elixir|iex|erl|sqlite3|psql|mysql|mariadb|ed|ex|bc|dc|gdb|lldb|m4|busybox|toybox"
)
RUN_OTHERS = re.compile(
    r"sudo|doas|su|env|ssh|docker|podman|kubectl|chroot|nsenter|unshare|bwrap|uv|poetry|pipenv|pdm|hatch|rye|conda|mamba|npx"
    r"|pnpm|yarn|bunx|nix-shell|nix|direnv|time|nohup|nice|timeout|stdbuf|setsid|ionice|script|watch|parallel|xargs|exec"
    r"|command|builtin|flatpak|vagrant|multipass|lxc|wsl|screen|tmux|socat|nc|ncat"
)
_GIVES_PROGRAM = re.compile(
    r"-[A-Za-z]*[cempErRf]|--(?:eval|execute|command|print|version|help|file|module)(?:=.*)?|-[hVv]"
)
_FROM_INPUT = frozenset({"-", "-s", "-i", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})


def runs_input(words: tuple[str, ...]) -> bool:
    """Whether a command may run what comes through its input. When in doubt it does."""
    program = _name(words[0])
    arguments = words[1:]
    if RUN_OTHERS.fullmatch(program):
        plain = [index for index, word in enumerate(words) if index and not word.startswith("-")]
        if program == "ssh":
            return len(plain) < 2 or INTERPRETERS.fullmatch(_name(words[plain[-1]])) is not None
        inner = next((index for index in plain if INTERPRETERS.fullmatch(_name(words[index]))), None)
        return inner is not None and runs_input(words[inner:])
    if program in ("make", "gmake"):
        return "-f-" in arguments or ("-f", "-") in pairwise(arguments)
    if not INTERPRETERS.fullmatch(program):
        return False
    if any(word in _FROM_INPUT for word in arguments):
        return True
    if any(map(_GIVES_PROGRAM.fullmatch, arguments)):
        return False
    return all(word.startswith("-") for word in arguments)


def is_interpreter(word: str) -> bool:
    return INTERPRETERS.fullmatch(_name(word)) is not None


def _name(word: str) -> str:
    return word.rpartition("/")[2]
