"""Generated conversations: the events that an engine would record, and the log that it would hold in memory."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcli.core.events import (
    BlockFinished,
    Event,
    MessageAppended,
    ReplyTombstoned,
    RequestRepaired,
    RequestStarted,
    Result,
    TextStreamed,
    ToolFinished,
)
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import (
    Block,
    ImageBlock,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from agentcli.core.usage import Usage
from agentcli.session.base import SessionContext

SESSION_ID = "5e551011-0000-4000-8000-000000000001"
OTHER_ID = "5e551011-0000-4000-8000-000000000002"

TEXTS = (
    "hello",
    "zwei\nZeilen\r\n",
    'quotes " and \\ back\\\\slashes',
    "日本語 \U0001f600",
    "lone \ud800 surrogate",
    "\x00\x1b[31m\x7f\u2028\u0085",
    '{"type":"user"}\n',
    " ",
)


class FixedClock:
    """Time stands still unless it is moved; the log must not depend on it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def timestamp(self) -> str:
        return "2026-11-20T10:00:00.000Z"


def workplace(folder: Path, *, first_id: int = 1_000_000, clock: FixedClock | None = None) -> SessionContext:
    return SessionContext(folder / "state", folder, clock or FixedClock(), SequentialIds(first_id), "0.1.0")


