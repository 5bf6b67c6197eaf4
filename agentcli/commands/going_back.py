"""Going back to a place of a session: what it would change, the question before it, and doing it.

/rewind and /tree share this. The conversation goes back by a line in the session file, the files by the snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from agentcli.agent.engine import Engine
from agentcli.agent.ports import EmitEvent
from agentcli.commands.diff import Changes, list_files, show_diff, sort_changes
from agentcli.commands.front_end import Choice, FrontEnd, Unavailable
from agentcli.commands.undo import ReadPlan, ask_about_conflicts, list_outcome, short_name
from agentcli.context.report import ChangePrice
from agentcli.core.aio import Outlet, in_thread
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.events import Event
from agentcli.core.frozen import frozen
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.session.base import Rewind
from agentcli.session.timeline import PromptStep, Timeline
from agentcli.workspace.base import RestoreMark, RestorePlan, UndoChoices, UndoPlan, WorkspaceDiff

What = Literal["both", "conversation", "files"]
CANCELLED = "Cancelled. Conversation and files are as they were."
MAX_TEXT_LINES = 400
_NO_SNAPSHOTS = "Files were changed since then, but there are no snapshots of them."
_MAX_NAMED = 3


@frozen
class Destination:
    name: str
    """`before “Fix it”`. Safe to show."""
    rewind: Rewind | None
    """None: the conversation is there already."""
    since: int | None
    """Number of the first submission whose changes were made later; None: there are no snapshots of later changes."""
    is_unknown: bool
    """Whether files were changed later, of which there are no snapshots."""
    price: ChangePrice
    left: Sequence[PromptStep] = ()
    """The prompts that the conversation leaves."""
    prompt_id: str = ""
    """The prompt whose text is put into the prompt box, if the place is before it."""
    typed: str = ""
    """That text as the user saw it."""


async def read_plan(engine: Engine, place: Destination) -> RestorePlan:
    """What restoring the files of a place would do now."""
    if place.since is not None:
        return await engine.session.workspace.restore_plan(place.since)
    return RestorePlan(WorkspaceDiff(problem=_NO_SNAPSHOTS if place.is_unknown else ""))


async def read_changes(engine: Engine, plan: RestorePlan) -> Changes:
    return await in_thread(lambda: sort_changes(plan.diff, engine.working_dirs[0]))


async def describe(engine: Engine, plan: RestorePlan) -> str:
    """One line about what would happen to the files and to the user's own changes."""
    if plan.diff.problem or plan.is_empty:
        return plan.diff.problem or "; ".join(["no file would change", *(plain_line(note, 300) for note in plan.notes)])
    changes = await read_changes(engine, plan)
    names = ", ".join(file.name for file in changes.files[:_MAX_NAMED])
    more = f" and {len(changes.files) - _MAX_NAMED} more" if len(changes.files) > _MAX_NAMED else ""
    files = f"{counted(len(changes.files), 'file')} +{changes.added} −{changes.removed}: {names}{more}"
    return "; ".join([*_about_own_changes(engine, plan), files, *(plain_line(note, 300) for note in plan.notes)])


def _about_own_changes(engine: Engine, plan: RestorePlan) -> list[str]:
    asked = [*(one.path for one in plan.questions.conflicts), *plan.questions.doubtful]
    groups = (
        (plan.merged, "your own changes stay in"),
        (asked, "you are asked about your own changes in"),
        ([one.path for one in plan.kept], "left as is:"),
    )
    return [
        f"{what} {', '.join(short_name(engine, path) for path in paths[:_MAX_NAMED])}"
        + (f" and {len(paths) - _MAX_NAMED} more" if len(paths) > _MAX_NAMED else "")
        for paths, what in groups
        if paths
    ]


def list_remarks(engine: Engine, plan: RestorePlan) -> list[str]:
    """Lines about the user's own changes and about what is not restored. Safe to show."""
    notes = [plain_line(note, 500) for note in plan.notes]
    if plan.diff.problem or plan.is_empty:
        return [plan.diff.problem or "No file would change.", *notes]
    return [*(f"{text[0].upper()}{text[1:]}." for text in _about_own_changes(engine, plan)), *notes]


async def plan_text(engine: Engine, plan: RestorePlan) -> str:
    """All that restoring would do now as plain text."""
    changes = await read_changes(engine, plan)
    diff = await in_thread(lambda: "\n".join(show_diff(file) for file in changes.files if file.source))
    shown = diff.splitlines()
    more = len(shown) - MAX_TEXT_LINES
    return "\n".join(
        [
            *list_files(changes),
            *list_remarks(engine, plan),
            *shown[:MAX_TEXT_LINES],
            *([f"[{more:,} more lines]"] if more > 0 else []),
        ]
    )


async def list_choices(engine: Engine, place: Destination, plan: RestorePlan) -> list[Choice]:
    """What can go back to a place, the fullest first."""
    files, price = await describe(engine, plan), place.price.text
    if engine.background.any_runs:
        price = "; ".join(filter(None, ("stops what runs in the background", price)))
    restores = place.since is not None and not (plan.is_empty or plan.diff.problem)
    choices = []
    if place.rewind is not None and restores:
        choices.append(Choice("both", "Conversation and files", "; ".join(filter(None, (files, price)))))
    if place.rewind is not None:
        stay = price if restores else "; ".join(filter(None, (files, price)))
        choices.append(Choice("conversation", "Conversation only", stay))
    return [*choices, Choice("files", "Files only", files)] if restores else choices


