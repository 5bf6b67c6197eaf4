"""The configured MCP servers of a session, as settings and trust allow. The strongest source first:

    the caller > --mcp-config > --settings > settings.local.json > the project's .mcp.json > settings.json > user

A server of a stronger source hides one with the same name. The project's `.mcp.json` is read together with its trust,
so exactly those servers start that the user has approved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from agentcli.assemble.environment import Environment
from agentcli.config.files import parse_document, read_document
from agentcli.config.settings import Layer
from agentcli.config.trust import UNREADABLE, TrustedContent, trust_root
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line

if TYPE_CHECKING:
    from agentcli.agent.mcp.server_tools import ServerToolLimits
    from agentcli.mcp.configuration import ParsedServers, ServerConfig, ServerSource
    from agentcli.mcp.protocol import ServerRequests
    from agentcli.mcp.servers import McpServers

PROJECT_FILE = ".mcp.json"
NOTICE_CODE = "mcp"
_MAX_MILLISECONDS = 86_400_000
_LAYERS: dict[Layer, ServerSource] = {
    Layer.MANAGED: "flag",
    Layer.FLAGS: "flag",
    Layer.LOCAL: "local",
    Layer.PROJECT: "project",
    Layer.USER: "user",
}


@frozen
class FoundServers:
    configs: tuple[ServerConfig, ...] = ()
    """The strongest configuration of each name."""
    hidden: tuple[ServerConfig, ...] = ()
    """Configurations hidden by a stronger one with the same name."""
    unapproved: frozenset[str] = frozenset()
    """Names of servers of a repository that is not trusted with this content."""
    problems: tuple[str, ...] = ()

    @property
    def disabled(self) -> frozenset[str]:
        """Names of servers that their configuration disables."""
        return frozenset(config.name for config in self.configs if config.disabled)


def servers_for(env: Environment) -> McpServers | None:
    """The servers, not connected yet: `McpServers.start` connects, after the first paint. None if there are none.

    Each session has its own connections, closed with its engine: /clear and /resume connect again."""
    found = find_servers(env)
    for problem in found.problems:
        env.warn(problem, NOTICE_CODE)
    if not found.configs:
        return None
    if found.unapproved:
        env.warn(describe_unapproved(found.unapproved), NOTICE_CODE)
    from agentcli.agent.mcp.requests import SessionRequests

    budget = env.settings.number("mcp.samplingBudgetUsd")
    requests = SessionRequests(interactive=env.options.interactive, sampling_budget_usd=budget or 0.0)
    return make_servers(env, found, requests)


def server_tool_limits(env: Environment, recorded: Sequence[Json] = ()) -> ServerToolLimits:
    """Limits on offered tools. `recorded`: the direct tools of a resumed session."""
    from agentcli.agent.mcp.results import MAX_TOKENS
    from agentcli.agent.mcp.server_tools import (
        DIRECT_TOKENS,
        SearchMode,
        ServerToolLimits,
        ServerToolSettings,
        match_any,
    )

    direct = env.settings.integer("mcp.directTokens")
    settings = ServerToolSettings(
        search=cast("SearchMode", env.settings.text("mcp.toolSearch") or "own"),
        direct_tokens=DIRECT_TOKENS if direct is None else direct,
        result_tokens=env.settings.integer("mcp.maxOutputTokens") or MAX_TOKENS,
    )
    named = env.options.mcp_tools
    if named is None and env.options.tools is not None:
        # `--tools` chooses built-in tools; those of servers only if it names some.
        named = tuple(name for name in env.options.tools if name.startswith("mcp__")) or None
    limits = ServerToolLimits(settings, recorded=tuple(recorded))
    return limits if named is None else replace(limits, allows=match_any(named))


def make_servers(env: Environment, found: FoundServers, requests: ServerRequests) -> McpServers:
    """Make the servers without connecting. Reports invalid time limits as notices of `env`."""
    from agentcli.mcp.configuration import ServerSurroundings
    from agentcli.mcp.link import ServerLimits
    from agentcli.mcp.servers import ChoiceStore, McpServers

    state_dir = env.paths.state_dir
    usual = ServerLimits()
    chosen = _seconds(env, "MCP_TIMEOUT", 0.0)
    start, first = chosen or usual.start_seconds, chosen or usual.first_prompt_seconds
    return McpServers(
        found.configs,
        ServerSurroundings(env.cwd, env.environ, tuple(env.working_dirs), state_dir, env.options.interactive),
        requests,
        ServerLimits(start, _seconds(env, "MCP_TOOL_TIMEOUT", usual.call_seconds), first),
        disabled=found.disabled,
        unapproved=found.unapproved,
        store=ChoiceStore(state_dir, trust_root(env.cwd)),
    )


def _seconds(env: Environment, variable: str, usual: float) -> float:
    """A time limit in seconds from an environment variable in milliseconds."""
    text = env.environ.get(variable, "")
    if not text:
        return usual
    if not (text.isascii() and text.isdigit() and 0 < int(text[:12]) <= _MAX_MILLISECONDS):
        env.warn(f"{variable} must be a number of milliseconds, at most a day; it is ignored.", NOTICE_CODE)
        return usual
    return int(text) / 1000


def find_servers(env: Environment) -> FoundServers:
    """All configured servers; nothing is started. Raises `UsageError` for an invalid `--mcp-config`."""
    options, problems = env.options, list[str]()
    groups: list[tuple[ServerConfig, ...]] = [options.mcp_servers]
    groups += [_of_flag(env, text, problems) for text in reversed(options.mcp_config)]
    approved = options.trust or env.trust_state.usable
    if not options.strict_mcp_config:
        groups += _of_files(env, problems)
    chosen: dict[str, ServerConfig] = {}
    every = [config for group in groups for config in group]
    hidden = [config for config in every if chosen.setdefault(config.name, config) is not config]
    unapproved = frozenset(name for name, config in chosen.items() if config.source == "project" and not approved)
    return FoundServers(tuple(chosen.values()), tuple(hidden), unapproved, tuple(problems))


def describe_unapproved(names: frozenset[str]) -> str:
    shown = ", ".join(sorted(names))
    return f"MCP servers of this project wait for approval: {shown}. /trust reviews and starts them, or use --trust."


def change_notice(before: Mapping[str, ServerConfig], found: FoundServers) -> str:
    """Notice about servers that a changed configuration adds, removes or changes; "" if it is the same."""
    now = {config.name: config for config in found.configs}
    kinds = (
        ("new", [name for name in now if name not in before]),
        ("removed", [name for name in before if name not in now]),
        ("changed", [name for name, config in now.items() if name in before and before[name] != config]),
    )
    listed = "; ".join(f"{kind}: {', '.join(plain_line(name, 60) for name in names)}" for kind, names in kinds if names)
    return f"MCP servers reloaded: {listed}. /mcp shows their state." if listed else ""


def project_part(env: Environment) -> TrustedContent | None:
    """Content of the project's `.mcp.json` at the time when trust was checked."""
    return next((part for part in env.trust_state.parts if part.name == PROJECT_FILE), None)


