"""The table of sub-commands; parsing, help, completion and reference use it. Standard library only.

A row names its function as `module:function`, which gets the parsed arguments and returns the exit code; None means 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from agentcli.cli import COMMANDS
from agentcli.cli.flags import BY_NAME, MCP_SCOPES, MCP_TRANSPORTS, SHELLS, Flag, Parsed, by_name, nearest, parse_words
from agentcli.cli.help import EXAMPLES, HelpRow, examples_of, flag_row, lay_out, root_help, terminal_style
from agentcli.cli.output import echo_styled
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen


@frozen
class SubCommand:
    path: str
    function: str
    """Module of `agentcli.cli` and function."""
    help: str
    arguments: tuple[HelpRow, ...] = ()
    """Names and descriptions. `[NAME]` may be left out, `NAME…` repeated. A SERVER, SHELL or FOLDER is completed."""
    flags: tuple[Flag, ...] = ()
    advice: str = ""
    """What to do instead of passing further arguments."""

    @property
    def usage(self) -> str:
        return " ".join(("agentcli", self.path, "[FLAGS]", *(name for name, _text in self.arguments)))


JSON = Flag("--json", "Print JSON.")
MODE = replace(BY_NAME["--permission-mode"], usage="--permission-mode, --mode MODE")
TRUST, SANDBOX, CONFIG = BY_NAME["--trust"], BY_NAME["--sandbox"], BY_NAME["--mcp-config"]
_RULES = tuple(BY_NAME[name] for name in ("--allowed-tools", "--disallowed-tools", "--add-dir", "--settings"))
RIGHTS = (MODE, TRUST, SANDBOX, *_RULES)
SCOPE = Flag("-s, --scope SCOPE", "Whose server it is.", choices=MCP_SCOPES)
_ONE_SERVER = (("SERVER", "The server's name."),)
_ITEM_HELP = "From `agentcli quarantine list`."
_OPENED = (TRUST, CONFIG)

_LOGIN_HELP = """Store an API key. It is entered without echo, checked with one free request, and stored in the \
system's keyring if there is one (pip install 'agentcli[keyring]'), else in a file that only you can read. \
From a program: agentcli login < FILE.

A key is stored for one address and never sent to another.

Order of precedence for keys: ANTHROPIC_AUTH_TOKEN, ANTHROPIC_API_KEY, the output of the apiKeyHelper command, \
the stored key. For addresses: ANTHROPIC_BASE_URL, the baseUrl setting, api.anthropic.com.

Exit codes: 0 stored, 1 not stored, 2 wrong usage, 75 the server could not be reached."""
_MCP_ADD_HELP = """Add a server: an address, or a command after `--`.

Scopes: local (the default) is for you in this project, user for you in all projects, project is shared in .mcp.json."""
_MCP_LOGIN_HELP = """Sign in to a server over HTTP (OAuth). The address to visit is shown and opened in your browser.

On a machine without a browser: open the address on another machine. After signing in, the browser there ends on a \
page that does not load; paste the address of that page here.

