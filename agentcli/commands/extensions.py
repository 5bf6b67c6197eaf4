"""/skills, /plugins and /hooks: what extends this session, with source, size and last use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentcli.agent.attachments.skills import skill_uses
from agentcli.agent.engine import Engine
from agentcli.agent.live_files import Inactive
from agentcli.agent.plugins import line_of_function
from agentcli.commands.front_end import Choice, FrontEnd
from agentcli.commands.registry import find
from agentcli.context.estimate import text_tokens
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.core.text.format import counted, duration, token_count
from agentcli.core.text.plaintext import plain_line, show_command
from agentcli.definitions.files import SkillFile
from agentcli.plugins.loader import LoadedPlugin, PluginProblem


async def run_skills(engine: Engine, arguments: str, front_end: FrontEnd) -> str | None:
    """A skill is a folder with a SKILL.md in .agentcli/skills, .claude/skills or .agents/skills, of the project or of
    your home folder. The model loads one when its description fits; /NAME starts one.

    /skills      list all skills
    /skills pdf  list those whose name or description contains pdf
    """
    await engine.live_files.refresh()
    wanted = arguments.strip().lower()
    known = list(engine.session.definitions.skills.values()) if engine.session.definitions is not None else []
    found = [skill for skill in known if wanted in f"{skill.name} {skill.description}".lower()]
    if not known:
        return "There are no skills. Put one into .agentcli/skills/NAME/SKILL.md."
    if not found:
        raise UsageError(f"No skill matches {plain_line(wanted)!r}. /skills lists all {len(known)}.")
    uses = skill_uses(await engine.all_messages())
    if not wanted and front_end.has_pages:
        choices = [Choice(skill.name, f"/{skill.name}  {_describe(skill, uses)}", skill.description) for skill in found]
        if (name := await front_end.choose("Skills", choices)) is not None:
            front_end.prefill(f"/{name} ")
        return None
    return "\n".join(_skill_lines(found, uses))


def _skill_lines(skills: Sequence[SkillFile], uses: dict[str, int]) -> list[str]:
    lines = [f"{counted(len(skills), 'skill')}:"]
    for skill in skills:
        lines += [f"  {skill.name}  ({_describe(skill, uses)})", f"    {plain_line(skill.description, 200)}"]
    return lines


def _describe(skill: SkillFile, uses: dict[str, int]) -> str:
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


async def run_plugins(engine: Engine, arguments: str) -> str:
    """Plugins are Python files in .agentcli/plugins and ~/.config/agentcli/plugins, or installed packages. A saved file
    is loaded again automatically. "plugins": false in the settings turns them off.

    /plugins         list plugins, what they add and their problems
    /plugins reload  load changed files now
    """
    plugins = engine.session.plugins
    if plugins is None:
        raise UsageError("Plugins are off.")
    if arguments not in ("", "reload"):
        raise UsageError("Use /plugins or /plugins reload.")
    if arguments == "reload" or not plugins.loaded:
        await plugins.refresh()
    return "\n".join(plugin_lines(plugins.plugins, plugins.active.conflicts))


def plugin_lines(plugins: Sequence[LoadedPlugin], conflicts: Sequence[PluginProblem]) -> Iterator[str]:
    """Each plugin with its source, what it adds, its load time and its problems."""
    if not plugins:
        yield "There are no plugins. `agentcli plugins new NAME` writes an example."
    for each in plugins:
        state = f"{each.milliseconds:.0f} ms" if each.plugin is not None else "not loaded"
        source = each.source
        yield f"{plain_line(source.name, 60)}  {source.scope}  {plain_line(source.label, 200)}  {state}"
        if each.plugin is not None:
            yield f"  adds: {plain_line(', '.join(each.plugin.parts.summary()), 400) or 'nothing'}"
        yield from (f"  problem: {text}" for text in problem_texts(each, conflicts))


def problem_texts(plugin: LoadedPlugin, conflicts: Sequence[PluginProblem]) -> list[str]:
    """Reasons why a plugin, or a part of it, is not used."""
    label = plugin.source.label
    problems = [problem for problem in (plugin.problem, *conflicts) if problem is not None and problem.label == label]
    for command in plugin.plugin.parts.commands if plugin.plugin is not None else ():
        if find(command.name) is not None:
            line = line_of_function(command.function)
            problems.append(PluginProblem(label, line, f"/{command.name} is built in; this one is not used"))
    return [str(problem) for problem in problems]


HOOKS_LATER = "The settings files have changed. The change applies when the running prompt has ended."
NO_HOOKS = 'No hooks are configured. Add "hooks" to your settings; the guide has an example.'


@frozen
class HookRow:
    event: str
    matcher: str
    """Pattern of the matched tools or sources; "" for all."""
    command: str
    """Command, or name of a function. Hidden characters are spelled out."""
    source: str
    last: str
    """Last outcome and duration; "" before the first run."""
    inactive: str = ""
    """Why it does not run; "" if it does."""

    @property
    def state(self) -> str:
        if self.inactive:
            return f"not active: {self.inactive}"
        return f"last run: {self.last}" if self.last else "has not run yet"

    @property
    def subject(self) -> str:
        """The event and its matcher."""
        return f"{self.event} {self.matcher}" if self.matcher not in ("", "*") else self.event


async def run_hooks(engine: Engine, arguments: str, front_end: FrontEnd) -> str | None:
    """Hooks are commands in the settings that run at fixed points of a session, for example before each tool call. A
    changed settings file applies at once, during a prompt when it has ended. The guide shows their format.

    /hooks       list the hooks, and why some are not active
    /hooks Bash  only those that mention Bash
    """
    await engine.live_files.refresh_settings()
    inactive = await engine.live_files.inactive()
    rows = [row for row in hook_rows(engine, inactive) if _mentions(row, arguments.strip().lower())]
    if not rows and arguments.strip():
        raise UsageError(f"No hook mentions {plain_line(arguments, 80)}.")
    if not rows or not front_end.has_pages:
        return "\n".join([*(hook_lines(rows) or [NO_HOOKS]), *([HOOKS_LATER] if engine.live_files.is_stale else [])])
    await front_end.page("hooks", rows)
    return None


def hook_rows(engine: Engine, inactive: Sequence[Inactive] = ()) -> list[HookRow]:
    """The active hooks and the inactive ones, by event."""
    rows = [
        HookRow(hook.name, plain_line(hook.matcher, 200), show_command(hook.text), hook.source, "", hook.reason)
        for hook in inactive
        if hook.kind == "hook"
    ]
    for rule, last in engine.session.hooks.listing():
        command = show_command(rule.action) if isinstance(rule.action, str) else rule.title
        ended = f"{last.outcome.replace('_', ' ')}, {duration(last.duration_ms / 1000)}" if last is not None else ""
        rows.append(HookRow(rule.event, plain_line(rule.matcher, 200), command, plain_line(rule.source, 200), ended))
    return sorted(rows, key=lambda row: (_order(row.event), bool(row.inactive)))


def hook_lines(rows: Sequence[HookRow]) -> list[str]:
    lines = []
    for row in rows:
        lines.append(f"{row.subject}: {row.command}")
        where = f"from {row.source}" if row.source else "from the program that uses agentcli"
        lines.append(f"    {where}; {row.state}")
    return lines


def _mentions(row: HookRow, text: str) -> bool:
    return text in f"{row.event} {row.matcher} {row.command} {row.source}".lower()


def _order(event: str) -> int:
    from agentcli.hooks.rules import EVENTS

    return EVENTS.index(event)