@dataclass
class Conversation:
    """Call the methods in any sensible order; `events` and `log` grow alike."""

    random: random.Random
    ids: SequentialIds = field(default_factory=SequentialIds)
    events: list[Event] = field(default_factory=list)
    log: list[Message] = field(default_factory=list)

    def _add(self, message: Message) -> None:
        self.log.append(message)
        self.events.append(MessageAppended(message=message))

    def _text(self) -> str:
        return self.random.choice(TEXTS) + str(self.random.randrange(100))

    def say(self, origin: Origin = Origin.PROMPT, meta: dict[str, Any] | None = None) -> None:
        blocks: tuple[Block, ...] = (TextBlock(self._text()),)
        if self.random.random() < 0.2:
            blocks += (ImageBlock({"type": "base64", "media_type": "image/png", "data": "AAAA"}),)
        self._add(Message("user", blocks, self.ids.new(), origin, meta=meta or {}))

    def _block(self) -> Block:
        chance = self.random.random()
        if chance < 0.2:
            return ThinkingBlock(self._text(), "signature==")
        if chance < 0.25:
            return UnknownBlock({"type": "redacted_thinking", "data": "xyz"})
        if chance < 0.3:
            return UnknownBlock({"type": "from_the_future", "values": [1, 1.5, None, {"a": True}]})
        if chance < 0.65:
            return TextBlock(self._text(), ({"cited": 1},) if self.random.random() < 0.2 else ())
        return self._call()

    def _call(self) -> ToolUseBlock:
        name = self.random.choice(("Read", "Bash"))
        broken = '{"file_path": ' if self.random.random() < 0.1 else None
        extra = {"caller": {"type": "direct"}} if self.random.random() < 0.1 else {}
        input = {} if broken else {"file_path": self._text(), "limit": self.random.choice((1, 1.0, True))}
        return ToolUseBlock(f"toolu_{self.ids.new()}", name, input, broken, extra)

    def _result(self, call: ToolUseBlock, *, error: bool = False) -> ToolResultBlock:
        content: tuple[TextBlock | ImageBlock | UnknownBlock, ...] = (TextBlock(self._text()),)
        if self.random.random() < 0.1:
            content = ()
        return ToolResultBlock(call.id, content, error)

    def finish_tool(self, call: ToolUseBlock, result: ToolResultBlock) -> None:
        display = {"kind": "text", "text": "…"} if self.random.random() < 0.5 else {}
        self.events.append(
            ToolFinished(tool_use_id=call.id, name=call.name, result=result, summary="1 line", display=display)
        )

    def stream(self, blocks: list[Block], message_id: str, done: dict[str, ToolResultBlock]) -> None:
        """A reply's blocks, and some of its tools that finish while it still streams."""
        api_id = f"msg_{message_id}"
        for index, block in enumerate(blocks):
            self.events.append(TextStreamed(message_id=message_id, index=index, text="x"))
            self.events.append(
                BlockFinished(message_id=message_id, api_id=api_id, model="model-a", index=index, block=block)
            )
            if isinstance(block, ToolUseBlock) and self.random.random() < 0.5:
                done[block.id] = self._result(block)
                self.finish_tool(block, done[block.id])

    def turn(self, *, blocks: list[Block] | None = None, keep: bool = True) -> Message | None:
        """One reply and its tools. With `keep` false the reply is void in the end."""
        blocks = blocks if blocks is not None else [self._block() for _ in range(self.random.randrange(1, 6))]
        self.events.append(RequestStarted(model="model-a", turn=1))
        message_id = self.ids.new()
        done: dict[str, ToolResultBlock] = {}
        self.stream(blocks, message_id, done)
        if not keep:
            if self.random.random() < 0.7:
                self.events.append(ReplyTombstoned(message_id=message_id, reason="broken stream"))
            return None
        content = list(blocks)
        if self.random.random() < 0.2:
            content.append(TextBlock("partial, kept on an abort"))
        if self.random.random() < 0.1:
            content.pop(0)
        usage = Usage(10, 20, 5, 3, 2, 1) if self.random.random() < 0.7 else None
        reply = Message(
            role="assistant",
            content=tuple(content),
            id=message_id,
            origin=Origin.REPLY,
            api_id=f"msg_{message_id}" if self.random.random() < 0.9 else "",
            model="model-a",
            stop_reason=self.random.choice(("end_turn", "tool_use", None)),
            usage=usage,
            meta={"effort": "high"} if self.random.random() < 0.3 else {},
        )
        self._add(reply)
        self._finish_calls(reply, done)
        return reply

    def _finish_calls(self, reply: Message, done: dict[str, ToolResultBlock]) -> None:
        calls = list(reply.tool_uses)
        if not calls:
            return
        for call in self.random.sample(calls, len(calls)):
            if call.id not in done and self.random.random() < 0.6:
                done[call.id] = self._result(call)
                self.finish_tool(call, done[call.id])
        if self.random.random() < 0.1:
            error = TextBlock("an error")
            self._add(Message("assistant", (error,), self.ids.new(), Origin.ERROR, meta={"status": 500}))
        results: list[Block] = [done.get(call.id) or self._result(call, error=True) for call in calls]
        if self.random.random() < 0.2:
            results.append(TextBlock("extra"))
        meta = {"summary": "2 files"} if self.random.random() < 0.2 else {}
        self._add(Message("user", tuple(results), self.ids.new(), Origin.TOOL_RESULTS, meta=meta))

    def submission(self) -> None:
        self.say()
        for _ in range(self.random.randrange(0, 4)):
            if self.random.random() < 0.25:
                self.turn(keep=False)
            self.turn()
            if self.random.random() < 0.2:
                self.say(self.random.choice((Origin.ATTACHMENT, Origin.QUEUED, Origin.RECOVERY, Origin.HOOK)))
        if self.random.random() < 0.2:
            self.say(Origin.BOUNDARY, {"trigger": "auto", "tokens_before": 10, "tokens_after": 2})
            self.say(Origin.SUMMARY)
        if self.random.random() < 0.2:
            self.events.append(RequestRepaired(repair="strip_thinking", through=self.log[-1].id, text="refused"))
        if self.random.random() < 0.3:
            self.turn(keep=False)
        if self.random.random() < 0.3:
            self.say(Origin.INTERRUPTION)
        self.end()

    def end(self) -> None:
        self.events.append(result())


def result() -> Result:
    return Result(
        subtype="success",
        is_error=False,
        terminal="completed",
        text="done",
        errors=[],
        turns=1,
        duration_ms=5,
        api_duration_ms=3,
        usage=Usage(1, 2),
        total_cost_usd=0.25,
        fully_priced=True,
        model_usage={"model-a": {"inputTokens": 1}},
        permission_denials=[],
        session_id=SESSION_ID,
        uuid="u",
    )


def conversation(seed: int, submissions: int = 2) -> Conversation:
    made = Conversation(random.Random(seed))
    for _ in range(submissions):
        made.submission()
    return made


def assert_every_call_is_answered_once(messages: list[Message]) -> None:
    sent = [message for message in messages if not message.origin.local]
    for position, message in enumerate(sent):
        calls = [call.id for call in message.tool_uses]
        following = sent[position + 1] if position + 1 < len(sent) else None
        answers = [block.tool_use_id for block in following.tool_results] if following else []
        assert sorted(calls) == sorted(answers), f"calls {calls} of {message.id} are answered by {answers}"
    assert not (sent and sent[0].tool_results)
