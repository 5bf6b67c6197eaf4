"""`agentcli permissions`, `trust` and `quarantine`: what may run, whom the user trusts, what the sandbox moved away."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from agentcli.assemble import Rights, rights_for
from agentcli.cli.flags import OF_COMMANDS, parse, read_value
from agentcli.cli.help import flag_row
from agentcli.cli.output import confirm, echo, echo_json, notice
from agentcli.commands import quarantine
from agentcli.commands.permissions import describe_decision
from agentcli.config.trust import UNREADABLE, TrustedContent, TrustState, TrustStore
from agentcli.config.trust_effects import effects_of
from agentcli.core.errors import UsageError
from agentcli.core.messages import Json
from agentcli.core.permission import Decision, Need
from agentcli.core.text.format import plural
from agentcli.core.text.plaintext import plain_line, show_command, show_name, terminal_line

EXIT_CODES = {"allow": 0, "ask": 3, "deny": 4}


def table_option(name: str, *aliases: str) -> Any:
    """The typer option for a flag of the table, which also says what its value may be."""
    flag = OF_COMMANDS[name]

    def check(value: str | None) -> str | None:
        return None if value is None else str(read_value(flag, name, value))

    return typer.Option(
        *flag.names,
        *aliases,
        metavar=flag.metavar or None,
        help=flag_row(flag)[1],
        show_default=False,
        callback=check if flag.choices else None,
    )


Trust = Annotated[bool, table_option("--trust")]
Sandbox = Annotated[str | None, table_option("--sandbox")]
AsJson = Annotated[bool, table_option("--json")]
_RIGHTS: dict[str, Any] = {
    "permission_mode": Annotated[str | None, table_option("--permission-mode", "--mode")],
    "trust": Trust,
    "sandbox": Sandbox,
    "allowed_tools": Annotated[list[str] | None, table_option("--allowed-tools")],
    "disallowed_tools": Annotated[list[str] | None, table_option("--disallowed-tools")],
    "add_dir": Annotated[list[str] | None, table_option("--add-dir")],
    "settings": Annotated[str | None, table_option("--settings")],
}


def takes_rights(function: Callable[..., None]) -> Callable[..., None]:
    """Give a sub-command the flags that decide about rights. It gets them as `flags`, in the words of a run, so that
    one parser reads both."""
    own = [place for name, place in inspect.signature(function, eval_str=True).parameters.items() if name != "flags"]
    shared = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False if hint is Trust else None, annotation=hint
        )
        for name, hint in _RIGHTS.items()
    ]

    @functools.wraps(function)
    def run(**given: Any) -> None:
        flags: list[str] = []
        for name in _RIGHTS:
            value, flag = given.pop(name), f"--{name.replace('_', '-')}"
            if value is True:
                flags.append(flag)
            elif value:
                flags += [f"{flag}={each}" for each in (value if isinstance(value, list) else [value])]
        function(flags=flags, **given)

    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {place.name: place.annotation for place in (*own, *shared)}
    del run.__wrapped__
    return run


@takes_rights
def try_rules(
    subject: Annotated[str, typer.Argument(metavar="COMMAND", help="The command; or a path or URL, with --tool.")],
    tool: Annotated[str, table_option("--tool")] = "Bash",
    as_json: AsJson = False,
    *,
    flags: list[str],
) -> None:
    """Show the decision for each part of COMMAND, with the rule and file behind it. Nothing is run. Exit codes: 0
    allowed, 3 needs approval, 4 denied.

    agentcli permissions test 'git push --force'      the decision and the reason
    agentcli permissions test src/app.py --tool Edit  for another tool
    """
    rights = _rights(flags)
    decision, rules, name = decide_call(rights, tool, subject)
    if as_json:
        echo_json(_record(decision, rules, name, rights))
    else:
        echo(describe_decision(decision))
        if rules:
            echo(f"{plural(len(rules), 'Rule')} to allow it: {terminal_line(', '.join(rules))}")
    raise typer.Exit(EXIT_CODES[decision.behavior])


@takes_rights
def list_rules(as_json: AsJson = False, *, flags: list[str]) -> None:
    """List the active rules and their sources.

    agentcli permissions list  active rules
    """
    rights = _rights(flags)
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


def decide_call(rights: Rights, tool: str, subject: str) -> tuple[Decision, list[str], str]:
    """The decision, the rules that would allow the call if it needs approval, and the tool's full name."""
    needs = _needs(rights, tool, subject)
    name = getattr(rights.registry.get(tool), "name", tool)
    place = (rights.context.cwd, rights.context.working_dirs)
    decision = rights.policy.decide(name, {}, needs, *place)
    rules = rights.policy.suggest(name, needs, *place).exact() if decision.behavior == "ask" else []
    return decision, rules, name


