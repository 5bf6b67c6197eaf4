"""/tasks, /todos and /agents: what runs, what is planned, and which sub-agents there are."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.agent.subagents.run import AgentRun
from agentcli.agent.subagents.specs import SMALL_MODEL, AgentSpec
from agentcli.commands.front_end import FrontEnd
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.planning import todo_line


async def run_tasks(engine: Engine, _arguments: str, front_end: FrontEnd) -> str | None:
    """Shows what each agent does, opens its transcript, and stops agents and commands. Ctrl+B sends the running command
    or agent to the background. All background commands and agents end with the session.

    /tasks  list sub-agents and background commands
    """
    if front_end.has_pages:
        task_id = await front_end.page("tasks", engine)
        if task_id is not None and not await engine.background.stop(task_id):
            return f"{task_id} cannot be stopped alone. Stop the agent that started it."
        return None
    lines = []
    for task in engine.background.tasks:
        about = f"  ({plain_line(task.summary, 200)})" if task.summary else ""
        lines.append(f"  {task.id}  {task.status:<9} {plain_line(task.command, 200)}{about}")
    return "\n".join(lines) or "Nothing runs in the background."


async def run_todos(engine: Engine, _arguments: str) -> str:
    """The model keeps a list of todos for longer work. Ctrl+T also shows it.

    /todos  show completed and open todos
    """
    todos = engine.session.todos
    if not todos:
        return "There are no todos."
    done = sum(1 for todo in todos if todo.get("status") == "completed")
    return "\n".join([f"{done} of {len(todos)} done:", *(f"  {todo_line(todo)}" for todo in todos)])


async def run_agents(engine: Engine, _arguments: str) -> str:
    """The model starts sub-agents with the Task tool. To define one, put a Markdown file into .agentcli/agents/ or into
    agents/ of your configuration folder.

    /agents  list agents with their tools, model and source
    """
    available = engine.agents.available()
    if not available:
        return "There are no agents in this session."
    parts = ["\n".join(line for _name, spec in sorted(available.items()) for line in _spec_lines(spec))]
    if running := engine.agents.running:
        parts.append("\n".join(["Running:", *(f"  {_format_running(one)}" for one in running)]))
    found = () if engine.session.definitions is None else engine.session.definitions.problems
    if problems := [f"  {plain_line(str(problem), 300)}" for problem in found if problem.kind == "agents"]:
        parts.append("\n".join(["Not usable as written:", *problems]))
    return "\n\n".join(parts)


_MODELS = {"": "your model", "inherit": "your model", SMALL_MODEL: "small model"}


def _spec_lines(spec: AgentSpec) -> list[str]:
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


def _format_running(one: AgentRun) -> str:
    where = " (background)" if one.task.background else ""
    return plain_line(f"{one.id}{where}  {one.task.description}", 200)
