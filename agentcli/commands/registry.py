"""The table of slash commands, in menu order, and lookup by typed name.

`COMMANDS` are the built-in commands; `rows` adds those of a session from files, plugins and MCP servers. A built-in
name is never replaced. Without an engine (None) only built-in commands are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentcli.commands.base import ALWAYS, ArgumentValues, Command
from agentcli.core.permission import PermissionMode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentcli.agent.engine import Engine
    from agentcli.commands.front_end import FrontEnd
    from agentcli.definitions.files import StyleFile

_UNDO = (("keep", "in conflicts, keep your lines"), ("replace", "in conflicts, replace your lines"))

COMMANDS: tuple[Command, ...] = (
    Command(
        "help",
        "List commands",
        "[command]",
        concurrent=True,
        local=("",),
        completes=lambda engine, _front_end: [(one.name, one.described) for one in rows(engine)],
    ),
    Command("status", "Show session, model, mode and folders", module="status", concurrent=True),
    Command(
        "doctor",
        "Check this installation and suggest fixes",
        "[online]",
        module="status",
        concurrent=True,
        completes=("online",),
    ),
    Command(
        "undo", "Undo the latest file changes, those of one prompt", "[keep|replace]", module="undo", completes=_UNDO
    ),
    Command("redo", "Redo the changes of the last undo", "[keep|replace]", module="undo", completes=_UNDO),
    Command(
        "rewind",
        "Go back to an earlier prompt: conversation, files or both",
        "[number [after] [conversation|files|both]|undo]",
        local=ALWAYS,
        is_local_only=False,
        completes=(("undo", "take the last rewind back"),),
    ),
    Command(
        "diff",
        "Show what agentcli changed in files, or all changes since HEAD",
        "[all|last]",
        pages=("", "all", "last"),
        completes=(("last", "changes of the last prompt"), ("all", "every change since HEAD")),
    ),
    Command(
        "blame",
        "Show which prompt and call wrote each line of a file",
        "FILE[:LINES]",
        concurrent=True,
        pages=bool,
    ),
    Command(
        "compact",
        "Summarise the conversation to free context, or undo that",
        "[focus|undo]",
        module="context",
        kind="submission",
    ),
    Command(
        "model",
        "Show or change the model; now skips the confirmation",
        "[name [now]]",
        module="model",
        concurrent=True,
        pages=("",),
        completes=lambda engine, _front_end: engine.session.catalog.list_ids(),
    ),
    Command(
        "effort",
        "Show or change the effort level",
        "[level [now]]",
        module="model",
        concurrent=True,
        pages=("",),
        completes=lambda engine, _front_end: (*engine.session.catalog.get(engine.model).efforts, "auto"),
    ),
    Command(
        "fast",
        "Turn fast mode on or off, or show it",
        "[on|off|status [now]]",
        module="model",
        concurrent=True,
        completes=("on", "off", "status"),
    ),
    Command(
        "thinking",
        "Show or change the thinking mode",
        "[adaptive|enabled|disabled [now]]",
        module="model",
        concurrent=True,
        completes=lambda engine, _front_end: engine.session.catalog.get(engine.model).thinking,
    ),
    Command(
        "mode",
        "Show or change the permission mode",
        "[name]",
        module="mode",
        concurrent=True,
        pages=("",),
        completes=tuple(mode.value for mode in PermissionMode),
    ),
    Command("plan", "Turn on plan mode: no changes until you approve a plan", module="mode", concurrent=True),
    Command(
        "permissions",
        "List, add, edit, remove or test permission rules",
        "[add|edit|remove|test …]",
        concurrent=True,
        pages=("",),
    ),
    Command(
        "hooks",
        "List hooks with their files and last outcome",
        "[search]",
        module="extensions",
        concurrent=True,
        pages=("",),
    ),
    Command("trust", "Review and trust this project's settings, hooks and commands", module="settings", local=ALWAYS),
    Command("quarantine", "List, restore or delete quarantined files", "[restore|rm ID]"),
    Command(
        "context",
        "Show the context; pin, drop or restore items",
        "[items|pin|drop|restore ID]",
        module="context",
        concurrent=True,
        pages=("",),
    ),
    Command("init", "Read the project and write or improve AGENTS.md", "[instruction]", module="memory", kind="prompt"),
    Command(
        "memory",
        "Show, edit or add to the notes and instruction files of this project",
        "[edit|add] [name|text]",
        module="memory",
        local=("edit", "add"),
    ),
    Command(
        "skills",
        "List skills with source, size and last use",
        "[search]",
        module="extensions",
        concurrent=True,
        pages=("",),
    ),
    Command(
        "cost",
        "Show tokens and cost of this conversation",
        module="cost",
        aliases=("usage",),
        concurrent=True,
        pages=("",),
    ),
    Command(
        "budget", "Show, set or remove the budget of this session", "[dollars|off]", module="cost", concurrent=True
    ),
    Command("todos", "Show the todos", module="tasks", concurrent=True),
    Command("tasks", "List sub-agents and background commands", module="tasks", concurrent=True, pages=("",)),
    Command("agents", "List available and running sub-agents", module="tasks", concurrent=True),
    Command(
        "plugins",
        "List Python plugins, or load changed ones",
        "[reload]",
        module="extensions",
        concurrent=True,
        completes=("reload",),
    ),
    Command(
        "mcp",
        "Show MCP servers; reconnect, enable, disable or sign in",
        "[name|reconnect|enable|disable|login|logout …]",
        concurrent=True,
        pages=lambda word: word not in ("reconnect", "enable", "disable", "login", "logout"),
        completes=lambda engine, _front_end: _mcp_completions(engine),
    ),
    Command("rename", "Show or change the name of this session", "[name]", module="session"),
    Command(
        "copy",
        "Copy the last answer, the N-th last, or one of its code blocks",
        "[N|code [N]]",
        module="transcript",
        local=ALWAYS,
    ),
    Command(
        "export",
        "Write the conversation to a file: Markdown, JSON, HTML or a bundle",
        "[file] [--thinking]",
        module="transcript",
        concurrent=True,
    ),
    Command("find", "Search the transcript", "[text]", module="transcript", local=ALWAYS),
    Command(
        "theme",
        "Choose a colour theme",
        "[name]",
        module="settings",
        local=ALWAYS,
        completes=lambda _engine, front_end: front_end.themes(),
    ),
    Command(
        "output-style",
        "Choose how the model answers, from the next session on",
        "[name]",
        module="settings",
        local=ALWAYS,
        completes=lambda engine, _front_end: (
            ("default", "Brief and concrete"),
            *((style.name, style.description) for style in _styles(engine)),
        ),
    ),
    Command("config", "Show or change settings", module="settings", local=ALWAYS),
    Command("login", "Connect a model: an API key or a server on this machine", module="session", local=ALWAYS),
    Command("logout", "Remove the stored API key", module="session", local=ALWAYS),
    Command("resume", "Continue an earlier session", "[search]", module="session", local=ALWAYS),
    Command("sessions", "Search all earlier sessions and continue one", "[words]", module="session", local=ALWAYS),
    Command(
        "tree",
        "Show all branches of this session and switch between them",
        "[name|number]",
        module="tree",
        local=ALWAYS,
    ),
    Command(
        "trace",
        "Show when each request of a prompt was sent, and what it sent and got",
        "[prompt[.step]]",
        concurrent=True,
        pages=lambda _word: True,
    ),
    Command(
        "what-if",
        "Run a prompt again with another model or effort, and compare",
        "[model] [effort] [prompt N]",
        local=ALWAYS,
        completes=lambda engine, _front_end: (
            *engine.session.catalog.list_ids(),
            *engine.session.catalog.get(engine.model).efforts,
        ),
    ),
    Command("replay", "Show how to replay this session or verify it", concurrent=True),
    Command("branch", "Name the branch that continues here", "[name]", module="tree"),
    Command("clear", "Start a new session with an empty context", module="session", aliases=("new",), local=ALWAYS),
    Command("exit", "Quit agentcli", module="session", aliases=("quit",), local=ALWAYS),
)


def _styles(engine: Engine) -> Iterable[StyleFile]:
    from agentcli.definitions.library import all_styles

    return all_styles(engine.session.definitions).values()


def _mcp_completions(engine: Engine) -> ArgumentValues:
    if engine.session.mcp is None:
        return ()
    from agentcli.commands.mcp import completions as server_completions

    return server_completions(engine.session.mcp)


_BUILT_IN = frozenset(name for command in COMMANDS for name in (command.name, *command.aliases))


def reserve_names(engine: Engine) -> None:
    """Reserve the built-in names, which definitions of the session cannot use."""
    if engine.session.definitions is not None:
        engine.session.definitions.reserved = _BUILT_IN


def rows(engine: Engine | None) -> tuple[Command, ...]:
    """All commands of a session: built-in ones, commands and skills from files, commands of plugins, prompts of MCP
    servers."""
    if engine is None:
        return COMMANDS
    definitions, added, servers = engine.session.definitions, engine.session.plugins, engine.session.mcp
    if definitions is None and added is None and servers is None:
        return COMMANDS
    from agentcli.commands.defined import list_untrusted, rows_from_files, rows_from_plugins

    found: dict[str, Command] = {}
    files = () if definitions is None else rows_from_files(definitions)
    plugins = () if added is None else rows_from_plugins(added)
    prompts: Iterable[Command] = ()
    if servers is not None:
        from agentcli.commands.from_mcp import rows_from_servers

        prompts = rows_from_servers(servers)
    untrusted = () if definitions is None else list_untrusted(definitions)
    for row in (*files, *plugins, *prompts, *untrusted):
        if row.name not in _BUILT_IN:
            found.setdefault(row.name, row)
    return (*COMMANDS, *found.values())


def names(engine: Engine | None = None) -> tuple[str, ...]:
    return tuple(command.name for command in rows(engine))


def find(name: str, engine: Engine | None = None) -> Command | None:
    """Find a command by its exact name or alias."""
    wanted = name.lower()
    known = next((one for one in COMMANDS if wanted == one.name or wanted in one.aliases), None)
    return known or next((one for one in rows(engine)[len(COMMANDS) :] if wanted == one.name.lower()), None)


def completions(name: str, engine: Engine | None, front_end: FrontEnd) -> list[tuple[str, str]]:
    """Completions of a command's arguments, each with a description."""
    command = find(name, engine)
    return command.completions(engine, front_end) if command is not None and engine is not None else []


def near(name: str, engine: Engine | None = None) -> list[str]:
    """Similar names for "Did you mean", the likeliest first."""
    from difflib import get_close_matches

    wanted = name.lower()
    spelled = [one for command in rows(engine) for one in (command.name, *command.aliases)]
    begun = [one for one in spelled if one.startswith(wanted)]
    return list(dict.fromkeys((*begun, *get_close_matches(wanted, spelled, n=3))))[:3]


def find_matching(typed: str, engine: Engine | None = None) -> list[Command]:
    """Commands that match the text after the slash, best first; its letters in order are enough."""
    ranked = []
    for place, command in enumerate(rows(engine)):
        scores = [_score(typed.lower(), name.lower()) for name in (command.name, *command.aliases)]
        best = min((score for score in scores if score is not None), default=None)
        if best is not None:
            ranked.append((best, place, command))
    return [command for _score_, _place, command in sorted(ranked, key=lambda row: row[:2])]


def _score(typed: str, name: str) -> int | None:
    if name.startswith(typed):
        return 0 if name == typed else 1
    if typed in name:
        return 2
    letters = iter(name)
    return 3 if all(letter in letters for letter in typed) else None
