"""A session as frames: the events of its transcript with the pace at which they came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentcli.core import events as ev
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Origin, TextBlock, ThinkingBlock
from agentcli.core.text.format import counted
from agentcli.history.replay.tape import read_time
from agentcli.history.steps import Step
from agentcli.session.base import HistoryReader
from agentcli.session.load import LoadedSession, RecordReader

MAX_PAUSE = 3.0
"""Seconds between two events that are played at most."""
PIECE = 12
"""Characters of a streamed text that are shown at once."""
MAX_PIECES = 400
MAX_LABEL = 1_000
"""Characters of an answer that can be searched."""


@frozen
class Frame:
    event: ev.Event
    at: float
    """Seconds since the first frame, with longer pauses cut to `MAX_PAUSE`."""
    prompt: int
    """Number of its prompt, from 1; 0 before the first one."""

    @property
    def is_prompt(self) -> bool:
        message = self.event.message if isinstance(self.event, ev.MessageAppended) else None
        return message is not None and message.origin is Origin.PROMPT and not message.is_copy


def read_frames(records: Sequence[Json]) -> list[Frame]:
    """The events of the current branch, in order."""
    history = HistoryReader()
    reader = RecordReader(LoadedSession(Path("/replay.jsonl"), "replay"), history)
    times: dict[int, tuple[float, ev.Event]] = {}
    for record in records:
        reader.take(record)
        at = read_time(record)
        for event in reversed(history.events):
            if id(event) in times:
                break
            # With the event itself: an id may be used again after a rewind has dropped its event.
            times[id(event)] = (at, event)
    reader.settle()
    frames: list[Frame] = []
    now, before, prompt = 0.0, 0.0, 0
    for event in history.events:
        # The start of a reply is recorded with its first block.
        at = before if isinstance(event, ev.ReplyStarted) else times.get(id(event), (before, event))[0]
        now += min(max(0.0, at - before), MAX_PAUSE) if before else 0.0
        before = max(before, at)
        frame = Frame(event, now, prompt)
        if frame.is_prompt:
            prompt += 1
            frame = Frame(event, now, prompt)
        frames.append(frame)
    return frames


def list_pieces(frame: Frame) -> Iterator[ev.Event]:
    """The events with which a block of text streamed in before it was complete."""
    event = frame.event
    if not isinstance(event, ev.BlockFinished) or not isinstance(event.block, TextBlock | ThinkingBlock):
        return
    is_text = isinstance(event.block, TextBlock)
    text = event.block.text if isinstance(event.block, TextBlock) else event.block.thinking
    size = max(PIECE, len(text) // MAX_PIECES)
    made = ev.TextStreamed if is_text else ev.ThinkingStreamed
    for start in range(0, len(text), size):
        yield made(message_id=event.message_id, index=event.index, text=text[start : start + size])


def list_steps(frames: Sequence[Frame]) -> list[Step]:
    """A step for each prompt, with the answers and calls folded below it; its value is the index of its frame."""
    calls = Counter(frame.prompt for frame in frames if isinstance(frame.event, ev.ToolStarted))
    steps, parent = list[Step](), ""
    for index, frame in enumerate(frames):
        if frame.is_prompt:
            parent = str(index)
            text, detail = _text_of(frame.event), counted(calls[frame.prompt], "call")
            steps.append(Step(parent, text, detail, value=index))
        elif parent and (text := _text_of(frame.event).strip()):
            steps.append(Step(str(index), text[:MAX_LABEL], parent=parent, value=index))
    return steps


def _text_of(event: ev.Event) -> str:
    match event:
        case ev.MessageAppended(message=message) if message.origin in (Origin.PROMPT, Origin.QUEUED):
            return message.typed
        case ev.BlockFinished(block=TextBlock(text=text)):
            return text
        case ev.ToolStarted():
            return event.title
    return ""
