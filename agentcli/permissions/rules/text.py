"""Rules as users type and read them: validate, describe what a rule covers, and warn if it allows too much."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentcli.core.errors import UsageError
from agentcli.core.permission import TOOL_VERSION
from agentcli.core.processes.shell import shown_command
from agentcli.permissions.rules.rule import READING_TOOLS, WRITING_TOOLS, Rule, parse_rule

_HARMLESS_BARE = READING_TOOLS | {"TodoWrite", "WebSearch", "BashOutput"}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_INTERPRETERS = frozenset(
    {"sh", "bash", "zsh", "dash", "ksh", "fish", "pwsh", "busybox", "node", "deno", "bun", "ruby", "perl", "php", "lua"}
    | {"Rscript", "osascript", "awk", "gawk", "env", "sudo", "doas", "su", "xargs", "eval", "exec", "command", "nohup"}
    | {"setsid", "time", "timeout", "nice", "ssh", "npx", "bunx", "uvx", "pipx", "docker", "podman"}
)
"""Programs that run code from their arguments or standard input."""


def checked(text: str) -> Rule:
    """Parse a typed rule. Raises `UsageError` if it is invalid or ambiguous."""
    if shown_command(text) != text or "\n" in text:
        raise UsageError("The rule contains invisible characters or a line break.")
    return parse_rule(text)


def covered_by(rules: Sequence[str]) -> str:
    """Describe for the user what rules cover: `pytest with any arguments`."""
    if len(rules) > 1 and all(map(_is_exact_command, rules)):
        return f"exactly these {len(rules)} commands"
    if len(rules) == 1:
        return _covered(parse_rule(rules[0]))
    return "; ".join(
        f"exactly {parse_rule(rule).spec}" if _is_exact_command(rule) else _covered(parse_rule(rule)) for rule in rules
    )


def allows_what(text: str, rules: Sequence[Rule]) -> bool:
    """Whether allow rules cover everything that the rule `text` covers. False for an invalid text."""
    try:
        rule = parse_rule(text)
    except UsageError:
        return False
    exact = rule.spec if _is_exact_command(text) else None
    return any(
        one.text == text or (one.names(rule.tool) and (one.spec is None or (exact and one.matches_command(exact))))
        for one in rules
    )


def _is_exact_command(text: str) -> bool:
    rule = parse_rule(text)
    return rule.tool == "Bash" and rule.spec is not None and "*" not in rule.spec


def _covered(rule: Rule) -> str:
    tool, spec = rule.tool, rule.spec
    if spec is None:
        return (
            "every command" if tool == "Bash" else f"every use of {tool}" if tool != "*" else "every use of every tool"
        )
    if tool == "Bash":
        prefix = re.sub(r"(?::| )\*$", "", spec)
        if "*" not in spec:
            return "exactly this command"
        return f"{prefix} with any arguments" if prefix != spec and "*" not in prefix else f"every command like {spec}"
    if tool in WRITING_TOOLS:
        return f"edits of {_path(spec)}"
    if tool in READING_TOOLS:
        return f"reading {_path(spec)}"
    if tool == "Network":
        return f"{_host(spec)} for commands without network"
    if tool == "Env":
        program, _colon, variable = spec.partition(":")
        return f"{variable} for every {program} command"
    if spec.startswith("domain:"):
        return f"fetching from {spec.removeprefix('domain:')} and its subdomains"
    if spec.startswith("private:"):
        return f"fetching from {spec.removeprefix('private:')} in your own network"
    if spec.startswith(TOOL_VERSION):
        return f"every use of {tool} until its server changes it"
    return f"{tool} calls that match {spec}"


def _host(spec: str) -> str:
    return f"every host below {spec[2:]}" if spec.startswith("*.") else f"the host {spec}"


def _path(spec: str) -> str:
    return spec[1:] if spec.startswith("//") else spec


def risk_of(rule: Rule) -> str:
    """Reason why a rule allows far more than its text suggests; empty if it does not."""
    if rule.tool == "*" or (rule.spec is None and rule.tool not in _HARMLESS_BARE):
        return f"{rule.shown} allows {_covered(rule)}."
    if rule.tool != "Bash" or rule.spec is None:
        return ""
    words = re.sub(r":\*$", " *", rule.spec).split()
    program = words[0].rpartition("/")[2]
    if "*" in words[0]:
        return f"{rule.text} allows every program that matches {words[0]}."
    if not (_PYTHON.fullmatch(program) or program in _INTERPRETERS):
        return ""
    rest = words[1:]
    if rest[:1] == ["-m"] and len(rest) > 1 and "*" not in rest[1]:
        return ""
    chosen = rest if rest[:1] and rest[0].startswith("-") else rest[:1]
    return f"{rule.text} allows {program} to run any code." if not rest or any("*" in word for word in chosen) else ""
