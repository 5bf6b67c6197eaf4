"""The sub-commands with typer, and their help. Imported only for a sub-command (90 ms).

The flags come from the same table as in the fast parser, so that help and parser agree.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from agentcli.cli import COMMANDS
from agentcli.cli import login as cli_login
from agentcli.cli import mcp as cli_mcp
from agentcli.cli import permissions as cli_permissions
from agentcli.cli import plugins as cli_plugins
from agentcli.cli import quarantine as cli_quarantine
from agentcli.cli import status as cli_status
from agentcli.cli.flags.helptext import Section, SubcommandHelp, command_help, here, print_help, root_help
from agentcli.cli.flags.parse import nearest
from agentcli.cli.flags.table import FLAGS, GROUPS, MODES, SHELLS, Flag
from agentcli.cli.output import echo, echo_json, notice
from agentcli.config.paths import Paths
from agentcli.core.errors import UsageError
from agentcli.core.messages import Json

_TEST_HELP = (
    "Show the decision for each part of COMMAND, with the rule and file behind it. Nothing is run. "
    "Exit codes: 0 allowed, 3 needs approval, 4 denied."
)


def build_app() -> typer.Typer:
    app = typer.Typer(
        name="agentcli",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root_with_flags())
    app.command("help", help=COMMANDS["help"])(help_)
    app.command("config", help=COMMANDS["config"])(config)
    app.command("demo", help=COMMANDS["demo"])(demo)
    app.command("doctor", help=COMMANDS["doctor"])(doctor)
    app.command("trust", help=COMMANDS["trust"])(trust)
    app.command("login", help=cli_login.LOGIN_HELP)(cli_login.login)
    app.command("logout", help=cli_login.LOGOUT_HELP)(cli_login.logout)
    app.command("status", help=cli_status.STATUS_HELP)(cli_status.status)
    app.command("completion", help=COMMANDS["completion"])(completion)
    sessions = typer.Typer(help=COMMANDS["sessions"], rich_markup_mode=None)
    sessions.command("list", help="List the sessions of this folder, newest first.")(sessions_list)
    sessions.callback(invoke_without_command=True)(_list_by_default)
    app.add_typer(sessions, name="sessions")
    permissions = typer.Typer(help=COMMANDS["permissions"], rich_markup_mode=None, no_args_is_help=True)
    permissions.command("test", help=_TEST_HELP)(cli_permissions.try_rules)
    permissions.command("list", help="List the active rules and their sources.")(cli_permissions.list_rules)
    app.add_typer(permissions, name="permissions")
    quarantine = typer.Typer(help=COMMANDS["quarantine"], rich_markup_mode=None, no_args_is_help=True)
    quarantine.command("list", help="List quarantined items, oldest first.")(cli_quarantine.list_items)
    quarantine.command("restore", help="Restore an item to its original place.")(cli_quarantine.restore)
    quarantine.command("rm", help="Delete items from quarantine.")(cli_quarantine.remove)
    app.add_typer(quarantine, name="quarantine")
    plugins = typer.Typer(help=COMMANDS["plugins"], rich_markup_mode=None, no_args_is_help=True)
    plugins.command("list", help=cli_plugins.LIST_HELP)(cli_plugins.list_plugins)
    plugins.command("new", help=cli_plugins.NEW_HELP)(cli_plugins.new_plugin)
    app.add_typer(plugins, name="plugins")
    app.add_typer(cli_mcp.build(), name="mcp")
    return app


@functools.cache
def command_tree() -> TyperGroup:
    """All commands with their flags. Building it from signatures takes 40 ms, and `agentcli help` needs it twice."""
    tree = get_command(build_app())
    assert isinstance(tree, TyperGroup)
    return tree


def run_app(arguments: Sequence[str]) -> int:
    """Run a sub-command; returns the exit code."""
    command = command_tree()
    if (path := _asks_for_help(arguments, command)) is not None:
        return print_help(command_help(manual_of(path, command), *here()))
    try:
        outcome = command.main(list(arguments), prog_name="agentcli", standalone_mode=False)
    except typer.Exit as done:
        return done.exit_code
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 1
    except typer.TyperException as wrong:
        raise UsageError(wrong.format_message()) from None
    return outcome if isinstance(outcome, int) else 0


def _asks_for_help(arguments: Sequence[str], tree: TyperGroup) -> list[str] | None:
    """The command to show help for: requested by a flag, or a group of commands without a sub-command."""
    mine = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    path: list[str] = []
    command: Any = tree
    for word in mine:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        path.append(word)
    alone = command is not None and getattr(command, "no_args_is_help", False)
    return path if "-h" in mine or "--help" in mine or alone else None


def _first_paragraph(text: str | None) -> str:
    return (text or "").partition("\n\n")[0]


def manual_of(path: Sequence[str], tree: TyperGroup) -> SubcommandHelp:
    """The help of a command. Raises `UsageError` if it does not exist."""
    command: Any = tree
    for number, word in enumerate(path):
        known = getattr(command, "commands", None) or {}
        if word not in known:
            raise UsageError(_no_such_command(word, path[:number], tuple(known)))
        command = known[word]
    name = " ".join(("agentcli", *path))
    subcommands = getattr(command, "commands", None) or {}
    places = [param for param in command.params if param.param_type_name == "argument" and not param.hidden]
    flags = [param for param in command.params if param.param_type_name == "option"]
    shown = [f"[{_metavar(place)}]" if not place.required else _metavar(place) for place in places]
    return SubcommandHelp(
        path=tuple(path),
        usage=" ".join((name, "[FLAGS]", *(("COMMAND",) if subcommands else ()), *shown)),
        about=command.help or "",
        sections=(
            Section("Commands", tuple((name, _first_paragraph(one.help)) for name, one in subcommands.items())),
            Section("Arguments", tuple((_metavar(place), place.help or "") for place in places)),
            Section("Flags", (*(_flag_row(flag) for flag in flags), ("-h, --help", "Show this help and exit."))),
        ),
    )


def _no_such_command(word: str, before: Sequence[str], known: tuple[str, ...]) -> str:
    said = f"There is no command {' '.join((*before, word))!r}."
    near = nearest(word, known)
    return f"{said} Did you mean {near}?" if near else f"{said} agentcli help lists all commands."


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name.strip("_").upper())


def _flag_row(param: Any) -> tuple[str, str]:
    names = ", ".join(sorted(param.opts, key=len))
    long = max(param.opts, key=len).lstrip("-")
    value = "" if param.is_flag else f" {param.metavar or long.upper()}"
    default = f" Default: {param.default}." if isinstance(param.default, str) else ""
    return f"{names}{value}", f"{param.help or ''}{default}"


def _root_with_flags() -> Any:
    """A function whose signature is the flag table: typer reads parameters only from signatures."""

    def root(**_values: Any) -> None:
        """Does nothing: starts without a sub-command use the fast parser."""

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
    option = typer.Option(*flag.names, help=flag.help, metavar=flag.metavar or None, show_default=False)
    kind: Any = bool if flag.kind == "switch" else list[str] | None if flag.repeats else str | None
    return Annotated[kind, option]


def help_(
    command: Annotated[list[str] | None, typer.Argument(help="Command to explain.", show_default=False)] = None,
) -> None:
    tree = command_tree()
    print_help(command_help(manual_of(command, tree), *here()) if command else root_help(*here()))


def demo(
    auto: Annotated[bool, typer.Option("--auto", help="Run without input; exit 0 only if everything works.")] = False,
    speed: Annotated[float, typer.Option("--speed", help="Playback speed factor.", metavar="N")] = 1.0,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary folder and print its path.")] = False,
    mode: Annotated[
        str | None,
        typer.Option("--permission-mode", help=f"One of {', '.join(MODES)}.", metavar="MODE", show_default=False),
    ] = None,
    theme: Annotated[
        str | None, typer.Option("--theme", help="Default: your configured theme.", metavar="NAME", show_default=False)
    ] = None,
) -> int:
    from agentcli.cli.demo import run_demo

    if mode is not None and mode not in MODES:
        raise UsageError(f"--permission-mode must be one of {', '.join(MODES)}, not {mode!r}.")
    return run_demo(auto=auto, speed=speed, keep=keep, mode=mode, theme=theme)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    online: Annotated[bool, typer.Option("--online", help="Also contact the server.")] = False,
    sandbox: Annotated[
        str | None, typer.Option("--sandbox", help="off, on or strict. Default: as configured.", metavar="MODE")
    ] = None,
) -> None:
    from agentcli.cli.doctor import diagnose

    diagnose(as_json=as_json, online=online, sandbox=sandbox)


def trust(
    folder: Annotated[Path | None, typer.Argument(help="Default: this folder.", show_default=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove trust from the folder.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List trusted folders.")] = False,
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
    shell: Annotated[str, typer.Argument(help=f"{', '.join(SHELLS[:-1])} or {SHELLS[-1]}.", metavar="SHELL")],
) -> None:
    from agentcli.cli.flags.complete import SCRIPTS

    if shell not in SCRIPTS:
        raise UsageError(f"Unknown shell {shell!r}. Choose one of {', '.join(SCRIPTS)}.")
    echo(SCRIPTS[shell], end="")


def config(
    trust: Annotated[bool, typer.Option("--trust", help="Treat this folder as trusted.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    from agentcli.assemble import Options, settings_for
    from agentcli.cli.listing import setting_lines, setting_records

    settings = settings_for(Options(trust=trust))
    for problem in settings.problems:
        notice(problem.text)
    _print(setting_records(settings) if as_json else setting_lines(settings))


def sessions_list(
    everywhere: Annotated[bool, typer.Option("--all", help="Include all folders.")] = False,
    agents: Annotated[bool, typer.Option("--agents", help="Include transcripts of sub-agents.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    from agentcli.cli.listing import find_sessions, session_lines, session_records

    found = find_sessions(Paths.from_environ(os.environ), None if everywhere else Path.cwd(), agents=agents)
    if not found and not as_json:
        echo("No sessions in this folder yet. To list all folders: agentcli sessions list --all", err=True)
    # A session of another folder can only be resumed by its full id.
    width = here()[0] if sys.stdout.isatty() and not everywhere else None
    _print(session_records(found) if as_json else session_lines(found, width))


def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        sessions_list()


def _print(output: list[Json] | Iterator[str]) -> None:
    if isinstance(output, list):
        echo_json(output)
        return
    for line in output:
        echo(line)
