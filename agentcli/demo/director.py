"""The scripted model of the demo: chooses the reply to a request, and plays it at reading speed in place of a server.

Choosing is pure: the state is read from the request's messages and from the project, not from a list of expected
steps. So it handles denials, interruptions and free text.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import replace

from agentcli.agent.loop.wording import INTERRUPTED, INTERRUPTED_TOOLS
from agentcli.agent.side_call import SYSTEM as SUMMARY_SYSTEM
from agentcli.context.compact import INSTRUCTION, LEAD
from agentcli.core.aio import AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.demo import words
from agentcli.demo.project import BROKEN, CODE, FIXED, TEST_COMMAND, TESTS
from agentcli.demo.words import REPLIES
from agentcli.providers.base import Transport, TransportFailure
from agentcli.providers.failures import Endpoint, ErrorResponse, from_response
from agentcli.providers.script import Delay, Emit, ScriptedReply, system_text

_MAX_EDITS = 3
_WANTS_FIX = re.compile(r"\b(fix|repair|correct|solve|edit|bug)\b", re.IGNORECASE)
_READ_FIRST = re.compile(r"it was not read, or it changed|has changed since it was read")
_TAGS = re.compile(r"</?tool_use_error>")
_JUST_NO = "The user said no to this call."
_SIGNATURE = "c2NyaXB0ZWQgZGVtbzogbm9ib2R5IHRob3VnaHQgdGhpcw=="
RATE_LIMIT_SECONDS = 2.0
_FIRST_READ = (CODE, TESTS, "README.md")


@frozen
class World:
    """What the director knows besides the request."""

    fixed: bool
    """Whether the code contains the fix."""
    limited: bool
    """Whether the tour's rate limit has already happened."""
    just_limited: bool = False
    """Whether the previous request hit the rate limit."""
    next_line: str = ""
    """The prepared text in the input box; "" for none."""


@frozen
class Call:
    name: str
    failed: bool
    text: str


@frozen
class Situation:
    """The state of the work that a request continues."""

    asked: str
    """The prompt that started the work."""
    calls: tuple[Call, ...] = ()
    """Tool calls so far."""
    asides: tuple[str, ...] = ()
    """User messages since the last reply, sent during the work."""
    stopped: bool = False
    """Whether the reply before the prompt was interrupted."""


def reply_to(body: Json, world: World) -> ScriptedReply:
    messages: list[Json] = body.get("messages") or []
    if SUMMARY_SYSTEM in system_text(body):
        return _says(REPLIES["side line"])
    if messages and any(text.startswith(INSTRUCTION) for text in _texts(messages[-1])):
        return _says(REPLIES["summary"].format(state="fixed" if world.fixed else "not fixed"))
    situation = situation_of(messages)
    if not body.get("tools"):
        return _says(_free(situation, world))
    return _answer(situation, world)


def situation_of(messages: Sequence[Json]) -> Situation:
    asked, stopped, begins = "", False, 0
    for place, message in enumerate(messages):
        if message.get("role") == "user" and (found := _find_opening(message)) is not None:
            asked, stopped = found
            begins = place
    calls = tuple(_calls(messages[begins:]))
    last = messages[-1] if messages else {}
    asides = tuple(_list_typed(_texts(last))) if len(messages) - 1 > begins and last.get("role") == "user" else ()
    return Situation(asked, calls, asides, stopped)


def _find_opening(message: Json) -> tuple[str, bool] | None:
    """The prompt in a message, and whether the reply before it was interrupted; None: the work only continues."""
    texts = _texts(message)
    marks = [place for place, text in enumerate(texts) if text in (INTERRUPTED, INTERRUPTED_TOOLS)]
    results = [block for block in _content(message) if block.get("type") == "tool_result"]
    broken_off = any(block.get("is_error") and "interrupted" in _text(block) for block in results)
    if results and not marks and not broken_off:
        return None
    said = _list_typed(texts[marks[-1] + 1 :] if marks else texts)
    return (said[-1], bool(marks) or broken_off) if said else None


def _list_typed(texts: Sequence[str]) -> list[str]:
    """The text that the user typed, without attachments in brackets and summaries."""
    return [text for text in texts if not text.startswith(("[", LEAD))]


