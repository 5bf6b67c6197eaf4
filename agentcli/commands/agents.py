"""/agents: list the sub-agents that Task can start, and the running ones."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.agent.subagents.run import AgentRun
from agentcli.agent.subagents.specs import SMALL_MODEL, AgentSpec
from agentcli.commands.base import Manual
from agentcli.core.text.plaintext import plain_line

MANUAL = Manual(
    "The model starts sub-agents with the Task tool. To define one, put a Markdown file into .agentcli/agents/ or into "
    "agents/ of your configuration folder.",
    (("/agents", "list agents with their tools, model and source"),),
)


async def run(engine: Engine, _arguments: str) -> str:
    available = engine.agents.available()
    if not available:
        return "There are no agents in this session."
    parts = ["\n".join(line for _name, spec in sorted(available.items()) for line in _lines(spec))]
    if running := engine.agents.running:
        parts.append("\n".join(["Running:", *(f"  {_running_line(one)}" for one in running)]))
    found = () if engine.definitions is None else engine.definitions.problems
    if problems := [f"  {plain_line(str(problem), 300)}" for problem in found if problem.kind == "agents"]:
        parts.append("\n".join(["Not usable as written:", *problems]))
    return "\n\n".join(parts)


_MODELS = {"": "your model", "inherit": "your model", SMALL_MODEL: "small model"}


def _lines(spec: AgentSpec) -> list[str]:
    tools = "all tools" if spec.tool_names is None else ", ".join(spec.tool_names)
    if spec.disallowed_tools:
        tools += f" without {', '.join(spec.disallowed_tools)}"
    facts = [spec.source, tools, _MODELS.get(spec.model, f"model {spec.model}")]
    if spec.read_only:
        facts.append("read-only")
    if spec.max_turns is not None:
        facts.append(f"at most {spec.max_turns} turns")
    if spec.background:
        facts.append("in the background")
    return [f"{spec.name}  {plain_line(spec.description, 200)}", f"  {plain_line(' · '.join(facts), 300)}"]


def _running_line(one: AgentRun) -> str:
    where = " (background)" if one.task.background else ""
    return plain_line(f"{one.id}{where}  {one.task.description}", 200)