def rights_with(flags: list[str]) -> Rights:
    from agentcli.cli.invocation import build_options

    return rights_for(build_options(parse(flags), Path.cwd()))


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


# ------------------------------------------------------------------------------------------------------------- trust


def trust(
    folder: Annotated[Path | None, typer.Argument(help="Default: this folder.", show_default=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove trust from the folder.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List trusted folders.")] = False,
) -> None:
    """
    agentcli trust                    review this folder's settings and decide
    agentcli trust --list             trusted folders
    agentcli trust --remove ../other  remove trust
    """
    store, where = TrustStore.of(os.environ), folder or Path.cwd()
    if list_:
        for root in store.roots():
            echo(show_name(str(root)))
    elif remove:
        root = store.state(where).root
        known = store.distrust(root)
        echo(f"{show_name(str(root))} is no longer trusted." if known else "It was not trusted.")
    else:
        _trust_folder(store, where, yes)


def _trust_folder(trust: TrustStore, folder: Path, yes: bool) -> None:
    """Show everything that a folder could make agentcli run or allow, and record the answer.

    The recorded state is exactly the shown state: files are read once, and content that cannot be shown is not trusted.
    """
    if not folder.is_dir():
        raise UsageError(f"{terminal_line(str(folder))} is not a folder.")
    state = trust.state_for_review(folder)
    root = show_name(str(state.root))
    if state.trusted:
        echo(f"{root} is trusted, and nothing in it has changed since.")
        return
    echo(describe_content(state))
    if not state.unshowable and not yes:
        if not sys.stdin.isatty():
            raise UsageError("No terminal to ask for confirmation. Read the list above, then use --yes.")
        if not confirm("Trust this folder with exactly this content?"):
            echo("Nothing was changed.")
            return
    trust.trust(state)
    echo(f"{root} is trusted. agentcli asks again if these files change.")


def describe_content(state: TrustState) -> str:
    """All content that would take effect, in full, with invisible characters spelled out."""
    lines = [f"Folder: {show_name(str(state.root))}"]
    if not state.parts:
        lines.append("It has no settings, servers, hooks, skills or commands.")
    for part in state.parts:
        mark = "changed or new" if part.name in state.changed else "as trusted before"
        lines += ["", f"{show_name(part.name)} ({mark}):", *_content(part)]
    for title, rows in effects_of(state).list_titles():
        lines += ["", title] if rows else []
        lines += [f"  | {show_name(text)}  (from {show_name(name)})" for text, name in rows]
    return "\n".join(lines)


def _content(part: TrustedContent) -> list[str]:
    if part.digest == UNREADABLE:
        return ["    Cannot be shown: not a regular file inside the folder, or too large. It is never trusted."]
    rows = part.text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    # With a prefix: a line that the terminal wraps has none, so a long line cannot imitate the next heading.
    return [f"  | {show_command(row)}" for row in rows] if part.text else ["    (empty)"]


# -------------------------------------------------------------------------------------------------------- quarantine

_ID = typer.Argument(metavar="ID", help="From `agentcli quarantine list`.")
_FIELDS = ("id", "path", "kind", "command", "when", "reason")


def list_items(as_json: AsJson = False) -> None:
    """List quarantined items, oldest first.

    agentcli quarantine list  quarantined items, origin and reason
    """
    store = quarantine.store(os.environ)
    if as_json:
        echo_json([{name: getattr(item, name) for name in _FIELDS} for item in store.items()])
        return
    for line in quarantine.listing(store):
        echo(line)


def restore_item(item_id: Annotated[str, _ID]) -> None:
    """Restore an item to its original place.

    agentcli quarantine restore ID  restore an item
    """
    echo(quarantine.restore(quarantine.store(os.environ), item_id))


def remove_items(item_ids: Annotated[list[str], _ID]) -> None:
    """Delete items from quarantine.

    agentcli quarantine rm ID  delete an item
    """
    for line in quarantine.remove(quarantine.store(os.environ), item_ids):
        echo(line)
