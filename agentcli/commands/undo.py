"""/undo and /redo: revert the file changes of the latest prompt, and make them again.

Where the user and the prompt both changed lines, the user is asked which version to keep. A word after the command
answers for all files. In a non-interactive run such files are left alone and reported.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

from agentcli.agent.attachments.undo_notes import prompts_of_submission
from agentcli.agent.engine import Engine
from agentcli.agent.ports import EmitEvent, UserQuestion
from agentcli.commands.base import say
from agentcli.core.aio import Outlet
from agentcli.core.errors import UsageError
from agentcli.core.events import Event
from agentcli.core.messages import Json
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.workspace.base import Conflict, ConflictChoice, LineClash, UndoChoices, UndoPlan, UndoReport

MAX_ASKED = 20
MAX_LINES = 200
MAX_NAMED = 20
MAX_COMMANDS = 3
MAX_PROMPTS = 3
_WORDS: dict[str, ConflictChoice] = {"keep": "keep", "replace": "replace"}


ReadPlan = Callable[[UndoChoices | None], Awaitable[UndoPlan]]


async def ask_about_conflicts(engine: Engine, verb: str, emit: EmitEvent, read: ReadPlan) -> UndoChoices | None:
    """Ask which lines to keep where both the user and the prompt changed them; None: the user closed a question.
    `verb`: Undo, Redo or Rewind; `read`: lists the questions beyond some choices."""
    if not engine.session.interactive:
        return UndoChoices()
    plan = await read(None)
    chosen: dict[str, ConflictChoice] = {}
    if plan.doubtful and (asking := _about_doubtful(engine, plan)) is not None:
        answer = await asking.ask(emit)
        if answer is None:
            return None
        chosen |= dict.fromkeys(plan.doubtful, "replace" if answer.behavior == "allow" else "keep")
        plan = await read(UndoChoices(chosen))
    for conflict in plan.conflicts[:MAX_ASKED]:
        display = await _display(engine, plan, conflict, verb == "Redo")
        title = f"{verb}: you changed {short_name(engine, conflict.path)} too"
        if (asking := engine.question(title, str(display["text"]), display)) is None:
            break
        answer = await asking.ask(emit)
        if answer is None:
            return None
        given = (answer.updated_input or {}).get("choice")
        if answer.behavior == "allow" and given in _WORDS:
            chosen[conflict.path] = _WORDS[given]
    return UndoChoices(chosen, prompt_id=plan.prompt_id)


def _about_doubtful(engine: Engine, plan: UndoPlan) -> UserQuestion | None:
    """One question about all files that either a command or the user changed: a formatter changes many at once."""
    names = [short_name(engine, path) for path in plan.doubtful[:MAX_NAMED]]
    more = len(plan.doubtful) - len(names)
    listed = "\n".join([*(f"  {name}" for name in names), *([f"  and {more} more"] if more else [])])
    ran = " and ".join(f"`{plain_line(one, 60)}`" for one in plan.commands[:MAX_COMMANDS])
    when = f"while {ran or 'a command'} ran"
    text = f"{'These files' if len(plan.doubtful) > 1 else 'This file'} changed {when}:\n{listed}\n"
    text += "Restoring loses edits that you made in the meantime."
    title = f"Undo: restore {counted(len(plan.doubtful), 'file')} that you may have edited?"
    display: Json = {"kind": "confirm", "text": text, "yes": "Restore", "no": "Leave as is"}
    return engine.question(title, text, display)


async def _display(engine: Engine, plan: UndoPlan, conflict: Conflict, again: bool) -> Json:
    messages = await engine.messages_with(plan.prompt_id)
    prompt = next((message for message in messages if message.id == plan.prompt_id), None)
    name = f"“{plain_line(prompt.text, 60)}”" if prompt is not None else "the prompt"
    when = f"after {name}" if again else f"before {name}"
    clashes = conflict.clashes
    if not clashes:
        text = f"You changed the file too, and it has no lines to compare. The other version is the one {when}."
    elif clashes[0].line == 0:
        text = "Both you and the prompt changed the whole file."
    else:
        text = "Both you and the prompt changed these lines."
    gone = "" if conflict.exists else f"{when}: the file did not exist"
    return {
        "kind": "undo",
        "text": text,
        "now_label": "as it is now",
        "other_label": gone or when,
        "clashes": [_show_clash(clash) for clash in clashes],
        "exists": conflict.exists,
    }


def _show_clash(clash: LineClash) -> Json:
    return {"line": clash.line, "now": _cut(clash.now), "other": _cut(clash.replaced)}


def _cut(text: str) -> str:
    lines = text.split("\n")
    if len(lines) <= MAX_LINES:
        return text
    return "\n".join([*lines[:MAX_LINES], f"[{len(lines) - MAX_LINES} more lines]"])


def put_back(engine: Engine, arguments: str, again: bool) -> AsyncGenerator[Event, None]:
    """Run /undo, or /redo if `again`."""
    outlet: Outlet[Event] = Outlet()
    return outlet.deliver(_put_back(engine, arguments.strip().lower(), again, outlet.emit))


async def _put_back(engine: Engine, word: str, again: bool, emit: EmitEvent) -> None:
    if word and word not in _WORDS:
        raise UsageError(
            f"/{'redo' if again else 'undo'} takes no arguments, or one of: keep (where you changed the same lines, "
            "keep yours) and replace (put the other version there)."
        )
    read = partial(engine.files.undo_plan, again)
    asked = None if word else await ask_about_conflicts(engine, "Redo" if again else "Undo", emit, read)
    choices = UndoChoices(otherwise=_WORDS[word]) if word else asked
    if choices is None:
        await emit(say("Cancelled. No file was changed."))
        return
    report = await (engine.files.redo(choices) if again else engine.files.undo(choices))
    if not report.done:
        is_known = again or engine.message_count
        hint = "" if is_known else " This is a new session; --continue opens the last one in this folder."
        raise UsageError(f"{report.text}{hint}")
    await emit(say(await undo_text(engine, report, again=again)))


MAX_LISTED = 50
_DONE = {"added": "created", "modified": "changed", "deleted": "deleted"}


def short_name(engine: Engine, path: str) -> str:
    """Path for display, without control sequences; relative to the first working directory if it is inside."""
    root = str(engine.working_dirs[0])
    name = os.path.relpath(path, root) if path.startswith(f"{root.rstrip('/')}/") else path
    return plain_line(name.encode("utf-8", "replace").decode(), 300)


async def undo_text(engine: Engine, report: UndoReport, again: bool) -> str:
    """Report of an undo or redo, file by file. The signs (A, M, D) are what it did to each file."""
    about = await _name_prompts(engine, report.prompt_id)
    count, rows = list_outcome(engine, report, again=again)
    done = f"{'Redid' if again else 'Undid'} the changes{about}"
    if report.kept and not report.touched and not report.index:
        done = f"No change{about} was {'redone' if again else 'undone'}"
    lines = [f"{done}: {count}.", *rows]
    if any(kept.is_open for kept in report.kept):
        name = "redo" if again else "undo"
        lines.append(
            f"To decide about files left alone: /{name} keep leaves your lines, /{name} replace puts the version "
            f"{'after' if again else 'before'} the prompt in their place."
        )
    return "\n".join([*lines, plain_line(report.text, 500)] if report.text else lines)


def list_outcome(engine: Engine, report: UndoReport, *, again: bool = False) -> tuple[str, list[str]]:
    """What was done in numbers, and a row for each file."""
    recreated = frozenset(report.recreated)
    alone = [kept for kept in report.kept if kept.kind is None]
    uncopied = [(kept, _DONE[kept.kind]) for kept in report.kept if kept.kind is not None]
    merged = frozenset(report.merged)
    groups = [
        (len(report.restored) - len(recreated) - len(merged), "changed again" if again else "restored"),
        (len(merged), f"{'changed again' if again else 'restored'} around your own changes"),
        (len(recreated), "created again" if again else "recreated"),
        (len(report.deleted), "removed again" if again else "removed"),
        (len(alone), "left alone"),
        (len(uncopied), "without a copy left as it is" if len(uncopied) == 1 else "without a copy left as they are"),
    ]
    parts = [f"{counted(number, 'file')} {what}" for number, what in groups if number]
    if report.index:
        parts.append(
            f"{counted(len(report.index), 'entry', 'entries')} of git's index {'set again' if again else 'restored'}"
        )
    # Failures come first: a long list is cut at its end.
    rows = [f"  ! {short_name(engine, kept.path)}: {done}; {kept.reason}" for kept, done in uncopied]
    rows += [f"  ! {short_name(engine, kept.path)}: left alone, {kept.reason}" for kept in alone]
    for path in report.restored:
        own = "  (your own changes stay)" if path in merged else ""
        rows.append(f"  {'A' if path in recreated else 'M'} {short_name(engine, path)}{own}")
    rows += [f"  D {short_name(engine, path)}" for path in report.deleted]
    rows += [
        f"  M {short_name(engine, path)}  (only in git's index)" for path in report.index if path not in report.touched
    ]
    return ", ".join(parts) or "no file had to be changed", _first_rows(rows)


async def _name_prompts(engine: Engine, prompt_id: str) -> str:
    """Name the prompt of the changes, and the prompts sent while it ran, whose changes are included."""
    messages = await engine.messages_with(prompt_id)
    texts = [f"“{plain_line(text, 60)}”" for text in prompts_of_submission(messages, prompt_id)]
    if not texts:
        return ""
    first, *later = texts
    more = len(later) - MAX_PROMPTS
    named = [*later[:MAX_PROMPTS], *([f"{more} more"] if more > 0 else [])]
    return f" of {first}" + (f" and of {' and '.join(named)}, sent while it ran" if named else "")


def _first_rows(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MAX_LISTED else [*lines[:MAX_LISTED], f"  and {len(lines) - MAX_LISTED} more"]


def run_undo(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    """Reverts changes made by edits and by commands, and what git commands staged. Commits, your own changes and the
    conversation stay. Asks where both changed the same lines.

    /undo          undo the latest changes; repeat for earlier ones
    /undo keep     in conflicts, keep your lines
    /undo replace  in conflicts, replace your lines
    """
    return put_back(engine, arguments, again=False)


def run_redo(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    """Redoes what /undo reverted and keeps your own changes. Asks where both changed the same lines.

    /redo          redo the changes
    /redo replace  in conflicts, replace your lines
    """
    return put_back(engine, arguments, again=True)