def _calls(messages: Sequence[Json]) -> Iterator[Call]:
    names: dict[str, str] = {}
    for message in messages:
        for block in _content(message):
            if block.get("type") == "tool_use":
                names[str(block.get("id"))] = str(block.get("name"))
            elif block.get("type") == "tool_result" and (id := str(block.get("tool_use_id"))) in names:
                yield Call(names[id], bool(block.get("is_error")), _text(block))


def _content(message: Json) -> list[Json]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or () if isinstance(block, dict)]


def _texts(message: Json) -> list[str]:
    return [str(block.get("text", "")) for block in _content(message) if block.get("type") == "text"]


def _text(result: Json) -> str:
    content = result.get("content")
    return content if isinstance(content, str) else "\n".join(_texts({"content": content}))


def _answer(situation: Situation, world: World) -> ScriptedReply:
    asked = situation.asked
    aside = "".join(f"{REPLIES['aside'].format(said=_quote(text))}\n\n" for text in situation.asides)
    if _is_fix(situation, world):
        return _fix(situation, world, aside)
    if asked == words.TALK:
        return _says(REPLIES["long answer"], thinking=REPLIES["think talk"])
    if asked == words.GOODBYE:
        return _says(REPLIES["last words"])
    if situation.stopped or asked == words.STEER:
        return _says(REPLIES["steered"].format(said=_quote(asked)))
    return _says(aside + _free(situation, world))


def _is_fix(situation: Situation, world: World) -> bool:
    if situation.asked in (words.FIX, words.FIX_AGAIN):
        return True
    return bool(situation.calls) or (not world.fixed and _WANTS_FIX.search(situation.asked) is not None)


def _fix(situation: Situation, world: World, aside: str) -> ScriptedReply:
    calls = situation.calls
    edits = [call for call in calls if call.name == "Edit"]
    last = calls[-1] if calls else None
    if last is None:
        return _says(REPLIES["already"]) if world.fixed else _reads()
    if last.name == "Edit":
        if not last.failed:
            waited = f"{REPLIES['was limited']}\n\n" if world.just_limited else ""
            checking = REPLIES["checking"] if world.fixed else REPLIES["partly"]
            return _tests(aside + waited + checking) if world.limited else _limit()
        if _READ_FIRST.search(last.text) and len(edits) < _MAX_EDITS:
            return _reads(CODE)
        return _says(aside + _why_not(last))
    if last.name == "Bash" and edits:
        return _says(aside + _describe_test(last))
    if world.fixed:
        return _says(aside + REPLIES["already"])
    if last.name == "Bash":
        return _edits(aside + (REPLIES["seen failing"] if "999 != 1000" in last.text else REPLIES["not seen"]))
    return _edits(aside) if edits else _tests(aside + REPLIES["suspecting"], REPLIES["think cause"])


def _describe_test(last: Call) -> str:
    if not last.failed:
        return REPLIES["done"]
    return REPLIES["still failing"] if "FAILED" in last.text else REPLIES["untested"]


def _why_not(last: Call) -> str:
    reason = _quote(_TAGS.sub("", last.text), 300)
    if _READ_FIRST.search(last.text):
        return REPLIES["stuck"].format(reason=reason)
    by_mode = f"\n\n{REPLIES['mode refuses']}" if "mode" in reason else ""
    return REPLIES["refused"].format(reason="" if reason == _JUST_NO else f"\n\n> {reason}{by_mode}")


def _free(situation: Situation, world: World) -> str:
    on = REPLIES["go on"].format(line=world.next_line) if world.next_line else REPLIES["to leave"]
    return REPLIES["free"].format(said=_quote(situation.asked), on=on)


def _quote(text: str, longest: int = 80) -> str:
    """Text on one line, without Markdown syntax."""
    return re.sub(r"[`*_<>\[\]|\\]", " ", plain_line(text, longest)).strip() or "…"


def _says(text: str, thinking: str = "") -> ScriptedReply:
    return ScriptedReply(steps=(*_thought(thinking), {"text": text, "chunk": 5}))


def _thought(text: str) -> tuple[Json, ...]:
    return ({"thinking": text, "signature": _SIGNATURE, "chunk": 8},) if text else ()


def _reads(*names: str) -> ScriptedReply:
    calls: list[Json] = []
    for name in names or _FIRST_READ:
        # Slow enough to see the first file being read while the next call is still streaming.
        calls += [{"tool": "Read", "input": {"file_path": name}, "chunk": 4}, {"delay": 0.35}]
    if names:
        return ScriptedReply(steps=tuple(calls))
    return ScriptedReply(steps=(*_thought(REPLIES["think first"]), {"text": REPLIES["reading"], "chunk": 5}, *calls))


