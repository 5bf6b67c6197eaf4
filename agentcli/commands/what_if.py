"""/what-if: a prompt of this conversation again, with another model or effort, and the choice between both results."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import cast

from agentcli.agent.engine import Engine
from agentcli.agent.ports import EmitEvent
from agentcli.agent.profile import Profile
from agentcli.commands.base import say
from agentcli.commands.front_end import BUSY, Choice, FrontEnd
from agentcli.commands.going_back import ask_about_lines
from agentcli.commands.tree import read_tree
from agentcli.commands.undo import short_name
from agentcli.context.report import ChangePrice
from agentcli.core.aio import Outlet
from agentcli.core.errors import UsageError
from agentcli.core.events import Event
from agentcli.core.text.format import counted, format_elapsed, money, token_count
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.history.steps import Step, StepAction, StepChoice, StepList, StepTab, StepText
from agentcli.history.tree import price_of_return
from agentcli.history.what_if import Side, WhatIf
from agentcli.providers.base import Effort
from agentcli.providers.catalog import EFFORTS, nearest_effort
from agentcli.session.base import Rewind
from agentcli.session.timeline import PromptStep, Timeline
from agentcli.workspace.base import UndoChoices, UndoPlan, UndoReport

_MAX_QUOTED = 60
_MAX_NAMED = 20
_CANCELLED = "Cancelled. The present result stays, and nothing was changed."
_USAGE = "Name another model or effort: /what-if MODEL, /what-if EFFORT, or both; and prompt N if it is not the last."


async def run(engine: Engine | None, arguments: str, front_end: FrontEnd) -> AsyncGenerator[Event, None]:
    """Sends the last prompt, or prompt N, again from the same point with another model or effort, in a copy of the
    files as they were. Then it shows both results with costs, answers and diffs, and you choose one or keep both. The
    project changes only if you take the other result, and /undo reverts that.

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
    profile, step = _parse(engine, arguments, tree.timeline)
    what_if = WhatIf(engine, tree.timeline, step, profile)
    price = _price(engine, what_if, tree.now)
    if not await _confirm(engine, what_if, price, front_end):
        yield say("Cancelled. Nothing was sent.")
        return
    outlet: Outlet[Event] = Outlet()

    async def work(emit: EmitEvent) -> None:
        cost = f" It {price.text}." if price.text else ""
        await emit(say(f"What if: {_title(what_if)}.{cost} Esc stops it."))
        await what_if.run(emit)

    await front_end.perform(outlet.deliver(work(outlet.emit)))
    present, other = what_if.present, what_if.other
    if present is None or other is None:
        yield say(what_if.problem or "The what-if was stopped. Nothing was changed.")
        return
    if front_end.has_pages:
        picked = await _open_page(what_if, present, other, front_end)
    else:
        for title, side in (("Present result", present), ("What if", other)):
            yield say(_side_text(title, side))
        picked = await front_end.choose("Which result", _choices(other))
    yield say(await _settle(engine, what_if, picked or "both", front_end))


def _parse(engine: Engine, arguments: str, timeline: Timeline) -> tuple[Profile, PromptStep]:
    """The profile and the prompt that the arguments name. Raises `UsageError`."""
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
    return profile, step


def _title(what_if: WhatIf) -> str:
    effort = f", effort {what_if.effort}" if what_if.effort else ""
    return f"“{plain_line(what_if.step.text, _MAX_QUOTED)}” with {what_if.profile.model}{effort}"


def _price(engine: Engine, what_if: WhatIf, now: str) -> ChangePrice:
    """What the first request bills besides the prompt: another model or effort finds nothing in the prompt cache."""
    profile = what_if.profile
    price = engine.session.settings.price_of(profile, profile.model)
    warm = profile.model if profile.effort == engine.profile.effort else ""
    return price_of_return(what_if.timeline, what_if.step.parent, warm, price, now)


async def _confirm(engine: Engine, what_if: WhatIf, price: ChangePrice, front_end: FrontEnd) -> bool:
    """Ask before it becomes expensive, and if nothing keeps commands from the project."""
    session = engine.session
    is_open = session.tool_context.launcher.name == "none"
    if not is_open and not price.needs_confirmation(session.settings.tuning.confirm_cost_above):
        return True
    parts = [price.text, f"the present result cost {money(what_if.step.cost_usd)}"]
    parts += ["without a sandbox, commands could change the project"] if is_open else []
    choices = [Choice("run", "Run it", "; ".join(filter(None, parts))), Choice("no", "Cancel")]
    return await front_end.choose(f"Run {_title(what_if)}?", choices) == "run"


# ---------------------------------------------------------------------------------------------------- both results


