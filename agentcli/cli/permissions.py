"""`agentcli permissions`: what the rules decide about a command and why, and which rules there are. Asks no model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

import typer

from agentcli.assemble import Options, Rights, rights_for
from agentcli.core.errors import UsageError
from agentcli.core.messages import Json
from agentcli.core.permission import Decision, Need, PermissionMode
from agentcli.core.plaintext import plain_line, visible_text

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
        typer.echo(json.dumps(_record(decision, rules, name, rights), indent=2, ensure_ascii=False))
    else:
        for line in _lines(decision, rules):
            typer.echo(line)
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
        typer.echo(json.dumps({"mode": policy.mode.value, "working_dirs": folders, "rules": rows}, indent=2))
        return
    typer.echo(f"mode: {policy.mode.value}")
    for folder in rights.context.working_dirs:
        typer.echo(f"works in: {visible_text(str(folder))}")
    for row in rows:
        typer.echo(f"{row['behavior']:<5}  {visible_text(row['rule'])}  # {plain_line(row['source'], 400)}")
    if not rows:
        typer.echo("There are no rules. What only reads in these folders is allowed, everything else asks.")


def _rights(trust: bool, mode: str | None) -> Rights:
    modes = [known.value for known in PermissionMode]
    if mode is not None and mode not in modes:
        raise UsageError(f"There is no permission mode {mode!r}. Choose one of {', '.join(modes)}.")
    rights = rights_for(Options(trust=trust, permission_mode=PermissionMode(mode) if mode else None))
    for notice in rights.notices:
        typer.echo(f"agentcli: {plain_line(notice, 600)}", err=True)
    return rights


def _needs(rights: Rights, tool: str, subject: str) -> tuple[Need, ...]:
    found = rights.registry.get(tool)
    field = getattr(found, "subject", None)
    if found is None or field is None:
        # A tool that is not here: of an MCP server, or of a later session. Its rules can be tried all the same.
        return (Need("other", subject),)
    return found.needs({field: subject}, rights.context)


def _lines(decision: Decision, rules: list[str]) -> Iterator[str]:
    yield f"{decision.behavior}: {visible_text(decision.reason)}"
    if len(decision.details) > 1:
        for line in decision.details:
            yield f"  {visible_text(line)}"
    if rules:
        yield f"To allow it: {visible_text(', '.join(rules))}"


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
