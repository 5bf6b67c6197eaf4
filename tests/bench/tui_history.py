"""Long conversations on the disk, for the benches that resume them."""

from __future__ import annotations

from pathlib import Path

from agentcli.core.events import BlockFinished, Event, LoopContinued, MessageAppended, ToolFinished
from agentcli.core.ids import RandomIds, SystemClock
from agentcli.core.messages import Block, Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock
from agentcli.core.usage import Usage
from agentcli.session.base import SessionContext
from agentcli.session.store import SessionStore
from tests.bench.loopback import MODEL
from tests.bench.program import Workshop

MESSAGES_A_TURN = 4
RECORDS_A_TURN = 8
LAST_WORDS = "The very last words of it"
_OUTPUT = "a line of output that a tool gave, of a usual length\n" * 10
_ANSWER = """The end of the slice was counted **from the wrong side**, in `parser.py`:

- `head` keeps what it promises now
- `tail` was right before, its tests are unchanged

```python
def head(text: str, end: int) -> str:
    return text[0:end]  # not end - 1
```

"""


def write_session(place: Workshop, turns: int, compacted_every: int = 0) -> str:
    """Its id. A turn is a prompt, a call of a tool, its result and an answer. `compacted_every`: after so many turns
    the conversation is compacted; 0: never."""
    ids = RandomIds()
    state = Path(place.home) / ".local/state/agentcli"
    store = SessionStore.create(SessionContext(state, Path(place.project), SystemClock(), ids, "bench"), ids.new())
    for turn in range(turns):
        for event in turn_events(ids, turn, LAST_WORDS if turn == turns - 1 else f"Turn {turn} is done."):
            store.record(event)
        if compacted_every and (turn + 1) % compacted_every == 0:
            summary = Message("user", (TextBlock(_ANSWER),), ids.new(), Origin.SUMMARY)
            meta = {"trigger": "auto", "messages": [summary.id]}
            store.record(MessageAppended(message=Message("user", (), ids.new(), Origin.BOUNDARY, meta=meta)))
            store.record(MessageAppended(message=summary))
    store.close()
    return store.session_id


def turn_events(ids: RandomIds, turn: int, words: str, output: str = _OUTPUT, prompt: str = "") -> list[Event]:
    call = ToolUseBlock(f"toolu_{turn:06d}", "Read", {"file_path": f"src/some/file{turn}.py"})
    result = ToolResultBlock(call.id, (TextBlock(output),))
    asked = TextBlock(prompt or f"And what about part {turn}?")
    results = Message("user", (result,), ids.new(), Origin.TOOL_RESULTS)
    return [
        MessageAppended(message=Message("user", (asked,), ids.new(), Origin.PROMPT)),
        *_reply(ids, turn, call, "tool_use"),
        ToolFinished(tool_use_id=call.id, name="Read", result=result, summary="10 lines"),
        MessageAppended(message=results),
        LoopContinued(transition="next_turn", turn=1),
        *_reply(ids, turn, TextBlock(_ANSWER + words), "end_turn"),
    ]


def _reply(ids: RandomIds, turn: int, block: Block, stop: str) -> list[Event]:
    message_id, api_id = ids.new(), f"msg_{turn:06d}_{stop}"
    message = Message("assistant", (block,), message_id, Origin.REPLY, api_id, MODEL, stop, Usage(10, 5))
    return [
        BlockFinished(message_id=message_id, api_id=api_id, model=MODEL, index=0, block=block),
        MessageAppended(message=message),
    ]