def _facts(side: Side) -> list[tuple[str, str]]:
    files, added, removed = side.changes
    return [
        ("Model", _short_model(side)),
        ("Effort", side.effort or "–"),
        ("Cost", "unknown" if side.cost_usd is None else money(side.cost_usd)),
        ("Time", format_elapsed(side.seconds)),
        ("Tokens", token_count(side.tokens)),
        ("Turns", str(side.turns)),
        ("Files", f"{files}  +{added} −{removed}" if files else "none"),
    ]


def _short_model(side: Side) -> str:
    return plain_line(side.model, 60).removeprefix("claude-")


def _outline(side: Side) -> str:
    facts = dict(_facts(side))
    return f"{facts['Cost']} · {facts['Time']} · files {facts['Files']}"


def _side_text(title: str, side: Side) -> str:
    facts = " · ".join(f"{name.lower()} {value}" for name, value in _facts(side))
    answer, diff = plain_text(side.answer).strip() or "(no answer)", plain_text(side.diff).rstrip()
    return "\n\n".join(filter(None, (f"{title}: {facts}", answer, diff)))


def _choices(other: Side) -> list[Choice]:
    return [
        Choice("present", "Keep the present result"),
        Choice("other", f"Take the result of {plain_line(other.model, 60)}: its conversation and files"),
        Choice("both", "Keep the present result, and the other one as a branch in /tree"),
    ]


async def _open_page(what_if: WhatIf, present: Side, other: Side, front_end: FrontEnd) -> str | None:
    rows = zip(_facts(present), _facts(other), strict=True)
    lines = [f"| {name} | {one} | {two} |" for (name, one), (_name, two) in rows]
    table = "\n".join(["| | Present | What if |", "|---|---|---|", *lines])

    def compare(_step: Step) -> list[StepText]:
        parts = [StepText(table, "markdown")]
        for name, side in (("Present answer", present), ("Other answer", other)):
            parts += [StepText(""), StepText(name, "heading"), StepText(side.answer or "(none)", "markdown")]
        return parts

    def changes(step: Step) -> list[StepText]:
        return [StepText(step.value.diff, "diff") if step.value.diff else StepText("No files were changed.", "muted")]

    steps = [
        Step("present", f"Present: {_short_model(present)}", _outline(present), value=present),
        Step("other", f"What if: {_short_model(other)}", _outline(other), value=other),
    ]
    page = StepList(
        f"What if {_title(what_if)}",
        lambda: steps,
        [StepTab("Comparison", compare), StepTab("Changes", changes)],
        [StepAction("enter", "take this result"), StepAction("b", "keep both")],
        start="other",
        noun="result",
    )
    choice: StepChoice | None = await front_end.page("steps", page)
    return None if choice is None else "both" if choice.key == "b" else choice.step.id


async def _settle(engine: Engine, what_if: WhatIf, picked: str, front_end: FrontEnd) -> str:
    """Do what the user has chosen; returns a sentence about it."""
    if picked == "present":
        return "The present result stays. Nothing was changed."
    if picked == "both":
        await what_if.keep()
        return "The present result stays. The other one is a branch: /tree shows it."
    if not await _confirm_protected(engine, what_if, front_end):
        return _CANCELLED
    since, workspace = await what_if.since(), engine.session.workspace

    async def read(choices: UndoChoices | None) -> UndoPlan:
        plan = await workspace.restore_plan(since, choices, what_if.replacement)
        if plan.diff.problem:
            raise UsageError(plan.diff.problem)
        return plan.questions

    choices = await ask_about_lines(engine, front_end, read, "What if")
    if choices is None:
        return _CANCELLED
    report = await engine.files.restore(since, choices, what_if.replacement)
    if not report.done:
        return f"{report.text} The present result stays."
    branch = await what_if.keep()
    engine.session.store.note_choice(what_if.choice)
    await front_end.open_session(engine.session_id, Rewind(branch=branch))
    return f"The conversation continues with the result of {_title(what_if)}. {_applied(engine, report)}"


async def _confirm_protected(engine: Engine, what_if: WhatIf, front_end: FrontEnd) -> bool:
    """Ask about files that commands may have written in the copies, but not in the project."""
    if not what_if.protected:
        return True
    names = ", ".join(short_name(engine, path) for path in what_if.protected[:_MAX_NAMED])
    more = f" and {len(what_if.protected) - _MAX_NAMED} more" if len(what_if.protected) > _MAX_NAMED else ""
    choices = [Choice("take", "Take the result with them", names + more), Choice("no", "Keep the present result")]
    return await front_end.choose("Other programs run or obey some of its files. Take them?", choices) == "take"


def _applied(engine: Engine, report: UndoReport) -> str:
    count = counted(len(report.touched), "file")
    done = f"{count} changed; /undo reverts that." if report.touched else "No file changed."
    kept = [short_name(engine, one.path) for one in report.kept[:_MAX_NAMED]]
    left = f" Left alone, with changes of your own: {', '.join(kept)}." if kept else ""
    return f"{done}{left} The result before stays as a branch in /tree."
