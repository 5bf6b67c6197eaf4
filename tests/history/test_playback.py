"""A recorded session as frames: every event of its transcript once, at the pace at which it came."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from agentcli.core import events as ev
from agentcli.core.messages import Json, TextBlock
from agentcli.history.replay.playback import MAX_PAUSE, list_pieces, list_steps, read_frames
from agentcli.history.replay.verify import read_session
from agentcli.session.load import load_session
from tests.support.record_sessions import FOLDER, SCENARIOS


def records_of(name: str) -> list[Json]:
    return read_session(FOLDER / f"{name}.jsonl")


def test_the_events_are_those_of_a_resumed_session() -> None:
    for name in SCENARIOS:
        shown = [frame.event for frame in read_frames(records_of(name))]
        assert shown == load_session(FOLDER / f"{name}.jsonl").history
        assert len(shown) > 5


def test_time_never_runs_backwards_and_long_pauses_are_cut() -> None:
    records = records_of("plain_answers")
    second = [index for index, one in enumerate(records) if one.get("origin") == "prompt"][1]
    for record in records[second:]:
        late = datetime.fromisoformat(record["timestamp"]) + timedelta(hours=2)
        record["timestamp"] = late.isoformat()
    frames = read_frames(records)
    assert all(one.at <= other.at <= one.at + MAX_PAUSE for one, other in pairwise(frames))
    assert MAX_PAUSE < frames[-1].at < 2 * MAX_PAUSE


def test_the_pieces_of_a_text_are_the_text() -> None:
    frames = read_frames(records_of("manual_compaction"))
    [long] = [one for one in frames if "A long text" in str(one.event) and isinstance(one.event, ev.BlockFinished)]
    pieces = list(list_pieces(long))
    assert 300 < len(pieces) < 500
    assert isinstance(long.event, ev.BlockFinished)
    assert isinstance(long.event.block, TextBlock)
    assert "".join(piece.text for piece in pieces if isinstance(piece, ev.TextStreamed)) == long.event.block.text
    assert list(list_pieces(frames[0])) == []


def test_prompts_have_their_answers_and_calls_below_them() -> None:
    frames = read_frames(records_of("parallel_tools") + records_of("todo_and_modes"))
    steps = list_steps(frames)
    prompts = [step for step in steps if not step.parent]
    assert [(step.label, step.detail) for step in prompts][:2] == [
        ("Compare @a.txt and b.txt", "4 calls"),
        ("Plan", "1 call"),
    ]
    assert [frames[step.value].prompt for step in prompts] == [1, 2, 3, 4, 5]
    [found] = [step for step in steps if "Both say hello" in step.label]
    assert (found.parent, frames[found.value].prompt) == (prompts[0].id, 1)
    assert any(step.parent and "three" in step.label for step in steps)
