"""/tree and /branch: the branches of a session.

/rewind goes back on the current branch; /tree shows all branches and switches between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import cast

from agentcli.agent.engine import Engine
from agentcli.agent.ports import EmitEvent
from agentcli.commands.base import say
from agentcli.commands.front_end import Choice, FrontEnd
from agentcli.commands.going_back import CANCELLED, Destination, What, go, list_choices, name_place, read_plan
from agentcli.context.report import ChangePrice
from agentcli.core.aio import Outlet, in_thread
from agentcli.core.errors import UsageError
from agentcli.core.events import Event, MessageAppended, NoticeRaised
from agentcli.core.frozen import frozen, replace
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.history.rewind import changes_files_later, find_since, submissions_of
from agentcli.history.steps import Step, StepAction, StepChoice, StepList, StepTab, StepText
from agentcli.history.tree import (
    TreeRow,
    build_tree,
    left_prompts,
    place_after,
    place_before,
    price_of_return,
)
from agentcli.session.base import Rewind
from agentcli.session.load import load_session
from agentcli.session.timeline import CallStep, PromptStep, Timeline, read_timeline
from agentcli.workspace.base import WorkspaceDiff
from agentcli.workspace.journal import SubmissionRecord

MAX_NAME = 60
_MAX_QUOTED = 60


@frozen
class SessionTree:
    timeline: Timeline
    rows: Sequence[TreeRow]
    now: str

    def find_row(self, wanted: str) -> TreeRow | None:
        """The row with this number, from 1, or of the branch with this name."""
        if wanted.isdecimal() and 0 < int(wanted) <= len(self.rows):
            return self.rows[int(wanted) - 1]
        folded = wanted.casefold()
        return next((row for row in reversed(self.rows) if folded in map(str.casefold, row.names)), None)


async def read_tree(engine: Engine) -> SessionTree:
    """The tree of the open session. Raises `UsageError`."""
    path = engine.session.store.path

    def read() -> SessionTree:
        timeline = read_timeline(path) if path is not None and path.exists() else None
        if path is None or timeline is None or not timeline.prompts:
            raise UsageError("This session has no prompt yet, or is not saved. /undo reverts changes of files.")
        return SessionTree(timeline, build_tree(timeline), engine.session.clock.timestamp())

    try:
        return await in_thread(read)
    except OSError as error:
        raise UsageError(f"The session file cannot be read: {error.strerror}.") from error


def price_at(engine: Engine, tree: SessionTree, prompt_id: str) -> ChangePrice:
    """What continuing after a prompt bills again."""
    price = engine.session.settings.price_of(engine.profile, engine.model)
    return price_of_return(tree.timeline, prompt_id, engine.model, price, tree.now)


async def run_tree(engine: Engine | None, arguments: str, front_end: FrontEnd) -> str | None:
    """Draws every prompt of every branch with what it changed and cost. Pick one to continue after it, or to edit it
    and send it again; files go there too if you want. What is left stays a branch, so you can always switch back; a
    summary of it by the small model can be carried over. /rewind goes back on the current branch only.

    /tree        show the tree and pick a prompt
    /tree regex  switch to the branch with this name
    /tree 3      go to the prompt with this number
    """
    if engine is None:
        raise UsageError("The session is still starting. Try again in a moment.")
    tree = await read_tree(engine)
    if arguments:
        row = tree.find_row(arguments)
        if row is None:
            names = ", ".join(name for row in tree.rows for name in row.names)
            known = f" Named branches: {names}." if names else ""
            raise UsageError(f"There is no branch or prompt {plain_line(arguments, 80)}.{known} /tree shows all.")
        return await go_to(engine, tree, row, front_end)
    if front_end.has_pages:
        return await _open_page(engine, tree, front_end)
    number = await _pick(tree, front_end)
    return None if number is None else await go_to(engine, tree, tree.rows[int(number)], front_end)


async def _pick(tree: SessionTree, front_end: FrontEnd) -> str | None:
    choices = [
        Choice(str(place), f"{row.lines}{row.mark} {row.title}", row.facts(tree.now))
        for place, row in enumerate(tree.rows)
    ]
    count = counted(len(tree.timeline.leaves), "branch", "branches")
    return await front_end.choose(f"Prompts of this session, {count}", choices)


async def _open_page(engine: Engine, tree: SessionTree, front_end: FrontEnd) -> str | None:
    """Show the tree as a page with the prompts of all branches; its keys go to one of them."""

    def can_continue(step: Step) -> bool:
        return not step.value.is_here

    def can_edit(step: Step) -> bool:
        return bool(step.value.prompt)

    def about(step: Step) -> list[StepText]:
        return _describe(engine, tree, step.value)

    async def changes(step: Step) -> list[StepText]:
        prompt = tree.timeline.prompts.get(step.value.prompt)
        return show_changes(await _diff_of(engine, prompt), prompt.calls if prompt is not None else ())

    here = next((place for place, row in enumerate(tree.rows) if row.is_here), len(tree.rows) - 1)
    count = counted(len(tree.timeline.leaves), "branch", "branches")
    page = StepList(
        f"Tree of this session · {count}",
        lambda: [_step(place, row, tree.now) for place, row in enumerate(tree.rows)],
        [StepTab("Prompt", about), StepTab("Changes", changes)],
        [StepAction("enter", "continue here", applies=can_continue), StepAction("e", "edit", applies=can_edit)],
        start=str(here),
        noun="place",  # the start of the conversation is one too
    )
    choice: StepChoice | None = await front_end.page("steps", page)
    if choice is None:
        return None
    return await go_to(engine, tree, choice.step.value, front_end, "edit" if choice.key == "e" else "after")


def _step(place: int, row: TreeRow, now: str) -> Step:
    return Step(str(place), row.title, row.facts(now), row.lines, row.mark, value=row)


def _describe(engine: Engine, tree: SessionTree, row: TreeRow) -> list[StepText]:
    price = price_at(engine, tree, row.prompt).text
    here = "The conversation continues here." if row.is_here else f"To continue here: {price}." if price else ""
    return show_prompt(tree.timeline.prompts.get(row.prompt), (row.facts(tree.now), here))


def show_prompt(step: PromptStep | None, facts: Sequence[str]) -> list[StepText]:
    """A prompt with its answer, below facts about it."""
    head = StepText("\n".join(filter(None, facts)), "muted")
    if step is None:
        return [head]
    answer = StepText(step.answer or "(none)", "markdown")
    return [head, StepText(f"\n{step.text}"), StepText("\nAnswer", "heading"), answer]


async def _diff_of(engine: Engine, step: PromptStep | None) -> WorkspaceDiff:
    """What a prompt changed, by its snapshots."""
    workspace = engine.session.workspace
    submissions = submissions_of(step, await workspace.submissions()) if step is not None else []
    return await workspace.diff_submissions([one.number for one in submissions])


def show_changes(found: WorkspaceDiff, calls: Sequence[CallStep]) -> list[StepText]:
    """The diffs of snapshots; without them, what the calls have reported."""
    if found.folders:
        return [StepText(folder.text, "diff") for folder in found.folders]
    parts = [StepText(found.problem, "muted")] if found.problem else []
    for call in calls:
        if call.files:
            parts.append(StepText(f"{call.title or call.name}  +{call.added} −{call.removed}", "heading"))
            parts += [StepText(call.diff, "diff")] if call.diff else []
    return parts or [StepText("It changed no files.", "muted")]


def destination(
    engine: Engine, tree: SessionTree, submissions: Sequence[SubmissionRecord], prompt_id: str, *, after: bool
) -> Destination:
    """The place before or after a prompt; "": the start of the conversation."""
    timeline, step = tree.timeline, tree.timeline.prompts.get(prompt_id)
    continues = prompt_id if after or step is None else step.parent
    since = find_since(submissions, timeline, prompt_id, after=after)
    return Destination(
        name_place(step.text, after=after) if step is not None else "at the start",
        place_after(timeline, prompt_id) if after else place_before(timeline, prompt_id),
        since,
        since is None and changes_files_later(timeline, prompt_id, after=after),
        price_at(engine, tree, continues),
        left_prompts(timeline, continues),
        "" if after else prompt_id,
        step.text if step is not None else "",
    )


async def go_to(
    engine: Engine, tree: SessionTree, row: TreeRow, front_end: FrontEnd, preferred: str = ""
) -> str | None:
    """Continue at a row of the tree as the user chooses: after it, or instead of it. Returns a sentence about it; None:
    the user closed the question. `preferred`: the answer that was given already; its price is still confirmed."""
    if engine.running:
        raise UsageError("A prompt is still running. Stop it with Esc, then try again.")
    submissions = await engine.session.workspace.submissions()
    find_way = partial(destination, engine, tree, submissions, row.prompt)
    ways = {way: await in_thread(partial(find_way, after=way == "after")) for way in ("after", "edit")}
    labels = {"after": "Continue after it", "edit": "Edit it and send it again"}
    choices = [
        Choice(way, labels[way] if row.prompt else "Start again", place.price.text)
        for way, place in ways.items()
        if place.rewind is not None and preferred in ("", way)
    ]
    if not choices:
        raise UsageError("The conversation is at this point already.")
    for one in [choice for choice in choices if ways[choice.value].left]:
        label = f"{one.label}, with a summary of what you leave"
        choices.insert(choices.index(one) + 1, Choice(f"{one.value}{_WITH_SUMMARY}", label, one.detail))
    picked = await front_end.choose(f"Go to “{plain_line(row.label, _MAX_QUOTED)}”?", choices)
    place = ways.get((picked or "").removesuffix(_WITH_SUMMARY))
    if picked is None or place is None or place.rewind is None:
        return None
    offered = await list_choices(engine, place, await read_plan(engine, place))
    kinds = [choice for choice in offered if choice.value != "files"]
    what = await front_end.choose("Should the files go back too?", kinds) if len(kinds) > 1 else "conversation"
    if what is None:
        return None
    summed_up = ""
    if picked.endswith(_WITH_SUMMARY):
        stay = what == "conversation"
        rewind, summed_up = await _carry_summary(engine, place.rewind, place.left, front_end, files_stay=stay)
        place = replace(place, rewind=rewind)
    report = await go(engine, tree.timeline, place, cast(What, what), front_end)
    return report if report == CANCELLED else report + summed_up


_WITH_SUMMARY = "+summary"


async def _carry_summary(
    engine: Engine, rewind: Rewind, left: Sequence[PromptStep], front_end: FrontEnd, *, files_stay: bool
) -> tuple[Rewind, str]:
    """Summarise what is left. Returns the place with that summary, and a sentence for the user."""
    from agentcli.agent.context.left_branch import summarise_left, summary_note

    session, path = engine.session, engine.session.store.path
    outcome = ["", "it was stopped"]

    async def summarise(emit: EmitEvent) -> None:
        assert session.signal is not None
        await emit(say(f"Summarising {counted(len(left), 'prompt')}. Esc switches without a summary."))
        messages = await engine.messages_with(left[0].id)
        begin = next((place for place, message in enumerate(messages) if message.id == left[0].id), 0)
        outcome[:] = await summarise_left(session, messages[begin:], session.signal, emit)

    outlet: Outlet[Event] = Outlet()
    await front_end.perform(outlet.deliver(summarise(outlet.emit)))
    summary, problem = outcome
    if not summary or path is None:
        return rewind, f" There is no summary: {plain_line(problem, 200).rstrip('.')}."
    there = await in_thread(partial(load_session, path, with_history=False, rewind=rewind))
    shown = NoticeRaised(text=f"Summary of what you left, for the model:\n{summary}", code="command")
    note = MessageAppended(message=summary_note(summary, session.ids.new(), files_stay=files_stay))
    branch = session.store.add_branch(rewind, there, [note, shown])
    return Rewind(branch=branch), " The model gets the summary with your next prompt."


async def run_branch(engine: Engine, arguments: str) -> str:
    """Names the branch from here on, so that /tree shows and finds it by name. A branch that has a name already stays
    as it is, and a new one begins here.

    /branch        begin a branch with a generated name
    /branch regex  begin a branch called regex
    """
    tree = await read_tree(engine)
    leaf, name = tree.timeline.leaves[-1], plain_line(arguments)
    if len(name) > MAX_NAME:
        raise UsageError(f"A name has at most {MAX_NAME} characters.")
    taken = {one.name.casefold() for one in tree.timeline.leaves if one.name}
    if not name:
        name = next(text for number in range(1, len(taken) + 2) if (text := f"branch-{number}") not in taken)
    if name.isdecimal() or name.casefold() in taken:
        problem = "is a number" if name.isdecimal() else "is the name of a branch already"
        raise UsageError(f"{name} {problem}. Choose another name.")
    await asyncio.to_thread(engine.session.store.begin_branch, name, leaves=bool(leaf.name))
    return f"The branch from here on is called {name}. /tree {name} returns to it."
