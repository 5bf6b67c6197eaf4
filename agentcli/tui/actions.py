"""Work that keys and sent lines start on the chat screen, outside of submissions: local slash commands, the palette,
rewinding, copying."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from agentcli.commands.front_end import Choice
from agentcli.core.errors import AgentError
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import is_lone_key, plain_line, plain_text
from agentcli.interactive.drafts.draft import Draft
from agentcli.interactive.submission import parse_draft, sends_prompt
from agentcli.tui.front_end import AppFrontEnd

if TYPE_CHECKING:
    from agentcli.commands.base import Command
    from agentcli.tui.app import AgentApp
    from agentcli.tui.chat import ChatScreen

_MAX_PROMPT = 40


class Actions:
    """Starts work in workers; `say` shows its text in the transcript."""

    def __init__(self, app: AgentApp, chat: ChatScreen) -> None:
        self._app = app
        self._chat = chat
        self.front_end = AppFrontEnd(app, chat)

    def start_local(self, draft: Draft) -> bool:
        """Start what a sent line means outside of a submission. False: the session driver takes the line."""
        if is_lone_key(draft.text):
            # An API key pasted into the prompt: it must neither be sent nor shown.
            self.start(self._app.model_connection.open(key=draft.text))
            return True
        from agentcli.commands.line import CommandLine

        line = parse_draft(draft, self._chat.session.engine)
        if sends_prompt(line):
            # While no model is reachable, connect one first.
            if self._app.model_connection.is_unreachable:
                self.start(self._app.model_connection.open(draft))
            return self._app.model_connection.is_unreachable
        if not isinstance(line, CommandLine) or line.command is None:
            return False
        if not line.command.is_local(line.arguments, self.front_end):
            return False
        self.start(self._run(line.command, line.arguments))
        return True

    async def _run(self, command: Command, arguments: str) -> None:
        from agentcli.core.events import NoticeRaised

        engine = await self._app.opener.wait_for_engine() if command.needs_engine else self._chat.session.engine
        async for event in command.load()(engine, arguments, self.front_end):
            if isinstance(event, NoticeRaised):
                self._chat.transcript.follow()  # a search may have scrolled away from the end
                self.say(event.text, event.level)

    def run(self, name: str) -> None:
        """Run the action of a key: one of this class, or the slash command of that name."""
        if name == "palette":
            self.start(self._palette())
        elif name == "rewind":
            self.start(self._rewind())
        elif name == "keys":
            self.start(self._keys())
        else:
            self.front_end.send(f"/{name}")

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(self._guarded(work), exit_on_error=False, group="actions")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except AgentError as error:
            self.say(str(error), "error")
        except Exception as error:
            import logging

            logging.getLogger("agentcli").exception("an action failed")
            self.say(f"agentcli itself failed: {type(error).__name__}: {error}", "error")

    def copy_selection(self, text: str) -> None:
        async def copy() -> None:
            self._chat.hint(f"Selection: {await self.front_end.copy(text)}")

        self.start(copy())

    def say(self, text: str, level: str = "info") -> None:
        self._chat.session.note(text, level)

    async def _keys(self) -> None:
        if usage := await self.front_end.page("help", True):
            self.front_end.prefill(f"{usage.split()[0]} ")

    async def _palette(self) -> None:
        from agentcli.commands.registry import find, rows

        engine = self._chat.session.engine
        choices = [Choice(command.name, command.usage, command.described) for command in rows(engine)]
        name = await self.front_end.choose("Commands", choices)
        command = find(name, engine) if name is not None else None
        if command is None:
            return
        if command.argument_hint.startswith("<"):
            self.front_end.prefill(f"/{command.name} ")
        else:
            self.front_end.send(f"/{command.name}")

    async def _rewind(self) -> None:
        """Esc Esc on an empty prompt: edit the last prompt, or undo the latest changes (maybe of an older one)."""
        from agentcli.agent.attachments.undo_notes import prompts_of_submission

        engine = await self._app.opener.wait_for_engine()
        changes = await engine.files.changes()
        last = next((m for m in reversed(engine.recent_messages) if m.origin.value == "prompt"), None)
        rows = []
        if last is not None:
            rows.append(Choice("edit", "Edit the last prompt and send it again", plain_text(last.text[:200])))
        if changes:
            names = ", ".join(str(change.path) for change in changes[:4])
            prompt_id = (await engine.files.undo_plan()).prompt_id
            prompts = prompts_of_submission(await engine.messages_with(prompt_id), prompt_id)
            made_by = f" of “{plain_line(prompts[0], _MAX_PROMPT)}”" if prompts else ""
            label = f"Undo the changes{made_by} in {counted(len(changes), 'file')}"
            rows.append(Choice("undo", label, plain_text(names)))
        if not rows:
            self.say("Nothing to go back to yet.")
            return
        picked = await self.front_end.choose("Go back", rows)
        if picked == "edit" and last is not None:
            self.front_end.prefill(plain_text(last.text))
        elif picked == "undo":
            self.front_end.send("/undo")
