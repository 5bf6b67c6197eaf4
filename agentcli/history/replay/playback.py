"""A session as frames: the events of its transcript with the pace at which they came."""

from __future__ import annotations

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


def list_prompts(frames: Sequence[Frame]) -> list[Step]:
    """A step for each prompt; its value is the index of its frame."""
    steps, calls = list[Step](), 0
    starts = [index for index, frame in enumerate(frames) if frame.is_prompt]
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(frames)], strict=False), 1):
        calls = sum(isinstance(frame.event, ev.ToolStarted) for frame in frames[start:end])
        event = frames[start].event
        assert isinstance(event, ev.MessageAppended)
        steps.append(Step(str(number), event.message.typed, counted(calls, "call"), value=start))
    return steps


def find_frame(frames: Sequence[Frame], words: str, start: int) -> int | None:
    """Index of the next frame with these words after `start`, also from the beginning on; None: there is none."""
    wanted = words.casefold()
    order = (*range(start + 1, len(frames)), *range(start + 1))
    return next((index for index in order if wanted in _text_of(frames[index].event).casefold()), None)


def _text_of(event: ev.Event) -> str:
    match event:
        case ev.MessageAppended():
            return event.message.text
        case ev.BlockFinished(block=TextBlock(text=text)):
            return text
        case ev.ToolStarted():
            return event.title
        case ev.ToolFinished():
            return event.result.text
    return ""
