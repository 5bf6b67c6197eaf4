"""Allow rules that would make a permission question go away, the narrowest useful one for each part.

Suggestions only; nothing is applied here. A star is offered only after words that say what is done (`npm run test`),
never after a program that would then do nearly anything.
"""

from __future__ import annotations

import re

from agentcli.core.globs import escape_glob
from agentcli.core.permission import Need
from agentcli.permissions.commands import Part
from agentcli.permissions.hosts import host_of, is_private_host

_REPEATED = frozenset(
    {
        "npm test",
        "npm ci",
        "pnpm test",
        "yarn test",
        "cargo test",
        "cargo check",
        "cargo build",
        "cargo clippy",
        "cargo fmt",
    }
    | {"go test", "go vet", "go build", "go fmt", "make test", "make check", "make lint", "make build", "git add"}
    | {"git commit", "git fetch", "uv sync", "poetry check", "dotnet test", "dotnet build", "mvn test", "gradle test"}
    | {"gradle build", "bundle check", "deno test", "deno lint", "deno fmt", "bun test", "mix test", "swift test"}
)
"""Two words after which other arguments mean the same kind of work."""
_REPEATED_PROGRAMS = frozenset(
    {"pytest", "ruff", "mypy", "eslint", "prettier", "tsc", "jest", "vitest", "black", "isort"}
)
_SCRIPTS = frozenset({"npm run", "pnpm run", "yarn run", "bun run", "deno task", "npm run-script"})
"""The third word is a script's name."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.-]*")


def for_need(tool_name: str, need: Need) -> list[str]:
    if need.kind in ("read", "write"):
        # A list of rules could not hold a lone parenthesis.
        if need.target.count("(") != need.target.count(")"):
            return []
        return [f"{'Read' if need.kind == 'read' else 'Edit'}(/{escape_glob(need.target)})"]
    if need.kind == "fetch":
        host = host_of(need.target)
        if not host:
            return [tool_name]
        return [f"{tool_name}({'private' if is_private_host(host) else 'domain'}:{host})"]
    # Of these each name is something else to allow.
    named = tool_name in ("Task", "Agent", "Skill") and need.target
    return [f"{tool_name}({need.target})" if named else tool_name]


def for_part(tool_name: str, part: Part) -> list[str]:
    """Empty when no rule could cover the part."""
    prefix = _prefix(part.inner)
    if prefix:
        return [f"{tool_name}({prefix} *)"]
    text = part.inner_text if not part.extended else part.command.text
    # A star would be a wildcard in the rule, and a lone parenthesis would not survive a list of rules.
    if "*" in text or text.count("(") != text.count(")") or "\n" in text:
        return []
    return [f"{tool_name}({text})"]


def _prefix(words: tuple[str, ...]) -> str:
    pair, plain = " ".join(words[:2]), all(_PLAIN.fullmatch(word) for word in words[1:3])
    if pair in _SCRIPTS:
        return " ".join(words[:3]) if len(words) > 2 and plain else ""
    if pair in _REPEATED:
        return pair
    return words[0] if words[0] in _REPEATED_PROGRAMS else ""
