"""--output-format text: the last answer on standard output, everything else on standard error."""

from __future__ import annotations

import json

from agentcli.core.events import Event, Result
from agentcli.core.text.plaintext import json_for_terminal, plain_text, spell_hidden
from agentcli.headless.notices import ended_summary
from agentcli.headless.output import Notices
from agentcli.headless.streams import StreamWriter
from agentcli.interactive.wording import ABORTED


class TextOutput:
    def __init__(self, writer: StreamWriter, notices: Notices, to_terminal: bool) -> None:
        self._writer = writer
        self._notices = notices
        self._to_terminal = to_terminal

    async def show(self, event: Event) -> None:
        if not isinstance(event, Result):
            self._notices.show(event)
            return
        text = _answer(event, self._to_terminal)
        if text:
            await self._writer.write(f"{text}\n".encode(errors="replace"))
        if ended := [task for task in event.background_tasks if task["status"] == "stopped"]:
            self._notices.say(ended_summary(ended))
        if event.terminal in ABORTED:
            self._notices.say("Stopped before the answer was complete. agentcli -p -c 'PROMPT' continues from here.")
        elif event.is_error:
            for error in event.errors:
                self._notices.say(error)

    async def fail(self, message: str) -> None:
        """Do nothing: the message is already on standard error."""


def _answer(result: Result, to_terminal: bool) -> str:
    """The answer without control sequences, also for a pipe, whose output often ends up on a terminal. JSON formats
    have it unchanged. Hidden characters are kept in a pipe, where the text may be data."""
    if result.structured_output is not None:
        return json_for_terminal(json.dumps(result.structured_output, ensure_ascii=False, indent=2))
    text = plain_text(result.text).rstrip("\n")
    return spell_hidden(text) if to_terminal else text