def _tests(text: str, thinking: str = "") -> ScriptedReply:
    call = {"command": TEST_COMMAND, "description": "Run the tests"}
    return ScriptedReply(
        steps=(*_thought(thinking), {"text": text, "chunk": 5}, {"tool": "Bash", "input": call, "chunk": 8})
    )


def _edits(text: str) -> ScriptedReply:
    change = {"file_path": CODE, "old_string": BROKEN, "new_string": FIXED}
    said = ({"text": text, "chunk": 5},) if text else ()
    return ScriptedReply(
        steps=(*_thought(REPLIES["think edit"]), *said, {"tool": "Edit", "input": change, "chunk": 10})
    )


def _limit() -> ScriptedReply:
    seconds = f"{RATE_LIMIT_SECONDS:g}"
    error = {"status": 429, "type": "rate_limit_error", "message": REPLIES["limited"]}
    return ScriptedReply(error={**error, "headers": {"retry-after": seconds}})


# ----------------------------------------------------------------------------------------------------------- transport

TEXT_RATE, THINKING_RATE, CALL_RATE = 150.0, 260.0, 220.0
"""Characters per second."""
BEFORE_SECONDS = 0.5
"""Delay before a reply begins."""


class DemoTransport(Transport):
    name = "demo"

    def __init__(self, fixed: Callable[[], bool], next_line: Callable[[], str], speed: float) -> None:
        self._fixed = fixed
        self._next_line = next_line
        self._speed = speed
        self._requests = 0
        self._limited = self._just_limited = False
        self._billing = Billing()

    async def events(self, body: Json, betas: tuple[str, ...], signal: AbortSignal) -> AsyncGenerator[Json, None]:
        self._requests += 1
        reply = reply_to(body, World(self._fixed(), self._limited, self._just_limited, self._next_line()))
        error = reply.error_answer()
        self._just_limited = error is not None
        if error is not None:
            self._limited = True
            raise TransportFailure(from_response(self._hurry(error), Endpoint(host="the demo")))
        written = sum(tokens(step) for step in reply.steps if "delay" not in step)
        reply = replace(reply, usage=self._billing.usage(body, written))
        await self._wait(BEFORE_SECONDS)
        for operation in reply.operations(self._requests, str(body["model"])):
            if isinstance(operation, Delay):
                await self._wait(operation.seconds)
            elif isinstance(operation, Emit):
                yield operation.event
                await self._wait(_seconds(operation.event))

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)

    def _hurry(self, error: ErrorResponse) -> ErrorResponse:
        """The error with its wait divided by the speed."""
        wait = {"retry-after-ms": f"{1000 * float(error.headers['retry-after']) / self._speed:.0f}"}
        return replace(error, headers=wait)


def _seconds(event: Json) -> float:
    """Seconds to read this event."""
    delta = event.get("delta") or {}
    match delta.get("type"):
        case "text_delta":
            return len(delta["text"]) / TEXT_RATE
        case "thinking_delta":
            return len(delta["thinking"]) / THINKING_RATE
        case "input_json_delta":
            return len(delta["partial_json"]) / CALL_RATE
        case _:
            return 0.0


CHARACTERS_A_TOKEN = 4


def tokens(value: object) -> int:
    return max(1, len(json.dumps(value, ensure_ascii=False)) // CHARACTERS_A_TOKEN)


class Billing:
    """Simulates usage: what the request before had in common with this one is read from the cache, the rest is written
    to it."""

    def __init__(self) -> None:
        self._before = ""

    def usage(self, body: Json, written: int) -> Json:
        """The usage of a request whose reply has `written` tokens."""
        parts = [body.get("tools"), body.get("system"), body.get("messages")]
        text = re.sub(r', "cache_control": \{[^}]*\}', "", json.dumps(parts, ensure_ascii=False))
        read = len(os.path.commonprefix([self._before, text])) // CHARACTERS_A_TOKEN  # noqa: RUF071 -- not paths
        new = max(1, len(text) // CHARACTERS_A_TOKEN - read)
        self._before = text
        return {
            "input_tokens": 1,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": new,
            "cache_creation": {"ephemeral_5m_input_tokens": new, "ephemeral_1h_input_tokens": 0},
            "output_tokens": written,
        }