async def go(engine: Engine, timeline: Timeline, place: Destination, what: What, front_end: FrontEnd) -> str:
    """Go there. Returns the report for the user; raises `AgentError` if nothing was done."""
    if what != "files" and not engine.session.interactive:
        raise Unavailable(front_end.instead)
    if engine.running and engine.session.interactive:
        raise UsageError("A prompt is still running. Stop it with Esc first.")
    lines: list[str] = []
    if what != "conversation":
        assert place.since is not None
        since = place.since

        async def read(choices: UndoChoices | None) -> UndoPlan:
            plan = await engine.session.workspace.restore_plan(since, choices)
            if plan.diff.problem:
                raise UsageError(plan.diff.problem)
            return plan.questions

        choices = await ask_about_lines(engine, front_end, read, "Rewind")
        if choices is None:
            return CANCELLED
        with_conversation = what == "both" and place.rewind is not None
        last = next(reversed(timeline.prompts), "")
        mark = RestoreMark(last, len(timeline.rewinds) + with_conversation, with_conversation)
        report = await engine.files.restore(place.since, choices, mark)
        if not report.done:
            raise UsageError(report.text)
        count, rows = list_outcome(engine, report)
        lines = [f"Files as they were {'then' if what == 'both' else place.name}: {count}.", *rows]
        if any(kept.is_open for kept in report.kept) and not engine.session.interactive:
            lines.append("Files with changes of your own were left alone. /rewind asks about them in a terminal.")
    if what != "files" and place.rewind is not None:
        text = await _read_text(engine, place)
        try:
            await front_end.open_session(engine.session_id, place.rewind)
        except AgentError as error:
            raise AgentError(
                f"{error} The files were restored; /undo reverts that." if lines else str(error)
            ) from error
        if text:
            front_end.prefill(text)
        stay = "stays as a branch" if len(place.left) == 1 else "stay as a branch"
        stays = f" {counted(len(place.left), 'prompt')} {stay}." if place.left else ""
        files = " Files are as they were." if what == "conversation" else ""
        lines.insert(0, f"The conversation continues {place.name}.{stays}{files}")
    lines[0] += " /rewind undo takes this back."
    return "\n".join(lines)


async def _read_text(engine: Engine, place: Destination) -> str:
    """The whole prompt, with pasted text in place of its placeholders."""
    if not place.prompt_id:
        return ""
    messages = await engine.messages_with(place.prompt_id)
    return plain_text(next((one.text for one in messages if one.id == place.prompt_id), place.typed))


async def ask_about_lines(engine: Engine, front_end: FrontEnd, read: ReadPlan, verb: str) -> UndoChoices | None:
    """Ask which lines to keep; None: the user closed a question."""
    plan = await read(None)
    if not engine.session.interactive or not (plan.conflicts or plan.doubtful):
        return UndoChoices()
    answers: list[UndoChoices | None] = [None]

    async def ask(emit: EmitEvent) -> None:
        answers[0] = await ask_about_conflicts(engine, verb, emit, read)

    outlet: Outlet[Event] = Outlet()
    await front_end.perform(outlet.deliver(ask(outlet.emit)))
    return answers[0]


async def take_back(engine: Engine, timeline: Timeline, front_end: FrontEnd) -> str:
    """Undo the last rewind: the conversation, and the files that were restored with it or after it."""
    if engine.running and engine.session.interactive:
        raise UsageError("A prompt is still running. Stop it with Esc first.")
    live = [one for one in await engine.session.workspace.submissions() if one.changed and not one.undone]
    last = live[-1] if live else None
    mark = last.restored or last.taken if last is not None else None
    is_part = mark is not None and mark.rewinds == len(timeline.rewinds)
    goes = bool(timeline.rewinds) and not (is_part and mark is not None and not mark.with_conversation)
    if not is_part and not goes:
        raise UsageError("Nothing was rewound in this session.")
    lines: list[str] = []
    if is_part:
        choices = await ask_about_lines(engine, front_end, partial(engine.files.undo_plan, False), "Undo")
        if choices is None:
            return CANCELLED
        report = await engine.files.undo(choices)
        if not report.done:
            raise UsageError(report.text)
        if goes:
            # The conversation returns to where it knows these files.
            await engine.session.workspace.skip_undo_news()
        count, rows = list_outcome(engine, report)
        lines = [f"Files as they were before the rewind: {count}.", *rows]
    if goes:
        await front_end.open_session(engine.session_id, Rewind(branch=timeline.rewinds[-1]))
        stay = "" if is_part else " Files are as they were."
        lines.insert(0, f"The conversation continues where it was before the last rewind.{stay}")
    return "\n".join(lines)


def name_place(label: str, *, after: bool) -> str:
    return f"{'after' if after else 'before'} “{plain_line(label, 60)}”"


def filter_choices(choices: Sequence[Choice], wanted: str) -> list[Choice]:
    """The choices that were asked for. Raises `UsageError` if there is none."""
    found = [choice for choice in choices if wanted in ("", choice.value)]
    if not found and wanted in ("", "conversation"):
        raise UsageError("The conversation is at this point already.")
    if not found:
        raise UsageError("The files cannot be restored: they are as they were then, or there are no snapshots of them.")
    return found
