"""--output-format text: the last answer on standard output, all else on standard error."""

from __future__ import annotations

import json

from agentcli.core.events import Event, Result
from agentcli.core.plaintext import plain_text
from agentcli.headless.output import Notices
from agentcli.headless.streams import Writer

_ABORTED = ("aborted_streaming", "aborted_tools")


class TextOutput:
    def __init__(self, writer: Writer, notices: Notices, to_terminal: bool) -> None:
        self._writer = writer
        self._notices = notices
        self._to_terminal = to_terminal

    async def show(self, event: Event) -> None:
        if not isinstance(event, Result):
            self._notices.show(event)
            return
        text = _answer(event)
        if text:
            if self._to_terminal:
                text = plain_text(text)
            await self._writer.write(f"{text}\n".encode(errors="replace"))
        if event.terminal in _ABORTED:
            self._notices.say("Stopped before the answer was complete. agentcli -p -c 'PROMPT' goes on from here.")
        elif event.is_error:
            for error in event.errors:
                self._notices.say(error)

    async def fail(self, message: str) -> None:
        """Nothing: the message is on standard error already."""


def _answer(result: Result) -> str:
    if result.structured_output is not None:
        return json.dumps(result.structured_output, ensure_ascii=False, indent=2)
    # On an error the text may be the error itself, which belongs on standard error only.
    if result.is_error and result.text in ("", *result.errors, "\n".join(result.errors)):
        return ""
    return result.text.rstrip("\n")
