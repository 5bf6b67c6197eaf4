"""Whether an interruption leaves partial output: text of an unfinished reply, or calls that did not end."""

from __future__ import annotations

from agentcli.core import events as ev
from agentcli.core.messages import TextBlock, ToolUseBlock


class PartialOutput:
    """Follows the events of one submission, live or from a session file, which has no `RequestStarted` events."""

    def __init__(self) -> None:
        self.exists = False
        self._open: set[str] = set()
        """Ids of the calls of the current turn that have no result."""
        self._is_cut = False
        """Whether a call of the current turn was interrupted."""

    def take(self, event: ev.Event) -> None:
        match event:
            case ev.RequestStarted(purpose="turn"):
                self.exists = self._is_cut = False
                self._open.clear()
            case ev.TextStreamed(text=text) | ev.BlockFinished(block=TextBlock(text=text)):
                self.exists = self.exists or bool(text.strip())
            case ev.BlockFinished(block=ToolUseBlock(id=call)):
                self._open.add(call)
            case ev.ToolStarted() | ev.ToolProgressed(text=""):
                self.exists = self.exists or event.agent != ev.USER_AGENT
            case ev.ToolProgressed():
                self.exists = True
            case ev.ToolFinished():
                self._finish(event)

    def _finish(self, event: ev.ToolFinished) -> None:
        self._open.discard(event.tool_use_id)
        self._is_cut = self._is_cut or event.outcome == "interrupted"
        if not self._open:
            # The turn is complete, and the next reply begins.
            self.exists, self._is_cut = self._is_cut, False
