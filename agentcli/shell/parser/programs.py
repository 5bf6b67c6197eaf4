"""Kinds of programs: wrappers that run another command, interpreters, programs that list file names or filter lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from agentcli.core.frozen import frozen
from agentcli.core.text.patterns import lazy_pattern
from agentcli.shell.parser.words import MARKED

if TYPE_CHECKING:
    from agentcli.shell.parser.strict_parser import SimpleCommand

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


def unwrap(words: tuple[str, ...]) -> Wrapped:
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


_FORMS: Mapping[str, re.Pattern[str]] = {
    "time": lazy_pattern(r"(?:-p\0)?"),
    "nohup": lazy_pattern(r""),
    "command": lazy_pattern(r"(?!-)"),
    "builtin": lazy_pattern(r"(?!-)"),
    "timeout": lazy_pattern(
        r"(?:(?:--preserve-status|--foreground|-v|--verbose|--kill-after=[\d.smhd]+|--signal=\w+|-k[\d.]+[smhd]?|-s\w+)\0"
        r"|-[ks]\0[^\0]*\0)*\d+(?:\.\d+)?[smhd]?\0"
    ),
    "nice": lazy_pattern(r"(?:(?:-n-?\d+|--adjustment=-?\d+|-\d+|-n\0[^\0]*)\0)*(?!-)"),
    "stdbuf": lazy_pattern(r"(?:-[ioe][0L]\0)*(?!-)"),
    # A placeholder other than {} could be the name of the program itself.
    "xargs": lazy_pattern(
        r"(?:(?:-[0rt]+|--null|--no-run-if-empty|-[nLP]\0?\d+|-I\0?\{\}|--max-(?:args|procs|lines)=\d+|-d\0?[^\0]+)\0)*(?!-)"
    ),
}
"""The options of wrappers, each word ended by NUL; what follows is the command that they run."""


def joined(words: Iterable[str]) -> str:
    """Words, each ended by NUL, for patterns over several of them."""
    return "".join(f"{word}\0" for word in words)


def _wrapper_length(words: tuple[str, ...]) -> int | None:
    """The number of words of a wrapper with its options; None if it is none, or has an unknown option."""
    if words[:1] == ("env",):
        return _env(words)
    form = _FORMS.get(words[0]) if words else None
    found = form.match(joined(words[1:])) if form is not None else None
    return None if found is None else 1 + found[0].count("\0")


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


def _replaces_arguments_only(command: tuple[str, ...]) -> bool:
    """Whether {} is replaced only in arguments, never in the name of the program that runs."""
    return bool(command) and "{}" not in command[0] and command[0].rpartition("/")[2] not in WRAPPERS


def runs_python_tests(words: tuple[str, ...]) -> bool:
    """Whether a command runs Python tests (`pytest`, `python -m pytest`, `python -m unittest`).

    They import project files whatever their arguments are.
    """
    program = words[0].rpartition("/")[2]
    if program in ("pytest", "py.test"):
        return True
    is_python = re.fullmatch(r"python[\d.]*", program) is not None
    return is_python and words[1:2] == ("-m",) and words[2:3] in (("pytest",), ("unittest",))


INTERPRETERS = lazy_pattern(
    r"(?:ba|da|z|k|mk|c|tc|fi|a)?sh|pwsh|nu|python[\d.]*|pypy[\d.]*|ipython[\d.]*|node|nodejs|deno|bun|tsx|ts-node|ruby|irb"
    r"|perl[\d.]*|php[\d.]*|lua[\d.]*|luajit|tclsh|wish|expect|R|Rscript|julia|ghci|runghc|osascript|groovy|scala|jshell"
    r"|elixir|iex|erl|sqlite3|psql|mysql|mariadb|ed|ex|bc|dc|gdb|lldb|m4|at|batch|crontab"
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
        if inner is None:
            return program in ("parallel", "su", "sudo", "doas") and not plain
        return runs_input(words[inner:])
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


Words = tuple[str, ...]

_LS_FILES = lazy_pattern(r"-[cmdo]+|--(?:cached|modified|deleted|others|exclude-standard)|--")
_NAME_ONLY = lazy_pattern(r"--(?:name-only|cached|staged|no-renames|merge-base)|--diff-filter=[A-Za-z]+|--")
_LS = lazy_pattern(r"-[1rtS]+|--")
_GREP_NAMES = lazy_pattern(r"-[rliEFwPn]*l[rliEFwPn]*|-[rliEFwP]+|--(?:include|exclude|exclude-dir)=.*")
_RG_NAMES = lazy_pattern(
    r"-[liFwSu.]+|--(?:files|files-with-matches|hidden|no-ignore|ignore-case|fixed-strings)|-[tg].*"
)
_MATCHING_LINES = lazy_pattern(r"(?:-[vEiFwxP]+\0)*(?:[^-\0][^\0]*)?\0(?:-[vEiFwxP]+\0)*")
_FIRST_LINES = lazy_pattern(r"(?:-n\0?\+?\d{1,6}\0|-\d{1,6}\0)?")
_ALL_LINES = lazy_pattern(r"")
_KEEP_LINES: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("grep", "egrep"), _MATCHING_LINES),
    **dict.fromkeys(("head", "tail"), _FIRST_LINES),
    **dict.fromkeys(("uniq", "cat"), _ALL_LINES),
    "sort": lazy_pattern(r"(?:-[urnfV]+\0)*"),
}
"""Programs that print only lines of their input if their arguments, each ended by NUL, match this."""
_FILTERS: Mapping[str, re.Pattern[str]] = {
    "head": lazy_pattern(r"-n|-c|-\d+|-[nc]?\d+|\d+|-q"),
    "tail": lazy_pattern(r"-n|-c|-\d+|-[nc]?[-+]?\d+|[-+]?\d+|-q"),
    "wc": lazy_pattern(r"-[lwcmL]+"),
    "sort": lazy_pattern(r"-[nrufhVb]+"),
    "uniq": lazy_pattern(r"-[cdiu]+"),
    "cat": lazy_pattern(r"-[nbsA]+"),
}
"""Programs that read only standard input if all their arguments match this."""


def is_lister(words: Words) -> bool:
    """Whether a command prints only file names: tracked files, changed files or folder contents."""
    match words:
        case ("find", *rest):
            return "-printf" not in rest and "-ls" not in rest
        case ("git", "ls-files", *rest):
            return _flags_are(_LS_FILES, rest)
        case ("git", "diff", *rest):
            return "--name-only" in rest and _flags_are(_NAME_ONLY, rest)
        case ("ls", *rest):
            return _flags_are(_LS, rest)
        case ("grep", *rest):
            flags = "".join(word for word in rest if re.match("-[a-zA-Z]", word))
            return "r" in flags and "l" in flags and _flags_are(_GREP_NAMES, rest)
        case ("rg", *rest):
            names = (
                "--files" in rest or "--files-with-matches" in rest or any(re.match("-[a-zA-Z.]*l", w) for w in rest)
            )
            return names and _flags_are(_RG_NAMES, rest)
        case _:
            return False


def keeps_lines(words: Words) -> bool:
    """Whether every output line of a filter is an input line."""
    form = _KEEP_LINES.get(words[0])
    return form is not None and form.fullmatch(joined(words[1:])) is not None


def only_filters(words: Words) -> bool:
    """Whether a program has only options as arguments, so that it reads standard input and no file."""
    allowed = _FILTERS.get(words[0])
    return allowed is not None and all(allowed.fullmatch(word) for word in words[1:])


def prints_names(parts: Sequence[SimpleCommand]) -> bool:
    """Whether a pipe consists of a lister of the folder that it runs in, and optional filters."""
    first, *filters = parts
    odd = any(each.kind != "harmless" for part in parts for each in part.redirections)
    odd = odd or any(word[:1] in "/~" or ".." in word or MARKED.search(word) for word in first.words[1:])
    return not odd and is_lister(first.words) and all(keeps_lines(part.words) for part in filters)


def _flags_are(known: re.Pattern[str], words: Sequence[str]) -> bool:
    return all(known.fullmatch(word) for word in words if word.startswith("-"))
