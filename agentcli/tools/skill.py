"""Skill: load the instructions of a skill into the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentcli.core.aio import AbortSignal, in_thread
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import BuiltinTool, Output, ToolContext, ToolRun, failure, object_schema

NAME = "Skill"
SEARCH = "search:"
"""Begins the `skill` of a call that searches. Not in the tool's description, which is part of every request: only
conversations with many skills mention it."""
USED_SKILL = "skill"
"""Key in `Output.data`: the name of the loaded skill."""


@frozen
class LoadedSkill:
    name: str
    text: str
    source: str
    """Its file, for display."""
    allows: tuple[str, ...] = ()
    """Allow rules that apply while the skill is used."""
    notice: str = ""
    """For the user: why rules of its file do not apply."""


class SkillSource(Protocol):
    """The skills that the model may load."""

    def load(self, name: str, arguments: str) -> LoadedSkill | None: ...

    def search(self, words: str) -> Sequence[tuple[str, str]]:
        """Names and descriptions of the skills that match, the best first."""

    def near(self, name: str) -> Sequence[str]:
        """Similar names, the most likely first; all names if none is similar."""


class Skill(BuiltinTool):
    name = NAME
    subject = "skill"
    needs_conversation = True
    input_schema = object_schema(
        ["skill"],
        {
            "skill": {"type": "string", "minLength": 1, "description": "The name of the skill"},
            "args": {"type": "string", "description": "Arguments for it"},
        },
    )

    def __init__(self, skills: SkillSource) -> None:
        self._skills = skills

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        # Reading instructions is harmless; rules such as Skill(name) can still ask or deny.
        return (Need("none", _name(input)),)

    def check(self, input: Json, context: ToolContext) -> str | None:
        return None

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        name = _name(input)
        if name.startswith(SEARCH):
            found = await in_thread(self._skills.search, name.removeprefix(SEARCH))
            lines = [f"- {each}: {plain_line(description, 300)}" for each, description in found]
            yield Output("\n".join(lines) or "No skill matches.", summary=counted(len(found), "skill"))
            return
        loaded = self._skills.load(name, str(input.get("args", "")))
        if loaded is None:
            near = self._skills.near(name)
            hint = f" The skills are: {', '.join(near)}." if near else " There are no skills now."
            yield failure(f"There is no skill called {plain_line(name, 100)!r}.{hint}", "unknown skill")
            return
        yield Output(
            loaded.text,
            summary=f"{loaded.name} loaded",
            data={USED_SKILL: loaded.name},
            allows=loaded.allows,
            allows_from=loaded.source,
            notices=(loaded.notice,) if loaded.notice else (),
        )


def _name(input: Json) -> str:
    return str(input.get("skill", "")).strip().lstrip("/").lower()
