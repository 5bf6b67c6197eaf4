"""The sub-commands with typer, and their help. Imported only for a sub-command (90 ms)."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from agentcli.cli import (
    COMMANDS,
    account,
    blame,
    history,
    mcp,
    mcp_login,
    permissions,
    plugins,
    replay,
    session_export,
    session_files,
    session_search,
    sessions,
    trace,
)
from agentcli.cli.flags import SHELLS, nearest
from agentcli.cli.help import EXAMPLES, HelpRow, lay_out, root_help, terminal_style
from agentcli.cli.output import echo, echo_json, echo_styled, notice
from agentcli.cli.permissions import AsJson, Sandbox, Trust, table_option
from agentcli.config.settings import SettingRow, Settings
from agentcli.core.errors import UsageError
from agentcli.core.text.plaintext import plain_line
from agentcli.providers.credentials import show_url

_VALUE_WIDTH = 400


@functools.cache
def command_tree() -> TyperGroup:
    """All commands with their flags. Building it from signatures takes 40 ms, and `agentcli help` needs it twice."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    functions: dict[str, Any] = {
        "help": help_,
        "demo": demo,
        "login": account.login,
        "logout": account.logout,
        "status": account.status,
        "doctor": doctor,
        "config": config,
        "trace": trace.trace,
        "bisect": history.bisect,
        "blame": blame.blame,
        "replay": replay.replay,
        "trust": permissions.trust,
        "completion": completion,
    }
    for name, function in functions.items():
        app.command(name)(function)
    stored: dict[str, Any] = {
        "list": sessions.list_,
        "show": sessions.show,
        "export": session_export.export,
        "rename": session_files.rename,
        "delete": session_files.delete,
        "prune": session_files.prune,
        "search": session_search.search,
        "import": session_files.import_,
    }
    _add_group(app, "sessions", stored, no_args_is_help=False).callback(invoke_without_command=True)(_list_by_default)
    _add_group(app, "permissions", {"test": permissions.try_rules, "list": permissions.list_rules})
    moved = {"list": permissions.list_items, "restore": permissions.restore_item, "rm": permissions.remove_items}
    _add_group(app, "quarantine", moved)
    _add_group(app, "plugins", {"list": plugins.list_plugins, "new": plugins.new_plugin})
    servers: dict[str, Any] = {
        "add": mcp.add,
        "add-json": mcp.add_json,
        "list": mcp.list_servers,
        "get": mcp.get,
        "remove": mcp.remove,
        "test": mcp.try_server,
        "reset-project-choices": mcp.reset_project_choices,
        "serve": mcp.serve,
        "login": mcp_login.login,
        "logout": mcp_login.logout,
    }
    _add_group(app, "mcp", servers)
    tree = get_command(app)
    assert isinstance(tree, TyperGroup)
    return tree


def _add_group(
    app: typer.Typer, name: str, functions: Mapping[str, Any], *, no_args_is_help: bool = True
) -> typer.Typer:
    """Add a command with sub-commands, whose help is their docstring."""
    group = typer.Typer(help=COMMANDS[name], rich_markup_mode=None, no_args_is_help=no_args_is_help)
    for inner, function in functions.items():
        group.command(inner)(function)
    app.add_typer(group, name=name)
    return group


def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        sessions.list_()


def run_app(arguments: Sequence[str]) -> int:
    """Run a sub-command; returns the exit code."""
    if (path := _asks_for_help(arguments)) is not None:
        help_(path)
        return 0
    try:
        outcome = command_tree().main(list(arguments), prog_name="agentcli", standalone_mode=False)
    except typer.Exit as done:
        return done.exit_code
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 1
    except typer.TyperException as wrong:
        raise UsageError(wrong.format_message()) from None
    return outcome if isinstance(outcome, int) else 0


def _asks_for_help(arguments: Sequence[str]) -> list[str] | None:
    """The command to show help for: requested by a flag, or a group of commands without a sub-command."""
    mine = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    path: list[str] = []
    command: Any = command_tree()
    for word in mine:
        command = commands_in(command).get(word)
        if command is None:
            break
        path.append(word)
    alone = command is not None and getattr(command, "no_args_is_help", False)
    return path if "-h" in mine or "--help" in mine or alone else None


def find_command(path: Sequence[str]) -> Any:
    """The typer command. Raises `UsageError` if it does not exist."""
    command: Any = command_tree()
    for number, word in enumerate(path):
        known = commands_in(command)
        if word not in known:
            near = nearest(word, tuple(known))
            hint = f"Did you mean {near}?" if near else "agentcli help lists all commands."
            raise UsageError(f"There is no command {' '.join(path[: number + 1])!r}. {hint}")
        command = known[word]
    return command


def command_help(path: Sequence[str], width: int, styled: bool = False) -> str:
    """The help of a sub-command. Raises `UsageError` if it does not exist."""
    command = find_command(path)
    sections: dict[str, list[HelpRow]] = {
        "Commands": [(name, summary(one)) for name, one in commands_in(command).items()],
        "Arguments": [(_metavar(place), place.help or "") for place in _arguments(command)],
        "Flags": [*flag_rows(command), ("-h, --help", "Show this help and exit.")],
        EXAMPLES: list(examples_of(command)),
    }
    about = _EXAMPLE.sub("", command.help or "") or COMMANDS[path[0]]
    return lay_out((usage_line(path),), about, sections, width, styled)


_EXAMPLE = re.compile(r"^(agentcli .*?)  +(.+)\n?", re.MULTILINE)
"""A line to type and what it does, at the end of a sub-command's docstring."""


