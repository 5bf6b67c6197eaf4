"""What /undo and /redo ask: which version of lines to keep that both the user and the prompt changed.

A word after the command answers for all files. Where nobody can be asked, such files are left alone and reported.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail, say
from agentcli.commands.files import short_name, undo_text
from agentcli.core.events import Event
from agentcli.core.messages import Json
from agentcli.core.plaintext import plain_line
from agentcli.core.plural import counted
from agentcli.workspace.base import Conflict, ConflictChoice, LineClash, UndoChoices, UndoPlan

_MOST_ASKED = 20
_MOST_LINES = 200
_MOST_NAMED = 20
_MOST_COMMANDS = 3
_WORDS: dict[str, ConflictChoice] = {"keep": "keep", "replace": "replace"}


class ConflictChoices:
    """The choices for one undo or redo. `run()` yields the questions; then `choices` has the answers."""

    def __init__(self, engine: Engine, again: bool) -> None:
        self._engine, self._again = engine, again
        self.choices = UndoChoices()
        self.withdrawn = False
        """The command was stopped while it asked."""

    async def run(self) -> AsyncGenerator[Event, None]:
        if not self._engine.interactive:
            return
        plan = await self._engine.files.undo_plan(self._again)
        chosen: dict[str, ConflictChoice] = {}
        if plan.doubtful:
            async with aclosing(self._about_doubtful(plan, chosen)) as events:
                async for event in events:
                    yield event
            if self.withdrawn:
                return
            plan = await self._engine.files.undo_plan(self._again, UndoChoices(chosen))
        for conflict in plan.conflicts[:_MOST_ASKED]:
            display = self._display(plan, conflict)
            title = f"{'Redo' if self._again else 'Undo'}: you changed {short_name(self._engine, conflict.path)} too"
            asking = self._engine.question(title, str(display["text"]), display)
            if asking is None:
                return
            async with aclosing(asking.run()) as events:
                async for event in events:
                    yield event
            if asking.answer is None:
                self.withdrawn = True
                return
            given = (asking.answer.updated_input or {}).get("choice")
            if asking.answer.behavior == "allow" and given in _WORDS:
                chosen[conflict.path] = cast(ConflictChoice, given)
        self.choices = UndoChoices(chosen)

    async def _about_doubtful(self, plan: UndoPlan, chosen: dict[str, ConflictChoice]) -> AsyncGenerator[Event, None]:
        """One question about all files that a command or the user changed: a formatter changes many at once."""
        names = [short_name(self._engine, path) for path in plan.doubtful[:_MOST_NAMED]]
        more = len(plan.doubtful) - len(names)
        listed = "\n".join([*(f"  {name}" for name in names), *([f"  and {more} more"] if more else [])])
        ran = " and ".join(f"`{plain_line(one, 60)}`" for one in plan.commands[:_MOST_COMMANDS])
        when = f"while {ran or 'a command'} ran"
        text = f"{'These files' if len(plan.doubtful) > 1 else 'This file'} changed {when}:\n{listed}\n"
        text += "If you edited them meanwhile, putting them back loses your edits."
        title = f"Undo: put back {counted(len(plan.doubtful), 'file')} that may be yours?"
        display: Json = {"kind": "confirm", "text": text, "yes": "Put back", "no": "Leave"}
        asking = self._engine.question(title, text, display)
        if asking is None:
            return
        async with aclosing(asking.run()) as events:
            async for event in events:
                yield event
        if asking.answer is None:
            self.withdrawn = True
            return
        chosen |= dict.fromkeys(plan.doubtful, "replace" if asking.answer.behavior == "allow" else "keep")

    def _display(self, plan: UndoPlan, conflict: Conflict) -> Json:
        prompt = next((one for one in self._engine.messages if one.id == plan.prompt_id), None)
        name = f"“{plain_line(prompt.text, 60)}”" if prompt is not None else "the prompt"
        when = f"after {name}" if self._again else f"before {name}"
        clashes = conflict.clashes
        if not clashes:
            text = f"You changed the file too, and it has no lines to compare. The other version is the one {when}."
        elif clashes[0].line == 0:
            text = "Both you and the prompt changed the whole file."
        else:
            text = "Both you and the prompt changed these lines."
        gone = "" if conflict.exists else f"{when}: there is no such file"
        return {
            "kind": "undo",
            "text": text,
            "now_label": "as it is now",
            "other_label": gone or when,
            "clashes": [_shown(clash) for clash in clashes],
            "exists": conflict.exists,
        }


def _shown(clash: LineClash) -> Json:
    return {"line": clash.line, "now": _cut(clash.now), "other": _cut(clash.replaced)}


def _cut(text: str) -> str:
    lines = text.split("\n")
    if len(lines) <= _MOST_LINES:
        return text
    return "\n".join([*lines[:_MOST_LINES], f"[{len(lines) - _MOST_LINES} more lines]"])


async def put_back(engine: Engine, arguments: str, again: bool) -> AsyncGenerator[Event, None]:
    """The work of /undo and /redo."""
    name = "redo" if again else "undo"
    word = arguments.strip().lower()
    if word and word not in _WORDS:
        yield fail(
            f"/{name} takes no arguments, or one of: keep (where you changed the same lines, keep yours) and replace "
            "(put the other version there)."
        )
        return
    if word:
        choices = UndoChoices(otherwise=_WORDS[word])
    else:
        asked = ConflictChoices(engine, again)
        async with aclosing(asked.run()) as events:
            async for event in events:
                yield event
        if asked.withdrawn:
            yield say("Cancelled. No file was changed.")
            return
        choices = asked.choices
    report = await (engine.files.redo(choices) if again else engine.files.undo(choices))
    if report.done:
        yield say(undo_text(engine, report, again=again))
        return
    hint = (
        ""
        if engine.messages or again
        else " This is a new session; --continue goes on with the last one in this folder."
    )
    yield fail(f"{report.text}{hint}")
