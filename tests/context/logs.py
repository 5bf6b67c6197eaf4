"""Conversations for tests of the steps: by hand, and any that a loop could have made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from agentcli.context.steps import ContextState, Pipeline
from agentcli.context.view import ContextView
from agentcli.core.events import ContextEdited
from agentcli.core.messages import (
    RESULT_DATA,
    Block,
    ImageBlock,
    Json,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from agentcli.core.usage import Usage
from tests.support.validate import problems

PIXEL = ImageBlock({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="})


def numbered(first: int, last: int, word: str = "value = compute(value)") -> str:
    """As Read shows lines."""
    return "\n".join(f"{number}\t{word} {number}" for number in range(first, last + 1))


class Talk:
    """A conversation, written down call by call."""

    def __init__(self) -> None:
        self.log: list[Message] = []

    def _add(self, role: str, content: Sequence[Block], origin: Origin, usage: Usage | None = None) -> str:
        id = f"m{len(self.log)}"
        self.log.append(
            Message("user" if role == "user" else "assistant", tuple(content), id, origin, "", "", None, usage)
        )
        return id

    def read_part(self, input: Json, result: str) -> str:
        """A reading of a part of a file. Returns the id of the result's block."""
        block = self.call("Read", input, result)
        id = self.log[-1].tool_results[0].tool_use_id
        self.log[-1] = replace(self.log[-1], meta={RESULT_DATA: {id: {"partial": True}}})
        return block

    def prompt(self, text: str, *pictures: ImageBlock) -> str:
        return self._add("user", (TextBlock(text), *pictures), Origin.PROMPT)

    def answer(self, text: str = "Done.", usage: Usage | None = None) -> str:
        return self._add("assistant", (TextBlock(text),), Origin.REPLY, usage)

    def call(self, name: str, input: Json, result: str | Sequence[Block], *, is_error: bool = False) -> str:
        """Returns the id of the result's block."""
        return self.calls((name, input, result, is_error))[0]

    def calls(self, *each: tuple[str, Json, str | Sequence[Block], bool]) -> list[str]:
        uses, results = [], []
        for number, (name, input, result, is_error) in enumerate(each):
            id = f"toolu_{len(self.log)}_{number}"
            uses.append(ToolUseBlock(id, name, input))
            parts = (TextBlock(result),) if isinstance(result, str) else tuple(result)
            results.append(ToolResultBlock(id, parts, is_error))  # type: ignore[arg-type]
        self._add("assistant", uses, Origin.REPLY)
        message = self._add("user", results, Origin.TOOL_RESULTS)
        return [f"{message}:{number}" for number in range(len(results))]


def shown_block(view: ContextView, log: Sequence[Message], block: str) -> Block:
    """As a request shows it, for views that drop nothing."""
    message_id, _colon, number = block.rpartition(":")
    return next(message for message in view.messages(log) if message.id == message_id).content[int(number)]


def shown_text(view: ContextView, log: Sequence[Message], block: str) -> str:
    found = shown_block(view, log, block)
    assert isinstance(found, TextBlock | ToolResultBlock)
    return found.text


def refused(view: ContextView, log: Sequence[Message]) -> list[str]:
    return problems({"model": "m", "max_tokens": 10, "messages": list(view.wire(log))})


def ran(
    pipeline: Pipeline, view: ContextView, log: Sequence[Message], state: Callable[[int], ContextState]
) -> list[ContextEdited]:
    """Run to its end, as a consumer does that does not go away."""
    return list(pipeline.run(view, log, state))


# ------------------------------------------------------------------------------------------------- any conversation

_PATHS = st.sampled_from(["/a.py", "/b.py", "a.py"])
_BODIES = st.one_of(
    st.builds(numbered, st.integers(1, 5), st.integers(6, 300)),
    st.sampled_from(["ok", "", " \n", "x" * 500, "line of output\n" * 400, "nul \x00 " * 100, "漢字" * 800]),
)
_INPUTS: dict[str, st.SearchStrategy[Json]] = {
    "Read": st.builds(lambda path: {"file_path": path}, _PATHS),
    "Write": st.builds(lambda path: {"file_path": path, "content": "x\n" * 50}, _PATHS),
    "Edit": st.builds(lambda path: {"file_path": path, "old_string": "a", "new_string": "b"}, _PATHS),
    "Bash": st.sampled_from([{"command": "make"}, {"command": "cd sub && ls"}, {"command": "ls", "description": "x"}]),
    "Grep": st.just({"pattern": "x", "path": None}),
    "mcp__other__look": st.just({}),
}
_USAGES = st.one_of(st.none(), st.builds(lambda tokens: Usage(tokens, 50), st.integers(1, 90_000)))


@st.composite
def talks(draw: st.DrawFn) -> list[Message]:
    """Logs as a loop makes them: parallel calls, errors, pictures, thinking, answers in between, and an end anywhere
    between a prompt and an answer."""
    talk = Talk()
    for _exchange in range(draw(st.integers(1, 4))):
        pictures = [PIXEL] * draw(st.integers(0, 1))
        talk.prompt(draw(st.sampled_from(["do it", "and now? ", "ÄÖ 漢"])), *pictures)
        for _turn in range(draw(st.integers(0, 5))):
            _turn_of(draw, talk)
        talk.answer(draw(st.sampled_from(["Done.", "Done. \n"])), draw(_USAGES))
    talk.prompt("the very last words")
    for _turn in range(draw(st.integers(0, 8))):
        _turn_of(draw, talk)
    return talk.log


def _turn_of(draw: st.DrawFn, talk: Talk) -> None:
    uses: list[Block] = []
    results: list[Block] = []
    for number in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(_INPUTS)))
        id = f"toolu_{len(talk.log)}_{number}"
        uses.append(ToolUseBlock(id, name, draw(_INPUTS[name])))
        parts: list[TextBlock | ImageBlock | UnknownBlock] = [TextBlock(draw(_BODIES))]
        if draw(st.integers(0, 5)) == 0:
            parts.append(PIXEL)
        results.append(ToolResultBlock(id, tuple(parts), draw(st.integers(0, 4)) == 0))
    thought: list[Block] = [ThinkingBlock("hm", "signed")] if draw(st.booleans()) else []
    talk._add("assistant", [*thought, *uses], Origin.REPLY, draw(_USAGES))
    talk._add("user", results, Origin.TOOL_RESULTS)
    if draw(st.integers(0, 6)) == 0:
        talk._add("user", [TextBlock("[Plan mode is off.]")], Origin.ATTACHMENT)
