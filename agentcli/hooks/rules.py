"""Hook rules: parse them from settings, and find those that match. Nothing runs here."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line

EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "Notification",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
)
DEFAULT_TIMEOUT = 60.0
"""Default timeout in seconds."""
MAX_TIMEOUT = 3_600.0
MAX_RULES = 200
"""Maximum number of rules per file."""
_NAMES = re.compile(r"[\w|]+")
_MCP_NAMES = re.compile(r"(?:\w+|mcp__[\w*-]+)(?:\|(?:\w+|mcp__[\w*-]+))*")
_MAX_TITLE = 60

HookReply = Json | str | None
HookFunction = Callable[[Json], HookReply | Awaitable[HookReply]]
"""A function that gets the event's data. Returns the JSON that a command would print, a text for the model, or None."""


@frozen
class HookRule:
    """Run `action` when `event` occurs with a subject that `matcher` matches: a tool's name, for tool events."""

    event: str
    matcher: str
    """`Bash`, `Edit|Write`, `mcp__server`, `mcp__server__get_*`, a regular expression such as `mcp__.*`, or `*` or ""
    for everything."""
    action: str | HookFunction
    """A shell command, or a function. A function that is not async runs in a thread."""
    timeout: float = DEFAULT_TIMEOUT
    """Seconds until it is stopped."""
    source: str = ""
    """The settings file or plugin that it comes from."""
    in_repository: bool = False
    """Whether it comes from a file of the project, so that it runs only while that content is trusted."""

    @property
    def title(self) -> str:
        """The command or the function's name, as one short line."""
        if isinstance(self.action, str):
            return plain_line(self.action, _MAX_TITLE)
        return plain_line(getattr(self.action, "__qualname__", type(self.action).__name__), _MAX_TITLE)

    def matches(self, subject: str) -> bool:
        pattern = _pattern(self.matcher)
        return pattern is None or pattern.search(subject) is not None


@lru_cache(maxsize=512)
def _pattern(matcher: str) -> re.Pattern[str] | None:
    """The compiled matcher; None matches everything. Raises `re.error`."""
    if matcher in ("", "*"):
        return None
    if _NAMES.fullmatch(matcher) or _MCP_NAMES.fullmatch(matcher):
        return re.compile(rf"\A(?:{'|'.join(map(_name_pattern, matcher.split('|')))})\Z")
    return re.compile(matcher)


def _name_pattern(name: str) -> str:
    """A regular expression for a tool name: `mcp__server` matches all tools of that server, and `*` in names of MCP
    tools any text."""
    if not name.startswith("mcp__"):
        return name
    whole_server = "(?:__.*)?" if name.count("__") == 1 and "*" not in name else ""
    return re.escape(name).replace(r"\*", ".*") + whole_server


def matching(rules: Iterable[HookRule], event: str, subject: str) -> list[HookRule]:
    """The rules to run, in order. A command that is configured twice runs once."""
    found: dict[object, HookRule] = {}
    for rule in rules:
        if rule.event == event and rule.matches(subject):
            found.setdefault(rule.action if isinstance(rule.action, str) else id(rule.action), rule)
    return list(found.values())


def problem_of(rule: HookRule) -> str:
    """Why a rule cannot be used; "" if it can."""
    if rule.event not in EVENTS:
        return f"unknown hook event {plain_line(repr(rule.event), 80)}. Known: {', '.join(EVENTS)}."
    try:
        _pattern(rule.matcher)
    except re.error as error:
        return f"the matcher {plain_line(repr(rule.matcher), 80)} is not a valid regular expression: {error}."
    if isinstance(rule.action, str) and (not rule.action.strip() or "\0" in rule.action):
        return "a hook's command is empty or has a null character."
    return "" if 0 < rule.timeout <= MAX_TIMEOUT else f"a hook's timeout must be 1 to {MAX_TIMEOUT:g} seconds."


def parse_hooks(
    value: Mapping[str, Any], source: str, *, in_repository: bool = False
) -> tuple[list[HookRule], list[str]]:
    """The rules of a `hooks` object, and a sentence for each part that is not used."""
    rules: list[HookRule] = []
    problems: list[str] = []
    for event, groups in value.items():
        if not isinstance(groups, list):
            problems.append(f"hooks.{plain_line(event, 80)} must be a list.")
            continue
        for group in groups:
            for found in _rules_of(event, group):
                problem = found if isinstance(found, str) else problem_of(found)
                if problem:
                    problems.append(problem)
                elif isinstance(found, HookRule):
                    rules.append(replace(found, source=source, in_repository=in_repository))
    if len(rules) > MAX_RULES:
        problems.append(f"only the first {MAX_RULES} of {len(rules):,} hooks are used.")
    return rules[:MAX_RULES], [f"{source}: {problem}" for problem in problems]


def _rules_of(event: str, group: Any) -> list[HookRule | str]:
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return [f'each entry of hooks.{plain_line(event, 80)} must be an object with a list "hooks".']
    matcher = group.get("matcher", "")
    if not isinstance(matcher, str):
        return [f"a matcher of hooks.{plain_line(event, 80)} must be a string."]
    return [_rule(event, matcher, hook) for hook in group["hooks"]]


def _rule(event: str, matcher: str, hook: Any) -> HookRule | str:
    if not isinstance(hook, dict):
        return f"a hook of {plain_line(event, 80)} must be an object."
    if (kind := hook.get("type", "command")) != "command":
        return (
            f"a hook of {plain_line(event, 80)} has the type {plain_line(repr(kind), 80)}; only 'command' is supported."
        )
    command, timeout = hook.get("command"), hook.get("timeout", DEFAULT_TIMEOUT)
    if not isinstance(command, str):
        return f"a hook of {plain_line(event, 80)} has no command."
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        return f"the timeout of a hook of {plain_line(event, 80)} must be a number of seconds."
    return HookRule(event, matcher, command, float(timeout))
