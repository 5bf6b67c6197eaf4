"""Allow rules that would make a permission question go away, narrowest first. Suggestions only; nothing is applied."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from agentcli.core.globs import escape_glob
from agentcli.core.permission import Need
from agentcli.core.shell import is_read_only_part, plain_commands

_OPAQUE = frozenset(
    {"sh", "bash", "zsh", "dash", "fish", "env", "sudo", "doas", "su", "xargs", "eval", "exec", "source", ".", "nohup"}
    | {"nice", "timeout", "time", "python", "python3", "node", "ruby", "perl", "php", "ssh", "find", "awk", "sed", "rm"}
    | {"mv", "cp", "dd", "chmod", "chown", "curl", "wget", "kill", "docker"}
)
"""Programs for which `program *` would allow nearly anything: only the exact command is suggested."""

_WITH_SUBCOMMANDS = frozenset(
    {"git", "npm", "pnpm", "yarn", "cargo", "go", "uv", "pip", "poetry", "make", "just", "kubectl", "gh", "brew", "apt"}
    | {
        "dotnet",
        "mvn",
        "gradle",
        "rake",
        "bundle",
        "composer",
        "tox",
        "nox",
        "hatch",
        "deno",
        "bun",
        "terraform",
        "helm",
    }
)


def suggestions(tool_name: str, needs: Sequence[Need]) -> list[str]:
    """Empty when no rule could cover the call (a command that cannot be split plainly never matches one)."""
    if not needs:
        return [tool_name]
    found: list[str] = []
    for need in needs:
        if need.kind == "execute":
            found += _for_command(tool_name, need.target)
        elif need.kind in ("read", "write"):
            found += _for_path("Read" if need.kind == "read" else "Edit", need.target)
        else:
            found.append(tool_name)
    return list(dict.fromkeys(found))


def _for_command(tool_name: str, command: str) -> list[str]:
    parts = plain_commands(command, redirections=True)
    if parts is None:
        return []
    exact: list[str] = []
    wider: list[str] = []
    for part in parts:
        if is_read_only_part(part.words):
            continue
        # A star would be a wildcard in the rule, and a lone parenthesis would not survive a list of rules.
        if "*" not in part.text and part.text.count("(") == part.text.count(")"):
            exact.append(f"{tool_name}({part.text})")
        prefix = _prefix(part.words)
        if prefix:
            wider.append(f"{tool_name}({prefix} *)")
    return exact + wider


def _prefix(words: tuple[str, ...]) -> str:
    program = words[0]
    if program in _OPAQUE or "/" in program:
        return ""
    if program not in _WITH_SUBCOMMANDS:
        return program if len(words) > 1 else ""
    plain = [word for word in words[1:3] if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9:_-]*", word)]
    if not plain:
        return ""
    takes_script = plain[0] in ("run", "exec") and len(plain) > 1
    if plain[0] in ("run", "exec") and not takes_script:
        return ""
    return " ".join([program, *plain[: 2 if takes_script else 1]])


def _for_path(tool_name: str, path: str) -> list[str]:
    if path.count("(") != path.count(")"):
        return []
    folder = posixpath.dirname(path)
    exact = f"{tool_name}(/{escape_glob(path)})"
    return [exact] if folder in ("", "/") else [exact, f"{tool_name}(/{escape_glob(folder)}/**)"]
