"""/skills: list skills with their source, size and last use."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.agent.engine import Engine
from agentcli.agent.updates.skills import skill_uses
from agentcli.commands.base import Manual
from agentcli.commands.front_end import Choice, FrontEnd
from agentcli.context.estimate import text_tokens
from agentcli.core.errors import UsageError
from agentcli.core.text.format import token_count
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.plural import counted
from agentcli.definitions.files import SkillFile

MANUAL = Manual(
    "A skill is a folder with a SKILL.md in .agentcli/skills, .claude/skills or .agents/skills, of the project or of "
    "your home folder. The model loads one when its description fits; /NAME starts one.",
    (("/skills", "list all skills"), ("/skills pdf", "list those whose name or description contains pdf")),
)


async def run(engine: Engine, arguments: str, front_end: FrontEnd) -> str | None:
    await engine.live_files.refresh()
    wanted = arguments.strip().lower()
    known = list(engine.definitions.skills.values()) if engine.definitions is not None else []
    found = [skill for skill in known if wanted in f"{skill.name} {skill.description}".lower()]
    if not known:
        return "There are no skills. Put one into .agentcli/skills/NAME/SKILL.md."
    if not found:
        raise UsageError(f"No skill matches {plain_line(wanted)!r}. /skills lists all {len(known)}.")
    uses = skill_uses(await engine.all_messages())
    if not wanted and front_end.has_pages:
        choices = [Choice(skill.name, f"/{skill.name}  {_facts(skill, uses)}", skill.description) for skill in found]
        if (name := await front_end.choose("Skills", choices)) is not None:
            front_end.prefill(f"/{name} ")
        return None
    return "\n".join(_lines(found, uses))


def _lines(skills: Sequence[SkillFile], uses: dict[str, int]) -> list[str]:
    lines = [f"{counted(len(skills), 'skill')}:"]
    for skill in skills:
        lines += [f"  {skill.name}  ({_facts(skill, uses)})", f"    {plain_line(skill.description, 200)}"]
    return lines


def _facts(skill: SkillFile, uses: dict[str, int]) -> str:
    ago = uses.get(skill.name)
    used = "not used" if ago is None else "used now" if ago == 0 else f"used {counted(ago, 'prompt')} ago"
    facts = [skill.origin.scope, _size(skill), used]
    facts += [] if skill.for_model else ["only you start it"]
    facts += [] if skill.for_user else ["only the model starts it"]
    facts += ["its allowed-tools need trust"] if skill.allowed_tools and not skill.origin.approved else []
    return ", ".join(facts)


def _size(skill: SkillFile) -> str:
    tokens = int(text_tokens(skill.body))
    return "1 token" if tokens == 1 else f"{token_count(tokens)} tokens"
