"""Help, shell completion and the sub-commands, by typer. Imported only when one of those is wanted (90 ms).

The flags come from the same table as the fast parser's, so what the help lists is what a start understands.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.completion import get_completion_inspect_parameters
from typer.core import TyperGroup
from typer.main import get_command

from agentcli.cli import login as cli_login
from agentcli.cli import permissions as cli_permissions
from agentcli.cli import status as cli_status
from agentcli.cli.flags import COMMANDS, COMPLETE_VARIABLE, FLAGS, GROUPS, MODES, Flag
from agentcli.config.paths import Paths
from agentcli.core.errors import UsageError
from agentcli.core.messages import Json
from agentcli.core.plaintext import plain_line

_SHELLS = ("bash", "zsh", "fish", "powershell")

_HELP = """An agent for your code, in the terminal and in scripts.

agentcli opens the app, with PROMPT as its first prompt if there is one. agentcli -p PROMPT answers one prompt; what is
piped into standard input is added to it.
"""
_EPILOG = (
    "Exit codes: 0 success, 1 the run ended in an error, 2 wrong usage, 75 a failure worth trying again later, "
    "130 interrupted, 143 terminated."
)
_TEST_HELP = (
    "What would be decided about COMMAND, part by part, and by which rule of which file. Nothing is run. "
    "Exit codes: 0 allowed, 3 it would be asked about, 4 denied."
)


class _Root(TyperGroup):
    """Lists the flags in the table's groups, which typer does by drawing boxes only."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        records = {param.name: param.get_help_record(ctx) for param in self.get_params(ctx)}
        for group in GROUPS:
            rows = [records.get(f"{flag.key}_flag") or records.get(flag.key) for flag in FLAGS if flag.group == group]
            with formatter.section(group):
                formatter.write_dl([row for row in rows if row is not None])
        self.format_commands(ctx, formatter)


def build_app() -> typer.Typer:
    app = typer.Typer(
        name="agentcli",
        help=_HELP,
        epilog=_EPILOG,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        subcommand_metavar="[PROMPT] | COMMAND",
        cls=_Root,
    )
    app.callback(invoke_without_command=True)(_root_with_flags())
    app.command("config", help=COMMANDS["config"])(config)
    app.command("demo", help=COMMANDS["demo"])(demo)
    app.command("doctor", help=COMMANDS["doctor"])(doctor)
    app.command("trust", help=COMMANDS["trust"])(trust)
    app.command("login", help=cli_login.LOGIN_HELP)(cli_login.login)
    app.command("logout", help=cli_login.LOGOUT_HELP)(cli_login.logout)
    app.command("status", help=cli_status.STATUS_HELP)(cli_status.status)
    app.command("completion", help=COMMANDS["completion"])(completion)
    sessions = typer.Typer(help=COMMANDS["sessions"], rich_markup_mode=None)
    sessions.command("list", help="The sessions of this folder, newest first.")(sessions_list)
    sessions.callback(invoke_without_command=True)(_list_by_default)
    app.add_typer(sessions, name="sessions")
    permissions = typer.Typer(help=COMMANDS["permissions"], rich_markup_mode=None, no_args_is_help=True)
    permissions.command("test", help=_TEST_HELP)(cli_permissions.try_rules)
    permissions.command("list", help="The rules in force, each with where it is from.")(cli_permissions.list_rules)
    app.add_typer(permissions, name="permissions")
    return app


def run_app(arguments: Sequence[str]) -> int:
    """The exit code."""
    # Called for its effect: it is what makes the shells known to completion.
    get_completion_inspect_parameters()
    command = get_command(build_app())
    try:
        outcome = command.main(list(arguments), prog_name="agentcli", standalone_mode=False)
    except typer.Exit as done:
        return done.exit_code
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 1
    except typer.TyperException as wrong:
        raise UsageError(wrong.format_message()) from None
    return outcome if isinstance(outcome, int) else 0


def _root_with_flags() -> Any:
    """A function whose signature is the table: typer reads parameters from signatures only."""

    def root(**_values: Any) -> None:
        """Never does anything: starts without a sub-command go through the fast parser."""

    ordered = sorted((flag for flag in FLAGS if flag.key != "help"), key=lambda flag: GROUPS.index(flag.group))
    parameters = [
        inspect.Parameter(
            f"{flag.key}_flag",
            inspect.Parameter.KEYWORD_ONLY,
            default=False if flag.kind == "switch" else None,
            annotation=_annotation(flag),
        )
        for flag in ordered
    ]
    root.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    root.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return root


