"""Interpreters: programs that run code from an argument, a file or standard input.

A rule that names such a program without its arguments allows everything. So none is ever suggested, and an exact rule
does not cover a call that reads its program from standard input.
"""

from __future__ import annotations

from itertools import pairwise

from agentcli.core.text.lazy_pattern import lazy_pattern

INTERPRETERS = lazy_pattern(
    r"(?:ba|da|z|k|mk|c|tc|fi|a)?sh|pwsh|nu|python[\d.]*|pypy[\d.]*|ipython[\d.]*|node|nodejs|deno|bun|tsx|ts-node|ruby|irb"
    r"|perl[\d.]*|php[\d.]*|lua[\d.]*|luajit|tclsh|wish|expect|R|Rscript|julia|ghci|runghc|osascript|groovy|scala|jshell"
    r"|elixir|iex|erl|sqlite3|psql|mysql|mariadb|ed|ex|bc|dc|gdb|lldb|m4"
)
RUN_OTHERS = lazy_pattern(
    r"sudo|doas|su|env|ssh|docker|podman|kubectl|chroot|nsenter|unshare|bwrap|uv|poetry|pipenv|pdm|hatch|rye|conda|mamba|npx"
    r"|pnpm|yarn|bunx|nix-shell|nix|direnv|time|nohup|nice|timeout|stdbuf|setsid|ionice|script|watch|parallel|xargs|exec"
    r"|command|builtin|flatpak|vagrant|multipass|lxc|wsl|screen|tmux|socat|nc|ncat|busybox|toybox|flock|strace|ltrace|perf"
    r"|valgrind|taskset|chrt|numactl|prlimit|systemd-run|unbuffer|xvfb-run|dbus-run-session|fakeroot|proot|faketime"
    r"|rlwrap|gosu|su-exec|runuser|setpriv|catchsegv"
)
_GIVES_PROGRAM = lazy_pattern(
    r"-[A-Za-z]*[cempErRf]|--(?:eval|execute|command|print|version|help|file|module)(?:=.*)?|-[hVv]"
)
_COMMANDS_GIVEN = {
    "psql": lazy_pattern(r"-[cfl].*|--(?:command|file|list|version|help)(?:=.*)?"),
    "mysql": lazy_pattern(r"-e.*|--(?:execute|version|help)(?:=.*)?"),
    "mariadb": lazy_pattern(r"-e.*|--(?:execute|version|help)(?:=.*)?"),
    "gdb": lazy_pattern(r"--?(?:batch|version|help)"),
    "lldb": lazy_pattern(r"-b|--(?:batch|version|help)"),
    "ed": lazy_pattern(r"--(?:version|help)"),
    "ex": lazy_pattern(r"--(?:version|help)"),
}
"""Arguments with which these programs do not run their input: a file among them is data, not code."""
_SQLITE_VALUES = frozenset({"separator", "newline", "nullvalue", "init", "cmd", "maxsize", "lookaside", "vfs", "mmap"})
_FROM_INPUT = frozenset({"-", "-s", "-i", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})


def runs_input(words: tuple[str, ...]) -> bool:
    """Whether a command may run code from its input. True when in doubt."""
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
    if program == "sqlite3":
        return _sqlite_runs_input(arguments)
    if given := _COMMANDS_GIVEN.get(program):
        return not any(map(given.fullmatch, arguments))
    if any(map(_GIVES_PROGRAM.fullmatch, arguments)):
        return False
    return all(word.startswith("-") for word in arguments)


def _sqlite_runs_input(arguments: tuple[str, ...]) -> bool:
    """Whether no statement follows the database name."""
    if any(word in ("-version", "--version", "-help", "--help") for word in arguments):
        return False
    values = (previous.startswith("-") and previous.lstrip("-") in _SQLITE_VALUES for previous in ("", *arguments))
    plain = [word for word, is_value in zip(arguments, values, strict=False) if word[:1] != "-" and not is_value]
    return len(plain) < 2


def is_interpreter(word: str) -> bool:
    return INTERPRETERS.fullmatch(_name(word)) is not None


def _name(word: str) -> str:
    return word.rpartition("/")[2]
