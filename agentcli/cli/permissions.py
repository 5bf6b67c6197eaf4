"""`agentcli permissions`: the decision for a command and its reason, and the active rules. Uses no model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from agentcli.assemble import Rights, rights_for
from agentcli.cli.output import echo, echo_json, notice
from agentcli.core.messages import Json
from agentcli.core.permission import Decision, Need
from agentcli.core.text.plaintext import plain_line, terminal_line
from agentcli.core.text.plural import plural

EXIT_CODES = {"allow": 0, "ask": 3, "deny": 4}


Mode = Annotated[
    str | None, typer.Option("--permission-mode", "--mode", metavar="MODE", help="Use this permission mode.")
]
Trust = Annotated[bool, typer.Option("--trust", help="Treat this folder as trusted.")]
Sandbox = Annotated[str | None, typer.Option("--sandbox", metavar="MODE", help="As with agentcli --sandbox.")]
Allowed = Annotated[
    list[str] | None, typer.Option("--allowedTools", "--allowed-tools", metavar="RULES", help="Additional allow rules.")
]
Disallowed = Annotated[
    list[str] | None,
    typer.Option("--disallowedTools", "--disallowed-tools", metavar="RULES", help="Additional deny rules."),
]
AddDir = Annotated[
    list[str] | None, typer.Option("--add-dir", metavar="FOLDER", help="An additional working directory.")
]
SettingsText = Annotated[
    str | None, typer.Option("--settings", metavar="JSON|FILE", help="Settings that override the files.")
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def try_rules(
    subject: Annotated[str, typer.Argument(metavar="COMMAND", help="The command; or a path or URL, with --tool.")],
    tool: Annotated[str, typer.Option("--tool", help="The tool: Bash, Read, Edit, WebFetch, …")] = "Bash",
    mode: Mode = None,
    trust: Trust = False,
    sandbox: Sandbox = None,
    allowed: Allowed = None,
    disallowed: Disallowed = None,
    add_dir: AddDir = None,
    settings: SettingsText = None,
    as_json: _AsJson = False,
) -> None:
    rights = _rights(flag_words(mode, trust, sandbox, allowed, disallowed, add_dir, settings))
    decision, rules, name = decided(rights, tool, subject)
    if as_json:
        echo_json(_record(decision, rules, name, rights))
    else:
        for line in _lines(decision, rules):
            echo(line)
    raise typer.Exit(EXIT_CODES[decision.behavior])


def list_rules(
    mode: Mode = None,
    trust: Trust = False,
    sandbox: Sandbox = None,
    allowed: Allowed = None,
    disallowed: Disallowed = None,
    add_dir: AddDir = None,
    settings: SettingsText = None,
    as_json: _AsJson = False,
) -> None:
    rights = _rights(flag_words(mode, trust, sandbox, allowed, disallowed, add_dir, settings))
    policy = rights.policy
    rows: list[Json] = [
        {"behavior": behavior, "rule": rule.text, "source": rule.source}
        for behavior, rules in (("deny", policy.deny), ("ask", policy.ask), ("allow", policy.allow))
        for rule in rules
    ]
    if as_json:
        folders = [str(folder) for folder in rights.context.working_dirs]
        echo_json({"mode": policy.mode.value, "working_dirs": folders, "rules": rows})
        return
    echo(f"mode: {policy.mode.value}")
    for folder in rights.context.working_dirs:
        echo(f"working directory: {terminal_line(str(folder))}")
    for row in rows:
        echo(f"{row['behavior']:<5}  {terminal_line(row['rule'])}  # {plain_line(row['source'], 400)}")
    if not rows:
        echo("No rules. Read-only access to these folders is allowed, everything else needs approval.")


def decided(rights: Rights, tool: str, subject: str) -> tuple[Decision, list[str], str]:
    """The decision, the rules that would allow the call if it needs approval, and the tool's full name."""
    needs = _needs(rights, tool, subject)
    name = getattr(rights.registry.get(tool), "name", tool)
    place = (rights.context.cwd, rights.context.working_dirs)
    decision = rights.policy.decide(name, {}, needs, *place)
    rules = rights.policy.suggest(name, needs, *place).exact() if decision.behavior == "ask" else []
    return decision, rules, name


def rights_with(flags: list[str]) -> Rights:
    from agentcli.cli.flags.invocation import build_invocation
    from agentcli.cli.flags.parse import parse

    return rights_for(build_invocation(parse(flags), Path.cwd()).options)


def flag_words(
    mode: str | None,
    trust: bool,
    sandbox: str | None,
    allowed: list[str] | None,
    disallowed: list[str] | None,
    add_dir: list[str] | None,
    settings: str | None,
) -> list[str]:
    """Turn the values back into flags of agentcli's command line, so that one parser reads both."""
    given = [("--permission-mode", mode), ("--sandbox", sandbox), ("--settings", settings)]
    given += [("--allowedTools", rules) for rules in allowed or ()]
    given += [("--disallowedTools", rules) for rules in disallowed or ()]
    given += [("--add-dir", folder) for folder in add_dir or ()]
    return [f"{name}={value}" for name, value in given if value is not None] + (["--trust"] if trust else [])


def _rights(flags: list[str]) -> Rights:
    rights = rights_with(flags)
    for text in rights.notices:
        notice(text)
    return rights


def _needs(rights: Rights, tool: str, subject: str) -> tuple[Need, ...]:
    found = rights.registry.get(tool)
    field = getattr(found, "subject", None)
    if found is None or field is None:
        # An unknown tool, e.g. of an MCP server that is not connected here. Its rules can still be tested.
        return (Need("other", subject),)
    return found.needs({field: subject}, rights.context)


def _lines(decision: Decision, rules: list[str]) -> Iterator[str]:
    yield f"{decision.behavior}: {terminal_line(decision.reason)}"
    if len(decision.details) > 1:
        for line in decision.details:
            yield f"  {terminal_line(line)}"
    if rules:
        yield f"{plural(len(rules), 'Rule')} to allow it: {terminal_line(', '.join(rules))}"


def _record(decision: Decision, rules: list[str], tool: str, rights: Rights) -> Json:
    return {
        "behavior": decision.behavior,
        "reason": decision.reason,
        "rule": decision.rule,
        "source": decision.source,
        "parts": list(decision.details),
        "suggestions": rules,
        "tool": tool,
        "mode": rights.policy.mode.value,
        "cwd": str(rights.context.cwd),
    }
