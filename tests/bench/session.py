"""What keeping a conversation costs: a record, a turn's end on the disk, and reading a long one again."""

from __future__ import annotations

import time
from pathlib import Path

from agentcli.core.events import BlockFinished, LoopContinued, MessageAppended, ToolFinished
from agentcli.core.ids import RandomIds, SystemClock
from agentcli.core.messages import Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock
from agentcli.core.usage import Usage
from agentcli.session.base import SessionContext
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from tests.bench.measure import Measure, Report
from tests.bench.program import workshop

RECORDS = 20_000
RECORDS_A_TURN = 4
_RESULT = "a line of output that a tool gave, of a usual length\n" * 10


def session(runs: int, records: int = RECORDS) -> Report:
    appended: list[float] = []
    synced: list[float] = []
    loaded: list[float] = []
    for _run in range(max(1, min(runs, 5))):
        with workshop() as place:
            path = _write(Path(place.home), records, appended, synced)
            size = path.stat().st_size / 1024 / 1024
            began = time.perf_counter()
            found = load_session(path)
            loaded.append((time.perf_counter() - began) * 1000)
            assert len(found.messages) >= records // RECORDS_A_TURN * 2
    return Report(
        "session: the file of a conversation",
        (
            Measure("append one record", tuple(appended), "µs", budget=300),
            Measure("end of a turn, on the disk", tuple(synced), "ms"),
            Measure(f"load {records:,} records", tuple(loaded), "ms", budget=2000),
        ),
        (f"the file has {size:.1f} MB",),
    )


def _write(folder: Path, records: int, appended: list[float], synced: list[float]) -> Path:
    ids, clock = RandomIds(), SystemClock()
    store = SessionStore.create(SessionContext(folder, folder, clock, ids, "bench"), ids.new())
    store.record(MessageAppended(message=Message("user", (TextBlock("hi"),), ids.new(), Origin.PROMPT)))
    for turn in range(records // RECORDS_A_TURN):
        began = time.perf_counter()
        _record_turn(store, ids, f"toolu_{turn:06d}")
        appended.append((time.perf_counter() - began) * 1_000_000 / RECORDS_A_TURN)
        # The disk's own time would drown the rest if every turn of a long conversation waited for it.
        if turn % 50 == 0:
            began = time.perf_counter()
            store.sync()
            synced.append((time.perf_counter() - began) * 1000)
    assert store.path is not None
    store.close()
    return store.path


def _record_turn(store: SessionStore, ids: RandomIds, call_id: str) -> None:
    use = ToolUseBlock(call_id, "Read", {"file_path": "src/some/file.py"})
    result = ToolResultBlock(call_id, (TextBlock(_RESULT),))
    message_id = ids.new()
    store.record(BlockFinished(message_id=message_id, api_id="msg_1", model="m", index=0, block=use))
    reply = Message("assistant", (use,), message_id, Origin.REPLY, "msg_1", "m", "tool_use", Usage(10, 5))
    store.record(MessageAppended(message=reply))
    store.record(ToolFinished(tool_use_id=call_id, name="Read", result=result, summary="10 lines"))
    store.record(MessageAppended(message=Message("user", (result,), ids.new(), Origin.TOOL_RESULTS)))
    store.record(LoopContinued(transition="next_turn", turn=1))