The tokens are stored in the system's keyring if there is one, else in a file that only you can read. They are used \
only for this server's name and address. Exit code 1 if you are not signed in at the end."""
_MCP_SERVE_HELP = (
    "Offer the tools of agentcli to another program over standard input and output, as an MCP server. Permission "
    "rules, hooks and the sandbox apply. A call that needs approval asks through the other program if it can ask, "
    "else it is denied."
)

SUBCOMMANDS: tuple[SubCommand, ...] = (
    SubCommand("help", "subcommands:show_help", COMMANDS["help"], (("[COMMAND…]", "Command to explain."),)),
    SubCommand(
        "demo",
        "demo:demo",
        COMMANDS["demo"],
        flags=(
            Flag("--auto", "Run without input; exit 0 only if everything works."),
            Flag("--speed N", "Playback speed factor.", "number"),
            Flag("--keep", "Keep the temporary folder and print its path."),
            BY_NAME["--permission-mode"],
            BY_NAME["--theme"],
        ),
    ),
    SubCommand(
        "login",
        "account:login",
        _LOGIN_HELP,
        flags=(
            Flag("--base-url URL", "The server of the key; later requests use it."),
            Flag("--with-key-stdin", "Read the key from standard input; no questions."),
            Flag("--no-check", "Store the key without a check."),
        ),
        advice="Do not pass a key as an argument, where others can see it. Run agentcli login and paste it, "
        "or use: agentcli login < FILE",
    ),
    SubCommand(
        "logout",
        "account:logout",
        "Remove the stored key for the server in use.",
        flags=(
            Flag("--base-url URL", "The server of the key. Default: the one in use."),
            Flag("--all", "Remove the keys of all servers."),
        ),
    ),
    SubCommand(
        "status",
        "account:status",
        "Show the model, server and key in use, and whether agentcli is ready. Exit codes: 0 ready, 1 no key.",
        flags=(JSON,),
    ),
    SubCommand(
        "doctor",
        "reports:doctor",
        "Check this installation and test the sandbox. Exit code 1 if a check fails; warnings do not count.",
        flags=(JSON, Flag("--online", "Also contact the server."), SANDBOX),
    ),
    SubCommand(
        "sessions list",
        "reports:sessions",
        "List the sessions of this folder, newest first.",
        flags=(Flag("--all", "Include all folders."), Flag("--agents", "Include transcripts of sub-agents."), JSON),
    ),
    SubCommand("config", "reports:config", COMMANDS["config"], flags=(TRUST, JSON)),
    SubCommand(
        "permissions test",
        "permissions:try_rules",
        "Show the decision for each part of COMMAND, with the rule and file behind it. Nothing is run. Exit codes: 0 "
        "allowed, 3 needs approval, 4 denied.",
        (("COMMAND", "The command; or a path or URL, with --tool."),),
        (Flag("--tool TOOL", "The tool: Bash (the default), Read, Edit, WebFetch, …"), *RIGHTS, JSON),
    ),
    SubCommand(
        "permissions list", "permissions:list_rules", "List the active rules and their sources.", (), (*RIGHTS, JSON)
    ),
    SubCommand(
        "trust",
        "permissions:trust",
        COMMANDS["trust"],
        (("[FOLDER]", "Default: this folder."),),
        (
            Flag("-y, --yes", "Do not ask for confirmation."),
            Flag("--remove", "Remove trust from the folder."),
            Flag("--list", "List trusted folders."),
        ),
    ),
    SubCommand("quarantine list", "permissions:list_items", "List quarantined items, oldest first.", (), (JSON,)),
    SubCommand(
        "quarantine restore",
        "permissions:restore_item",
        "Restore an item to its original place.",
        (("ID", _ITEM_HELP),),
    ),
    SubCommand("quarantine rm", "permissions:remove_items", "Delete items from quarantine.", (("ID…", _ITEM_HELP),)),
    SubCommand(
        "plugins list",
        "plugins:list_plugins",
        "Load all plugins of this folder and list what they add, their load time and their problems.",
        (),
        (TRUST, JSON),
    ),
    SubCommand(
        "plugins new",
        "plugins:new_plugin",
        "Write a working example plugin and its test, and print where they are.",
        (("NAME", "Small letters, digits and _."),),
        (
            Flag("--project", "In .agentcli/plugins of this repository."),
            Flag("--user", "In your own plugin folder; the default."),
        ),
    ),
    SubCommand(
        "mcp add",
        "mcp:add",
        _MCP_ADD_HELP,
        (("NAME", "The server's name."), ("URL | -- COMMAND ARGS…", "Its address, or the command that starts it.")),
        (
            SCOPE,
            Flag("-t, --transport KIND", "How to reach it; default: http for an address.", choices=MCP_TRANSPORTS),
            Flag("-e, --env NAME=VALUE", "Variable of the command; repeatable.", "texts"),
            Flag("-H, --header NAME:VALUE", "Header of the requests; repeatable.", "texts"),
        ),
    ),
    SubCommand(
        "mcp add-json",
        "mcp:add_json",
        'Add a server from its JSON entry, such as {"type": "http", "url": "https://…"}.',
        (("NAME", "The server's name."), ("JSON", "The server's entry.")),
        (SCOPE,),
    ),
    SubCommand(
        "mcp list",
        "mcp:list_servers",
        "List all servers with their state. Connects to each, except to unapproved ones of a repository.",
        (),
        (Flag("--no-connect", "Only list them."), *_OPENED, JSON),
    ),
    SubCommand(
        "mcp get",
        "mcp:get",
        "Show a server's configuration. Values that may be secrets are masked.",
        _ONE_SERVER,
        (*_OPENED, JSON),
    ),
    SubCommand("mcp remove", "mcp:remove", "Remove a server from your configuration.", _ONE_SERVER, (SCOPE,)),
    SubCommand(
        "mcp test",
        "mcp:try_server",
        "Connect to a server and show what it offers. Exit code 1 if that fails.",
        _ONE_SERVER,
        (*_OPENED, JSON),
    ),
    SubCommand(
        "mcp reset-project-choices",
        "mcp:reset_project_choices",
        "Forget which servers and tools you switched on or off in this project.",
    ),
    SubCommand(
        "mcp serve",
        "mcp:serve",
        _MCP_SERVE_HELP,
        (),
        (Flag("--tools A,B", "Only these tools, separated by commas.", "names"), *RIGHTS),
    ),
    SubCommand(
        "mcp login",
        "mcp_login:login",
        _MCP_LOGIN_HELP,
        _ONE_SERVER,
        (Flag("--no-browser", "Only show the address."), *_OPENED),
    ),
    SubCommand(
        "mcp logout",
        "mcp_login:logout",
        "Delete the tokens of a server, and revoke them if it supports that.",
        _ONE_SERVER,
        _OPENED,
    ),
    SubCommand(
        "completion", "complete:print_script", COMMANDS["completion"], (("SHELL", f"One of {', '.join(SHELLS)}."),)
    ),
)
_BY_PATH = {command.path: command for command in SUBCOMMANDS}


def inner_commands(name: str) -> dict[str, SubCommand]:
    """The commands of a group, by their second word; empty for a command without any."""
    return {one.path.split()[1]: one for one in SUBCOMMANDS if one.path.startswith(f"{name} ")}


def find_command(words: Sequence[str]) -> tuple[SubCommand | None, int]:
    """The command that the arguments begin with, and the number of words of its name. None: only the group is named.
    Raises `UsageError` if there is no such command."""
    name = words[0]
    if name in _BY_PATH:
        return _BY_PATH[name], 1
    inner = inner_commands(name)
    if inner and len(words) > 1 and words[1] in inner:
        return inner[words[1]], 2
    if inner and (len(words) == 1 or words[1].startswith("-")):
        return None, 1
    near = nearest(words[1 if inner else 0], tuple(inner or COMMANDS))
    hint = f"Did you mean {near}?" if near else "agentcli help lists all commands."
    raise UsageError(f"There is no command {' '.join(words[: 2 if inner else 1])!r}. {hint}")


def run_command(arguments: Sequence[str]) -> int:
    """Run a sub-command; returns the exit code. Raises `AgentError`."""
    if list(arguments) == ["sessions"]:
        arguments = ("sessions", "list")
    mine = arguments[: arguments.index("--")] if "--" in arguments else arguments
    command, length = find_command(mine)
    if command is None or "-h" in mine or "--help" in mine:
        echo_styled(command_help(arguments[:length], *terminal_style()))
        return 0
    given = parse_words(arguments[length:], command.flags)
    _check_words(command, given.words)
    module, _colon, function = command.function.partition(":")
    code: int | None = getattr(import_module(f"agentcli.cli.{module}"), function)(given)
    return code or 0


def _check_words(command: SubCommand, words: Sequence[str]) -> None:
    names = [name for name, _text in command.arguments]
    if missing := [name for name in names[len(words) :] if not name.startswith("[")]:
        raise UsageError(f"{missing[0]} is missing. Usage: {command.usage}")
    if len(words) > len(names) and not (names and names[-1].rstrip("]").endswith("…")):
        raise UsageError(command.advice or f"Too many arguments. Usage: {command.usage}")


def show_help(given: Parsed) -> None:
    style = terminal_style()
    echo_styled(command_help(given.words, *style) if given.words else root_help(*style))


def command_help(path: Sequence[str], width: int, styled: bool = False) -> str:
    """The help of a sub-command or of a group. Raises `UsageError` if it does not exist."""
    command, length = find_command(path)
    if length < len(path):
        raise UsageError(f"There is no command {' '.join(path)!r}. agentcli help lists all commands.")
    if command is None:
        usage, about = f"agentcli {path[0]} [FLAGS] COMMAND", COMMANDS[path[0]]
    else:
        usage, about = command.usage, command.help
    flags = command.flags if command is not None else ()
    inner = inner_commands(path[0]).items() if command is None else ()
    sections: dict[str, Sequence[HelpRow]] = {
        "Commands": [(name, one.help.partition("\n\n")[0]) for name, one in inner],
        "Arguments": command.arguments if command is not None else (),
        "Flags": [*map(flag_row, flags), ("-h, --help", "Show this help and exit.")],
        EXAMPLES: examples_of(path),
    }
    return lay_out((usage,), about, sections, width, styled)


def flags_of(command: SubCommand) -> dict[str, Flag]:
    return by_name(command.flags)
