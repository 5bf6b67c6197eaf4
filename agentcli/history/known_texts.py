"""Texts that the requests of a session may contain, to prove them: system prompts and definitions of tools.

The session file has only their digests. These texts are from its own records, from this version of agentcli and from
the project's files as they are now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from agentcli.agent.attachments.skills import ModelSkills
from agentcli.agent.mcp.server_tools import ToolSearch
from agentcli.agent.mcp.tools import ListMcpResources, ReadMcpResource
from agentcli.agent.subagents.specs import BUILTIN, spec_of
from agentcli.assemble.definitions import definitions_for
from agentcli.assemble.environment import Environment
from agentcli.assemble.options import Options
from agentcli.context.prompt import NON_INTERACTIVE, style_from, system_parts
from agentcli.core.errors import AgentError
from agentcli.core.messages import Json
from agentcli.definitions.library import Library
from agentcli.history.sent_requests import digest_texts
from agentcli.memory.notes import MECHANICS
from agentcli.providers.body import advisor_tool
from agentcli.session.load import read_records
from agentcli.session.timeline import Timeline
from agentcli.tools.registry import builtin_tools
from agentcli.tools.skill import Skill
from agentcli.tools.structured import StructuredOutput

_NOTES: tuple[list[str], ...] = ([], [NON_INTERACTIVE], [MECHANICS], [NON_INTERACTIVE, MECHANICS])
"""What the system prompt may say about the session: it depends on the front end and on the memory."""
_FOR_MAIN = re.compile(r"^Memory folder: .*\n|\n\n# Git state when [\s\S]*", re.MULTILINE)
"""What the system context of a sub-agent leaves out."""
_DATE = re.compile(r"^(Date when the session began: ).*$", re.MULTILINE)


def find_texts(timeline: Timeline, environ: Mapping[str, str]) -> dict[str, Any]:
    """The known texts for a session and its sub-agents. Blocking. Raises `OSError`."""
    records = [one for one in read_records(timeline.path) if one.get("type") in ("session", "system-context", "input")]
    given = [record for record in records if record.get("kind") == "settings"]
    settings = [each for record in given if isinstance(each := record.get("settings"), dict)] or [{}]
    contexts = [text for record in records if isinstance(text := record.get("systemContext"), str)]
    styles = [style for record in records if isinstance(style := record.get("outputStyle"), dict)]
    system = {
        part
        for each, style, notes in product(settings, [None, *styles], _NOTES)
        for part in system_parts(each.get("systemPrompt"), each.get("appendSystemPrompt"), "", notes, style_from(style))
    }
    dates = {prompt.at[:10] for prompt in timeline.prompts.values()}
    of_agents = {_DATE.sub(rf"\g<1>{date}", _FOR_MAIN.sub("", text)) for text, date in product(contexts, dates)}
    library = _read_definitions(timeline, environ)
    agents = [*BUILTIN.values(), *(map(spec_of, library.agents.values()) if library is not None else ())]
    tools = [
        *_list_tools(library),
        *(advisor_tool(str(each["advisorModel"])) for each in settings if "advisorModel" in each),
    ]
    tools += [
        _define(StructuredOutput(one["json_schema"])) for one in given if isinstance(one.get("json_schema"), dict)
    ]
    return digest_texts([*system, *contexts, *of_agents, *(spec.system for spec in agents), *tools])


def _read_definitions(timeline: Timeline, environ: Mapping[str, str]) -> Library | None:
    """The definitions of the session's folder; None if that is gone."""
    try:
        library = definitions_for(Environment(Options(cwd=Path(timeline.cwd or "."), environ=environ)))
        library.refresh()
    except (AgentError, OSError):
        return None
    return library


def _list_tools(library: Library | None) -> Iterator[Json]:
    yield from map(_define, builtin_tools())
    yield from map(_define, (ToolSearch, ListMcpResources, ReadMcpResource))
    if library is not None:
        yield _define(Skill(ModelSkills(library)))


def _define(tool: Any) -> Json:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
