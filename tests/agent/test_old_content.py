"""What no request shows any more is kept compressed, and is there as it was for whoever wants it."""

from __future__ import annotations

from agentcli.agent.conversation_log import OldContent
from agentcli.core.append_only import AppendOnly
from agentcli.core.compressed import Compressed
from agentcli.core.events import ContextEdited, Event, MessageAppended, ReplyStarted
from agentcli.core.messages import (
    Block,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
)

LINES = "".join(f"    a line of source code, number {number}\n" for number in range(600))
NEXT_TURN = ReplyStarted(message_id="reply", api_id="msg_1", model="m")


class Conversation:
    def __init__(self, resumed: tuple[Message, ...] = ()) -> None:
        self.log: AppendOnly[Message] = AppendOnly(resumed)
        self.old = OldContent(resumed)

    def add(self, *messages: Message) -> None:
        for message in messages:
            self.log = self.log.adding(message)
            self.old.take(MessageAppended(message=message), self.log)

    def take(self, *events: Event) -> None:
        for event in events:
            self.old.take(event, self.log)

    def packed(self) -> list[str]:
        """The ids of messages whose results or texts are compressed."""
        return [message.id for message in self.log if any(map(_is_packed, message.content))]


def _is_packed(block: Block) -> bool:
    parts = block.content if isinstance(block, ToolResultBlock) else (block,)
    return any(
        isinstance(part, TextBlock) and isinstance(TextBlock.__dict__["text"]._slot.__get__(part), Compressed)
        for part in parts
    )


def result(number: int) -> Message:
    block = ToolResultBlock(f"c{number}", (TextBlock(f"{number}\n{LINES}"),))
    return Message("user", (block,), f"m{number}", Origin.TOOL_RESULTS)


def boundary(number: int) -> Message:
    return Message("user", (), f"b{number}", Origin.BOUNDARY)


def test_cleared_results_are_compressed_turn_by_turn_and_read_as_before() -> None:
    here = Conversation()
    here.add(*map(result, range(5)))
    edits = [{"kind": "replace", "target": f"m{number}:0", "text": "[cleared]"} for number in (0, 1, 2)]

    here.take(ContextEdited(edits=edits, step="microcompact", freed_tokens=1, text=""))
    assert here.packed() == []
    here.take(NEXT_TURN)
    assert here.packed() == ["m0", "m1"]
    here.take(NEXT_TURN)
    assert here.packed() == ["m0", "m1", "m2"]

    assert [message.tool_results[0].text for message in here.log] == [f"{number}\n{LINES}" for number in range(5)]
    assert list(here.log) == [result(number) for number in range(5)]


def test_what_is_before_a_compaction_is_compressed_and_what_it_repeats_is_not() -> None:
    here = Conversation()
    first, repeated = result(1), result(2)
    here.add(first, repeated, boundary(3), Message("user", repeated.content, "copy", Origin.TOOL_RESULTS))

    here.take(NEXT_TURN, NEXT_TURN)

    assert here.packed() == ["m1"]


def test_a_resumed_log_is_compressed_up_to_its_last_compaction() -> None:
    here = Conversation((result(1), boundary(2), result(3), boundary(4), result(5)))

    here.take(*[NEXT_TURN] * 3)

    assert here.packed() == ["m1", "m3"]


def test_many_blocks_that_wait_are_compressed_in_a_bounded_number_of_turns() -> None:
    here = Conversation()
    here.add(*map(result, range(200)), boundary(200), user_message("Go on", "p", Origin.PROMPT))

    turns = 0
    while len(here.packed()) < 200:
        here.take(NEXT_TURN)
        turns += 1

    assert 10 < turns < 80


def test_calls_that_nothing_shows_any_more_are_compressed_too() -> None:
    call = ToolUseBlock("c1", "Write", {"file_path": "x.py", "content": LINES})
    here = Conversation()
    here.add(Message("assistant", (call,), "m1", Origin.REPLY), boundary(2))

    here.take(NEXT_TURN)

    assert isinstance(ToolUseBlock.__dict__["input"]._slot.__get__(call), Compressed)
    assert call.input == {"file_path": "x.py", "content": LINES}
