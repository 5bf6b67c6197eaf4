"""How a sent draft becomes a submission, and what waits for the running one: prompts in the queue, and questions to the
user, asked one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.interactive.view import Question, View

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.commands.line import Line
    from agentcli.interactive.drafts import Draft


def is_prompt(draft: Draft, engine: Engine | None) -> bool:
    """Whether a draft is for the model: neither a slash command nor a shell line."""
    if not draft.text.lstrip().startswith(("/", "!", "# ")):
        # Importing the commands imports the engine, and the first prompt must not wait for that.
        return True
    from agentcli.commands.line import PromptLine

    return isinstance(parse_draft(draft, engine), PromptLine)


def parse_draft(draft: Draft, engine: Engine | None) -> Line:
    """What the typed line of a draft means."""
    from agentcli.commands.line import parse_line

    return parse_line(draft.text, engine)


def needs_model(draft: Draft, engine: Engine | None) -> bool:
    """Whether a draft is a prompt, or a command that sends one."""
    return sends_prompt(parse_draft(draft, engine))


def sends_prompt(line: Line) -> bool:
    """Whether a line is a prompt, or a command that sends one."""
    from agentcli.commands.line import CommandLine, PromptLine

    if isinstance(line, CommandLine):
        return line.command is not None and line.command.kind == "prompt"
    return isinstance(line, PromptLine)


async def submit(engine: Engine, draft: Draft | None) -> AsyncGenerator[ev.Event, None]:
    """The submission of a draft; None: one that reports ended background tasks to the model. Images are read in a
    thread."""
    if draft is None:
        return engine.wake()
    from agentcli.commands.line import CommandLine, PromptLine, ShellLine, parse_line, run_command

    if draft.text.lstrip().startswith("/"):
        await engine.live_files.refresh()
    line = parse_draft(draft, engine)
    if not sends_prompt(line):
        engine.record_shown(ev.CommandEntered(text=draft.text))
    if draft.pieces and not isinstance(line, PromptLine):
        line = parse_line(draft.expanded(), engine)
    match line:
        case ShellLine():
            return engine.shell(line.command)
        case CommandLine():
            return run_command(engine, line.name, line.arguments, draft.text)
        case PromptLine():
            content = await asyncio.to_thread(draft.content) if draft.images else draft.expanded()
            return engine.submit(content, draft.text, mentions=draft.text)


@dataclass(slots=True)
class _Waiting:
    draft: Draft
    queued_id: str = ""
    """The prompt's id in the engine's queue; "" for a draft that waits here."""


class WaitingPrompts:
    def __init__(self, changed: Callable[[list[str]], None]) -> None:
        """`changed` is called with the texts of all waiting drafts."""
        self._changed = changed
        self._waiting: list[_Waiting] = []

    def add(self, engine: Engine, draft: Draft, *, for_model: bool) -> None:
        waiting = _Waiting(draft)
        if for_model and not draft.images and all(one.queued_id for one in self._waiting):
            waiting.queued_id = engine.enqueue(draft.expanded(), "next", draft.text)
        self._set([*self._waiting, waiting])

    def take_first(self, engine: Engine) -> Draft | None:
        return self._take_one(engine, 0)

    def take_last(self, engine: Engine) -> Draft | None:
        return self._take_one(engine, -1)

    def _take_one(self, engine: Engine, place: int) -> Draft | None:
        while self._waiting:
            waiting = self._waiting.pop(place)
            self._set(self._waiting)
            if not waiting.queued_id or engine.queue.remove(waiting.queued_id) is not None:
                return waiting.draft
        return None

    def take_all(self, engine: Engine | None) -> list[Draft]:
        waiting = self._waiting
        if engine is not None:
            queued = {prompt.id for prompt in engine.queue.take()}
            waiting = [one for one in waiting if not one.queued_id or one.queued_id in queued]
        self._set([])
        return [one.draft for one in waiting]

    def drop_taken(self, engine: Engine) -> None:
        """Forget prompts that the loop has taken."""
        if self._waiting:
            queued = set(engine.queue.ids)
            kept = [one for one in self._waiting if not one.queued_id or one.queued_id in queued]
            if len(kept) != len(self._waiting):
                self._set(kept)

    def _set(self, waiting: list[_Waiting]) -> None:
        self._waiting = waiting
        self._changed([one.draft.text for one in waiting])


def is_of_server(event: ev.Event) -> bool:
    """Whether an MCP server asks for input, for an address to be opened, or for a reply of the model."""
    return isinstance(event, ev.PermissionRequested) and str(event.display.get("kind", "")).startswith("mcp_")


class PendingQuestions:
    def __init__(self, view: View) -> None:
        self._view = view
        self._questions: dict[str, Question] = {}
        self._concurrent: set[str] = set()
        """Ids of questions asked by commands or agents beside the submission."""
        self._open = ""
        """Id of the question on the screen."""

    def add(self, event: Question, *, concurrent: bool = False) -> None:
        self._questions[event.request_id] = event
        if concurrent:
            self._concurrent.add(event.request_id)
        self.ask_next()

    def ask_next(self) -> None:
        if not self._open and self._questions:
            event = next(iter(self._questions.values()))
            self._open = event.request_id
            self._view.ask(event, len(self._questions) - 1)
        elif self._questions:
            self._view.show_waiting(len(self._questions) - 1)

    def agent_of(self, request_id: str) -> str:
        """The agent that asks; "" is the main one."""
        event = self._questions.get(request_id)
        return event.agent if event is not None else ""

    def remove(self, request_id: str) -> None:
        """Forget a question that the user answered. The next one is asked by `ask_next`."""
        self._questions.pop(request_id, None)
        self._concurrent.discard(request_id)
        if self._open == request_id:
            self._open = ""

    def withdraw(self, request_id: str) -> None:
        """Close a question that needs no answer any more."""
        self.remove(request_id)
        self._view.withdraw(request_id)
        self.ask_next()

    def withdraw_compactions(self) -> None:
        for request_id, event in list(self._questions.items()):
            if isinstance(event, ev.CompactionProposed):
                self.withdraw(request_id)

    def end_submission(self) -> None:
        """Close the submission's questions; those of commands and agents beside it stay."""
        for request_id in [id for id in self._questions if id not in self._concurrent]:
            self.remove(request_id)
            self._view.withdraw(request_id)
        self.ask_next()

    def clear(self) -> None:
        self._questions, self._concurrent, self._open = {}, set(), ""
