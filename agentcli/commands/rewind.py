"""/rewind: go back to before or after any prompt of this branch, with the conversation, the files, or both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import field
from functools import partial
from typing import Any, cast

from agentcli.agent.engine import Engine
from agentcli.commands.base import say
from agentcli.commands.diff import sort_changes
from agentcli.commands.front_end import Choice, FrontEnd
from agentcli.commands.going_back import (
    Destination,
    What,
    filter_choices,
    go,
    list_choices,
    list_remarks,
    plan_text,
    read_plan,
    take_back,
)
from agentcli.commands.tree import SessionTree, destination, price_at, read_tree, show_changes, show_prompt
from agentcli.commands.undo import short_name
from agentcli.core.aio import in_thread
from agentcli.core.errors import UsageError
from agentcli.core.events import Event
from agentcli.core.frozen import frozen
from agentcli.core.ids import seconds_between
from agentcli.core.text.format import ago, change_count, counted, money
from agentcli.core.text.plaintext import plain_line
from agentcli.history.rewind import agent_spans, describe_changes, find_since, spans_of, submissions_of
from agentcli.history.steps import Step, StepAction, StepChoice, StepList, StepTab, StepText
from agentcli.history.tree import place_after
from agentcli.session.timeline import CallStep, PromptStep
from agentcli.workspace.base import WorkspaceDiff
from agentcli.workspace.journal import SubmissionRecord

_WHAT = ("both", "conversation", "files")
_USAGE = "/rewind [NUMBER [after] [conversation|files|both]], or /rewind undo. /rewind alone shows the numbers."
_MAX_COUNTED = 50
"""Calls of sub-agents whose changes are counted for the list, those of the latest prompts."""
_TABS = ("Prompt", "Changes", "Before it", "After it")


@frozen
class _Part:
    """What a row of the page stands for: a prompt, one of its calls, or all calls of its sub-agents."""

    prompt: PromptStep
    call: CallStep | None = None
    is_agents: bool = False


@frozen
class _View:
    engine: Engine
    tree: SessionTree
    submissions: list[SubmissionRecord]
    by_agents: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """Files, added and removed lines of sub-agents by prompt."""

    @property
    def prompts(self) -> list[PromptStep]:
        return self.tree.timeline.current

    def facts(self, step: PromptStep) -> str:
        when = ago(seconds_between(step.at, self.tree.now) or 0.0)
        return f"{describe_changes(step, self.by_agents.get(step.id, (0, 0, 0)))} · {when}"

    async def read_place(self, step: PromptStep, *, after: bool) -> Destination:
        """In a thread: the price depends on all requests of the session."""
        return await in_thread(partial(destination, self.engine, self.tree, self.submissions, step.id, after=after))

    def can_go_after(self, step: PromptStep) -> bool:
        timeline = self.tree.timeline
        since = find_since(self.submissions, timeline, step.id, after=True)
        return since is not None or place_after(timeline, step.id) is not None


async def run(engine: Engine | None, arguments: str, front_end: FrontEnd) -> AsyncGenerator[Event, None]:
    """Goes back to before or after any prompt of this branch: the conversation, the files, or both. Shows what each
    prompt changed and what restoring would do. Your own changes stay, or you are asked; commits and git branches stay.
    Nothing is lost: what is left stays a branch. In the app, Esc Esc on the empty prompt opens it. /tree has the other
    branches.

    /rewind                 show the prompts and pick one
    /rewind 3               go back to before prompt 3; its text is put into the prompt
    /rewind 3 files         restore only the files, or only the conversation, or both
    /rewind 3 after both    go back to after prompt 3
    /rewind undo            take the last rewind back
    """
    if engine is None:
        raise UsageError("The session is still starting. Try again in a moment.")
    words = arguments.lower().split()
    try:
        view = await _read(engine)
    except UsageError as error:
        if words or not front_end.has_pages:
            raise
        # Esc twice is soon pressed.
        front_end.hint(str(error))
        return
    if words == ["undo"]:
        yield say(await take_back(engine, view.tree.timeline, front_end))
        return
    step, after, what = _parse(words, view)
    if front_end.has_pages and not what:
        report = await _browse(view, front_end, step, after=after)
    elif step is None:
        report = _list_prompts(view)
    else:
        place = await view.read_place(step, after=after)
        plan = await read_plan(engine, place)
        if what != "conversation" and not front_end.has_pages:
            yield say(await plan_text(engine, plan))
        choices = filter_choices(await list_choices(engine, place, plan), what)
        report = await _ask(view, place, choices, front_end, what)
    if report is not None:
        yield say(report)


async def _read(engine: Engine) -> _View:
    tree = await read_tree(engine)
    submissions = list(await engine.session.workspace.submissions())
    by_agents, count = {}, 0
    spans = await in_thread(lambda: [(step, agent_spans(step, submissions)) for step in tree.timeline.current])
    for step, calls in reversed(spans):
        count += len(calls)
        if not calls or count > _MAX_COUNTED:
            continue
        found = await _diff_of_agents(engine, step, submissions)
        changes = await in_thread(partial(sort_changes, found, engine.working_dirs[0]))
        by_agents[step.id] = (len(changes.files), changes.added, changes.removed)
    return _View(engine, tree, submissions, by_agents)


async def _diff_of_agents(engine: Engine, step: PromptStep, submissions: list[SubmissionRecord]) -> WorkspaceDiff:
    found = [await engine.session.workspace.diff_trees(span.trees) for span in agent_spans(step, submissions)]
    problem = next((one.problem for one in found if one.problem), "")
    return WorkspaceDiff(tuple(folder for one in found for folder in one.folders), problem)


def _parse(words: list[str], view: _View) -> tuple[PromptStep | None, bool, str]:
    if not words:
        return None, False, ""
    number, *rest = words
    after = rest[:1] in (["after"], ["before"]) and rest.pop(0) == "after"
    what = rest.pop(0) if rest[:1] and rest[0] in _WHAT else ""
    if rest or not number.isdecimal():
        raise UsageError(f"{plain_line(' '.join(rest) or number, 80)} is not understood. Usage: {_USAGE}")
    if not 0 < int(number) <= len(view.prompts):
        raise UsageError(f"There is no prompt {number}. This branch has {counted(len(view.prompts), 'prompt')}.")
    return view.prompts[int(number) - 1], after, what


def _list_prompts(view: _View) -> str:
    if not view.prompts:
        raise UsageError("This branch has no prompts. /tree shows the others.")
    width = len(str(len(view.prompts)))
    lines = []
    for number, step in enumerate(view.prompts, 1):
        lines += [f"{number:>{width}}  {plain_line(step.text, 200)}", f"{'':{width}}  {view.facts(step)}"]
    return "\n".join([*lines, "/rewind NUMBER goes back to before a prompt."])


async def _ask(
    view: _View, place: Destination, choices: list[Choice], front_end: FrontEnd, what: str = ""
) -> str | None:
    """Ask what is to go back, and do it. None: the user closed the question."""
    picked: str | None = what
    if view.engine.session.interactive:
        picked = await front_end.choose(f"Go back to {place.name}?", choices)
    elif not what:
        return "Nothing was done. Add files, conversation or both to do it."
    if picked is None:
        return None
    return await go(view.engine, view.tree.timeline, place, cast(What, picked), front_end)


# ------------------------------------------------------------------------------------------------------------ the page


async def _browse(view: _View, front_end: FrontEnd, step: PromptStep | None, *, after: bool) -> str | None:
    """Show the page until the user goes back to a place or closes it."""
    start, tab = (step.id if step is not None else ""), (0 if step is None else 3 if after else 2)
    while True:
        chosen: StepChoice | None = await front_end.page("steps", _page(view, start, tab))
        if chosen is None:
            return None
        part: _Part = chosen.step.value
        place = await view.read_place(part.prompt, after=chosen.key == "a")
        plan = await read_plan(view.engine, place)
        choices = filter_choices(await list_choices(view.engine, place, plan), "")
        shows = [Choice("show", "Show what would change", "")] if plan.diff.folders else []
        picked = await front_end.choose(f"Go back to {place.name}?", [*choices, *shows])
        if picked not in (None, "show"):
            return await go(view.engine, view.tree.timeline, place, cast(What, picked), front_end)
        start, tab = chosen.step.id, (3 if chosen.key == "a" else 2)


def _page(view: _View, start: str, tab: int) -> StepList:
    async def before(step: Step) -> list[StepText]:
        return await _show_place(view, step.value.prompt, after=False)

    async def after(step: Step) -> list[StepText]:
        return await _show_place(view, step.value.prompt, after=True)

    async def changes(step: Step) -> list[StepText]:
        return await _show_changes(view, step.value)

    def can_go_after(step: Step) -> bool:
        return view.can_go_after(step.value.prompt)

    reads: list[Any] = [lambda step: _show_prompt(view, step.value.prompt), changes, before, after]
    return StepList(
        "Rewind",
        lambda: [row for step in view.prompts for row in _rows(view, step)],
        [StepTab(name, read) for name, read in zip(_TABS, reads, strict=True)],
        [StepAction("enter", "go before it"), StepAction("a", "go after it", applies=can_go_after)],
        start=start,
        tab=tab,
    )


def _rows(view: _View, step: PromptStep) -> list[Step]:
    rows = [Step(step.id, plain_line(step.text, 200) or "(no text)", view.facts(step), value=_Part(step))]
    for call in step.calls:
        changed = change_count(call.files, call.added, call.removed)
        part = _Part(step, call)
        rows.append(Step(f"{step.id}/{call.id}", call.title or call.name, changed, parent=step.id, value=part))
    if found := view.by_agents.get(step.id):
        changed, part = change_count(*found), _Part(step, is_agents=True)
        rows.append(Step(f"{step.id}/agents", "Changes by sub-agents", changed, parent=step.id, value=part))
    return rows


def _show_prompt(view: _View, step: PromptStep) -> list[StepText]:
    price = price_at(view.engine, view.tree, step.parent).text
    facts = (f"{view.facts(step)} · {money(step.cost_usd)}", f"To continue before it: {price}." if price else "")
    return show_prompt(step, facts)


async def _show_changes(view: _View, part: _Part) -> list[StepText]:
    workspace = view.engine.session.workspace
    if part.is_agents:
        found = await _diff_of_agents(view.engine, part.prompt, view.submissions)
    elif part.call is None:
        numbers = [one.number for one in submissions_of(part.prompt, view.submissions)]
        found = await workspace.diff_submissions(numbers)
    else:
        spans = [one for one in spans_of(part.prompt, view.submissions) if one.call_id == part.call.id]
        found = await workspace.diff_trees(spans[0].trees) if spans else WorkspaceDiff()
    return show_changes(found, part.prompt.calls if part.call is None else [part.call])


async def _show_place(view: _View, step: PromptStep, *, after: bool) -> list[StepText]:
    place = await view.read_place(step, after=after)
    plan = await read_plan(view.engine, place)
    head = [f"Going back to {'after' if after else 'before'} this prompt would now change:"]
    if place.price.text:
        head.insert(0, f"The conversation {place.price.text}.")
    uncopied = [f"{short_name(view.engine, note.path)}: {note.note}" for one in plan.diff.folders for note in one.notes]
    lines = [*list_remarks(view.engine, plan), *uncopied]
    parts = [StepText("\n".join(head), "muted"), *([StepText("\n".join(lines))] if lines else []), StepText("")]
    for conflict in plan.questions.conflicts:
        parts.append(StepText(f"{short_name(view.engine, conflict.path)}: changed by you and by a prompt", "heading"))
        for clash in conflict.clashes:
            where = f"Line {clash.line}" if clash.line else "The whole file"
            now = clash.now.removesuffix("\n") or "(none)"
            parts.append(StepText(f"{where}, as it is now:\n{now}\nThen:\n{clash.replaced or '(none)'}"))
    return [*parts, *(StepText(folder.text, "diff") for folder in plan.diff.folders if folder.text)]