def _annotation(flag: Flag) -> Any:
    shown = f"{flag.help} (with -p)" if flag.headless else flag.help
    metavar = flag.metavar or "|".join(flag.choices) or None
    if flag.kind == "equals":
        shown = f"{shown} As {flag.long}={flag.metavar}, or without a value."
    option = typer.Option(
        *flag.names,
        help=shown,
        metavar=None if flag.kind == "switch" else metavar,
        show_default=False,
        autocompletion=_completer(flag.choices) if flag.choices else None,
    )
    kind: Any = bool if flag.kind == "switch" else list[str] | None if flag.repeats else str | None
    return Annotated[kind, option]


def _completer(choices: tuple[str, ...]) -> Any:
    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def demo(
    auto: Annotated[bool, typer.Option("--auto", help="Play it without a person; exit 0 only if it works.")] = False,
    speed: Annotated[float, typer.Option("--speed", help="So many times as fast.", metavar="N")] = 1.0,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the throw-away folder, and say where it is.")] = False,
    mode: Annotated[
        str | None,
        typer.Option("--permission-mode", help=f"One of {', '.join(MODES)}.", metavar="MODE", show_default=False),
    ] = None,
    theme: Annotated[
        str | None, typer.Option("--theme", help="Else the one you have set.", metavar="NAME", show_default=False)
    ] = None,
) -> int:
    from agentcli.cli.demo import run_demo

    if mode is not None and mode not in MODES:
        raise UsageError(f"--permission-mode must be one of {', '.join(MODES)}, not {mode!r}.")
    return run_demo(auto=auto, speed=speed, keep=keep, mode=mode, theme=theme)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
    online: Annotated[bool, typer.Option("--online", help="Also try to reach the server.")] = False,
    sandbox: Annotated[str | None, typer.Option("--sandbox", help="off, on or strict; else as set.")] = None,
) -> None:
    from agentcli.cli.doctor import diagnose

    diagnose(as_json=as_json, online=online, sandbox=sandbox)


def trust(
    folder: Annotated[Path | None, typer.Argument(help="This folder, unless named.", show_default=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the trust back.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="The folders that are trusted.")] = False,
) -> None:
    from agentcli.cli.trust import distrust, list_trusted, trust_folder

    where = folder or Path.cwd()
    if list_:
        list_trusted()
    elif remove:
        distrust(where)
    else:
        trust_folder(where, yes=yes)


def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh, fish or powershell.", metavar="SHELL")],
) -> None:
    from typer._completion_shared import get_completion_script

    if shell not in _SHELLS:
        raise UsageError(f"There is no completion for {shell!r}. Choose one of {', '.join(_SHELLS)}.")
    typer.echo(get_completion_script(prog_name="agentcli", complete_var=COMPLETE_VARIABLE, shell=shell))


def config(
    trust: Annotated[bool, typer.Option("--trust", help="As if this folder were trusted.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    from agentcli.assemble import Options, settings_for
    from agentcli.cli.listing import setting_lines, setting_records

    settings = settings_for(Options(trust=trust))
    for problem in settings.problems:
        typer.echo(f"agentcli: {plain_line(problem.text, 600)}", err=True)
    _print(setting_records(settings) if as_json else setting_lines(settings))


def sessions_list(
    everywhere: Annotated[bool, typer.Option("--all", help="Of all folders.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    from agentcli.cli.listing import find_sessions, session_lines, session_records

    found = find_sessions(Paths.from_environ(os.environ), None if everywhere else Path.cwd())
    if not found and not as_json:
        typer.echo(
            "There are no sessions here yet. agentcli sessions list --all shows those of other folders.", err=True
        )
    _print(session_records(found) if as_json else session_lines(found))


def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        sessions_list()


def _print(output: list[Json] | Iterator[str]) -> None:
    if isinstance(output, list):
        typer.echo(json.dumps(output, indent=2, default=str))
        return
    for line in output:
        typer.echo(line)
