"""/what-if: a prompt of this conversation again, with another model or effort, and the choice between both results."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial
from typing import cast

from agentcli.agent.costs.cache_watch import Front
from agentcli.agent.engine import Engine
from agentcli.agent.ports import EmitEvent
from agentcli.agent.profile import Profile
from agentcli.commands.base import say
from agentcli.commands.diff import Changes, show_diff, sort_changes
from agentcli.commands.front_end import BUSY, Choice, FrontEnd
from agentcli.commands.going_back import ask_about_lines
from agentcli.commands.tree import SessionTree, read_tree
from agentcli.commands.undo import list_outcome, short_name
from agentcli.core.aio import Outlet, in_thread
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.events import Event
from agentcli.core.frozen import frozen
from agentcli.core.text.format import counted, format_elapsed, money, token_count
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.history.rewind import find_since, submissions_of
from agentcli.history.steps import Step, StepAction, StepChoice, StepList, StepTab, StepText
from agentcli.history.tree import price_of_return
from agentcli.history.what_if import WhatIf
from agentcli.providers.base import Effort
from agentcli.providers.catalog import EFFORTS, nearest_effort
from agentcli.session.base import Rewind
from agentcli.session.timeline import PromptStep, Timeline
from agentcli.workspace.base import RestoreMark, UndoChoices, UndoPlan

_MAX_QUOTED = 60
_MAX_NAMED = 20
_STAYS = "The present result stays, and no file was changed. The other one is a branch: /tree shows it."
_REAL = "Hooks, MCP servers and web requests are real"
_USAGE = "Name another model or effort: /what-if MODEL, /what-if EFFORT, or both; and prompt N if it is not the last."


async def run(engine: Engine | None, arguments: str, front_end: FrontEnd) -> AsyncGenerator[Event, None]:
    """Sends the last prompt, or prompt N, again from the same point with another model or effort, in a copy of the
    files as they were. Then it shows both results with costs, answers and diffs, and you choose one; the other stays a
    branch. The project changes only if you take the other result, and /undo reverts that.

    /what-if opus            the last prompt with another model
    /what-if high            with another effort
    /what-if haiku prompt 3  the third prompt
    """
    if engine is None:
        raise UsageError("The session is still starting. Try again in a moment.")
    if not arguments:
        raise UsageError(_USAGE)
    if engine.running:
        raise UsageError(BUSY)
    tree = await read_tree(engine)
    profile, step, name = _parse(engine, arguments, tree.timeline)
    submissions = await engine.session.workspace.submissions()
    since = find_since(submissions, tree.timeline, step.id, after=False)
    since = since or max((one.number for one in submissions), default=0) + 1
    what_if = WhatIf(engine, tree.timeline, step, profile, name, since)
    if not await _confirm(engine, what_if, tree, front_end):
        yield say("Cancelled. Nothing was sent.")
        return
    outlet: Outlet[Event] = Outlet()

    async def work(emit: EmitEvent) -> None:
        await emit(say(f"What if: {_title(what_if)}. Esc stops it."))
        await what_if.run(emit)

    await front_end.perform(outlet.deliver(work(outlet.emit)))
    if what_if.problem:
        yield say(what_if.problem)
        return
    sides = await _read_sides(engine, what_if)
    if front_end.has_pages:
        picked = await _open_page(what_if, sides, front_end)
    else:
        yield say("\n\n".join(side.text for side in sides))
        choices = [
            Choice("present", "Keep the present result"),
            Choice("other", "Take the other result: its conversation and files"),
        ]
        picked = await front_end.choose("Which result", choices)
    yield say(await _take(engine, what_if, front_end) if picked == "other" else _STAYS)


def _parse(engine: Engine, arguments: str, timeline: Timeline) -> tuple[Profile, PromptStep, str]:
    """The profile and the prompt that the arguments name, and the former for the user. Raises `UsageError`."""
    words, line = arguments.split(), timeline.current
    if not line:
        raise UsageError("This branch has no prompt yet.")
    step = line[-1]
    if len(words) > 1 and words[-2].lower() == "prompt":
        number = words[-1]
        if not number.isdecimal() or not 0 < int(number) <= len(line):
            raise UsageError(f"Give a prompt from 1 to {len(line)}: the prompts of this branch in their order.")
        step, words = line[int(number) - 1], words[:-2]
    efforts = [word.lower() for word in words if word.lower() in EFFORTS]
    models = [word for word in words if word.lower() not in EFFORTS]
    if len(models) > 1 or len(efforts) > 1 or not words:
        raise UsageError(_USAGE)
    profile, catalog = engine.profile, engine.session.catalog
    if models:
        if problem := catalog.refusal(models[0]):
            raise UsageError(problem)
        info = catalog.get(models[0])
        if not info.known:
            raise UsageError(f"There is no model {plain_line(models[0], 80)} in the catalogue. /model lists all.")
        profile = replace(profile, model=info.id)
    if efforts:
        level, message = nearest_effort(catalog.get(profile.model), cast("Effort", efforts[0]))
        if level is None:
            raise UsageError(message or _USAGE)
        profile = replace(profile, effort=level)
    if profile == engine.profile and step.models[-1:] == (profile.model,):
        raise UsageError(f"That is the model and effort of this session. {_USAGE}")
    shown = plain_line(profile.model, 60)
    return profile, step, f"{shown} {profile.effort}" if efforts else shown


def _title(what_if: WhatIf) -> str:
    return f"“{plain_line(what_if.step.text, _MAX_QUOTED)}” with {what_if.name}"


async def _confirm(engine: Engine, what_if: WhatIf, tree: SessionTree, front_end: FrontEnd) -> bool:
    """Ask before anything is sent. Another model or effort finds nothing in the prompt cache."""
    session, profile = engine.session, what_if.profile
    warm = profile.model if profile.effort == engine.profile.effort else ""
    price = session.settings.price_of(profile, profile.model)
    again = price_of_return(tree.timeline, what_if.step.parent, warm, price, tree.now)
    is_open = session.tool_context.launcher.name == "none"
    facts = "; ".join(filter(None, [again.text, f"the present result cost {money(what_if.step.cost_usd)}"]))
    opened = "Without a sandbox, commands could change the project. " if is_open else ""
    about = f"{opened}{_REAL}. {facts[0].upper()}{facts[1:]}."
    choices = [Choice("run", "Run it", about), Choice("no", "Cancel")]
    return await front_end.choose(f"Run {_title(what_if)}?", choices) == "run"


# ---------------------------------------------------------------------------------------------------- both results


@frozen
class Side:
    """One of the two results. Texts are untrusted."""

    id: str
    title: str
    step: PromptStep
    changes: Changes

    @property
    def facts(self) -> dict[str, str]:
        step, changes, ended, usage = self.step, self.changes, self.step.result, self.step.usage
        return {
            "Model": plain_line(", ".join(step.models), 60).removeprefix("claude-"),
            "Cost": money(step.cost_usd),
            "Time": "unknown" if ended is None else format_elapsed((ended.duration_ms - ended.waited_ms) / 1000),
            "Tokens": token_count(usage.prompt_tokens + usage.output_tokens),
            "Turns": str(sum(one.purpose == "turn" and not one.agent for one in step.requests)),
            "Files": f"{len(changes.files)}  +{changes.added} −{changes.removed}" if changes.files else "none",
        }

    @property
    def diff(self) -> list[StepText]:
        source = "".join(file.source for file in self.changes.files)
        return [StepText(source, "diff") if source else StepText(self.changes.problem or "No files changed.", "muted")]

    @property
    def outline(self) -> str:
        facts = self.facts
        return " · ".join([facts["Model"], facts["Cost"], facts["Time"], f"files {facts['Files']}"])

    @property
    def text(self) -> str:
        facts = " · ".join(f"{name.lower()} {value}" for name, value in self.facts.items())
        diff = "".join(show_diff(file) for file in self.changes.files if file.source).rstrip()
        return "\n\n".join(filter(None, (f"{self.title}: {facts}", plain_text(self.step.answer).strip(), diff)))


async def _read_sides(engine: Engine, what_if: WhatIf) -> list[Side]:
    workspace, timeline = engine.session.workspace, (await read_tree(engine)).timeline
    submissions = await workspace.submissions()
    own = {one.number: one for one in submissions_of(what_if.step, submissions)}
    # The changes of a result that was taken begin with what they replaced.
    begin = min((one.number if one.taken is None else one.taken.since for one in own.values()), default=0)
    numbers = own if begin in own else range(begin, max(own, default=-1) + 1)
    sides = (
        ("present", "Present result", what_if.step, await workspace.diff_submissions(numbers)),
        ("other", "What if", timeline.prompts[what_if.prompt_id], await workspace.diff_trees(what_if.trees)),
    )
    return [
        Side(id, title, step, await in_thread(partial(sort_changes, diff, engine.working_dirs[0])))
        for id, title, step, diff in sides
    ]


async def _open_page(what_if: WhatIf, sides: list[Side], front_end: FrontEnd) -> str | None:
    present, other = sides
    rows = [f"| {name} | {fact} | {other.facts[name]} |" for name, fact in present.facts.items()]
    parts = [StepText("\n".join(["| | Present | What if |", "|---|---|---|", *rows]), "markdown")]
    for side in sides:
        parts += [StepText(""), StepText(f"{side.title}: answer", "heading")]
        parts.append(StepText(side.step.answer or "(none)", "markdown"))
    steps = [Step(side.id, side.title, side.outline, value=side) for side in sides]
    page = StepList(
        f"What if {_title(what_if)}",
        lambda: steps,
        [StepTab("Comparison", lambda _step: parts), StepTab("Changes", lambda step: step.value.diff)],
        [StepAction("enter", "take this result")],
        start="other",
        noun="result",
    )
    choice: StepChoice | None = await front_end.page("steps", page)
    return None if choice is None else choice.step.id


async def _take(engine: Engine, what_if: WhatIf, front_end: FrontEnd) -> str:
    """Continue with the other result and its files; returns a sentence about it."""
    session, profile = engine.session, what_if.profile
    if what_if.protected:
        names = ", ".join(short_name(engine, path) for path in what_if.protected[:_MAX_NAMED])
        more = f" and {len(what_if.protected) - _MAX_NAMED} more" if len(what_if.protected) > _MAX_NAMED else ""
        asked = [Choice("take", "Take the result with them", names + more), Choice("no", "Keep the present result")]
        if await front_end.choose("Other programs run or obey some of its files. Take them?", asked) != "take":
            return _STAYS

    async def read(choices: UndoChoices | None) -> UndoPlan:
        plan = await session.workspace.restore_plan(what_if.since, choices, what_if.reverse)
        if plan.diff.problem:
            raise UsageError(plan.diff.problem)
        return plan.questions

    choices = await ask_about_lines(engine, front_end, read, "What if")
    if choices is None:
        return _STAYS
    mark = RestoreMark(what_if.prompt_id, len(what_if.timeline.rewinds) + 1, True, what_if.reverse)
    report = await engine.files.restore(what_if.since, choices, mark)
    if not report.done:
        return f"{report.text} {_STAYS}"
    front = Front(profile.model, profile.effort, profile.thinking, fast=profile.fast)
    session.store.note_choice(front.to_dict())
    try:
        await front_end.open_session(engine.session_id, Rewind(branch=what_if.branch))
    except AgentError as error:
        raise AgentError(f"{error} The files were changed; /undo reverts that.") from error
    _count, rows = list_outcome(engine, report)
    first = f"The conversation continues with the result of {_title(what_if)}."
    if not report.touched:
        return "\n".join([f"{first} No file changed. /rewind undo takes this back.", *rows])
    done = f"{counted(len(report.touched), 'file')} changed. /rewind undo takes this back, /undo only the files."
    return "\n".join([f"{first} {done}", *rows])
