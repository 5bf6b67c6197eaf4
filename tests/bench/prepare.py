"""What it costs to prepare a request in a long conversation: the steps, the estimate, and the messages themselves."""

from __future__ import annotations

import time

from agentcli.agent.context.collapse import Collapse, find_spans
from agentcli.assemble.context_pipeline import clearable_tools
from agentcli.context.old_results import Microcompact, Snip, ToolResultBudget
from agentcli.context.steps import ContextState, Pipeline
from agentcli.context.view import ContextView
from agentcli.core.messages import Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock
from agentcli.core.usage import Usage
from tests.bench.measure import Measure, Report

MESSAGES = 2_000
TURNS = 40
"""That are measured at the end of the conversation."""
_USABLE = 180_000


def prepare(runs: int, messages: int = MESSAGES) -> Report:
    first: list[float] = []
    steady: list[float] = []
    edited: list[float] = []
    for _run in range(max(1, runs)):
        conversation = _Conversation()
        while len(conversation.log) < messages - 2 * TURNS:
            conversation.turn()
        first.append(conversation.prepare(estimate=90_000))
        conversation.stage()
        for _turn in range(TURNS):
            conversation.turn()
            steady.append(conversation.prepare(estimate=90_000))
        before = conversation.edits
        edited.append(conversation.prepare(estimate=170_000))
        assert conversation.edits > before
    return Report(
        f"prepare: a request in a conversation of {messages:,} messages",
        (
            Measure("a turn", tuple(steady), budget=20),
            Measure("the first, after a resume", tuple(first)),
            Measure("one that clears old results", tuple(edited)),
        ),
        (f"{len(conversation.log):,} messages, {conversation.characters / 1e6:.1f} million characters of results",),
    )


class _Conversation:
    """Reads, searches and edits some files again and again, with a prompt now and then."""

    def __init__(self) -> None:
        self.log: list[Message] = []
        self.characters = 0
        self.edits = 0
        self._turns = 0
        self._view = ContextView("The instructions of the project.\n" * 20)
        self._collapse = Collapse()
        self._pipeline = Pipeline(
            [
                ToolResultBudget(lambda name, _text: f"/results/{name}"),
                Snip(),
                Microcompact(clearable_tools(), threshold=0.6),
                self._collapse,
            ]
        )

    def turn(self) -> None:
        number = self._turns
        self._turns += 1
        if number % 20 == 0:
            self.log.append(Message("user", (TextBlock(f"Prompt {number}"),), f"p{number}", Origin.PROMPT))
        name, input = (
            ("Read", {"file_path": f"/src/{number % 97}.py"}),
            ("Grep", {"pattern": f"name_{number}"}),
            ("Bash", {"command": f"make target_{number}"}),
        )[number % 3]
        text = "\n".join(f"{line}\tvalue_{line} = compute({number}, {line})" for line in range(1, 41 + number % 60))
        self.characters += len(text)
        use = ToolUseBlock(f"toolu_{number}", name, input)
        usage = Usage(3, 80, 80_000 + number, 400)
        result = ToolResultBlock(use.id, (TextBlock(text),))
        self.log.append(Message("assistant", (use,), f"a{number}", Origin.REPLY, usage=usage))
        self.log.append(Message("user", (result,), f"r{number}", Origin.TOOL_RESULTS))

    def prepare(self, estimate: int) -> float:
        """In milliseconds."""
        began = time.perf_counter()
        self._view.estimate(self.log, 10_000)
        running = self._pipeline.run(
            self._view,
            self.log,
            lambda freed: ContextState(estimate=estimate - freed, usable=_USABLE, cached=estimate - 2_000),
        )
        events = list(running)
        self._view.estimate(self.log, 10_000)
        self._view.wire(self.log)
        took = (time.perf_counter() - began) * 1000
        self.edits += sum(len(event.edits) for event in events)
        return took

    def stage(self) -> None:
        """Summaries of all that may be summarised, as if the small model had made them."""
        for span in find_spans(self._view.edits.shown(self.log), lambda _message: False, self._view.estimator.message):
            self._collapse.stage(span, "What was done in these turns.")
