"""Report files of other agents and whether agentcli uses them: `~/.claude`, `.claude`, `.agents`, AGENTS.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentcli.assemble.definitions import definition_places
from agentcli.config.trust import trust_root
from agentcli.core.files.bounded_json import parse_json
from agentcli.core.files.bounded_read import read_bounded
from agentcli.core.text.plural import counted
from agentcli.definitions.library import KINDS, DefinitionPlaces, Library
from agentcli.doctor.check_context import CheckContext
from agentcli.doctor.finding import Finding

_LARGEST = 1024 * 1024
_LARGEST_STATE = 64 * 1024 * 1024
_MOST_NAMES = 20
_NOUNS = {"commands": "command", "skills": "skill", "agents": "agent", "output-styles": "output style"}
_NOT_TRUSTED = "not used: this folder is not trusted"
_TRUST = "`agentcli trust` shows what is in it and asks."
_OWN_KEYS = {"permissions": "permission rules", "env": "variables", "model": "the model"}
"""Keys of other agents' settings that users may expect to work here."""


def setup(context: CheckContext) -> Iterator[Finding]:
    places = definition_places(context.environment)
    yield from _definitions(places)
    home = context.environment.home
    if home is not None:
        yield from _settings(home / ".claude/settings.json", "~/.claude/settings.json", trusted=True)
        yield from _claude_file(home, trust_root(context.environment.cwd))
    root = trust_root(context.environment.cwd)
    for name in (".claude/settings.json", ".claude/settings.local.json"):
        yield from _settings(root / name, name, trusted=places.trusted)
    yield from _instructions(context, root)


def _definitions(places: DefinitionPlaces) -> Iterator[Finding]:
    """Report commands, skills, agents and styles in folders of other agents, and problems in all definitions."""
    everything = DefinitionPlaces(places.cwd, places.config_dir, places.home, trusted=True)
    library = Library(everything)
    library.refresh()
    paths = [one.origin.path for one in library.all()]
    for kind in KINDS:
        for folder in everything.folders(kind):
            if ".claude" not in folder.label and ".agents" not in folder.label:
                continue
            count = sum(path.is_relative_to(folder.path) for path in paths)
            if not count:
                continue
            what = f"{folder.label}: {counted(count, _NOUNS[kind])}"
            if folder.scope == "project" and not places.trusted:
                yield Finding("ok", "other agents", f"{what}, {_NOT_TRUSTED}", _TRUST)
            else:
                yield Finding("ok", "other agents", f"{what}, used")
    for problem in library.problems:
        yield Finding("warn", "definitions", str(problem), "Correct that line, or remove the file.")


def _settings(path: Path, label: str, *, trusted: bool) -> Iterator[Finding]:
    data = read_bounded(path, _LARGEST)
    if not data:
        return
    try:
        settings = parse_json(data)
    except ValueError as error:
        yield Finding("warn", "other agents", f"{label} cannot be read: {error}", "Correct the file, or ignore this.")
        return
    keys = settings if isinstance(settings, dict) else {}
    if keys.get("hooks"):
        if trusted:
            yield Finding("ok", "other agents", f"{label}: hooks, used; /hooks lists them")
        else:
            yield Finding("ok", "other agents", f"{label}: hooks, {_NOT_TRUSTED}", _TRUST)
    yield from _servers(keys.get("mcpServers"), label)
    ignored = [words for key, words in _OWN_KEYS.items() if keys.get(key)]
    if ignored:
        advice = "Copy what you want to keep into agentcli's own settings."
        text = f"{label}: {', '.join(ignored)} ignored; rights come only from agentcli's own settings"
        yield Finding("ok", "other agents", text, advice)


def _instructions(context: CheckContext, root: Path) -> Iterator[Finding]:
    used = context.environment.settings.boolean("instructionFiles")
    for name in ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md"):
        if (root / name).is_file():
            how = "used" if used else 'not used: "instructionFiles" is off'
            yield Finding("ok", "other agents", f"{name}: instructions, {how}")


def _servers(value: object, label: str) -> Iterator[Finding]:
    """Report MCP servers in the settings of another agent."""
    if not isinstance(value, dict) or not value:
        return
    names = ", ".join(map(str, list(value)[:_MOST_NAMES]))
    more = f" and {len(value) - _MOST_NAMES} more" if len(value) > _MOST_NAMES else ""
    advice = "To use one, copy its entry: agentcli mcp add-json NAME 'JSON' --scope user"
    yield Finding("ok", "other agents", f"{label}: MCP servers {names}{more}, not used", advice)


def _claude_file(home: Path, root: Path) -> Iterator[Finding]:
    """Report the servers in `~/.claude.json`: for all projects, and for this one."""
    data = read_bounded(home / ".claude.json", _LARGEST_STATE)
    try:
        state = parse_json(data) if data else {}
    except ValueError:
        return
    if not isinstance(state, dict):
        return
    yield from _servers(state.get("mcpServers"), "~/.claude.json")
    projects = state.get("projects")
    project = projects.get(str(root)) if isinstance(projects, dict) else None
    if isinstance(project, dict):
        yield from _servers(project.get("mcpServers"), "~/.claude.json for this project")