def examples_of(command: Any) -> Iterator[HelpRow]:
    """The examples of a sub-command, or of all in a group."""
    for one in commands_in(command).values() or [command]:
        yield from ((found[1], found[2]) for found in _EXAMPLE.finditer(one.help or ""))


def commands_in(command: Any) -> dict[str, Any]:
    """The sub-commands of a group by name; empty for others."""
    return getattr(command, "commands", None) or {}


def summary(command: Any) -> str:
    return (command.help or "").partition("\n\n")[0]


def usage_line(path: Sequence[str]) -> str:
    command = find_command(path)
    places = [_metavar(place) if place.required else f"[{_metavar(place)}]" for place in _arguments(command)]
    commands = ["COMMAND"] if commands_in(command) else []
    return " ".join(("agentcli", *path, "[FLAGS]", *commands, *places))


def flag_rows(command: Any) -> list[HelpRow]:
    """The flags of a sub-command with their descriptions."""
    rows = []
    for param in command.params:
        if param.param_type_name == "option":
            value = "" if param.is_flag else f" {param.metavar or max(param.opts, key=len).lstrip('-').upper()}"
            default = f" Default: {param.default}." if isinstance(param.default, str) else ""
            rows.append((f"{', '.join(sorted(param.opts, key=len))}{value}", f"{param.help or ''}{default}"))
    return rows


def _arguments(command: Any) -> list[Any]:
    return [param for param in command.params if param.param_type_name == "argument" and not param.hidden]


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name.strip("_").upper())


# -------------------------------------------------------------------------------------------- commands without a module


def help_(
    command: Annotated[list[str] | None, typer.Argument(help="Command to explain.", show_default=False)] = None,
) -> None:
    """
    agentcli help                   this help
    agentcli help permissions test  help for one command
    """
    style = terminal_style()
    echo_styled(command_help(command, *style) if command else root_help(*style))


def demo(
    auto: Annotated[bool, typer.Option("--auto", help="Run without input; exit 0 only if everything works.")] = False,
    speed: Annotated[float, typer.Option("--speed", help="Playback speed factor.", metavar="N")] = 1.0,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary folder and print its path.")] = False,
    mode: Annotated[str | None, table_option("--permission-mode")] = None,
    theme: Annotated[str | None, table_option("--theme")] = None,
) -> int:
    """
    agentcli demo                   the tour; Enter starts the next step
    agentcli demo --auto --speed 4  play it automatically
    """
    from agentcli.cli.demo import run_demo

    return run_demo(auto=auto, speed=speed, keep=keep, mode=mode, theme=theme)


def doctor(
    as_json: AsJson = False,
    online: Annotated[bool, typer.Option("--online", help="Also contact the server.")] = False,
    sandbox: Sandbox = None,
) -> None:
    """Check this installation and test the sandbox. Exit code 1 if a check fails; warnings do not count.

    agentcli doctor                   run all checks
    agentcli doctor --online          also contact the server
    agentcli doctor --sandbox strict  test the strict sandbox
    """
    from agentcli.assemble import Options
    from agentcli.doctor.checks import run_checks
    from agentcli.doctor.finding import CheckContext, Finding, OutputScreen, format_finding
    from agentcli.doctor.finding import summary as findings_summary

    options = Options(sandbox=sandbox)
    screen = OutputScreen.here()
    _width, coloured = terminal_style()
    found: list[Finding] = []
    for finding in run_checks(CheckContext(options, os.environ, screen), online=online):
        found.append(finding)
        if not as_json:
            # Print each finding when it is known: a slow check does not delay the others.
            for line in format_finding(finding, screen.columns, coloured):
                echo_styled(line)
    failed = any(finding.status == "fail" for finding in found)
    if as_json:
        echo_json({"ok": not failed, "checks": [finding.record() for finding in found]})
    else:
        echo(f"\n{findings_summary(found)}")
    if failed:
        raise typer.Exit(1)


def completion(
    shell: Annotated[str, typer.Argument(help=f"{', '.join(SHELLS[:-1])} or {SHELLS[-1]}.", metavar="SHELL")],
) -> None:
    """
    agentcli completion bash >> ~/.bashrc                                for bash
    agentcli completion zsh > "${fpath[1]}/_agentcli"                    for zsh
    agentcli completion fish > ~/.config/fish/completions/agentcli.fish  for fish
    """
    from agentcli.cli.complete import shell_script

    if shell not in SHELLS:
        raise UsageError(f"Unknown shell {shell!r}. Choose one of {', '.join(SHELLS)}.")
    echo(shell_script(shell), end="")


def config(trust: Trust = False, as_json: AsJson = False) -> None:
    """
    agentcli config         all settings, values and sources
    agentcli config --json  the same as JSON
    """
    from agentcli.assemble import Options, settings_for

    settings = settings_for(Options(trust=trust))
    for problem in settings.problems:
        notice(problem.text)
    if as_json:
        rows = settings.describe()
        echo_json([{"key": row.key, "value": _without_password(row), "source": row.source} for row in rows])
        return
    for line in _format_settings(settings):
        echo(line)


def _format_settings(settings: Settings) -> Iterator[str]:
    """`key = value # source`: first values that are set, then the defaults."""
    for row in sorted(settings.describe(), key=lambda row: row.source == "default"):
        value = json.dumps(_without_password(row), ensure_ascii=False, default=str)
        yield f"{row.key} = {plain_line(value, _VALUE_WIDTH)}  # {plain_line(row.source)}"


def _without_password(row: SettingRow) -> Any:
    """The value without passwords: users paste this output into bug reports."""
    return show_url(row.value) if row.key == "baseUrl" and isinstance(row.value, str) else row.value
