"""`--agents` defines agents on the command line; `--agent` runs the session as an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentcli.agent.subagents.specs import BUILTIN, AgentSpec, spec_of
from agentcli.assemble.definitions import definitions_for
from agentcli.assemble.environment import Environment
from agentcli.assemble.options import Options
from agentcli.core.errors import UsageError
from agentcli.core.files.bounded_read import parse_json
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.registry import Registry, builtin_tools

_EXAMPLE = '--agents \'{"reviewer": {"description": "Reviews changes", "prompt": "You review."}}\''
_TEXTS = ("description", "prompt", "model")
_LISTS = ("tools", "disallowedTools")


def agents_from_flag(text: str | None) -> Mapping[str, AgentSpec]:
    """The agents of `--agents`. Raises `UsageError`."""
    if text is None:
        return {}
    try:
        entries = parse_json(text)
    except ValueError as error:
        raise UsageError(f"--agents is not JSON: {error}. Example: {_EXAMPLE}") from None
    if not isinstance(entries, dict):
        raise UsageError(f"--agents needs an object with one entry per agent. Example: {_EXAMPLE}")
    return {name.lower(): _spec(name.lower(), entry) for name, entry in entries.items()}


def _spec(name: str, entry: object) -> AgentSpec:
    """Check one entry of `--agents`. Raises `UsageError`."""
    where = f"--agents: {plain_line(name, 80)}"
    if not isinstance(entry, dict):
        raise UsageError(f"{where} needs an object with description and prompt. Example: {_EXAMPLE}")
    for key in _TEXTS:
        if not isinstance(entry.get(key, ""), str) or (key != "model" and not entry.get(key, "").strip()):
            raise UsageError(f"{where}: {key} must be a text{'' if key == 'model' else ' and is needed'}.")
    for key in _LISTS:
        names = entry.get(key, [])
        if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
            raise UsageError(f"{where}: {key} must be a list of tool names.")
    turns = entry.get("maxTurns")
    if turns is not None and (not isinstance(turns, int) or turns < 1):
        raise UsageError(f"{where}: maxTurns must be a number of at least 1.")
    return AgentSpec(
        name=name,
        description=plain_line(entry["description"], 1_024),
        prompt=entry["prompt"].strip(),
        tools=tuple(entry["tools"]) if entry.get("tools") else None,
        disallowed_tools=tuple(entry.get("disallowedTools", ())),
        model=entry.get("model", ""),
        max_turns=turns,
        background=entry.get("background") is True,
        source="--agents",
    )


def as_agent(options: Options) -> Options:
    """Options with the prompt, tools, model and turn limit of the agent that `--agent` names, except where another
    flag sets them. Raises `UsageError`."""
    if options.agent is None:
        return options
    library = definitions_for(Environment(options))
    library.refresh()
    known = {**BUILTIN, **{name: spec_of(file) for name, file in library.agents.items()}}
    known |= agents_from_flag(options.agents)
    known = {name: spec for name, spec in known.items() if not spec.shares_context}
    spec = known.get(options.agent.strip().lower())
    if spec is None:
        raise UsageError(
            f"There is no agent called {plain_line(options.agent, 80)!r}. There are: {', '.join(sorted(known))}."
        )
    model = spec.model if spec.model not in ("", "inherit", "small") else None
    return replace(
        options,
        agent=None,
        system_prompt=options.system_prompt if options.system_prompt is not None else spec.prompt,
        tools=options.tools if options.tools is not None else _builtin_tools(spec),
        mcp_tools=options.mcp_tools if options.mcp_tools is not None else _mcp_tools(spec),
        disallowed_tools=(*options.disallowed_tools, *spec.disallowed_tools),
        model=options.model or model,
        max_turns=options.max_turns or spec.max_turns,
    )


def _mcp_tools(spec: AgentSpec) -> tuple[str, ...] | None:
    """Names and patterns of the MCP tools that an agent may have; None: all."""
    return None if spec.tool_names is None else tuple(name for name in spec.tool_names if name.startswith("mcp__"))


def _builtin_tools(spec: AgentSpec) -> tuple[str, ...] | None:
    """Names of the built-in tools that an agent may have; None: all."""
    if spec.tool_names is None:
        return None
    registry = Registry(builtin_tools())
    found = (registry.get(name.partition("(")[0].strip()) for name in spec.tool_names)
    # A read-only agent gets no Bash: a command can change anything.
    return tuple(tool.name for tool in found if tool is not None and not (spec.read_only and tool.name == "Bash"))
