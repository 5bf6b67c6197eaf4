"""Questions to the user, asked one at a time."""

from __future__ import annotations

from agentcli.core import events as ev
from agentcli.interactive.view import Question, View


class PendingQuestions:
    def __init__(self, view: View) -> None:
        self._view = view
        self._questions: dict[str, Question] = {}
        self._beside: set[str] = set()
        """Ids of questions asked by commands or agents beside the submission."""
        self._open = ""
        """Id of the question on the screen."""

    def add(self, event: Question, *, beside: bool = False) -> None:
        self._questions[event.request_id] = event
        if beside:
            self._beside.add(event.request_id)
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
        self._beside.discard(request_id)
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
        for request_id in [id for id in self._questions if id not in self._beside]:
            self.remove(request_id)
            self._view.withdraw(request_id)
        self.ask_next()

    def clear(self) -> None:
        self._questions, self._beside, self._open = {}, set(), ""