def _of_files(env: Environment, problems: list[str]) -> Iterator[tuple[ServerConfig, ...]]:
    """Servers of the settings and of `.mcp.json`, the strongest source first."""
    project_done = False
    for value, source in env.settings.each("mcpServers"):
        if source.layer in (Layer.PROJECT, Layer.USER) and not project_done:
            project_done = True
            yield _of_project(env, problems)
        yield _parse(env, value, _LAYERS[source.layer], source.label, problems).configs
    if not project_done:
        yield _of_project(env, problems)


def _of_project(env: Environment, problems: list[str]) -> tuple[ServerConfig, ...]:
    part, sources = project_part(env), env.options.setting_sources
    if part is None or (sources is not None and "project" not in sources):
        return ()
    if part.digest == UNREADABLE:
        problems.append(f"{PROJECT_FILE} is not used: it is not a regular file inside the project, or too large.")
        return ()
    document = parse_document(part.text.encode("utf-8", "surrogatepass"), PROJECT_FILE)
    if document.values is None:
        problems.append(f"{document.problems[0].text} Its MCP servers are not used.")
        return ()
    if not document.values.get("mcpServers"):
        return ()
    return _parse(env, document.values["mcpServers"], "project", PROJECT_FILE, problems).configs


def _of_flag(env: Environment, text: str, problems: list[str]) -> tuple[ServerConfig, ...]:
    flag = "--mcp-config"
    if text.lstrip().startswith("{"):
        document, origin = parse_document(text.encode("utf-8", "surrogatepass"), flag), flag
    else:
        path = env.cwd / text
        found = read_document(path)
        if found is None:
            raise UsageError(f"{flag}: there is no file {path}. Give a file, or a JSON object.")
        document, origin = found, f"{flag} {path}"
    if document.values is None:
        raise UsageError(document.problems[0].text)
    if not isinstance(document.values.get("mcpServers"), dict):
        raise UsageError(f'{origin}: expected {{"mcpServers": {{…}}}}.')
    parsed = _parse(env, document.values["mcpServers"], "flag", origin, problems)
    invalid = [problem for problem in parsed.problems if problem.server and not problem.unsupported]
    if invalid:
        raise UsageError(invalid[0].reason)
    return parsed.configs


def _parse(env: Environment, value: object, source: ServerSource, origin: str, problems: list[str]) -> ParsedServers:
    from agentcli.mcp.configuration import parse_servers

    parsed = parse_servers(value, source, env.show_path(origin), env.environ)
    problems += [problem.text for problem in parsed.problems]
    return parsed
