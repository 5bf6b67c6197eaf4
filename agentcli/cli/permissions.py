"""`agentcli permissions`: what the rules decide about a command and why, and which rules there are. Asks no model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from agentcli.assemble import Options, Rights, rights_for
from agentcli.cli.output import echo, echo_json, notice
from agentcli.core.errors import UsageError
from agentcli.core.messages import Json
from agentcli.core.permission import Decision, Need, PermissionMode
from agentcli.core.plaintext import plain_line, terminal_line

EXIT_CODES = {"allow": 0, "ask": 3, "deny": 4}


def try_rules(
    subject: Annotated[str, typer.Argument(metavar="COMMAND", help="The command; or a path or URL, with --tool.")],
    tool: Annotated[str, typer.Option("--tool", help="The tool: Bash, Read, Edit, WebFetch, …")] = "Bash",
    mode: Annotated[str | None, typer.Option("--mode", help="As if this permission mode were on.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="As if this folder were trusted.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    rights = _rights(trust, mode)
    needs = _needs(rights, tool, subject)
    name = getattr(rights.registry.get(tool), "name", tool)
    place = (rights.context.cwd, rights.context.working_dirs)
    decision = rights.policy.decide(name, {}, needs, *place)
    rules = rights.policy.suggestions(name, needs, *place) if decision.behavior == "ask" else []
    if as_json:
        echo_json(_record(decision, rules, name, rights))
    else:
        for line in _lines(decision, rules):
            echo(line)
    raise typer.Exit(EXIT_CODES[decision.behavior])


def list_rules(
    trust: Annotated[bool, typer.Option("--trust", help="As if this folder were trusted.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    rights = _rights(trust, None)
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
        echo(f"works in: {terminal_line(str(folder))}")
    for row in rows:
        echo(f"{row['behavior']:<5}  {terminal_line(row['rule'])}  # {plain_line(row['source'], 400)}")
    if not rows:
        echo("There are no rules. What only reads in these folders is allowed, everything else asks.")


def _rights(trust: bool, mode: str | None) -> Rights:
    modes = [known.value for known in PermissionMode]
    if mode is not None and mode not in modes:
        raise UsageError(f"There is no permission mode {mode!r}. Choose one of {', '.join(modes)}.")
    rights = rights_for(Options(trust=trust, permission_mode=PermissionMode(mode) if mode else None))
    for text in rights.notices:
        notice(text)
    return rights


def _needs(rights: Rights, tool: str, subject: str) -> tuple[Need, ...]:
    found = rights.registry.get(tool)
    field = getattr(found, "subject", None)
    if found is None or field is None:
        # A tool that is not here: of an MCP server, or of a later session. Its rules can be tried all the same.
        return (Need("other", subject),)
    return found.needs({field: subject}, rights.context)


def _lines(decision: Decision, rules: list[str]) -> Iterator[str]:
    yield f"{decision.behavior}: {terminal_line(decision.reason)}"
    if len(decision.details) > 1:
        for line in decision.details:
            yield f"  {terminal_line(line)}"
    if rules:
        yield f"To allow it: {terminal_line(', '.join(rules))}"


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
