"""/permissions: list, add, edit, remove and test permission rules."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import cast

from agentcli.agent.engine import Engine
from agentcli.agent.live_permissions import BEHAVIORS, EDITABLE, RuleEntry
from agentcli.commands.front_end import FrontEnd
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.core.permission import Behavior, Decision, SaveTo
from agentcli.core.text.plaintext import plain_line, terminal_line, visible_text
from agentcli.permissions.rules import check_rule, describe_cover, risk_of, show_rule

SCOPES = ("session", "local", "project", "user", "flags", "managed", "agentcli")
"""Scopes in the order of the listing."""
_USAGE = (
    "Use /permissions add allow|ask|deny RULE, edit allow|ask|deny RULE NEW, remove [allow|ask|deny] RULE or "
    "test COMMAND; --scope session|local|project|user says where."
)
_MAX_DENIALS = 10


@frozen
class _Line:
    """Parsed arguments: the words and the options."""

    words: tuple[str, ...]
    scope: SaveTo | None = None
    tool: str = "Bash"
    yes: bool = False


async def run(engine: Engine, arguments: str, front_end: FrontEnd) -> str | None:
    """Deny beats ask beats allow, then the mode decides. --scope is session (the default), local, project or user.
    Settings files that you edit take effect at once.

    /permissions                                             list rules by scope, their last use, and denied calls
    /permissions add allow 'Bash(npm test *)' --scope local  add a rule
    /permissions edit allow 'Bash(make)' 'Bash(make *)'      edit a rule
    /permissions remove 'Bash(npm test *)'                   remove a rule
    /permissions test git push                               show the decision for a command, and why
    """
    await engine.live_files.refresh_settings()
    if arguments.strip():
        return _answer(engine, arguments)
    entries = [*engine.permissions.entries(), *await inactive_rules(engine)]
    if not front_end.has_pages:
        return list_rules(engine, entries)
    if (change := await front_end.page("permissions", engine, entries)) is not None:
        front_end.send(f"/permissions {change}")
    return None


def _answer(engine: Engine, arguments: str) -> str:
    name, _blank, rest = arguments.strip().partition(" ")
    if name == "test":
        return _test(engine, rest)
    if name not in ("add", "edit", "remove"):
        raise UsageError(_USAGE)
    if not engine.session.interactive:
        # In a non-interactive run the prompt may be text of others.
        raise UsageError("Rules can only be changed in an interactive session. Edit the settings file instead.")
    line = _parse(rest)
    match name:
        case "add":
            return _add(engine, line)
        case "edit":
            return _edit(engine, line)
        case _:
            return _remove(engine, line)


# ------------------------------------------------------------------------------------------------------------ listing


async def inactive_rules(engine: Engine) -> list[RuleEntry]:
    """Rules of settings files that have no effect."""
    return [
        RuleEntry(
            "allow",
            each.text,
            each.source,
            "local" if each.source.endswith(".local.json") else "project",
            inactive=each.reason,
        )
        for each in await engine.live_files.inactive()
        if each.kind == "rule"
    ]


def list_rules(engine: Engine, entries: Sequence[RuleEntry]) -> str:
    lines = [f"Mode: {engine.permissions.mode.label}. Deny beats ask beats allow, then the mode decides."]
    for scope in SCOPES:
        rows = [entry for entry in entries if entry.scope == scope]
        if not rows:
            continue
        sources = sorted({entry.source for entry in rows if entry.source.startswith("/")})
        lines += ["", f"{scope}  {plain_line(sources[0], 300)}" if len(sources) == 1 else scope]
        for entry in rows:
            uses = f"  ({describe_use(entry)})" if entry.last is not None or entry.inactive else ""
            means = "" if show_rule(entry.text) == entry.text else f": {plain_line(describe_cover([entry.text]), 300)}"
            lines.append(f"  {entry.behavior:<5}  {_show(entry.text)}{means}{uses}")
    if not entries:
        lines.append("There are no rules. Add one with /permissions add allow 'Bash(npm test *)' --scope local")
    denials = engine.session.denials
    if denials:
        lines += ["", "Refused in this session:"]
        lines += [
            f"  {plain_line(engine.title_of(str(denial['tool_name']), denial['tool_input']), 200)}"
            for denial in denials[-_MAX_DENIALS:]
        ]
    return "\n".join(lines)


def describe_use(entry: RuleEntry) -> str:
    """How often the rule was used in this session: `3 times, last at 14:02:11`."""
    if entry.inactive:
        return f"not active: {entry.inactive}"
    if entry.last is None:
        return "not used in this session"
    times = "once, at" if entry.count == 1 else f"{entry.count} times, last at"
    return f"{times} {datetime.fromtimestamp(entry.last).strftime('%H:%M:%S')}"


# ----------------------------------------------------------------------------------------------------------- changing


def _add(engine: Engine, line: _Line) -> str:
    behavior, (rule,) = _behavior_and(line, 1, "/permissions add allow 'Bash(npm test *)' --scope local")
    text = _check_rule(rule, behavior, line)
    scope = line.scope or "session"
    where = engine.permissions.change(scope, behavior, add=[text])
    cover = plain_line(describe_cover([text]), 300)
    return f"Added: {behavior} {_show(text)} (covers {cover}), {_describe_saved(scope, where)}."


def _edit(engine: Engine, line: _Line) -> str:
    behavior, (old, new) = _behavior_and(line, 2, "/permissions edit allow 'Bash(npm test)' 'Bash(npm test *)'")
    text = _check_rule(new, behavior, line)
    entry = _find(engine, check_rule(old).text, behavior, line.scope)
    where = engine.permissions.change(_scope(entry), behavior, add=[text], remove=[entry.text])
    said = f"{_show(text)} (covers {plain_line(describe_cover([text]), 300)})"
    return f"Changed: {behavior} {_show(entry.text)} is now {said}, {_describe_saved(entry.scope, where)}."


def _remove(engine: Engine, line: _Line) -> str:
    words = line.words
    behavior = words[0] if words[:1] and words[0] in BEHAVIORS else None
    rules = words[1:] if behavior else words
    if len(rules) != 1:
        raise UsageError("Give one rule: /permissions remove 'Bash(npm test *)'")
    entry = _find(engine, check_rule(rules[0]).text, behavior, line.scope)
    where = engine.permissions.change(_scope(entry), entry.behavior, remove=[entry.text])
    return f"Removed: {entry.behavior} {_show(entry.text)} from {plain_line(where, 300)}."


def _find(engine: Engine, text: str, behavior: Behavior | None, scope: str | None) -> RuleEntry:
    """Find the one editable rule that matches. Raises `UsageError` if there is none or more than one."""
    entries = [entry for entry in engine.permissions.entries() if entry.text == text]
    entries = [entry for entry in entries if behavior in (None, entry.behavior) and scope in (None, entry.scope)]
    changeable = [entry for entry in entries if entry.editable]
    if len(changeable) > 1:
        places = ", ".join(f"{entry.behavior} --scope {entry.scope}" for entry in changeable)
        raise UsageError(f"There are several rules {_show(text)}. Say which one: {places}.")
    if not changeable and entries:
        source = plain_line(entries[0].source, 300)
        raise UsageError(f"{_show(text)} comes from {source} and cannot be changed here.")
    if not changeable:
        raise UsageError(f"There is no rule {_show(text)}. /permissions lists them.")
    return changeable[0]


def _check_rule(rule: str, behavior: Behavior, line: _Line) -> str:
    parsed = check_rule(rule)
    risk = risk_of(parsed) if behavior == "allow" else ""
    if risk and not line.yes:
        raise UsageError(f"{risk} Nothing was changed. Repeat the line with --yes to save it.")
    return parsed.text


def _behavior_and(line: _Line, count: int, example: str) -> tuple[Behavior, tuple[str, ...]]:
    if len(line.words) != count + 1 or line.words[0] not in BEHAVIORS:
        rules = "one rule" if count == 1 else "the old and the new rule"
        raise UsageError(f"Give allow, ask or deny, and {rules}. For example: {example}")
    return line.words[0], line.words[1:]


def _parse(text: str) -> _Line:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"A quote is not closed. {_USAGE}") from error
    plain: list[str] = []
    options: dict[str, str] = {}
    pending = iter(words)
    for word in pending:
        if word in ("--scope", "--tool"):
            options[word] = next(pending, "")
        elif word == "--yes":
            options[word] = word
        else:
            plain.append(word)
    scope = options.get("--scope")
    if scope is not None and scope not in EDITABLE:
        raise UsageError(f"There is no scope {_show(scope)}. Choose one of {', '.join(EDITABLE)}.")
    return _Line(tuple(plain), scope, options.get("--tool", "Bash"), "--yes" in options)


def _scope(entry: RuleEntry) -> SaveTo:
    return cast(SaveTo, entry.scope)


def _describe_saved(scope: str, where: str) -> str:
    if scope == "session":
        return "for this session; --scope local, project or user keeps it"
    return f"saved in {plain_line(where, 300)}"


def _show(text: str) -> str:
    return visible_text(plain_line(text, 300))


# ------------------------------------------------------------------------------------------------------------ testing


def _test(engine: Engine, text: str) -> str:
    tool, subject = "Bash", text.strip()
    if subject.startswith("--tool "):
        _flag, tool, subject = [*subject.split(maxsplit=2), "", ""][:3]
    if not subject:
        raise UsageError(
            "Give a command: /permissions test git push. Another tool: /permissions test --tool Edit src/a.py"
        )
    return describe_decision(engine.test_permission(tool, subject))


def describe_decision(decision: Decision) -> str:
    """The decision with its reason, and with each part of a compound command. Safe to show."""
    details = decision.details if len(decision.details) > 1 else ()
    lines = [f"{decision.behavior}: {decision.reason}", *(f"  {detail}" for detail in details)]
    return "\n".join(map(terminal_line, lines))
