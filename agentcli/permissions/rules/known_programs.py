"""Tables of common development programs whose rules may end in a star, and of those whose rules never may.

A star covers every argument, and many of these programs have one that chooses what runs (`pytest -p`, `make -f`). They
run the project's own code anyway, so a star allows nothing that the project's files could not do. Interpreters,
wrappers, and programs that reach other machines or remove files are different: for them only exact rules are offered.
"""

from __future__ import annotations

import re

from agentcli.permissions.shell.interpreters import RUN_OTHERS, is_interpreter

Words = tuple[str, ...]

PYTHON_TOOLS = frozenset({"pytest", "mypy", "ruff", "black", "isort", "flake8", "pylint", "pyright", "tox", "nox"})
NODE_TOOLS = frozenset({"jest", "vitest", "eslint", "tsc", "prettier", "biome", "mocha", "stylelint"})
_FURTHER = frozenset({"make", "gmake", "ninja", "ctest", "rspec", "phpunit", "golangci-lint", "shellcheck"})
_ALONE = PYTHON_TOOLS | NODE_TOOLS | _FURTHER
_SUB_COMMANDS = {
    "npm": r"test|t|ci|run(?:-script)?",
    "pnpm": r"test|run|lint|build",
    "yarn": r"test|run|lint|build",
    "bun": r"test|run",
    "cargo": r"test|build|check|clippy|fmt|doc|bench|nextest",
    "go": r"test|build|vet|fmt",
    "gradle": r"test|build|check|assemble",
    "gradlew": r"test|build|check|assemble",
    "mvn": r"test|compile|package|verify",
    "mvnw": r"test|compile|package|verify",
    "dotnet": r"test|build|format",
    "swift": r"test|build",
    "flutter": r"test|analyze",
    "deno": r"test|lint|fmt|check",
    "mix": r"test|compile|format",
    "cmake": r"--build",
    "pre-commit": r"run",
    "git": r"add|commit",
    "composer": r"test",
}
_RUNS_SCRIPT = frozenset({("npm", "run"), ("npm", "run-script"), ("pnpm", "run"), ("yarn", "run"), ("bun", "run")})
"""Followed by a script name, which belongs to the prefix."""
_RUNNERS = frozenset(
    {("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("hatch", "run"), ("bundle", "exec")}
    | {("npx",), ("pnpm", "exec"), ("yarn", "exec"), ("bunx",)}
)
"""Runners of tools from the project's environment."""
_ENVIRONMENT = re.compile(r"(?:[\w./@+-]*/)?(?:\.venv|venv|env)/bin/(?P<program>[\w.-]+)")
_LOCAL_NODE = re.compile(r"(?:\./)?node_modules/\.bin/(?P<program>[\w.-]+)")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+-]+")

_NEVER = re.compile(
    r"curl|wget|http|scp|sftp|rsync|rm|rmdir|unlink|shred|dd|mkfs\S*|find|fd|sed|awk|gawk|mawk|eval|source|\.|trap|alias|export"
    r"|set|git|chmod|chown|ln|kill|pkill|killall|crontab|at|systemctl|service|mount|umount|apt|apt-get|brew|pip|pip3|pipx|gh"
    r"|aws|gcloud|az|terraform|helm|ansible\S*|tar|unzip|tee|cp|mv|jq|rg|grep|cat|less|vim?|nano|emacs|open|xdg-open|cd"
)


def known_prefix(words: Words) -> Words | None:
    """The prefix of a rule with a star, if the program is a common development tool."""
    if not _PLAIN.fullmatch(words[0]):
        return None
    for length in (2, 1):
        if words[:length] in _RUNNERS and len(words) > length:
            inner = known_prefix(words[length:])
            return (*words[:length], *inner) if inner is not None else None
    program = words[0].removeprefix("./")
    local = _ENVIRONMENT.fullmatch(words[0]) or _LOCAL_NODE.fullmatch(words[0])
    if local is not None:
        program = local["program"]
    if re.fullmatch(r"python[\d.]*", program):
        is_tool = words[1:2] == ("-m",) and len(words) > 2 and words[2] in PYTHON_TOOLS
        return words[:3] if is_tool else None
    if program in _ALONE and (local is not None or "/" not in words[0]):
        return words[:1]
    commands = _SUB_COMMANDS.get(program)
    if commands is None or len(words) < 2 or not re.fullmatch(commands, words[1]):
        return None
    if words[:2] not in _RUNS_SCRIPT:
        return words[:2]
    # Some of these programs also run a file of that name.
    named = len(words) > 2 and re.fullmatch(r"\w[\w:-]*", words[2]) is not None
    return words[:3] if named else None


def any_prefix(words: Words) -> Words | None:
    """The same for any program whose rule may have a star, for hints that the user reviews."""
    known = known_prefix(words)
    program = words[0].rpartition("/")[2]
    if known is not None:
        return known
    refused = is_interpreter(program) or RUN_OTHERS.fullmatch(program) or _NEVER.fullmatch(program)
    return None if refused or not _PLAIN.fullmatch(words[0]) else words[:1]


def tool_of(prefix: Words) -> str | None:
    """The tool that a prefix runs: `pytest` for `.venv/bin/python -m pytest`."""
    name = prefix[-1].rpartition("/")[2]
    return name if name in PYTHON_TOOLS | NODE_TOOLS else None


def ways_to_start(tool: str, environments: tuple[str, ...]) -> list[str]:
    """Prefixes that start a project's tool. `environments`: paths of its virtual environments."""
    if tool in NODE_TOOLS:
        return [tool, f"npx {tool}", f"node_modules/.bin/{tool}"]
    ways = [tool, f"python -m {tool}", f"python3 -m {tool}"]
    for folder in environments:
        ways += [f"{folder}/bin/{tool}", f"{folder}/bin/python -m {tool}", f"{folder}/bin/python3 -m {tool}"]
    return ways
