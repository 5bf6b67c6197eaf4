"""Wrapper programs that run another program, which is then checked by rules and read-only proofs.

A wrapper is unwrapped only in forms that are fully understood; in any other form it counts as an unknown program.
"""

from __future__ import annotations

import re

from agentcli.core.frozen import frozen
from agentcli.core.text.lazy_pattern import lazy_pattern

_DURATION = lazy_pattern(r"\d+(?:\.\d+)?[smhd]?")
_HARMLESS_NAMES = lazy_pattern(
    r"NODE_ENV|CI|DEBUG|VERBOSE|FORCE_COLOR|NO_COLOR|CLICOLOR(?:_FORCE)?|TERM|COLUMNS|LINES|LANG|LC_[A-Z]+|TZ|TEST_ENV"
    r"|RUST_BACKTRACE|RUST_LOG|CARGO_TERM_COLOR|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|DJANGO_DEBUG"
    r"|RAILS_ENV|RACK_ENV|APP_ENV|FLASK_ENV|GIT_PAGER_IN_USE|PYTEST_DISABLE_PLUGIN_AUTOLOAD|MIX_ENV|BABEL_ENV"
    r"|PYTHONIOENCODING|PYTHONUTF8|NEXT_TELEMETRY_DISABLED|DO_NOT_TRACK|HUSKY|TURBO_TELEMETRY_DISABLED"
    r"|CARGO_INCREMENTAL|GIT_OPTIONAL_LOCKS|GIT_TERMINAL_PROMPT|VITEST_MAX_WORKERS|JEST_WORKERS"
)
_HARMLESS_VALUE = lazy_pattern(r"[A-Za-z0-9_.,@+-]*")
_ZONE = lazy_pattern(r"[A-Za-z_]+/[A-Za-z_]+")
_OPENS_FURTHER = frozenset({"xargs"})
WRAPPERS = frozenset(
    {"time", "nohup", "command", "builtin", "timeout", "nice", "stdbuf", "env", "xargs", "exec"}
    | {"sudo", "doas", "setsid"}
)


@frozen
class Wrapped:
    """`words[start:]` is the command that actually runs."""

    start: int
    extended: bool = False
    """Whether it adds unknown arguments (xargs)."""


def harmless_assignment(name: str, value: str) -> bool:
    """Whether a variable set for one command affects neither what runs nor which files it uses."""
    if not _HARMLESS_NAMES.fullmatch(name):
        return False
    return _HARMLESS_VALUE.fullmatch(value) is not None or (name == "TZ" and _ZONE.fullmatch(value) is not None)


def unwrapped(words: tuple[str, ...]) -> Wrapped:
    """Where the actual command begins; 0 if no known wrapper precedes it."""
    start, extended = 0, False
    for _ in range(4):
        length = _wrapper_length(words[start:])
        if length is None or start + length >= len(words):
            break
        if words[start] in _OPENS_FURTHER:
            options = words[start + 1 : start + length]
            replaces = any(option.startswith("-I") for option in options)
            if replaces and not _replaces_arguments_only(words[start + length :]):
                break
            extended = True
        start += length
    return Wrapped(start, extended)


def _wrapper_length(words: tuple[str, ...]) -> int | None:
    match words[0] if words else "":
        case "time":
            return 2 if words[1:2] == ("-p",) else 1
        case "nohup":
            return 1
        case "command" | "builtin":
            return None if words[1:2] and words[1].startswith("-") else 1
        case "timeout":
            return _timeout(words)
        case "nice":
            return _options(words, re.compile(r"-n-?\d+|--adjustment=-?\d+|-\d+"), re.compile(r"-n"))
        case "stdbuf":
            return _options(words, re.compile(r"-[ioe][0L]"))
        case "env":
            return _env(words)
        case "xargs":
            return _xargs(words)
        case _:
            return None


def _options(words: tuple[str, ...], known: re.Pattern[str], valued: re.Pattern[str] | None = None) -> int | None:
    """The length of a wrapper with its flags; None for an unknown flag."""
    position = 1
    while position < len(words) and words[position].startswith("-"):
        if known.fullmatch(words[position]):
            position += 1
        elif valued is not None and valued.fullmatch(words[position]):
            position += 2
        else:
            return None
    return position


def _timeout(words: tuple[str, ...]) -> int | None:
    position = _options(
        words,
        re.compile(
            r"--preserve-status|--foreground|-v|--verbose|--kill-after=[\d.smhd]+|--signal=\w+|-k[\d.]+[smhd]?|-s\w+"
        ),
        re.compile(r"-k|-s"),
    )
    if position is None or position >= len(words) or not _DURATION.fullmatch(words[position]):
        return None
    return position + 1


def _env(words: tuple[str, ...]) -> int | None:
    position = 1
    while position < len(words):
        name, equals, value = words[position].partition("=")
        if not equals:
            break
        if not harmless_assignment(name, value):
            return None
        position += 1
    return None if position < len(words) and words[position].startswith("-") else position


_XARGS_ALONE = lazy_pattern(
    r"-[0rt]+|--null|--no-run-if-empty|-[nLP]\d+|-I\{\}|--max-args=\d+|--max-procs=\d+|--max-lines=\d+|-d.+"
)
_XARGS_VALUES = {"-n": r"\d+", "-L": r"\d+", "-P": r"\d+", "-d": r".+", "-I": r"\{\}"}


def _xargs(words: tuple[str, ...]) -> int | None:
    position = 1
    while position < len(words) and words[position].startswith("-"):
        value = _XARGS_VALUES.get(words[position])
        if value is not None:
            # A placeholder other than {} could be the name of the program itself.
            if position + 1 >= len(words) or not re.fullmatch(value, words[position + 1], re.DOTALL):
                return None
            position += 2
        elif _XARGS_ALONE.fullmatch(words[position]):
            position += 1
        else:
            return None
    return position


def _replaces_arguments_only(command: tuple[str, ...]) -> bool:
    """Whether {} is replaced only in arguments, never in the name of the program that runs."""
    return bool(command) and "{}" not in command[0] and command[0].rpartition("/")[2] not in WRAPPERS


_INTERPRETER = lazy_pattern(
    r"(?:ba|da|z|k|c|tc|fi|a)?sh|python[\d.]*|pypy3?|node|deno|bun|perl|ruby|php|lua[\d.]*|tclsh|wish|expect|R|Rscript"
    r"|osascript|irb|ghci|psql|mysql|sqlite3|gdb|lldb|at|batch|crontab|ssh|su|sudo|doas|busybox|parallel|xargs|make"
)
_CODE_ELSEWHERE = lazy_pattern(r"-[A-Za-z]*[cmef]|--?(?:version|help|eval|command|test|check)")


def runs_its_input(words: tuple[str, ...]) -> bool:
    """Whether an interpreter reads its program from standard input."""
    if not words or not _INTERPRETER.fullmatch(words[0].rpartition("/")[2]):
        return False
    arguments = words[1:]
    if any(argument in ("-", "-s", "/dev/stdin") for argument in arguments):
        return True
    return all(a.startswith("-") for a in arguments) and not any(map(_CODE_ELSEWHERE.fullmatch, arguments))


def runs_python_tests(words: tuple[str, ...]) -> bool:
    """Whether a command runs Python tests (`pytest`, `python -m pytest`, `python -m unittest`).

    They import project files whatever their arguments are.
    """
    program = words[0].rpartition("/")[2]
    if program in ("pytest", "py.test"):
        return True
    is_python = re.fullmatch(r"python[\d.]*", program) is not None
    return is_python and words[1:2] == ("-m",) and words[2:3] in (("pytest",), ("unittest",))
