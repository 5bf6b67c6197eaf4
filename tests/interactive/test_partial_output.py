"""When an interruption speaks of partial output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentcli.core import events as ev
from agentcli.core.messages import TextBlock, ToolResultBlock, ToolUseBlock
from agentcli.interactive.wording import PartialOutput
from tests.support.tables import each_row

REQUEST = ev.RequestStarted(model="m", turn=1)
SUMMARY = ev.RequestStarted(model="m", turn=1, purpose="summary")
STREAMED = ev.TextStreamed(message_id="m", index=0, text="Well")
TEXT = ev.BlockFinished(message_id="m", api_id="a", model="m", index=0, block=TextBlock("Well"))

STARTED = ev.ToolStarted(tool_use_id="a", name="Bash", title="Bash", input={})
PRINTED = ev.ToolProgressed(tool_use_id="a", text="half")


def call(name: str) -> ev.BlockFinished:
    return ev.BlockFinished(message_id="m", api_id="a", model="m", index=1, block=ToolUseBlock(name, "Bash", {}))


def end(name: str, outcome: str = "done") -> ev.ToolFinished:
    return ev.ToolFinished(tool_use_id=name, name="Bash", result=ToolResultBlock(name, ()), outcome=outcome)


@each_row(
    ("events", "exists"),
    [
        ([REQUEST], False),
        ([REQUEST, STREAMED], True),
        ([REQUEST, STREAMED, SUMMARY], True),
        ([REQUEST, STREAMED, call("a"), end("a"), REQUEST], False),
        ([TEXT, call("a"), end("a")], False),
        ([TEXT, call("a"), call("b"), end("a")], True),
        ([TEXT, call("a"), call("b"), end("a", "interrupted"), end("b")], True),
        ([TEXT, call("a"), end("a"), TEXT], True),
        ([REQUEST, call("a"), STARTED], False),
        ([REQUEST, call("a"), STARTED, PRINTED], True),
        ([call("a"), end("a", "interrupted")], False),
        ([call("a"), replace(end("a", "interrupted"), display={"kind": "text", "text": "half"})], True),
    ],
)
def test_only_what_belongs_to_the_unfinished_turn_is_partial(events: Sequence[ev.Event], exists: bool) -> None:
    partial = PartialOutput()
    for event in events:
        partial.take(event)
    assert partial.exists is exists
